use super::*;
use crate::intents::{INTENT_SLOTS, TABLE_LENGTH, TableCopy};

const REPLICA: ReplicaId = ReplicaId(9);

fn some_units() -> AllocationMap {
    let mut map = AllocationMap::new(1 << 40);
    map.allocated.insert(3..7);
    map.allocated.insert(PAGE_BLOCKS * 2 - 1..PAGE_BLOCKS * 2 + 1);
    map.allocated.insert(ALLOCATION_UNITS - 1..ALLOCATION_UNITS);
    map
}

#[test]
fn a_map_is_read_as_it_was_written() {
    let map = some_units();
    let bytes = map.encode(REPLICA);
    assert_eq!(bytes.len(), ALLOCATION_PAGES as usize * PAGE_LENGTH);
    assert_eq!(AllocationMap::decode(&bytes, REPLICA), Some(map));
    assert_eq!(AllocationMap::decode(&bytes, ReplicaId(8)), None);
    assert_eq!(AllocationMap::decode(&vec![0; bytes.len()], REPLICA), None);
}

#[test]
fn all_units_of_a_page_with_any_changed_byte_count() {
    let map = some_units();
    let bytes = map.encode(REPLICA);
    for at in (PAGE_LENGTH..2 * PAGE_LENGTH).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        let found = AllocationMap::decode(&damaged, REPLICA).expect("the other pages are whole");
        let mut expected = map.allocated.clone();
        expected.insert(PAGE_BLOCKS..2 * PAGE_BLOCKS);
        assert_eq!(found.allocated, expected, "byte {at}");
    }
}

#[test]
fn a_map_that_is_cut_off_says_too_much() {
    let map = some_units();
    let bytes = map.encode(REPLICA);
    let found =
        AllocationMap::decode(&bytes[..3 * PAGE_LENGTH + 9], REPLICA).expect("some are whole");
    let mut expected = map.allocated;
    expected.insert(PAGE_BLOCKS * 3..ALLOCATION_UNITS);
    assert_eq!(found.allocated, expected);
}

#[test]
fn the_map_lies_between_the_intent_log_and_the_data() {
    let log_end = TableCopy::B.offset(INTENT_SLOTS - 1) + TABLE_LENGTH as u64;
    assert!(ALLOCATION_OFFSET >= log_end);
    assert!(allocation_page_offset(ALLOCATION_PAGES) <= crate::DATA_OFFSET);
}

#[test]
fn units_leave_room_to_grow() {
    assert_eq!(allocation_unit(1 << 20), 1 << 20);
    assert_eq!(allocation_unit(64 << 30), 1 << 20);
    assert_eq!(allocation_unit(1 << 40), 4 << 20);
    for exponent in 20..60 {
        let length = 1u64 << exponent;
        let unit = allocation_unit(length);
        assert!(unit.is_power_of_two());
        assert!(length / unit <= ALLOCATION_UNITS / HEADROOM);
    }
}
