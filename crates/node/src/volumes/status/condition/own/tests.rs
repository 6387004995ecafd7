use evenkeel_core::ReplicaState;
use evenkeel_core::view::Cause;

use super::super::Account;
use super::super::tests::{concluded, in_sync};
use super::*;

/// The replica on n3, of whose node the primary's node says this, as it is told to somebody on
/// `here`.
fn reported_on(here: &str, alive: Option<bool>) -> (Option<bool>, String) {
    let gone = in_sync(Some(false), alive).leaving(ReplicaState::Stale, Cause::Late);
    let mut status = concluded(&Account::Serving, &[in_sync(Some(true), Some(true)), gone]);
    let replicas = &mut status.mirrors[0].replicas;
    replicas.iter_mut().for_each(|replica| replica.node.id = replica.node.name.clone());
    let own = NodeRef { id: here.into(), name: here.into() };
    correct(&mut status, &own, "n1");
    let reported = &status.mirrors[0].replicas[1];
    assert_eq!(reported.node.name, "n3");
    (reported.node_alive, reported.reason.clone().unwrap_or_default())
}

#[test]
fn no_node_is_told_of_itself_that_it_is_dead_or_silent() {
    let reaches = "node n1, on which it is attached, does not reach this node";
    let (alive, reason) = reported_on("n3", Some(false));
    assert!(alive.is_none() && reason.starts_with(reaches), "{reason}");
    let (alive, reason) = reported_on("n3", Some(true));
    assert!(alive == Some(true) && reason.starts_with(reaches), "{reason}");
    // Others are told what the primary says.
    let (alive, reason) = reported_on("n2", Some(false));
    assert!(alive == Some(false) && reason.contains("node n3 counts as dead now"), "{reason}");
}
