use super::*;

#[test]
fn a_coordinator_that_hears_nobody_doubts_that_a_node_is_dead() {
    let message = "node n3 would be removed from the cluster";
    assert_eq!(doubted(message.into(), false, ""), message);
    let doubted = doubted(message.into(), true, " before you say yes");
    assert!(doubted.starts_with(message), "{doubted}");
    let doubt = "this coordinator receives heartbeats from none of the other nodes: it may be cut off itself";
    assert!(doubted.contains(doubt), "{doubted}");
}

#[test]
fn of_a_node_that_was_not_heard_yet_nobody_says_when_it_lived() {
    let error = not_seen_yet("web", 10, "cannot");
    assert!(error.why.contains("does not know yet whether it is alive"), "{error}");
    assert!(!error.why.contains("ago"), "{error}");
    assert!(error.action.starts_with("Try again when `evenkeel node status` calls it"), "{error}");
}

#[test]
fn what_has_come_of_a_removal_is_told() {
    let names = ["v1".to_owned(), "v2".to_owned()];
    let reported = removed("n3", &[], &names);
    assert!(reported.ends_with("; taken over from it, and detached now: v1, v2"), "{reported}");
    let reported = doubted(removed("n3", &names[..1], &[]), true, "");
    assert!(reported.contains("but not yet by v1"), "{reported}");
    assert!(reported.ends_with("it may be cut off itself. See that they are down"), "{reported}");
}
