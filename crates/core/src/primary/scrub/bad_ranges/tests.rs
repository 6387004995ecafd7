use super::*;
use crate::view::tests::view;

const BLOCKS: u64 = BLOCK as u64;

fn bad(block: u64) -> BadRange {
    let bytes = block * BLOCKS..(block + 1) * BLOCKS;
    BadRange::new(0, bytes, BLOCKS * 1000).expect("it is inside")
}

#[test]
fn a_range_is_of_whole_blocks_and_inside_its_mirror() {
    let size = BLOCKS * 10;
    let inside = BadRange::new(1, BLOCKS + 1..BLOCKS + 2, size);
    assert_eq!(inside, Some(BadRange { mirror: 1, bytes: BLOCKS..2 * BLOCKS }));
    let beyond = BadRange::new(0, size - 1..u64::MAX, size);
    assert_eq!(beyond, Some(BadRange { mirror: 0, bytes: size - BLOCKS..size }));
    assert_eq!(BadRange::new(0, size..size + 1, size), None);
}

#[test]
fn a_range_has_its_place_in_the_volume() {
    let view = view(1, 2);
    assert_eq!(bad(0).in_volume(view.geometry, 1), Some(0..BLOCKS));
    let size = view.geometry.size;
    let behind = BadRange { mirror: 0, bytes: size..size + BLOCKS };
    assert_eq!(behind.in_volume(view.geometry, 1), None);
}

#[test]
fn each_waits_once_and_not_too_many() {
    let mut ranges = BadRanges::default();
    (0..2).for_each(|_| ranges.add(bad(0)));
    assert_eq!((ranges.next(), ranges.next()), (Some(bad(0)), None));
    (0..=MAX_BAD_RANGES as u64).for_each(|block| ranges.add(bad(block)));
    let waiting: Vec<_> = core::iter::from_fn(|| ranges.next()).collect();
    assert_eq!((waiting.len(), waiting.last()), (MAX_BAD_RANGES, Some(&bad(63))));
}

#[test]
fn what_nobody_can_decide_is_not_compared_at_each_read() {
    let mut ranges = BadRanges::default();
    ranges.is_undecided(bad(0));
    ranges.add_unless_undecided(bad(0));
    assert!(ranges.are_repaired());
    ranges.add(bad(0));
    assert!(!ranges.are_repaired(), "somebody can't read it");
    (1..=MAX_BAD_RANGES as u64).for_each(|block| ranges.is_undecided(bad(block)));
    ranges.next();
    ranges.add_unless_undecided(bad(0));
    assert!(!ranges.are_repaired(), "it is forgotten");
}

#[test]
fn the_count_outlives_what_waits() {
    let mut ranges = BadRanges::default();
    ranges.add(bad(0));
    ranges.rewrote();
    ranges.forget();
    assert!(ranges.are_repaired() && ranges.rewritten() == 1);
}
