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
fn a_coordinator_hears_nobody_if_all_others_are_silent() {
    assert!(are_silent(&[member("n2", false), member("n3", false)]));
    // One that is heard is enough, and who is alone in its cluster misses nobody.
    assert!(!are_silent(&[member("n2", false), member("n3", true)]));
    assert!(!are_silent(&[]));
}
