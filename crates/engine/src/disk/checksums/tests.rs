use std::fs::File;

use evenkeel_core::replica::OpenRegions;

use super::recover::recover;
use super::*;
use crate::disk::device::{read_at, write_at};

pub const B: u64 = BLOCK as u64;
/// 32,768 blocks in 33 pages.
pub const AREA: Area = Area { replica: ReplicaId(7), start: 1 << 20, length: 128 << 20 };

fn begun() -> ChecksumStore {
    ChecksumStore::new(AREA, Recovered::default())
}

/// Has the pages of these bytes read from a disk, and pinned.
pub fn pin(checksums: &mut ChecksumStore, file: &File, range: &Range<u64>) {
    for run in checksums.take_unloaded(range) {
        let bytes = read_at(file, checksums.place(run.start), run.len() * PAGE_LENGTH).unwrap();
        checksums.loaded(run, Some(&bytes));
    }
    assert!(checksums.pin(range));
}

fn carry_out(file: &File, writes: &Writes) {
    for (place, bytes) in writes.pieces() {
        write_at(file, bytes, *place).unwrap();
    }
}

pub fn commit(checksums: &mut ChecksumStore, file: &File) {
    match checksums.commit() {
        Commit::Journal(writes) => carry_out(file, &writes),
        Commit::Pages(writes) => {
            carry_out(file, &writes);
            checksums.pages_written(true);
        }
        Commit::Wait => panic!("nothing is being written"),
    }
    if let Some(writes) = checksums.flushed() {
        carry_out(file, &writes);
    }
    checksums.committed();
}

/// What this block must yield by what is on the disk.
fn on_disk(file: &File, block: u64) -> u32 {
    let mut checksums = begun();
    pin(&mut checksums, file, &(block * B..block * B + 1));
    *checksums.entry(block).unwrap().0
}

/// A commit that fails, in its writes or in its flush.
fn fail_to_commit(checksums: &mut ChecksumStore, file: &File, is_written: bool) {
    let writes = match checksums.commit() {
        Commit::Journal(writes) => writes,
        Commit::Pages(writes) => {
            checksums.pages_written(is_written);
            writes
        }
        Commit::Wait => panic!("nothing is being written"),
    };
    assert!(!writes.is_empty(), "there is something to be made durable");
    if is_written {
        carry_out(file, &writes);
    }
    checksums.commit_failed();
}

/// The disk may hold nothing of what a failed commit has written: the next one writes it again.
#[test]
fn what_a_failed_commit_lost_the_next_one_makes_durable() {
    for is_written in [false, true] {
        let file = tempfile::tempfile().unwrap();
        let elsewhere = tempfile::tempfile().unwrap();
        let mut checksums = begun();
        pin(&mut checksums, &file, &(0..AREA.length));
        checksums.record(5 * B, [11, 12].into_iter());
        // The journal first, then pages: what they write is lost.
        for _ in 0..2 {
            fail_to_commit(&mut checksums, &elsewhere, is_written);
        }
        commit(&mut checksums, &file);
        recover(&file, AREA, &[]).unwrap();
        assert_eq!((on_disk(&file, 5), on_disk(&file, 6)), (11, 12));
    }
}

#[test]
fn what_a_commit_covers_is_known_after_a_crash() {
    let file = tempfile::tempfile().unwrap();
    let mut checksums = begun();
    pin(&mut checksums, &file, &(0..AREA.length));
    checksums.record(5 * B, [11, 12].into_iter());
    commit(&mut checksums, &file);
    checksums.record(5 * B, [13].into_iter());
    commit(&mut checksums, &file);
    checksums.record(6 * B, [99].into_iter());
    assert_eq!(on_disk(&file, 5), 0, "the journal has it");
    let recovered = recover(&file, AREA, &[]).unwrap();
    assert_eq!(recovered.sequence, 2);
    assert_eq!((on_disk(&file, 5), on_disk(&file, 6)), (13, 12), "no commit covers 99");
    let again = recover(&file, AREA, &[]).unwrap();
    assert_eq!((again.sequence, on_disk(&file, 5)), (2, 13));
}

#[test]
fn in_open_regions_nothing_is_known_after_a_crash() {
    let file = tempfile::tempfile().unwrap();
    let mut checksums = begun();
    pin(&mut checksums, &file, &(0..AREA.length));
    checksums.record(0, (0..2048).map(|n| n + 1));
    commit(&mut checksums, &file);
    let open = OpenRegions { slot: 0, region: 64 << 10, open: vec![1, 100] };
    recover(&file, AREA, &[open]).unwrap();
    let known: Vec<_> = [15, 16, 31, 32, 1599, 1600, 1616].map(|b| on_disk(&file, b)).into();
    assert_eq!(known, [16, 0, 0, 33, 1600, 0, 1617]);
    let all = OpenRegions { slot: 0, region: 64 << 10, open: vec![u64::from(u32::MAX)] };
    recover(&file, AREA, &[all]).unwrap();
    assert_eq!((on_disk(&file, 15), on_disk(&file, 1617)), (0, 0));
}

#[test]
fn the_journal_goes_round_and_the_pages_take_over() {
    let file = tempfile::tempfile().unwrap();
    let mut checksums = begun();
    pin(&mut checksums, &file, &(0..AREA.length));
    let rounds = JOURNAL_BLOCKS * 2 + 3;
    for round in 1..=rounds as u32 {
        checksums.record(u64::from(round % 7) * B, [round].into_iter());
        commit(&mut checksums, &file);
    }
    assert!(on_disk(&file, 0) > 0, "pages were written when the journal was full");
    recover(&file, AREA, &[]).unwrap();
    for block in 0..7u32 {
        let last = (1..=rounds as u32).rev().find(|round| round % 7 == block).unwrap();
        assert_eq!(on_disk(&file, block.into()), last);
    }
}

#[test]
fn a_commit_of_very_much_writes_the_pages() {
    let file = tempfile::tempfile().unwrap();
    let mut checksums = begun();
    pin(&mut checksums, &file, &(0..AREA.length));
    checksums.record(0, (0..32768).map(|n| n + 1));
    let Commit::Pages(writes) = checksums.commit() else { panic!("too much") };
    assert_eq!(writes.count(), 1, "pages that lie together are one write");
    carry_out(&file, &writes);
    checksums.record(7 * B, [5].into_iter());
    assert!(matches!(checksums.commit(), Commit::Wait), "it counts on what this one writes");
    checksums.pages_written(true);
    assert!(matches!(checksums.commit(), Commit::Wait));
    assert!(checksums.flushed().is_some_and(|writes| writes.count() == 1));
    checksums.committed();
    let Commit::Journal(writes) = checksums.commit() else { panic!("little") };
    assert_eq!(writes.count(), 1);
    assert_eq!((on_disk(&file, 7), on_disk(&file, 32767)), (8, 32768));
}

#[test]
fn a_damaged_page_is_unknown_and_older_journal_blocks_do_not_count_for_it() {
    let file = tempfile::tempfile().unwrap();
    let mut checksums = begun();
    pin(&mut checksums, &file, &(0..AREA.length));
    checksums.record(0, [1].into_iter());
    commit(&mut checksums, &file);
    checksums.record(0, (0..32768).map(|n| n + 2));
    commit(&mut checksums, &file);
    checksums.record(B, [77].into_iter());
    commit(&mut checksums, &file);
    write_at(&file, &[0xff; PAGE_LENGTH], AREA.page(0)).unwrap();
    recover(&file, AREA, &[]).unwrap();
    let known = [0, 1, 2, 1008].map(|block| on_disk(&file, block));
    assert_eq!(known, [0, 77, 0, 1010], "block 0 was 1 before the pages were written");
}

/// Pages have taken over, and one of them is torn later while it is written for others to have
/// room, before anything more has come to the journal.
#[test]
fn a_page_that_is_torn_later_is_unknown_as_well() {
    let file = tempfile::tempfile().unwrap();
    let mut checksums = begun();
    pin(&mut checksums, &file, &(0..AREA.length));
    checksums.record(0, [1].into_iter());
    commit(&mut checksums, &file);
    checksums.record(0, (0..32768).map(|n| n + 2));
    commit(&mut checksums, &file);
    write_at(&file, &[0xff; PAGE_LENGTH], AREA.page(0)).unwrap();
    recover(&file, AREA, &[]).unwrap();
    assert_eq!([0, 1, 1008].map(|block| on_disk(&file, block)), [0, 0, 1010]);
}

/// What a block holds that was zeroed is known, whatever was known of it before: after a crash it
/// was nothing. But empty space takes no pages.
#[test]
fn zeroed_blocks_are_known_but_in_empty_pages() {
    let mut checksums = begun();
    let file = tempfile::tempfile().unwrap();
    pin(&mut checksums, &file, &(0..AREA.length));
    checksums.record(1010 * B, [9].into_iter());
    checksums.zeroed(&(1000 * B..1020 * B));
    let zeroes = block_checksum(&ZEROES);
    let known = |block| *checksums.entry(block).unwrap().0;
    assert_eq!([1000, 1007, 1008, 1010, 1019, 1020].map(known), [0, 0, zeroes, zeroes, zeroes, 0]);
    assert!(checksums.check(1012 * B, &[1; 4096]).is_err(), "damage is found");
    assert!(!checksums.pages[&0].is_dirty);
}

/// A commit has failed, the next one has written pages, and the process ends before a block of the
/// journal says so. The next start numbers blocks from the last one that it finds: pages must not
/// seem newer than these.
#[test]
fn pages_name_no_block_that_the_journal_may_not_have() {
    let (file, nowhere) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    let mut checksums = begun();
    pin(&mut checksums, &file, &(0..AREA.length));
    checksums.record(0, [1, 2].into_iter());
    commit(&mut checksums, &file);
    checksums.record(0, [3].into_iter());
    fail_to_commit(&mut checksums, &nowhere, true);
    let Commit::Pages(writes) = checksums.commit() else { panic!("the last one has failed") };
    carry_out(&file, &writes);
    let recovered = recover(&file, AREA, &[]).unwrap();
    let mut checksums = ChecksumStore::new(AREA, recovered);
    pin(&mut checksums, &file, &(0..AREA.length));
    checksums.record(0, [4, 5].into_iter());
    commit(&mut checksums, &file);
    recover(&file, AREA, &[]).unwrap();
    assert_eq!([0, 1].map(|block| on_disk(&file, block)), [4, 5]);
}

/// A start forgets the checksums of open regions in the pages. If one of them is torn later, when
/// those regions are closed, older blocks of the journal must not say again what it forgot.
#[test]
fn what_a_start_forgets_the_journal_does_not_say_again() {
    let file = tempfile::tempfile().unwrap();
    let mut checksums = begun();
    pin(&mut checksums, &file, &(0..AREA.length));
    checksums.record(0, [1, 2].into_iter());
    commit(&mut checksums, &file);
    let open = OpenRegions { slot: 0, region: B, open: vec![0] };
    let recovered = recover(&file, AREA, &[open]).unwrap();
    assert_eq!([0, 1].map(|block| on_disk(&file, block)), [0, 2]);
    let mut checksums = ChecksumStore::new(AREA, recovered);
    pin(&mut checksums, &file, &(0..AREA.length));
    checksums.record(2000 * B, [3].into_iter());
    commit(&mut checksums, &file);
    write_at(&file, &[0xff; PAGE_LENGTH], AREA.page(0)).unwrap();
    recover(&file, AREA, &[]).unwrap();
    assert_eq!([0, 1, 2000].map(|block| on_disk(&file, block)), [0, 0, 3]);
}

#[test]
fn pages_that_nobody_uses_make_room_and_changed_ones_are_written_before() {
    let file = tempfile::tempfile().unwrap();
    let area = Area { length: 64 << 30, ..AREA };
    let mut checksums = ChecksumStore::new(area, Recovered::default());
    let page = CHECKSUMS_PER_PAGE as u64 * B;
    let mut written = 0;
    for n in 0..MAX_PAGES as u64 * 2 {
        let range = n * page..n * page + B;
        if !checksums.pin(&range) {
            if let Some(writes) = checksums.make_space() {
                carry_out(&file, &writes);
                written += writes.count();
                checksums.pages_written(true);
                checksums.make_space();
            }
            assert!(checksums.has_room());
            for run in checksums.take_unloaded(&range) {
                checksums.loaded(run, None);
            }
            assert!(checksums.pin(&range));
        }
        checksums.record(range.start, [n as u32 + 1].into_iter());
        checksums.unpin(&range);
    }
    assert!(checksums.pages.len() <= MAX_PAGES);
    assert!((1..64).contains(&written), "{written} writes of many pages");
    assert_eq!(on_disk(&file, 0), 1);
}

/// Touches pages until there is no room for more, none of which is written; returns what is to be.
fn full() -> (ChecksumStore, Option<Writes>) {
    let area = Area { length: 64 << 30, ..AREA };
    let mut checksums = ChecksumStore::new(area, Recovered::default());
    let mut writes = None;
    for n in 0..2 * MAX_PAGES as u64 {
        let range = n * CHECKSUMS_PER_PAGE as u64 * B..n * CHECKSUMS_PER_PAGE as u64 * B + B;
        writes = writes.or(checksums.make_space());
        if !checksums.has_room() {
            break;
        }
        for run in checksums.take_unloaded(&range) {
            checksums.loaded(run, None);
        }
        assert!(checksums.pin(&range));
        checksums.record(range.start, [7].into_iter());
        checksums.unpin(&range);
    }
    (checksums, writes)
}

#[test]
fn while_pages_are_written_no_more_are_read_than_there_is_room_for() {
    let (mut checksums, writes) = full();
    assert!(writes.is_some() && checksums.pages.len() <= MAX_PAGES, "{}", checksums.pages.len());
    checksums.pages_written(true);
    checksums.make_space();
    assert!(checksums.has_room(), "what was written has gone");
}

#[test]
fn nobody_waits_for_a_disk_that_takes_no_pages() {
    let (mut checksums, writes) = full();
    assert!(writes.is_some());
    checksums.pages_written(false);
    assert!(checksums.make_space().is_some() && checksums.has_room());
}

/// Which of these blocks a read can't compare: those that hold nothing, and those that do.
fn unknown(empty: &[u32], forgotten: &[u32]) -> Result<Unknown, u64> {
    Ok(Unknown { empty: empty.to_vec(), forgotten: forgotten.to_vec() })
}

/// A read vouches for nothing: what the disk returns may be damaged.
#[test]
fn blocks_are_compared_and_unknown_ones_stay_so_until_they_are_written() {
    let file = tempfile::tempfile().unwrap();
    let mut checksums = begun();
    pin(&mut checksums, &file, &(0..AREA.length));
    let mut data = vec![3; 3 * BLOCK as usize];
    for _ in 0..2 {
        assert_eq!(checksums.check(B, &data), unknown(&[], &[0, 1, 2]));
    }
    checksums.record(B, [block_checksum(&[3; BLOCK as usize]); 3].into_iter());
    assert_eq!(checksums.check(B, &data), unknown(&[], &[]));
    data[BLOCK as usize] = 4;
    assert_eq!(checksums.check(B, &data), Err(2));
    checksums.forget(&(2 * B + 512..2 * B + 1024));
    assert_eq!(checksums.check(B, &data), unknown(&[], &[1]));
    data[BLOCK as usize..2 * BLOCK as usize].fill(0);
    assert_eq!(checksums.check(B, &data), unknown(&[1], &[]));
    checksums.zeroed(&(2 * B..3 * B));
    assert_eq!(checksums.check(2 * B, &[0; BLOCK as usize]), unknown(&[], &[]));
    assert_eq!(checksums.check(2 * B, &[3; BLOCK as usize]), Err(2));
    checksums.zeroed(&(100 * B..9000 * B));
    assert_eq!(*checksums.entry(5000).unwrap().0, 0, "it was not known, and takes no page");
}
