//! What must hold of checksums and their journal (see [`crate::disk::invariants`]).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use evenkeel_format::{JOURNAL_BLOCKS, JOURNAL_ENTRIES};

use super::{Area, ChecksumStore, Journal, MAX_JOURNALLING, pages_of};

impl ChecksumStore {
    /// Whether pages are being written, or what was written of them is not durable yet.
    pub(in crate::disk) const fn is_writing(&self) -> bool {
        self.is_writing
    }

    /// Whether a commit is under way.
    pub(in crate::disk) const fn is_committing(&self) -> bool {
        self.journal.is_committing
    }

    /// Whether an action in these bytes has to wait for pages that are on their way, or for room.
    pub(in crate::disk) fn holds_up(&self, range: &Range<u64>) -> bool {
        let mut lacking = pages_of(range).filter(|page| !self.pages.contains_key(page)).peekable();
        let is_lacking = lacking.peek().is_some();
        is_lacking && (self.is_writing || lacking.any(|page| self.loading.contains(&page)))
    }

    /// Panics if it contradicts itself.
    pub(in crate::disk) fn check_invariants(&self) {
        let is_loaded = self.loading.iter().any(|page| self.pages.contains_key(page));
        assert!(!is_loaded, "a page is read that is in memory");
        let last = self.pages.last_key_value().map(|(page, _)| page).max(self.loading.last());
        let is_inside = last.is_none_or(|page| *page < self.area.pages());
        assert!(is_inside, "page {last:?} is none of its {}", self.area.pages());
        let is_past = self.pages.values().all(|page| page.used <= self.clock);
        assert!(is_past, "a page is used at a time to come");
        self.journal.check_invariants();
    }

    /// Panics if this is not where its checksums lie.
    pub(in crate::disk) fn check_area(&self, area: Area) {
        assert!(self.area == area, "checksums lie in {:?}, and not in {area:?}", self.area);
    }

    /// Panics if pages are used by others than actions in these bytes, or went although they are.
    pub(in crate::disk) fn check_users<'a>(&self, actions: impl Iterator<Item = &'a Range<u64>>) {
        let mut users: BTreeMap<u32, u32> = BTreeMap::new();
        for page in actions.flat_map(pages_of) {
            *users.entry(page).or_default() += 1;
        }
        for (number, page) in &self.pages {
            let count = users.remove(number).unwrap_or(0);
            assert!(page.users == count, "{count} users of page {number}, and not {}", page.users);
        }
        assert!(users.is_empty(), "page {:?} is used, and is not in memory", users.keys().next());
    }

    /// Panics if it is not these pages that are being read, each once.
    pub(in crate::disk) fn check_loads(&self, pages: impl Iterator<Item = u32>) {
        let pages: Vec<u32> = pages.collect();
        let is_once = pages.len() == self.loading.len();
        let are_read = is_once && pages.into_iter().collect::<BTreeSet<_>>() == self.loading;
        assert!(are_read, "other pages are read than those that are said to be");
    }
}

impl Journal {
    fn check_invariants(&self) {
        let Self { sequence, durable, floor, will_rise, is_committing, is_overfull, .. } = *self;
        assert!(durable <= sequence, "a block is durable that was not written");
        assert!(floor <= sequence, "the pages have what no block of the journal names");
        let is_floor_known = floor <= durable || is_committing || is_overfull;
        assert!(is_floor_known, "the pages have what the journal may not have");
        let is_journalling = is_committing && !will_rise;
        let is_spared = !is_journalling || sequence - floor <= JOURNAL_BLOCKS;
        assert!(is_spared, "a block is written over that the pages do not have");
        assert!(is_committing || !will_rise, "pages take over, and nothing is committed");
        let most = MAX_JOURNALLING * JOURNAL_ENTRIES;
        assert!(self.unsaved.len() <= most, "more is to be journalled than a commit writes");
    }
}

#[cfg(test)]
mod tests;
