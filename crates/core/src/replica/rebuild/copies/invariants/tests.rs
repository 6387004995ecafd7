//! Each invariant of a rebuild is broken by hand, and found by its label.

use crate::cluster::Cluster;
use crate::replica::invariants::tests::{REBUILDING, breaks, cluster};
use crate::replica::rebuild::copies::{Copy, Step};
use crate::replica::rebuild::{Phase, Rebuild};
use crate::*;

fn rebuilding() -> (Cluster, ReplicaId) {
    (cluster(true), REBUILDING)
}

fn breaks_of(label: &str, change: impl FnOnce(&mut Rebuild)) {
    breaks(label, rebuilding(), |replica| {
        change(replica.rebuild.as_mut().expect("it rebuilds"));
    });
}

fn copy(rebuild: &mut Rebuild) -> &mut Copy {
    rebuild.copies.values_mut().next().expect("a range is copied")
}

#[test]
fn a_range_is_copied_when_it_is_held_and_drained() {
    breaks_of("B1", |rebuild| copy(rebuild).writing = 1);
    breaks_of("B1", |rebuild| copy(rebuild).is_let_go = true);
    breaks_of("B1", |rebuild| copy(rebuild).step = Step::Locking);
    breaks_of("B1", |rebuild| copy(rebuild).lock = 9999);
}

#[test]
fn what_is_held_is_copied() {
    breaks_of("I11", |rebuild| rebuild.runs.clear());
}

#[test]
fn it_is_complete_when_nothing_is_lacking() {
    breaks_of("B4", |rebuild| rebuild.phase = Phase::Complete);
    breaks_of("B4", |rebuild| {
        rebuild.phase = Phase::Complete;
        rebuild.lacking = Default::default();
        rebuild.copies.clear();
        rebuild.runs.clear();
        rebuild.unflushed.insert(0..1);
    });
}
