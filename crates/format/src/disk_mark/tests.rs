use super::*;
use crate::{
    ALLOCATION_OFFSET, COPY_A_OFFSET, COPY_B_OFFSET, INTENT_SLOTS, SUPERBLOCK_LENGTH, TABLE_LENGTH,
    TableCopy,
};

#[test]
fn a_mark_is_read_as_it_was_written() {
    let mark = 0x0123_4567_89ab_cdef_0011_2233_4455_6677;
    let bytes = encode_disk_mark(mark);
    assert_eq!(bytes.len(), DISK_MARK_LENGTH);
    assert_eq!(decode_disk_mark(&bytes), Some(mark));
    // As the table of docs/format.md has it.
    assert_eq!(&bytes[..16], b"evenkeel disk id");
    assert_eq!(bytes[32..48], mark.to_le_bytes());
}

#[test]
fn what_is_not_whole_is_no_mark() {
    let bytes = encode_disk_mark(7);
    for at in [0, 16, 20, 32, 47, 48, DISK_MARK_LENGTH - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert_eq!(decode_disk_mark(&damaged), None, "byte {at}");
    }
    assert_eq!(decode_disk_mark(&bytes[1..]), None);
    assert_eq!(decode_disk_mark(&[0; DISK_MARK_LENGTH]), None);
}

/// What a replica has before its data, and what marks take, do not overlap.
#[test]
fn a_mark_lies_where_no_replica_has_anything() {
    let superblocks = [COPY_A_OFFSET, COPY_B_OFFSET].map(|at| at..at + SUPERBLOCK_LENGTH as u64);
    let tables = [TableCopy::A, TableCopy::B].map(|copy| {
        let last = copy.offset(INTENT_SLOTS - 1) + TABLE_LENGTH as u64;
        copy.offset(0)..last
    });
    for offset in DISK_MARK_OFFSETS {
        let end = offset + DISK_MARK_LENGTH as u64;
        for used in superblocks.iter().chain(&tables) {
            assert!(end <= used.start || used.end <= offset, "{offset} in {used:?}");
        }
        assert!(end <= ALLOCATION_OFFSET, "{offset}");
    }
}
