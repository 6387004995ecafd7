//! What must hold of cluster locks is broken by hand, and found by its label.

use super::*;
use crate::replica::invariants::tests::{breaks, writing};
use crate::view::PrimaryRecord;

const SECOND: PrimaryId = PrimaryId { node: NodeId(2), incarnation: Incarnation(2) };
const STRANGER: PrimaryId = PrimaryId { node: NodeId(3), incarnation: Incarnation(3) };

/// That this change breaks this rule, while the first primary has its turn and the second waits.
fn breaks_of(label: &str, change: impl FnOnce(&mut ClusterLocks)) {
    breaks(label, writing(), |replica| {
        replica.views.view_mut().primaries.push(PrimaryRecord { id: SECOND, slot: 1 });
        let first = replica.view().primaries[0].id;
        [first, SECOND].into_iter().for_each(|id| want(&mut replica.sessions.cluster_locks, id));
        replica.check_invariants();
        change(&mut replica.sessions.cluster_locks);
    });
}

fn want(locks: &mut ClusterLocks, requester: PrimaryId) {
    locks.learn(requester, ClusterLockNumber(1), Some(0..8));
}

fn second(locks: &mut ClusterLocks) -> &mut ClusterLock {
    locks.of.get_mut(&SECOND).expect("it waits")
}

#[test]
fn overlapping_locks_have_their_turn_one_after_the_other() {
    breaks_of("I12", |locks| second(locks).has_turn = true);
    breaks_of("I12", |locks| second(locks).granted_by.extend([STRANGER]));
    breaks_of("I12", |locks| want(locks, STRANGER));
}
