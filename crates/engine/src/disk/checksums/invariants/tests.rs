//! What must hold of checksums and their journal is broken by hand, and found.

use super::super::recover::Recovered;
use super::super::tests::AREA;
use super::*;
use crate::disk::trips::trips;

/// That this change of checksums, of which eight pages are in memory and eight are read, is found.
fn breaks(words: &str, change: impl FnOnce(&mut ChecksumStore)) {
    let mut store = ChecksumStore::new(AREA, Recovered { sequence: 9 });
    store.take_unloaded(&(0..1));
    store.loaded(0..8, Some(&[0; 8 * 4096]));
    store.take_unloaded(&(32 << 20..33 << 20));
    store.check_invariants();
    change(&mut store);
    trips(words, || store.check_invariants());
}

#[test]
fn a_page_is_read_once_and_is_one_of_its_area() {
    breaks("is in memory", |store| store.loading.extend([0]));
    breaks("none of its", |store| store.loading.extend([9999]));
    breaks("none of its", |store| store.extend(1 << 20));
    breaks("a time to come", |store| store.pages.get_mut(&0).expect("it is there").used = 9999);
}

#[test]
fn the_journal_and_the_pages_count_on_what_is_written() {
    breaks("was not written", |store| store.journal.durable = 10);
    breaks("no block", |store| store.journal.floor = 10);
    breaks("may not have", |store| store.journal.durable = 8);
    breaks("is written over", |store| {
        (store.journal.is_committing, store.journal.sequence) = (true, 10 + JOURNAL_BLOCKS);
    });
    breaks("nothing is committed", |store| store.journal.will_rise = true);
    breaks("than a commit writes", |store| {
        store.journal.unsaved = vec![(0, 1); MAX_JOURNALLING * JOURNAL_ENTRIES + 1];
    });
}

#[test]
fn pages_are_where_they_are_said_to_be() {
    let store = ChecksumStore::new(AREA, Recovered::default());
    store.check_area(AREA);
    trips("and not in", || store.check_area(Area { start: 0, ..AREA }));
}
