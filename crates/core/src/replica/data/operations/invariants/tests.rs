//! Each invariant of operations is broken by hand, and found by its label.

use crate::cluster::Bytes;
use crate::replica::Replica;
use crate::replica::data::operations::{DataOperation, Intent};
use crate::replica::invariants::tests::{breaks, rebuilding, writing};
use crate::*;

/// The write that has begun, and the one that waits for its range.
fn operations(replica: &mut Replica<Bytes>) -> [&mut DataOperation<Bytes>; 2] {
    let mut operations = replica.data.operations.all.values_mut();
    [(); 2].map(|()| operations.next().expect("two writes are under way"))
}

#[test]
fn two_writes_of_one_range_do_not_run_at_once() {
    breaks("I10", writing(), |replica| operations(replica)[1].begun = true);
    breaks("W2", writing(), |replica| operations(replica)[1].is_locked = true);
}

#[test]
fn a_write_begins_in_an_open_region() {
    breaks("I5", writing(), |replica| operations(replica)[0].intent = Intent::None);
    breaks("I5", writing(), |replica| operations(replica)[0].intent = Intent::Waiting(0..1));
    breaks("I5", writing(), |replica| operations(replica)[0].intent = Intent::Opening(0, 0..1));
    breaks("I5", writing(), |replica| operations(replica)[0].intent = Intent::Open(0, 1024..1025));
}

#[test]
fn nothing_is_under_way_of_another_generation() {
    breaks("I3", writing(), |replica| replica.views.view_mut().generation = Generation(99));
}

#[test]
fn what_could_begin_has_begun() {
    breaks("I11", writing(), |replica| {
        let action = DiskAction::Read { offset: 0, length: 4096 };
        operations(replica)[0].action = Some(action);
    });
}

#[test]
fn what_is_copied_is_held() {
    breaks("B1", rebuilding(), |replica| {
        let operations = &mut replica.data.operations;
        let held: Vec<_> = operations.all.iter().map(|(number, _)| *number).collect();
        held.into_iter().for_each(|number| drop(operations.end(number)));
    });
    breaks("B1", rebuilding(), |replica| {
        let operations = &mut replica.data.operations;
        for (number, held) in operations.all.iter_mut() {
            operations.locks.release(*number, &mut Vec::new());
            held.is_locked = false;
        }
    });
}
