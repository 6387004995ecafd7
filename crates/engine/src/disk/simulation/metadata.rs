//! What a start has to find of views, tables and bitmaps.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::block_set::PageBits;
use evenkeel_core::replica::{FoundPage, MissingPage, OpenRegions};
use evenkeel_core::{Generation, ReplicaId};

use super::model::Violation;

/// Slots of the intent log that are used.
pub(super) const SLOTS: usize = 2;

/// What was saved last, and what may have been saved since.
#[derive(Debug, Clone, Default)]
struct Saved<T> {
    last: T,
    tried: Vec<T>,
    /// Whether any was ever saved.
    was_saved: bool,
    /// Whether it may be anything, as its place is a new one.
    is_any: bool,
}

impl<T: Clone + PartialEq> Saved<T> {
    fn begun(&mut self, what: T) {
        self.tried.push(what);
    }

    /// A save has ended well: what was tried before can't be found any more.
    fn ended(&mut self, what: &T) {
        (self.last, self.was_saved, self.is_any) = (what.clone(), true, false);
        let place = self.tried.iter().position(|tried| tried == what);
        self.tried.drain(..place.map_or(0, |place| place + 1));
    }

    fn may_be(&self, what: &T) -> bool {
        self.is_any || self.last == *what || self.tried.contains(what)
    }

    fn found(&mut self, what: T) {
        self.was_saved |= what != self.last;
        (self.last, self.tried, self.is_any) = (what, Vec::new(), false);
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Expected {
    view: Saved<u64>,
    tables: [Saved<BTreeSet<u64>>; SLOTS],
    pages: BTreeMap<(u8, u32), Saved<u64>>,
    /// Whether bitmaps have come to new places, which may hold anything.
    has_moved: bool,
}

impl Expected {
    pub(super) fn new(generation: u64) -> Self {
        let view = Saved { last: generation, was_saved: true, ..Saved::default() };
        Self { view, ..Self::default() }
    }

    pub(super) fn view_begun(&mut self, generation: u64) {
        self.view.begun(generation);
    }

    pub(super) fn view_saved(&mut self, generation: u64) {
        self.view.ended(&generation);
    }

    /// A start has found this view (V2).
    pub(super) fn view_found(&mut self, generation: u64) -> Result<(), Violation> {
        if !self.view.may_be(&generation) {
            let Saved { last, tried, .. } = &self.view;
            let why = format!("generation {generation} is found, {last} was saved, then {tried:?}");
            return Err(("V2", why));
        }
        self.view.found(generation);
        Ok(())
    }

    pub(super) fn table_begun(&mut self, slot: u8, open: &BTreeSet<u64>) {
        self.tables[usize::from(slot)].begun(open.clone());
    }

    pub(super) fn table_saved(&mut self, slot: u8, open: &BTreeSet<u64>) {
        self.tables[usize::from(slot)].ended(open);
    }

    /// Whether a save of a table has failed since one succeeded.
    pub(super) fn has_failed(&self, slot: u8) -> bool {
        self.tables[usize::from(slot)].tried.len() > 1
    }

    /// The regions that the last table of a slot names that may be on the disk.
    pub(super) fn last_table(&self, slot: u8) -> &BTreeSet<u64> {
        let table = &self.tables[usize::from(slot)];
        table.tried.last().unwrap_or(&table.last)
    }

    /// The slots in which a region is open, whatever a crash leaves.
    pub(super) fn is_open(&self, region: u64) -> bool {
        let names = |table: &Saved<BTreeSet<u64>>| {
            table.last.contains(&region) && table.tried.iter().all(|open| open.contains(&region))
        };
        self.tables.iter().any(names)
    }

    /// A start has found these tables (I5).
    pub(super) fn tables_found(
        &mut self,
        found: &[OpenRegions],
        is_lost: impl Fn(u8) -> bool,
    ) -> Result<(), Violation> {
        for slot in 0..SLOTS as u8 {
            let table = found.iter().find(|table| table.slot == slot);
            let open: BTreeSet<u64> =
                table.map(|table| table.open.iter().copied().collect()).unwrap_or_default();
            let expected = &mut self.tables[usize::from(slot)];
            // The first table of all was being written: then nothing is whole, and all counts as
            // open.
            let is_all = table.is_some_and(OpenRegions::is_all);
            let is_first = is_all && !expected.was_saved && !expected.tried.is_empty();
            let is_excused = is_first || (is_all && is_lost(slot));
            if !expected.may_be(&open) && !is_excused {
                let Saved { last, tried, .. } = expected;
                let why = format!("slot {slot}: {open:?} found, {last:?} saved, then {tried:?}");
                return Err(("I5", why));
            }
            expected.found(open);
        }
        Ok(())
    }

    /// The places of bitmaps change: none counts, or is found again.
    pub(super) fn forget_pages(&mut self) {
        self.pages.clear();
        self.has_moved = true;
    }

    pub(super) fn pages_begun(&mut self, pages: &[(u8, u32, u64)]) {
        for (slot, page, stamp) in pages {
            let new = || Saved { is_any: self.has_moved, ..Saved::default() };
            self.pages.entry((*slot, *page)).or_insert_with(new).begun(*stamp);
        }
    }

    pub(super) fn pages_saved(&mut self, pages: &[(u8, u32, u64)]) {
        for (slot, page, stamp) in pages {
            if let Some(expected) = self.pages.get_mut(&(*slot, *page)) {
                expected.ended(stamp);
            }
        }
    }

    /// A start has found these pages of bitmaps (W6).
    pub(super) fn pages_found(
        &mut self,
        found: &[FoundPage],
        is_lost: impl Fn(u8, u32) -> bool,
    ) -> Result<(), Violation> {
        let mut all = BTreeMap::new();
        for page in found {
            match page {
                FoundPage::Whole(page) => all.insert((page.place, page.page), Some(page.bits[0])),
                FoundPage::Damaged { place, page } => all.insert((*place, *page), None),
            };
        }
        for (place, expected) in &mut self.pages {
            match all.get(place).copied().unwrap_or(Some(0)) {
                Some(stamp) if expected.may_be(&stamp) => expected.found(stamp),
                // It stays damaged until it is saved.
                None if !expected.tried.is_empty() || expected.is_any => {}
                None if is_lost(place.0, place.1) => expected.begun(expected.last),
                stamp => {
                    let Saved { last, tried, .. } = expected;
                    let why = format!("{place:?}: {stamp:?} found, {last} saved, then {tried:?}");
                    return Err(("W6", why));
                }
            }
        }
        Ok(())
    }
}

/// A page of a bitmap that this stamp tells from others.
pub(super) fn missing_page((place, page, stamp): (u8, u32, u64)) -> MissingPage {
    let mut bits: Box<PageBits> = Box::new([stamp; _]);
    bits[1] = !stamp;
    let (replica, since) = (ReplicaId(50 + u128::from(place)), Generation(3));
    MissingPage { place, replica, since, page, bits }
}
