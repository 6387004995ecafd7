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
fn what_a_node_was_asked_to_carry_out_is_not_said_to_be_there() {
    let refused = |what: &str| ApiError::new(ErrorCode::WrongState, what, "it is so", "Wait");
    let (b, what) = (member("b", true), "cannot fail the replica on a:d of volume web");
    assert_eq!(as_asked(what, &b, refused(what)).what, format!("{what} (asked: node b)"));
    assert_eq!(
        for_what("", &b, refused("cannot attach volume web")).what,
        "cannot attach volume web on node b"
    );
    // Who has refused it was asked by node b.
    for named in ["no room on disk d on node c", "cannot change volume web (asked: node c)"] {
        assert_eq!(as_asked(what, &b, refused(named)).what, named);
    }
    let silent = refused(&not_asked("b"));
    let reported = as_asked(what, &b, silent);
    assert_eq!(
        (&*reported.what, &*reported.why),
        (what, "node b, which has to do it, could not be asked: it is so")
    );
}

#[test]
fn who_may_be_cut_off_says_so_before_anything_is_deleted() {
    assert_eq!(
        may_be_cut_off("n1"),
        "Node n1 may be cut off itself, for its coordinator receives heartbeats from no other node: ask another node before you delete anything"
    );
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
