use evenkeel_core::ReplicaId;

use super::*;
use crate::disk::filters::bench::Bench;
use crate::disk::simulation::queue::Queue;

const UNIT: u64 = 1 << 20;

fn with(units: &[Range<u64>]) -> Marks<()> {
    let mut map = format::AllocationMap::new(64 << 20);
    units.iter().for_each(|units| map.allocated.insert(units.clone()));
    Marks::new(map, ReplicaId(7))
}

fn extents(marks: &Marks<()>, range: Range<u64>) -> Vec<(u64, bool)> {
    let extents = marks.extents(range.start, range.end - range.start);
    extents.into_iter().map(|extent| (extent.length, extent.allocated)).collect()
}

#[test]
fn extents_end_where_the_question_does() {
    let marks = with(&[2..4, 6..7]);
    let whole =
        vec![(2 * UNIT, false), (2 * UNIT, true), (2 * UNIT, false), (UNIT, true), (UNIT, false)];
    assert_eq!(extents(&marks, 0..8 * UNIT), whole);
    assert_eq!(extents(&marks, 2 * UNIT + 512..3 * UNIT), [(UNIT - 512, true)]);
    assert_eq!(extents(&marks, UNIT..2 * UNIT + 512), [(UNIT, false), (512, true)]);
    assert_eq!(extents(&marks, 512..1024), [(512, false)]);
}

#[test]
fn what_lies_beyond_the_map_counts_as_allocated() {
    let end = ALLOCATION_UNITS * UNIT;
    let marks = with(&[]);
    assert_eq!(extents(&marks, end - UNIT..end + UNIT), [(UNIT, false), (UNIT, true)]);
    assert_eq!(extents(&marks, end + 512..end + 1024), [(512, true)]);
    assert!(!marks.is_empty(end - UNIT, UNIT + 1) && marks.is_empty(end - UNIT, UNIT));
    assert!(marks.names_all(&marks.touched(end, 4096)));
    let mut last = with(&[]);
    last.map.allocated.insert(ALLOCATION_UNITS - 1..ALLOCATION_UNITS);
    assert_eq!(extents(&last, end - 2 * UNIT..end + UNIT), [(UNIT, false), (2 * UNIT, true)]);
}

#[test]
fn only_whole_units_are_trimmed() {
    let marks = with(&[]);
    assert_eq!(marks.covered(512, 2 * UNIT), 1..2);
    assert_eq!(marks.touched(512, 2 * UNIT), 0..3);
    assert_eq!(marks.covered(UNIT, 2 * UNIT), 1..3);
    assert!(marks.covered(512, 1024).is_empty());
}

type Mapped = AllocationMap<Queue, &'static str>;

fn over(bench: &Bench) -> Mapped {
    let (file, layout, flushes) = bench.disk();
    let raw = RawDisk::new(file, layout, flushes);
    AllocationMap::new(raw, Some(format::AllocationMap::new(64 << 20)), ReplicaId(7))
}

fn write(bench: &mut Bench, mapped: &mut Mapped, unit: u64, then: &'static str) {
    let payload = bench.filled(4096, 7);
    mapped.begin(
        &mut bench.means(),
        Request::Write(DataWrite { offset: unit * UNIT, payload, durable: None, forgotten: None }),
        then,
    );
}

/// The oldest operation ends.
fn end(bench: &mut Bench, mapped: &mut Mapped, error: Option<i32>) -> Option<(&'static str, bool)> {
    let (key, completion) = bench.end(error);
    let (then, outcome) = mapped.completed(&mut bench.means(), key, completion)?;
    Some((then, outcome.is_ok()))
}

/// What the device says of this unit, durably or not.
fn is_marked(bench: &Bench, unit: u64) -> bool {
    let mut page = vec![0; 4096];
    bench.device.state().read(allocation_page_offset(0), &mut page).expect("it can be read");
    page[64 + unit as usize / 8] & 1 << (unit % 8) != 0
}

#[test]
fn a_unit_is_marked_before_it_is_written_and_those_that_wait_share_a_save() {
    let mut bench = Bench::new();
    let mut mapped = over(&bench);
    for (unit, then) in [(1, "first"), (2, "second"), (3, "third")] {
        write(&mut bench, &mut mapped, unit, then);
    }
    assert_eq!(end(&mut bench, &mut mapped, None), None, "a mark, for the first alone");
    assert!(is_marked(&bench, 1) && !is_marked(&bench, 2) && !mapped.is_empty(UNIT, UNIT));
    assert_eq!(end(&mut bench, &mut mapped, None), Some(("first", true)));
    assert_eq!(end(&mut bench, &mut mapped, None), None, "a mark for both others");
    assert!(is_marked(&bench, 2) && is_marked(&bench, 3));
    assert_eq!(end(&mut bench, &mut mapped, None), Some(("second", true)));
    assert_eq!(end(&mut bench, &mut mapped, None), Some(("third", true)));
    write(&mut bench, &mut mapped, 2, "again");
    assert_eq!(end(&mut bench, &mut mapped, None), Some(("again", true)));
    assert!(mapped.is_idle());
}

#[test]
fn with_a_mark_that_fails_one_write_fails_and_the_next_tries() {
    let mut bench = Bench::new();
    let mut mapped = over(&bench);
    for (unit, then) in [(1, "first"), (2, "second")] {
        write(&mut bench, &mut mapped, unit, then);
    }
    assert_eq!(end(&mut bench, &mut mapped, Some(libc::ENOSPC)), Some(("first", false)));
    assert!(mapped.is_empty(UNIT, UNIT), "nothing is there");
    assert_eq!(end(&mut bench, &mut mapped, None), None);
    assert_eq!(end(&mut bench, &mut mapped, None), Some(("second", true)));
    assert!(mapped.is_idle() && mapped.is_empty(UNIT, UNIT) && !mapped.is_empty(2 * UNIT, UNIT));
}

/// A power cut before the flush may bring back what was there.
#[test]
fn what_was_trimmed_is_unmarked_by_the_next_flush() {
    let mut bench = Bench::new();
    let mut mapped = over(&bench);
    for unit in [1, 2] {
        write(&mut bench, &mut mapped, unit, "write");
        assert_eq!(end(&mut bench, &mut mapped, None), None);
        assert_eq!(end(&mut bench, &mut mapped, None), Some(("write", true)));
    }
    let request = Request::Zero { offset: UNIT, length: 2 << 20, unmap: true };
    mapped.begin(&mut bench.means(), request, "trim");
    assert_eq!(end(&mut bench, &mut mapped, None), Some(("trim", true)));
    assert!(!mapped.is_empty(UNIT, UNIT));
    let failures = mapped.raw().failures();
    mapped.begin(&mut bench.means(), Request::Flush(failures), "flush");
    write(&mut bench, &mut mapped, 2, "meanwhile");
    assert_eq!(end(&mut bench, &mut mapped, None), None, "the flush has ended, and a save begins");
    assert_eq!(end(&mut bench, &mut mapped, None), Some(("meanwhile", true)));
    assert_eq!(end(&mut bench, &mut mapped, None), Some(("flush", true)));
    assert!(mapped.is_empty(UNIT, UNIT) && !is_marked(&bench, 1));
    assert!(!mapped.is_empty(2 * UNIT, UNIT) && is_marked(&bench, 2), "it holds something again");
    mapped.begin(&mut bench.means(), Request::Barrier(failures), "barrier");
    assert_eq!(end(&mut bench, &mut mapped, None), Some(("barrier", true)));
}
