//! Each invariant of an intent log is broken by hand, and found by its label.

use super::IntentLog;
use crate::ids::*;
use crate::replica::log::intent_log::{OpenRegions, Reservation};
use crate::settings::BLOCK;
use crate::time::Instant;
use crate::trips::trips;
use crate::view::{Bitmap, IntentLayout};

const LAYOUT: IntentLayout = IntentLayout { region: BLOCK as u64, places: 4, slots: 1 };
const PRIMARY: PrimaryId = PrimaryId { node: NodeId(1), incarnation: Incarnation(1) };

/// That this change of a log breaks this rule, which held before: a write waits for its table.
fn breaks(label: &str, change: impl FnOnce(&mut IntentLog)) {
    let none = OpenRegions::none(LAYOUT, 0);
    let mut log = IntentLog::new(LAYOUT, Bitmap::Internal, 1 << 20, &none, Instant(0));
    let write = WriteId { primary: PRIMARY, sequence: Sequence(1) };
    let opened = log.reserve(Instant(0), &(1..2), write);
    assert_eq!(opened, Reservation::Opening);
    log.check_invariants(0);
    change(&mut log);
    trips(label, || log.check_invariants(0));
}

#[test]
fn a_slot_has_its_own_log() {
    breaks("W6", |log| log.slot = 1);
}

#[test]
fn what_is_open_is_about_to_be_named() {
    breaks("I5", |log| log.wanted = 0);
}

#[test]
fn only_what_was_made_is_on_the_disk() {
    breaks("I5", |log| log.durable = 1);
    breaks("I5", |log| log.covered = 1);
}

#[test]
fn the_next_table_is_the_one_that_is_wanted() {
    breaks("I5", |log| log.wanted = 2);
}

#[test]
fn what_is_not_stable_is_counted() {
    breaks("W6", |log| log.unstable = 0);
}
