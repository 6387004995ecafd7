use super::*;
use crate::settings::BLOCK;
use crate::view::IntentLayout;

const ONE: PrimaryId = PrimaryId { node: NodeId(1), incarnation: Incarnation(1) };
const TWO: PrimaryId = PrimaryId { node: NodeId(2), incarnation: Incarnation(2) };
const NOW: Instant = Instant(0);

/// A view with so many slots of four regions of one block.
fn view(slots: u8) -> View {
    let intents = IntentLayout { region: u64::from(BLOCK), places: 4, slots };
    View { intents, ..crate::view::tests::view(1, 1) }
}

fn write(slots: &mut IntentSlots, slot: u8, region: u64, by: PrimaryId) -> Reservation {
    write_numbered(slots, slot, region, nth(by, 1))
}

const fn nth(primary: PrimaryId, sequence: u64) -> WriteId {
    WriteId { primary, sequence: Sequence(sequence) }
}

fn write_numbered(slots: &mut IntentSlots, slot: u8, region: u64, by: WriteId) -> Reservation {
    slots.reserve(NOW, slot, &(region..region + 1), by, |_| true)
}

fn save(slots: &mut IntentSlots) -> OpenRegions {
    let table = slots.urgent_table().expect("something waits for it");
    slots.saved(&table);
    table
}

#[test]
fn each_primary_opens_regions_in_its_own_slot() {
    let mut slots = IntentSlots::new(&view(2), &[], NOW);
    assert_eq!(write(&mut slots, 0, 7, ONE), Reservation::Opening);
    assert_eq!(write(&mut slots, 1, 7, TWO), Reservation::Opening);
    assert_eq!(slots.open_slots(), 0b11);
    let table = slots.urgent_table().expect("slot 1 has its turn");
    assert_eq!((table.slot, &table.open[..]), (1, &[7][..]));
    slots.saved(&table);
    assert!(slots.is_open(1, &(7..8)) && !slots.is_open(0, &(7..8)), "that table is the other's");
    assert_eq!(slots.urgent_table().map(|table| table.slot), Some(0));
}

#[test]
fn a_slot_closes_when_what_its_dead_primary_left_is_resolved() {
    let found = OpenRegions { slot: 0, region: u64::from(BLOCK), open: vec![3] };
    let mut slots = IntentSlots::new(&view(2), &[found], NOW);
    write(&mut slots, 1, 5, TWO);
    assert_eq!(slots.orphaned().first_run(0..u64::MAX), Some(3..4));
    assert_eq!(slots.touched().count(), 2);
    slots.stabilize_orphans();
    slots.close_unused(NOW, Duration::ZERO, |_| true);
    assert_eq!(slots.open_slots(), 0b11, "its table on the disk still names a region");
    let table = slots.empty_table().expect("slot 0 holds nothing");
    assert_eq!((table.slot, table.open.len()), (0, 0));
    slots.saved(&table);
    assert_eq!(slots.open_slots(), 0b10);
}

#[test]
fn a_slot_beyond_those_of_the_view_is_kept_until_it_is_closed() {
    let found = OpenRegions { slot: 5, region: u64::from(BLOCK), open: vec![3] };
    let mut slots = IntentSlots::new(&view(1), &[found], NOW);
    assert_eq!(slots.open_slots(), 1 << 5);
    slots.follow(&view(1), NOW);
    assert_eq!(slots.orphaned().count(), 1);
    slots.stabilize_orphans();
    slots.close_unused(NOW, Duration::ZERO, |_| true);
    let table = slots.empty_table().expect("nothing is open in it");
    slots.saved(&table);
    slots.follow(&view(1), NOW);
    assert_eq!((slots.logs.len(), slots.open_slots()), (1, 0));
    slots.follow(&view(32), NOW);
    assert_eq!(write(&mut slots, 31, 1, ONE), Reservation::Opening);
    assert_eq!(slots.open_slots(), 1 << 31);
}

#[test]
fn a_write_that_is_sent_again_does_not_wait_for_later_ones() {
    let mut slots = IntentSlots::new(&view(1), &[], NOW);
    for number in 2..6 {
        let by = nth(ONE, number);
        assert_eq!(write_numbered(&mut slots, 0, number, by), Reservation::Opening);
    }
    save(&mut slots);
    assert_eq!(write_numbered(&mut slots, 0, 7, nth(ONE, 6)), Reservation::Full);
    assert_eq!(write_numbered(&mut slots, 0, 8, nth(ONE, 1)), Reservation::Opening);
    assert!(save(&mut slots).is_all(), "five regions in four places");
    assert!(slots.is_open(0, &(8..9)));
    for region in [2, 3, 4, 5, 8] {
        slots.release(0, &(region..region + 1));
    }
    assert!(slots.stable(ONE, Sequence(5)));
    assert_eq!(write_numbered(&mut slots, 0, 7, nth(ONE, 6)), Reservation::Open);
    let table = slots.outdated_table().expect("there is room again");
    assert!(!table.is_all() && table.open.contains(&7));
}

#[test]
fn a_write_of_an_earlier_incarnation_does_not_wait_for_what_was_open_then() {
    let found = OpenRegions { slot: 0, region: u64::from(BLOCK), open: vec![1, 2, 3, 4] };
    let mut slots = IntentSlots::new(&view(1), &[found], NOW);
    assert_eq!(write_numbered(&mut slots, 0, 7, nth(ONE, 8)), Reservation::Full);
    slots.note_earlier_incarnations(ONE, Sequence(8));
    assert_eq!(write_numbered(&mut slots, 0, 9, nth(ONE, 9)), Reservation::Full);
    assert_eq!(write_numbered(&mut slots, 0, 7, nth(ONE, 8)), Reservation::Opening);
    assert!(save(&mut slots).is_all());
}

#[test]
fn a_primarys_word_on_earlier_incarnations_is_about_its_own_slot_and_those_of_nobody() {
    let found = [0, 1, 2].map(|slot| OpenRegions {
        slot,
        region: u64::from(BLOCK),
        open: vec![slot.into()],
    });
    let mut slots = IntentSlots::new(&view(3), &found, NOW);
    let holders = [(ONE, 0), (TWO, 1)].map(|(id, slot)| PrimaryRecord { id, slot });
    slots.stabilize_earlier_incarnations(ONE, &holders);
    let left = slots.orphaned();
    assert_eq!((left.count(), left.first_run(0..4)), (1, Some(1..2)), "the other one's");
    slots.stabilize_earlier_incarnations(TWO, &holders);
    assert!(slots.orphaned().is_empty());
}

#[test]
#[should_panic(expected = "W6: ")]
fn every_slot_of_the_view_is_there() {
    let slots = IntentSlots::new(&view(2), &[], NOW);
    slots.check_invariants(&view(1));
    slots.check_invariants(&view(2));
    slots.check_invariants(&view(3));
}
