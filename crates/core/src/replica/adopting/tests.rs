//! What must hold of an adoption is broken by hand, and found by its label.

use std::rc::Rc;

use crate::replica::invariants::tests::{breaks, writing};
use crate::replica::{Context, Replica};
use crate::*;

const OTHER: PrimaryId = PrimaryId { node: NodeId(99), incarnation: Incarnation(99) };

/// Another primary has a view adopted that follows the replica's, and names no primary.
fn evict_all<P: Payload>(replica: &mut Replica<P>) {
    let next = View { primaries: Vec::new(), ..replica.view().successor() };
    replica.views.begin(next, OTHER, LinkId(99));
}

#[test]
fn nothing_of_the_view_before_is_under_way_while_the_next_one_is_saved() {
    breaks("I3", writing(), |replica| {
        evict_all(replica);
        replica.check_invariants();
        replica.views.begin_save();
    });
}

#[test]
fn no_view_is_adopted_in_place_of_itself() {
    breaks("I3", writing(), |replica| {
        let same = replica.view().clone();
        replica.views.begin(same, OTHER, LinkId(99));
    });
}

#[test]
#[should_panic(expected = "V3: ")]
fn no_view_is_saved_while_a_primary_that_it_drops_may_be_heard() {
    let (mut cluster, id) = writing();
    let now = cluster.now;
    let replica = cluster.replica(id);
    evict_all(replica);
    let mut effects = Vec::new();
    let (me, last_number) = (Rc::clone(&replica.me), replica.last_number);
    replica.save_view(&mut Context { now, me, last_number, effects: &mut effects });
}
