use super::*;

const REPLICA: ReplicaId = ReplicaId(7);

#[test]
fn pages_and_journal_blocks_are_read_as_they_were_written() {
    let mut checksums = Box::new([0; CHECKSUMS_PER_PAGE]);
    (checksums[0], checksums[1007]) = (u32::MAX, 5);
    let page = ChecksumPage { sequence: 9, checksums };
    let bytes = page.encode(REPLICA, 3);
    assert_eq!(bytes.len(), PAGE_LENGTH);
    assert_eq!(ChecksumPage::decode(&bytes, REPLICA, 3), Some(page));
    assert_eq!(ChecksumPage::decode(&bytes, REPLICA, 4), None, "misdirected");
    assert_eq!(ChecksumPage::decode(&bytes, ReplicaId(8), 3), None);

    let entries = (0..JOURNAL_ENTRIES as u64).map(|n| (n << 33, n as u32 + 1)).collect();
    let block = JournalBlock { sequence: 258, floor: 200, entries };
    let bytes = block.encode(REPLICA);
    assert_eq!(JournalBlock::decode(&bytes, REPLICA, 2), Some(block));
    assert_eq!(JournalBlock::decode(&bytes, REPLICA, 3), None);
    assert_eq!(JournalBlock::decode(&[0; PAGE_LENGTH], REPLICA, 0), None);
}

#[test]
fn any_changed_bit_is_noticed() {
    let page = ChecksumPage { sequence: 1, checksums: Box::new([1; CHECKSUMS_PER_PAGE]) };
    let block = JournalBlock { sequence: 1, floor: 0, entries: vec![(1, 1)] };
    let (page, block) = (page.encode(REPLICA, 0), block.encode(REPLICA));
    for at in (0..PAGE_LENGTH).step_by(61) {
        let damaged = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes[at] ^= 16;
            bytes
        };
        assert_eq!(ChecksumPage::decode(&damaged(&page), REPLICA, 0), None, "byte {at}");
        assert_eq!(JournalBlock::decode(&damaged(&block), REPLICA, 1), None, "byte {at}");
    }
}

#[test]
fn a_known_checksum_is_never_zero() {
    assert_eq!(stored_checksum(0), 1);
    assert_eq!(block_checksum(b"123456789"), 0xe306_9283, "the check value of CRC-32C");
}

#[test]
fn the_area_is_a_thousandth_of_the_data() {
    let tib = 1u64 << 40;
    assert_eq!(checksum_pages(4096), 1);
    assert_eq!(checksum_pages(4096 * 1009), 2);
    assert!(checksums_length(tib) < tib / 1000 + (1 << 20));
    assert_eq!(journal_offset(JOURNAL_BLOCKS + 1), PAGE_LENGTH as u64);
}
