use std::fs::File;

use super::super::recover::{Recovered, recover};
use super::super::tests::{AREA, B, commit, pin};
use super::*;

/// Where the checksums are carried to.
const TO: Area = Area { start: 1 << 30, ..AREA };
/// Blocks of the area.
const BLOCKS: u64 = AREA.length / B;

/// What these blocks must yield by what an area on the disk says after a crash.
fn after_a_crash(file: &File, area: Area, blocks: &[u64]) -> Vec<u32> {
    let recovered = recover(file, area, &[]).unwrap();
    let mut checksums = ChecksumStore::new(area, recovered);
    pin(&mut checksums, file, &(0..AREA.length));
    blocks.iter().map(|block| *checksums.entry(*block).unwrap().0).collect()
}

#[test]
fn what_is_written_meanwhile_is_brought_along() {
    let file = tempfile::tempfile().unwrap();
    let mut checksums = ChecksumStore::new(AREA, Recovered::default());
    pin(&mut checksums, &file, &(0..AREA.length));
    // In the pages, in the journal, and then in memory only.
    checksums.record(0, (0..BLOCKS as u32).map(|n| n + 1));
    commit(&mut checksums, &file);
    checksums.record(5 * B, [1005].into_iter());
    commit(&mut checksums, &file);
    checksums.record(6 * B, [1006].into_iter());

    let all = checksums.carry(TO, true).unwrap();
    assert!(all.is_small(), "so few are left to the move in any case");
    all.carry_out(&file).unwrap();
    // Pages are written: those in memory are clean afterwards.
    checksums.record(0, (0..BLOCKS as u32).map(|n| n + 50_001));
    checksums.record(7 * B, [1007].into_iter());
    commit(&mut checksums, &file);
    checksums.pages.clear();
    pin(&mut checksums, &file, &(0..AREA.length));
    let changed = checksums.carry(TO, false).unwrap();
    assert_eq!(changed.pages.len(), 33);
    // They change once more before they are copied, and after it.
    checksums.record(8 * B, [1008].into_iter());
    changed.carry_out(&file).unwrap();
    checksums.record(2000 * B, [3000].into_iter());

    let blocks = [0, 5, 6, 7, 8, 2000, BLOCKS - 1];
    let expected = vec![50_001, 50_006, 50_007, 1007, 1008, 3000, 50_000 + BLOCKS as u32];
    checksums.finish_carrying(TO).unwrap().carry_out(&file).unwrap();
    let mut old = expected.clone();
    (old[4], old[5]) = (50_009, 52_001);
    assert_eq!(
        after_a_crash(&file, AREA, &blocks),
        old,
        "if it is not moved: no commit covers more"
    );
    assert_eq!(after_a_crash(&file, TO, &blocks), expected);

    checksums.carried(TO);
    checksums.record(6 * B, [2006].into_iter());
    commit(&mut checksums, &file);
    checksums.record(7 * B, [2007].into_iter());
    let expected = vec![50_001, 50_006, 2006, 1007, 1008, 3000, 50_000 + BLOCKS as u32];
    assert_eq!(after_a_crash(&file, TO, &blocks), expected, "its journal goes on");
}

#[test]
fn pages_that_are_evicted_meanwhile_are_brought_along() {
    let file = tempfile::tempfile().unwrap();
    let mut checksums = ChecksumStore::new(AREA, Recovered::default());
    pin(&mut checksums, &file, &(0..AREA.length));
    checksums.record(0, (0..BLOCKS as u32).map(|n| n + 1));
    commit(&mut checksums, &file);
    checksums.carry(TO, true).unwrap().carry_out(&file).unwrap();
    checksums.record(0, (0..BLOCKS as u32).map(|n| n + 50_001));
    commit(&mut checksums, &file);
    checksums.pages.clear();
    checksums.finish_carrying(TO).unwrap().carry_out(&file).unwrap();
    assert_eq!(after_a_crash(&file, TO, &[0, 9, 2000]), [50_001, 50_010, 52_001]);
}

#[test]
fn only_what_was_copied_to_its_end_counts() {
    let file = tempfile::tempfile().unwrap();
    let mut checksums = ChecksumStore::new(AREA, Recovered::default());
    pin(&mut checksums, &file, &(0..AREA.length));
    assert!(checksums.finish_carrying(TO).is_none(), "nothing was");
    checksums.carry(TO, true).unwrap();
    let elsewhere = Area { start: 2 << 30, ..AREA };
    assert!(checksums.finish_carrying(elsewhere).is_none(), "not there");
    let pages = checksums.carry(elsewhere, false).unwrap().pages;
    assert_eq!((pages.len(), &pages[0]), (1, &(0..33)), "all of them");
    checksums.stop_carrying();
    assert!(checksums.finish_carrying(elsewhere).is_none(), "it was given up");
    checksums.carry(TO, true).unwrap();
    checksums.record(0, (0..BLOCKS as u32).map(|n| n + 1));
    let super::super::Commit::Pages(_) = checksums.commit() else { panic!("much") };
    assert!(checksums.carry(TO, false).is_none(), "while pages are being written");
}

#[test]
fn a_block_that_becomes_longer_is_not_known() {
    let file = tempfile::tempfile().unwrap();
    let mut checksums = ChecksumStore::new(AREA, Recovered::default());
    pin(&mut checksums, &file, &(0..AREA.length));
    checksums.record(6 * B, [6, 7, 8].into_iter());
    commit(&mut checksums, &file);
    checksums.forget_part(7).carry_out(&file).unwrap();
    assert_eq!(*checksums.entry(7).unwrap().0, 0);
    assert_eq!(after_a_crash(&file, AREA, &[6, 7, 8]), [6, 0, 8]);
    // One that is not in memory; what the journal says of it does not come back.
    checksums.record(8 * B, [88].into_iter());
    commit(&mut checksums, &file);
    let mut checksums = ChecksumStore::new(AREA, recover(&file, AREA, &[]).unwrap());
    checksums.forget_part(6).carry_out(&file).unwrap();
    assert_eq!(after_a_crash(&file, AREA, &[6, 7, 8]), [0, 0, 88]);
}

/// If its page is torn later, older blocks of the journal must not say again what it yielded as a
/// part.
#[test]
fn what_a_growth_forgets_the_journal_does_not_say_again() {
    let file = tempfile::tempfile().unwrap();
    let mut checksums = ChecksumStore::new(AREA, Recovered::default());
    pin(&mut checksums, &file, &(0..AREA.length));
    checksums.record(6 * B, [6, 7].into_iter());
    commit(&mut checksums, &file);
    checksums.record(1500 * B, [15].into_iter());
    checksums.forget_part(7).carry_out(&file).unwrap();
    checksums.forgot_part();
    checksums.record(2000 * B, [20].into_iter());
    commit(&mut checksums, &file);
    assert_eq!(after_a_crash(&file, AREA, &[6, 7, 1500, 2000]), [6, 0, 15, 20]);
    write_at(&file, &[0xff; PAGE_LENGTH], AREA.page(0)).unwrap();
    assert_eq!(after_a_crash(&file, AREA, &[6, 7, 1500, 2000]), [0, 0, 15, 20]);
}

/// Else blocks of the journal would be numbered from 1 after a restart, and pages seem to have
/// them.
#[test]
fn a_journal_that_begins_anew_goes_on_counting() {
    let file = tempfile::tempfile().unwrap();
    let mut checksums = ChecksumStore::new(AREA, Recovered::default());
    pin(&mut checksums, &file, &(0..AREA.length));
    for n in 0..8 {
        checksums.record(n * B, [9].into_iter());
        commit(&mut checksums, &file);
    }
    checksums.beginning(TO).carry_out(&file).unwrap();
    checksums.begin_anew(TO);
    pin(&mut checksums, &file, &(0..AREA.length));
    assert_eq!(*checksums.entry(3).unwrap().0, 0, "nothing is known there");
    checksums.record(0, (0..BLOCKS as u32).map(|n| n + 1));
    commit(&mut checksums, &file);
    let mut checksums = ChecksumStore::new(TO, recover(&file, TO, &[]).unwrap());
    pin(&mut checksums, &file, &(0..AREA.length));
    checksums.record(3 * B, [1003].into_iter());
    commit(&mut checksums, &file);
    assert_eq!(after_a_crash(&file, TO, &[2, 3]), [3, 1003]);
}
