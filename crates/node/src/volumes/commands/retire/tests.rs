use super::*;

#[test]
fn a_coordinator_that_hears_nobody_doubts_that_a_node_is_dead() {
    let message = "node n3 would be removed from the cluster";
    assert_eq!(doubted(message.into(), false), message);
    let doubted = doubted(message.into(), true);
    assert!(doubted.starts_with(message), "{doubted}");
    let doubt = "this coordinator receives heartbeats from none of the other nodes: it may be cut off itself";
    assert!(doubted.contains(doubt), "{doubted}");
}

#[test]
fn of_a_node_that_was_not_heard_yet_nobody_says_when_it_lived() {
    let error = not_heard_yet("web", 10, "cannot");
    assert!(error.why.contains("does not know yet whether it is alive"), "{error}");
    assert!(!error.why.contains("ago"), "{error}");
    assert!(error.action.starts_with("Try again when `evenkeel node status` calls it"), "{error}");
}
