use super::*;

const PRIMARY: PrimaryId = PrimaryId { node: NodeId(1), incarnation: Incarnation(1) };
/// Blocks of one region.
const REGION: u64 = 4;
const NOW: Instant = Instant(0);

fn log(capacity: usize) -> IntentLog {
    let layout = IntentLayout { region: REGION * u64::from(BLOCK), capacity };
    IntentLog::new(layout, 1 << 20, &[], NOW)
}

fn write(log: &mut IntentLog, region: u64, sequence: u64) -> Reservation {
    let block = region * REGION;
    log.reserve(NOW, &(block..block + 1), (PRIMARY, Sequence(sequence)))
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
fn only_settled_and_unused_regions_make_room() {
    let mut log = log(2);
    write(&mut log, 1, 1);
    write(&mut log, 2, 2);
    save(&mut log);
    end(&mut log, 1);
    assert_eq!(write(&mut log, 3, 3), Reservation::Full);
    let wanted = 3 * REGION..3 * REGION + 1;
    assert!(!log.make_room(&wanted, |_| true), "nothing has settled");
    assert!(log.settled(PRIMARY, Sequence(2)));
    assert!(!log.settled(PRIMARY, Sequence(2)), "no news");
    assert!(!log.make_room(&wanted, |_| false), "the bitmaps are not durable");
    assert!(log.make_room(&wanted, |_| true));
    assert_eq!(log.open_regions(), 1, "region 2 is still being written");
    assert_eq!(write(&mut log, 3, 3), Reservation::Opening);
}

#[test]
fn a_later_write_keeps_a_region_unsettled() {
    let mut log = log(4);
    write(&mut log, 1, 1);
    write(&mut log, 1, 5);
    assert!(!log.settled(PRIMARY, Sequence(4)));
    assert_eq!(log.touched().count(), 1);
    assert!(log.settled(PRIMARY, Sequence(5)));
    assert!(log.touched().is_empty());
}

#[test]
fn what_was_open_before_a_crash_counts_as_touched_until_it_is_resolved() {
    let layout = IntentLayout { region: REGION * u64::from(BLOCK), capacity: 4 };
    let mut log = IntentLog::new(layout, 1 << 20, &[2, 3], NOW);
    assert_eq!(log.touched().count(), 2 * REGION);
    assert_eq!(write(&mut log, 2, 9), Reservation::Open);
    assert!(!log.settled(PRIMARY, Sequence(9)), "older writes there may differ");
    assert_eq!(log.orphaned(), *log.touched());
    log.settle_orphans();
    assert!(log.touched().is_empty());
}

#[test]
fn a_log_fills_with_what_has_not_settled_and_with_nothing_else() {
    let mut log = log(4);
    for (region, sequence) in [(1, 1), (2, 2), (2, 3)] {
        write(&mut log, region, sequence);
    }
    assert!(!log.is_filling());
    write(&mut log, 3, 4);
    assert!(log.is_filling(), "three of four");
    log.settled(PRIMARY, Sequence(3));
    assert!(!log.is_filling());
    log.orphan(|_| true);
    log.adopt_orphans();
    write(&mut log, 3, 5);
    log.settle_all();
    assert!(!log.is_filling());
}

#[test]
fn the_last_region_may_be_short() {
    let layout = IntentLayout { region: REGION * u64::from(BLOCK), capacity: 4 };
    let log = IntentLog::new(layout, 5 * u64::from(BLOCK) - 512, &[1], NOW);
    assert_eq!(log.touched().first_run(0..u64::MAX), Some(4..5));
    assert_eq!(log.blocks(4 * u64::from(BLOCK), 512), 4..5);
}
