use evenkeel_core::ReplicaState;
use evenkeel_core::view::Cause;

use super::super::tests::{NO, YES, concluded, in_sync, replica};
use super::super::{Account, ReplicaFacts};
use super::*;

/// What is said on `here` of the replica on n3, which has left, and of the volume.
fn told_on(here: &str, facts: ReplicaFacts) -> (Option<bool>, String, String) {
    let gone = ReplicaFacts { cause: Cause::Late, ..facts };
    let mut status = concluded(&Account::Serving, &[in_sync(YES, YES), gone]);
    let replicas = &mut status.mirrors[0].replicas;
    replicas.iter_mut().for_each(|replica| replica.node.id = replica.node.name.clone());
    let own = NodeRef { id: here.into(), name: here.into() };
    correct(&mut status, &own, "n1");
    let told = &status.mirrors[0].replicas[1];
    assert_eq!(told.node.name, "n3");
    let of_volume = status.reason.clone().unwrap_or_default();
    (told.node_alive, told.reason.clone().unwrap_or_default(), of_volume)
}

#[test]
fn no_node_is_told_of_itself_that_it_is_dead_or_silent() {
    let dead = || replica(ReplicaState::Stale, None, NO);
    let silent = || ReplicaFacts { answered: NO, ..replica(ReplicaState::Stale, None, YES) };
    let here = "node n1, on which it is attached, does not reach this node; it ";
    for facts in [dead(), silent()] {
        let (alive, reason, of_volume) = told_on("n3", facts);
        assert_ne!(alive, NO);
        assert!(reason.starts_with(here), "{reason}");
        assert!(of_volume.contains(here), "{of_volume}");
    }
    // Others are told what the primary says.
    let (alive, reason, _) = told_on("n2", dead());
    assert!(alive == NO && reason.starts_with("node n3 counts as dead now; it "), "{reason}");
    let (_, reason, _) = told_on("n2", silent());
    assert!(reason.starts_with("node n3 does not answer node n1; "), "{reason}");
}
