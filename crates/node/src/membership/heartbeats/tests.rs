use serde_json::json;

use super::*;

fn member(alive: bool, may_live: bool) -> NodeLiveness {
    serde_json::from_value(json!({
        "node": {"id": "1", "name": "n1", "addresses": [], "software": "", "incarnation": 0},
        "alive": alive, "may_live": may_live, "last_heard": null, "coordinator": false,
    }))
    .unwrap()
}

#[test]
fn nodes_of_which_nobody_knows_whether_they_live_are_read_again_soon() {
    let (alive, dead, unknown) = (member(true, true), member(false, false), member(false, true));
    let pause = |count: usize, last: &NodeLiveness| {
        let mut nodes = vec![alive.clone(); count - 1];
        nodes.push(last.clone());
        refresh_pause(&nodes)
    };
    assert_eq!((pause(3, &alive), pause(3, &dead)), (5, 5));
    assert_eq!(pause(3, &unknown), 1);
    // A large cluster asks no more often than the coordinator can answer.
    assert_eq!((pause(128, &unknown), pause(1024, &unknown)), (3, 5));
    assert_eq!(refresh_pause(&[]), 5);
}
