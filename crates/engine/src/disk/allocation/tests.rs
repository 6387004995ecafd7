use super::*;

const UNIT: u64 = 1 << 20;

fn with(units: &[Range<u64>]) -> Allocation {
    let mut map = AllocationMap::new(64 << 20);
    units.iter().for_each(|units| map.allocated.insert(units.clone()));
    Allocation::new(map)
}

fn extents(allocation: &Allocation, range: Range<u64>) -> Vec<(u64, bool)> {
    let extents = allocation.extents(range.start, range.end - range.start);
    extents.into_iter().map(|extent| (extent.length, extent.allocated)).collect()
}

#[test]
fn extents_end_where_the_question_does() {
    let allocation = with(&[2..4, 6..7]);
    let whole =
        vec![(2 * UNIT, false), (2 * UNIT, true), (2 * UNIT, false), (UNIT, true), (UNIT, false)];
    assert_eq!(extents(&allocation, 0..8 * UNIT), whole);
    assert_eq!(extents(&allocation, 2 * UNIT + 512..3 * UNIT), [(UNIT - 512, true)]);
    assert_eq!(extents(&allocation, UNIT..2 * UNIT + 512), [(UNIT, false), (512, true)]);
    assert_eq!(extents(&allocation, 512..1024), [(512, false)]);
}

#[test]
fn what_lies_beyond_the_map_counts_as_allocated() {
    let end = ALLOCATION_UNITS * UNIT;
    let allocation = with(&[]);
    assert_eq!(extents(&allocation, end - UNIT..end + UNIT), [(UNIT, false), (UNIT, true)]);
    assert_eq!(extents(&allocation, end + 512..end + 1024), [(512, true)]);
    assert!(!allocation.is_empty(end - UNIT, UNIT + 1) && allocation.is_empty(end - UNIT, UNIT));
    assert!(allocation.names_all(&allocation.touched(end, 4096)));
    let mut last = with(&[]);
    last.map.allocated.insert(ALLOCATION_UNITS - 1..ALLOCATION_UNITS);
    assert_eq!(extents(&last, end - 2 * UNIT..end + UNIT), [(UNIT, false), (2 * UNIT, true)]);
}

#[test]
fn only_whole_units_are_trimmed() {
    let allocation = with(&[]);
    assert_eq!(allocation.covered(512, 2 * UNIT), 1..2);
    assert_eq!(allocation.touched(512, 2 * UNIT), 0..3);
    assert_eq!(allocation.covered(UNIT, 2 * UNIT), 1..3);
    assert!(allocation.covered(512, 1024).is_empty());
}
