use core::time::Duration;

use super::*;

const PRIMARY: PrimaryId = PrimaryId { node: NodeId(1), incarnation: Incarnation(1) };
/// Blocks of one region.
const REGION: u64 = 4;
const NOW: Instant = Instant(0);

fn layout(places: u16) -> IntentLayout {
    IntentLayout { region: REGION * u64::from(BLOCK), places, slots: 1 }
}

fn found(open: &[u64], size: u64) -> IntentLog {
    let found = OpenRegions { slot: 0, region: layout(4).region, open: open.to_vec() };
    IntentLog::new(layout(4), Bitmap::Internal, size, &found, NOW)
}

pub(super) fn log(places: u16) -> IntentLog {
    let layout = layout(places);
    IntentLog::new(layout, Bitmap::Internal, 1 << 20, &OpenRegions::none(layout, 0), NOW)
}

pub(super) fn write(log: &mut IntentLog, region: u64, sequence: u64) -> Reservation {
    let block = region * REGION;
    log.reserve(
        NOW,
        &(block..block + 1),
        WriteId { primary: PRIMARY, sequence: Sequence(sequence) },
    )
}

fn end(log: &mut IntentLog, region: u64) {
    log.release(&(region * REGION..region * REGION + 1));
}

fn save(log: &mut IntentLog) {
    let table = log.table();
    log.saved(&table);
}

#[test]
fn a_region_is_open_only_when_its_table_is_saved() {
    let mut log = log(4);
    assert_eq!(write(&mut log, 1, 1), Reservation::Opening);
    let table = log.table();
    assert_eq!(write(&mut log, 2, 2), Reservation::Opening, "came too late for that table");
    log.saved(&table);
    assert!(log.is_open(&(REGION..REGION + 1)));
    assert!(!log.is_open(&(2 * REGION..2 * REGION + 1)));
    assert!(log.must_save());
    assert_eq!(write(&mut log, 1, 3), Reservation::Open);
}

#[test]
fn only_stable_and_unused_regions_make_room() {
    let mut log = log(2);
    write(&mut log, 1, 1);
    write(&mut log, 2, 2);
    save(&mut log);
    end(&mut log, 1);
    assert_eq!(write(&mut log, 3, 3), Reservation::Full);
    let wanted = 3 * REGION..3 * REGION + 1;
    assert!(!log.make_room(&wanted, |_| true), "nothing is stable");
    assert!(log.stable(PRIMARY, Sequence(2)));
    assert!(!log.stable(PRIMARY, Sequence(2)), "no news");
    assert!(!log.make_room(&wanted, |_| false), "the bitmaps are not durable");
    assert!(log.make_room(&wanted, |_| true));
    assert_eq!(log.open_regions(), 1, "region 2 is still being written");
    assert_eq!(write(&mut log, 3, 3), Reservation::Opening);
}

#[test]
fn a_later_write_keeps_a_region_unstable() {
    let mut log = log(4);
    write(&mut log, 1, 1);
    write(&mut log, 1, 5);
    assert!(!log.stable(PRIMARY, Sequence(4)));
    assert_eq!(log.touched().count(), 1);
    assert!(log.stable(PRIMARY, Sequence(5)));
    assert!(log.touched().is_empty());
}

#[test]
fn what_was_open_before_a_crash_counts_as_touched_until_it_is_resolved() {
    let mut log = found(&[2, 3], 1 << 20);
    assert_eq!(log.touched().count(), 2 * REGION);
    assert_eq!(write(&mut log, 2, 9), Reservation::Open);
    assert!(!log.stable(PRIMARY, Sequence(9)), "older writes there may differ");
    assert_eq!(log.orphaned(), *log.touched());
    log.stabilize_orphans();
    assert!(log.touched().is_empty());
}

#[test]
fn a_log_fills_with_what_is_not_stable_and_with_nothing_else() {
    let mut log = log(4);
    for (region, sequence) in [(1, 1), (2, 2), (2, 3)] {
        write(&mut log, region, sequence);
    }
    assert!(!log.is_filling());
    write(&mut log, 3, 4);
    assert!(log.is_filling(), "three of four");
    log.stable(PRIMARY, Sequence(3));
    assert!(!log.is_filling());
    log.orphan(|_| true);
    log.adopt_orphans();
    write(&mut log, 3, 5);
    log.stabilize_all();
    assert!(!log.is_filling());
}

#[test]
fn the_last_region_may_be_short() {
    let log = found(&[1], 5 * u64::from(BLOCK) - 512);
    assert_eq!(log.touched().first_run(0..u64::MAX), Some(4..5));
    assert_eq!(log.blocks(4 * u64::from(BLOCK), 512), 4..5);
}

#[test]
fn without_a_bitmap_one_save_opens_everything() {
    let mut log = log(1);
    log.set_bitmap(Bitmap::None);
    assert_eq!(write(&mut log, 1, 1), Reservation::Opening);
    assert_eq!(log.table().open, [ALL_OPEN]);
    log.saved(&OpenRegions::all(layout(1), 0));
    assert_eq!(write(&mut log, 1, 2), Reservation::Open);
    assert_eq!(write(&mut log, 7, 3), Reservation::Open, "whatever the log's capacity");
    assert!(!log.must_save() && !log.is_outdated());
    assert_eq!(log.touched().count(), 2, "what was written is known all the same");
    for region in [1, 1, 7] {
        end(&mut log, region);
    }
    log.stable(PRIMARY, Sequence(3));
    log.close_unused(NOW, Duration::ZERO, |_| true);
    assert!(log.is_outdated(), "it says that all is open, and nothing is");
    assert_eq!(log.table().open, [0; 0]);
}

#[test]
fn a_table_that_takes_the_place_of_all_covers_only_what_it_names() {
    let mut log = log(4);
    log.set_bitmap(Bitmap::None);
    write(&mut log, 1, 1);
    save(&mut log);
    log.set_bitmap(Bitmap::Internal);
    assert!(log.is_outdated(), "the log can be named region by region");
    let table = log.table();
    assert_eq!(table.open, [1]);
    assert_eq!(write(&mut log, 2, 2), Reservation::Opening, "it may replace the other any moment");
    assert!(!log.is_open(&(2 * REGION..3 * REGION)));
    log.saved(&table);
    assert!(log.is_open(&(REGION..2 * REGION)) && log.must_save());
    save(&mut log);
    assert!(log.is_open(&(2 * REGION..3 * REGION)));
}

#[test]
fn a_replica_that_was_all_open_stays_so_until_it_is_known_who_lacks_what() {
    let mut log = found(&[ALL_OPEN], 1 << 20);
    assert_eq!((log.touched().count(), log.orphaned().count()), (256, 256));
    assert_eq!(write(&mut log, 3, 9), Reservation::Open);
    log.stable(PRIMARY, Sequence(9));
    assert_eq!(log.touched().count(), 256, "the older writes there are not stable");
    assert_eq!(log.table().open, [ALL_OPEN]);
    assert!(log.adopt_orphans());
    assert_eq!(log.orphaned().count(), 0, "it is noted elsewhere who lacks it");
    assert_eq!(log.touched().count(), 256, "but this disk was not flushed");
    assert_eq!(log.table().open, [ALL_OPEN]);
    write(&mut log, 5, 10);
    log.flushed();
    assert_eq!(log.table().open, [ALL_OPEN], "the bitmaps have to be durable first");
    log.close_unused(NOW, Duration::from_secs(1), |_| false);
    assert_eq!(log.table().open, [ALL_OPEN]);
    log.close_unused(NOW, Duration::from_secs(1), |_| true);
    assert_eq!(log.table().open, [3, 5]);
    assert_eq!(log.touched().count(), 4, "which of its blocks were written is not known");
}

#[test]
fn regions_of_another_size_are_open_when_a_table_names_them_so() {
    let mut log = log(4);
    for (region, sequence) in [(1, 1), (3, 2), (4, 3)] {
        write(&mut log, region, sequence);
        end(&mut log, region);
    }
    let old = log.table();
    log.set_layout(IntentLayout { region: 2 * layout(4).region, ..layout(4) });
    log.saved(&old);
    assert!(log.must_save() && !log.is_open(&(REGION..2 * REGION)), "its numbers mean others now");
    let table = log.table();
    assert_eq!(table.open, [0, 1, 2]);
    log.saved(&table);
    assert!(log.is_open(&(0..6 * REGION)) && !log.must_save());
    assert!(log.stable(PRIMARY, Sequence(2)));
    assert_eq!(log.touched().count(), 1, "the one of the third write");
    log.close_unused(NOW, Duration::ZERO, |_| true);
    assert_eq!(log.table().open, [2]);
}

#[test]
fn a_table_with_other_regions_is_understood_after_a_crash() {
    let table = OpenRegions { slot: 0, region: 2 * layout(4).region, open: vec![1] };
    let mut log = IntentLog::new(layout(4), Bitmap::Internal, 1 << 20, &table, NOW);
    assert_eq!(log.touched().first_run(0..u64::MAX), Some(2 * REGION..4 * REGION));
    assert!(log.must_save());
    assert_eq!(log.table(), OpenRegions { slot: 0, region: layout(4).region, open: vec![2, 3] });
    let all = OpenRegions::all(IntentLayout { region: 1 << 30, ..layout(2) }, 0);
    let mut log = IntentLog::new(layout(4), Bitmap::Internal, 1 << 20, &all, NOW);
    assert_eq!(write(&mut log, 3, 9), Reservation::Open);
    assert_eq!(log.table().open, [ALL_OPEN]);
}

#[test]
fn what_needs_more_places_than_there_are_now_leaves_all_open() {
    let mut log = log(4);
    write(&mut log, 1, 1);
    end(&mut log, 1);
    save(&mut log);
    log.set_layout(IntentLayout { region: u64::from(BLOCK), ..layout(2) });
    assert_eq!(log.table().open, [ALL_OPEN]);
    log.saved(&OpenRegions::all(layout(2), 0));
    log.stable(PRIMARY, Sequence(1));
    assert!(log.make_room(&(0..1), |_| true));
    assert_eq!(log.table().open, [7], "one place is free");
}

#[test]
fn what_earlier_incarnations_left_becomes_stable_without_what_came_since() {
    let mut log = found(&[1], 1 << 20);
    assert_eq!(write(&mut log, 1, 9), Reservation::Open, "its table names it");
    end(&mut log, 1);
    log.stabilize_orphans();
    assert_eq!(log.orphaned().count(), 0);
    log.close_unused(NOW, Duration::ZERO, |_| true);
    assert_eq!(log.open_regions(), 1, "write 9 is not stable");
    assert!(log.stable(PRIMARY, Sequence(9)));
    log.close_unused(NOW, Duration::ZERO, |_| true);
    assert_eq!(log.open_regions(), 0);
}

/// Whoever sends such views must not exhaust the memory.
#[test]
fn a_region_that_becomes_billions_of_smaller_ones_is_remembered_as_all() {
    let layout = |region| IntentLayout { region, places: 4, slots: 1 };
    let found = OpenRegions { slot: 0, region: 1 << 44, open: vec![0] };
    let mut log = IntentLog::new(layout(1 << 44), Bitmap::Internal, 1 << 45, &found, NOW);
    log.set_layout(layout(u64::from(BLOCK)));
    assert!(log.table().is_all());
    assert!(log.regions.is_empty());
}

/// A table with a valid checksum that cannot be this replica's.
#[test]
fn a_table_that_names_more_than_the_replica_has_counts_as_one_that_names_all() {
    let regions = 8;
    let size = regions * REGION * u64::from(BLOCK);
    for beyond in [regions, regions + 1, ALL_OPEN - 1, u64::MAX] {
        let mut log = found(&[1, beyond], size);
        assert!(log.table().is_all(), "{beyond}");
        assert!(log.is_open(&(0..1)) && log.is_open(&(regions * REGION - 1..regions * REGION)));
    }
    assert!(!found(&[1, regions - 1], size).table().is_all());
}
