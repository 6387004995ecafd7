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

#[test]
fn of_a_node_that_is_not_asked_it_is_said_who_does_not_hear_it() {
    let reported = unseen("n2", true);
    assert_eq!(reported, "the coordinator does not hear node n2: its disks are not listed");
    let reported = unseen("n2", false);
    assert!(reported.contains("did not hear node n2 when it last answered"), "{reported}");
    assert_eq!(unlisted(true), None);
    assert!(unlisted(false).unwrap().contains("the coordinator does not answer"));
}

#[test]
fn nobody_is_sent_to_start_a_node_that_is_not_known_to_be_down() {
    let reported = of_silent("n2", true, true);
    assert!(reported.contains("node n2 is not known to be down"), "{reported}");
    for reported in [reported, of_silent("n2", true, false), of_silent("n2", false, false)] {
        assert!(!reported.to_lowercase().contains("start node"), "{reported}");
    }
    let reported = of_silent("n2", false, false);
    assert!(reported.contains("whether node n2 runs is not known here"), "{reported}");
    let reported = of_silent("n2", false, true);
    assert!(
        reported.starts_with("Start node n2, or repair its network: the coordinator"),
        "{reported}"
    );
}
