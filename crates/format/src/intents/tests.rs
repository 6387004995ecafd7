use evenkeel_core::replica::ALL_OPEN;

use super::*;

const ME: ReplicaId = ReplicaId(7);

fn regions(open: core::ops::Range<u64>) -> OpenRegions {
    OpenRegions { slot: 3, region: 1 << 20, open: open.collect() }
}

fn table(sequence: u64) -> IntentTable {
    let cleared = sequence / 2;
    IntentTable { sequence, cleared, replica: ME, regions: regions(0..sequence * 3) }
}

#[test]
fn a_table_survives_the_trip() {
    let regions = regions(0..MAX_REGIONS as u64);
    let full = IntentTable { sequence: 9, cleared: 0, replica: ME, regions };
    for table in [table(0), table(5), full] {
        assert_eq!(IntentTable::decode(&table.encode(), ME, 3), Some(table));
    }
}

#[test]
fn a_table_of_impossible_regions_is_none() {
    for region in [0, 2048, 3 << 20] {
        let regions = OpenRegions { slot: 3, region, open: vec![1] };
        let table = IntentTable { sequence: 1, cleared: 0, replica: ME, regions };
        assert_eq!(IntentTable::decode(&table.encode(), ME, 3), None, "{region}");
    }
}

#[test]
fn every_changed_byte_is_noticed() {
    let bytes = table(5).encode();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert_eq!(IntentTable::decode(&damaged, ME, 3), None, "byte {at}");
    }
    assert_eq!(IntentTable::decode(&bytes, ReplicaId(8), 3), None, "another replica's");
    assert_eq!(IntentTable::decode(&bytes, ME, 4), None, "another slot's");
}

#[test]
fn a_save_cut_off_anywhere_leaves_the_table_before() {
    let mut copies = [table(1).encode(), table(2).encode()];
    for sequence in 3..6 {
        let found = newest_table(&copies[0], &copies[1], ME, 3);
        let before = found.table.clone();
        assert_eq!(before.as_ref().map(|table| table.sequence), Some(sequence - 1));
        let target = usize::from(found.write_next == TableCopy::B);
        let new = table(sequence).encode();
        for cut in (0..TABLE_LENGTH).step_by(512) {
            let mut torn = copies.clone();
            torn[target][..cut].copy_from_slice(&new[..cut]);
            let found = newest_table(&torn[0], &torn[1], ME, 3).table;
            assert!(found == before || found == Some(table(sequence)), "cut at {cut}");
        }
        copies[target] = new;
    }
}

#[test]
fn the_copies_of_all_slots_fit_beside_the_superblocks() {
    let end = |copy: TableCopy| copy.offset(INTENT_SLOTS - 1) + TABLE_LENGTH as u64;
    assert!(TableCopy::A.offset(0) >= crate::COPY_A_OFFSET + crate::SUPERBLOCK_LENGTH as u64);
    assert!(end(TableCopy::A) <= crate::COPY_B_OFFSET);
    assert!(TableCopy::B.offset(0) >= crate::COPY_B_OFFSET + crate::SUPERBLOCK_LENGTH as u64);
    assert!(end(TableCopy::B) <= crate::DATA_OFFSET);
}

#[test]
fn a_table_remembers_when_a_region_was_last_closed() {
    let mut table = IntentTable { sequence: 0, cleared: 0, replica: ME, regions: regions(0..0) };
    for (open, cleared) in [(0..2, 0), (0..4, 0), (1..4, 3), (1..9, 3), (0..0, 5)] {
        table = table.followed_by(regions(open));
        assert_eq!(table.cleared, cleared, "{table:?}");
    }
    let all = OpenRegions { open: vec![ALL_OPEN], ..regions(0..0) };
    let table = table.followed_by(all).followed_by(regions(4..5));
    assert_eq!((table.sequence, table.cleared), (7, 7), "no more than that one is open");
}
