//! What must hold of the map is broken by hand, and found.

use evenkeel_core::ReplicaId;
use evenkeel_core::block_set::BlockSet;
use evenkeel_format as format;

use super::*;
use crate::disk::device::Failures;
use crate::disk::filters::bench::Bench;
use crate::disk::filters::raw::RawDisk;
use crate::disk::filters::{DataWrite, Request};
use crate::disk::simulation::queue::Queue;
use crate::disk::trips::trips;

const UNIT: u64 = 1 << 20;

fn mapped(bench: &Bench, map: Option<format::AllocationMap>) -> AllocationMap<Queue, ()> {
    let (file, layout, flushes) = bench.disk();
    AllocationMap::new(RawDisk::new(file, layout, flushes), map, ReplicaId(7))
}

/// That this change is found, in these words, while a unit is marked in which a write waits, beside
/// a flush; another one is marked.
fn breaks(words: &str, change: impl FnOnce(&mut Marks<()>, Failures)) {
    let mut bench = Bench::new();
    let mut map = format::AllocationMap::new(64 << 20);
    map.allocated.insert(3..4);
    let mut mapped = mapped(&bench, Some(map));
    let payload = bench.filled(4096, 7);
    let write = DataWrite { offset: UNIT, payload, durable: None, forgotten: None };
    mapped.begin(&mut bench.means(), Request::Write(write), ());
    let failures = mapped.raw().failures();
    mapped.begin(&mut bench.means(), Request::Flush(failures), ());
    mapped.check_invariants();
    assert_eq!(mapped.awaited().count(), 2);
    change(mapped.marks.as_mut().expect("it has a map"), failures);
    trips(words, || mapped.check_invariants());
}

#[test]
fn one_save_at_a_time_is_under_way() {
    breaks("1 saves of the map", |marks, _| marks.saving = None);
}

#[test]
fn a_save_names_what_the_device_names() {
    breaks("a mark away", |marks, _| marks.saving = Some(BlockSet::default()));
}

#[test]
fn each_flush_has_what_was_trimmed_before() {
    breaks("kept for flushes", |marks, _| marks.flushing.clear());
    breaks("kept for flushes", |marks, _| marks.flushing[0].0 = Trimmed(9));
    breaks("kept for flushes", |marks, failures| {
        marks.flushing.push((Trimmed(9), BlockSet::default(), failures));
    });
}

#[test]
fn what_waits_is_to_be_marked_and_stays_so() {
    breaks("a mark that is there", |marks, _| marks.map.allocated.insert(1..2));
    breaks("to be unmarked", |marks, _| marks.trimmed.insert(1..2));
    breaks("to be unmarked", |marks, _| marks.flushing[0].1.insert(1..2));
}

#[test]
fn nothing_waits_for_no_save() {
    let bench = Bench::new();
    let mut mapped = mapped(&bench, Some(format::AllocationMap::new(64 << 20)));
    let payload = bench.filled(4096, 7);
    let write = DataWrite { offset: UNIT, payload, durable: None, forgotten: None };
    let marks = mapped.marks.as_mut().expect("it has a map");
    marks.waiting.push_back(Waiting { write, then: () });
    trips("no save", || mapped.check_invariants());
}

#[test]
fn without_a_map_none_is_saved() {
    let mut bench = Bench::new();
    let mut mapped = mapped(&bench, None);
    let failures = mapped.raw().failures();
    let flush = Request::Flush(failures);
    mapped.below.begin(&mut bench.means(), flush, Then::Flush((), Trimmed(0)));
    trips("not there", || mapped.check_invariants());
}
