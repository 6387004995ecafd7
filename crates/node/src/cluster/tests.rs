use serde_json::json;

use super::*;

fn member(name: &str, may_live: bool) -> NodeLiveness {
    serde_json::from_value(json!({
        "node": {"id": name, "name": name, "addresses": [], "software": "", "incarnation": 0},
        "alive": may_live, "may_live": may_live, "last_heard": null, "coordinator": false,
    }))
    .unwrap()
}

#[test]
fn a_coordinator_that_hears_nobody_says_that_it_may_be_cut_off() {
    let warning = alone("n1", &[member("n2", false), member("n3", false)]).unwrap();
    assert!(warning.starts_with("the coordinator hears no node but its own, n1: "), "{warning}");
    assert!(warning.ends_with("Ask one of them before you take a volume over"), "{warning}");
    // One that is heard is enough, and who is alone in its cluster misses nobody.
    assert_eq!(alone("n1", &[member("n2", false), member("n3", true)]), None);
    assert_eq!(alone("n1", &[]), None);
}
