//! What must hold of a rebuild beside the view is broken by hand, and found by its label.

use crate::replica::invariants::tests::{breaks, rebuilding};
use crate::*;

#[test]
fn who_rebuilds_is_rebuilding_by_the_view() {
    breaks("B4", rebuilding(), |replica| {
        replica.views.view_mut().mirrors[0].replicas[1].state = ReplicaState::Stale;
    });
}

#[test]
fn nothing_is_held_while_a_view_is_adopted() {
    breaks("V2", rebuilding(), |replica| {
        let (next, adopter) = (replica.view().successor(), replica.view().primaries[0].id);
        replica.views.begin(next, adopter, LinkId(99));
    });
}
