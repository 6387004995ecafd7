//! What a start makes of metadata of which a sector can't be read. The device reads it again once
//! it is written: so does a disk, and some do by themselves.

use std::collections::BTreeSet;

use evenkeel_core::ReplicaId;
use evenkeel_core::block_set::PageBits;
use evenkeel_core::replica::{FoundPage, MissingPage, OpenRegions};
use evenkeel_core::{Generation, View};
use evenkeel_format::{
    AllocationMap, ChecksumPage, IntentTable, JournalBlock, Newest, Superblock,
    SuperblockCopy as Copy, TableCopy, allocation_page_offset, encode_page, newest, page_offset,
};

use super::device::{Device, Places, SECTOR};
use super::plan::{REGION, superblock_of, view};
use super::world::format;
use crate::disk::checksums::Area;
use crate::disk::device::read_at;
use crate::disk::{Metadata, prepare};
use crate::seeds::Random;

const LENGTH: u64 = 8 << 20;
const REPLICA: ReplicaId = ReplicaId(7);

fn made() -> (Device, Superblock) {
    let device = Device::new(Random::new(1), Places::default());
    let superblock = superblock_of(LENGTH, true);
    format(&device, &superblock, true);
    (device, superblock)
}

fn write(device: &Device, offset: u64, bytes: &[u8]) {
    let mut state = device.state();
    state.write(offset, bytes, true);
    let now = state.now();
    state.make_durable(now, None);
}

fn found(device: &Device) -> Newest {
    let read = |copy: Copy| read_at(device, copy.offset(), 16 << 10).unwrap_or_default();
    newest(&read(Copy::A), &read(Copy::B)).expect("one is whole")
}

fn open(device: &Device) -> Metadata {
    prepare(device, &mut found(device)).expect("it opens").0
}

fn lose(device: &Device, offset: u64) {
    device.state().lose(offset / SECTOR);
    assert!(device.state().has_bad(&(offset..offset + 1)));
}

fn table(sequence: u64, region: u64) -> Vec<u8> {
    let regions = OpenRegions { slot: 0, region: REGION, open: vec![region] };
    IntentTable { sequence, cleared: 0, replica: REPLICA, regions }.encode()
}

/// The lost copy may be the newest one, whatever the other one says.
#[test]
fn with_a_lost_table_all_is_open_now_and_at_the_next_start() {
    for lost in [&[TableCopy::A][..], &[TableCopy::B], &[TableCopy::A, TableCopy::B]] {
        let (device, _) = made();
        write(&device, TableCopy::A.offset(0), &table(4, 2));
        write(&device, TableCopy::B.offset(0), &table(5, 3));
        lost.iter().for_each(|copy| lose(&device, copy.offset(0) + 512));
        for _ in 0..2 {
            let [regions] = &open(&device).open_regions[..] else { panic!("one slot is open") };
            assert!(regions.is_all());
        }
    }
}

#[test]
fn of_a_lost_page_of_a_bitmap_all_blocks_count() {
    let (device, superblock) = made();
    let place = superblock.metadata_offset + page_offset(LENGTH, 3, 0);
    let (replica, since) = (ReplicaId(9), Generation(1));
    let bits: Box<PageBits> = Box::new([0; _]);
    write(&device, place, &encode_page(&MissingPage { place: 3, replica, since, page: 0, bits }));
    lose(&device, place + 2048);
    for _ in 0..2 {
        assert!(matches!(open(&device).missing[..], [FoundPage::Damaged { place: 3, page: 0 }]));
    }
}

#[test]
fn of_a_lost_page_of_the_allocation_map_all_units_count() {
    let (device, superblock) = made();
    lose(&device, allocation_page_offset(0));
    for _ in 0..2 {
        let map = open(&device).allocation.expect("other pages are whole");
        assert_eq!(map.allocated.first_run(0..8), Some(0..8));
    }
    let all: BTreeSet<_> = AllocationMap::new(superblock.data_length).allocated.pages().collect();
    assert!(all.is_empty(), "it held nothing");
}

/// A crash came between the superblocks. Who was told of the newer one must find it again.
#[test]
fn what_a_start_has_found_in_one_superblock_is_in_both() {
    let (device, superblock) = made();
    let view = View { generation: Generation(2), ..view(LENGTH) };
    let newer = Superblock { sequence: 2, view, ..superblock };
    for (copy, other) in [(Copy::A, Copy::B), (Copy::B, Copy::A)] {
        let (device, _) = made();
        write(&device, copy.offset(), &newer.encode().unwrap().0);
        open(&device);
        lose(&device, copy.offset() + 1024);
        assert_eq!(found(&device).superblock.view.generation, Generation(2));
        open(&device);
        lose(&device, other.offset());
        assert_eq!(found(&device).superblock.view.generation, Generation(2));
    }
    drop(device);
}

fn journal(device: &Device, area: Area, sequence: u64, entries: Vec<(u64, u32)>) {
    let block = JournalBlock { sequence, floor: 0, entries };
    write(device, area.start() + sequence % 256 * 4096, &block.encode(REPLICA));
}

fn sum(device: &Device, area: Area, block: usize) -> u32 {
    let bytes = read_at(device, area.page((block / 1008) as u32), 4096).expect("readable");
    let page = ChecksumPage::decode(&bytes, REPLICA, (block / 1008) as u32);
    page.map_or(0, |page| page.checksums[block % 1008])
}

/// A lost block of the journal may have named any block of data. Only pages that have what it said
/// are believed.
#[test]
fn without_a_block_of_the_journal_older_pages_are_not_believed() {
    let (device, superblock) = made();
    let area = Area::of(&superblock);
    let page = |sequence| ChecksumPage { sequence, checksums: Box::new([7; _]) };
    write(&device, area.page(0), &page(1).encode(REPLICA, 0));
    write(&device, area.page(1), &page(2).encode(REPLICA, 1));
    journal(&device, area, 1, vec![(0, 1)]);
    journal(&device, area, 2, vec![(1, 2)]);
    journal(&device, area, 3, vec![(2, 3)]);
    lose(&device, area.start() + 2 * 4096);
    for _ in 0..2 {
        open(&device);
        assert_eq!([0, 1, 2, 3].map(|block| sum(&device, area, block)), [0, 0, 3, 0]);
        assert_eq!(sum(&device, area, 1008), 7, "its page has what the second block said");
    }
}

/// What follows the newest block may have been written; what the ring has passed under the floor is
/// of no matter.
#[test]
fn a_place_of_the_journal_that_does_not_count_costs_nothing() {
    for (place, is_believed) in [(1, true), (9, false), (10, true), (0, true)] {
        let (device, superblock) = made();
        let area = Area::of(&superblock);
        let page = ChecksumPage { sequence: 7, checksums: Box::new([7; _]) };
        write(&device, area.page(0), &page.encode(REPLICA, 0));
        let block = JournalBlock { sequence: 8, floor: 7, entries: vec![(5, 6)] };
        write(&device, area.start() + 8 * 4096, &block.encode(REPLICA));
        lose(&device, area.start() + place * 4096);
        open(&device);
        let found = [0, 5].map(|block| sum(&device, area, block));
        assert_eq!(found, if is_believed { [7, 6] } else { [0, 0] }, "{place}");
    }
}

/// Nothing is known of the blocks of a page that can't be read, but for what the journal says.
#[test]
fn a_lost_page_of_checksums_is_not_known() {
    let (device, superblock) = made();
    let area = Area::of(&superblock);
    let page = ChecksumPage { sequence: 0, checksums: Box::new([7; _]) };
    write(&device, area.page(0), &page.encode(REPLICA, 0));
    journal(&device, area, 1, vec![(2, 3)]);
    lose(&device, area.page(0));
    open(&device);
    assert_eq!([1, 2].map(|block| sum(&device, area, block)), [0, 3]);
}

/// A disk of which nothing can be read is not opened: there is no sector that it has lost.
#[test]
fn a_disk_that_reads_nothing_is_not_opened() {
    let (device, _) = made();
    for sector in TableCopy::A.offset(0) / SECTOR..(832 << 10) / SECTOR {
        device.state().lose(sector);
    }
    assert!(prepare(&device, &mut found(&device)).is_err());
}
