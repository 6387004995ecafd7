//! What must hold of the map and of what waits for it (see [`crate::disk::invariants`]).

use evenkeel_core::Payload as _;
use evenkeel_format::ALLOCATION_UNITS;

use super::{AllocationMap, Marks, Then, Trimmed, Waiting};
use crate::disk::device::Io;

/// Most runs of units of which it is looked whether a save names them.
const MAX_CHECKED: usize = 64;

impl<T> Then<T> {
    /// What is told of the request from above.
    const fn above(&self) -> Option<&T> {
        match self {
            Self::Above(then) | Self::Trim(then, _) | Self::Flush(then, _) | Self::Unmark(then) => {
                Some(then)
            }
            Self::Mark => None,
        }
    }
}

impl<I: Io, T> AllocationMap<I, T> {
    /// What is told of each request that is under way, or waits, when it has ended.
    pub(in crate::disk::filters) fn awaited(&self) -> impl Iterator<Item = &T> {
        let waiting = self.marks.iter().flat_map(|marks| &marks.waiting);
        let under_way = self.below.awaited().filter_map(Then::above);
        under_way.chain(waiting.map(|waiting| &waiting.then))
    }

    /// Panics if the map contradicts what is under way or waits for it.
    pub(in crate::disk::filters) fn check_invariants(&self) {
        self.below.check_invariants();
        let is_save = |then: &&Then<T>| matches!(then, Then::Mark | Then::Unmark(_));
        let saves = self.below.awaited().filter(is_save).count();
        let flushes: Vec<Trimmed> = self
            .below
            .awaited()
            .filter_map(|then| match then {
                Then::Flush(_, trimmed) => Some(*trimmed),
                _ => None,
            })
            .collect();
        match &self.marks {
            Some(marks) => marks.check_invariants(saves, &flushes),
            None => assert!(saves == 0 && flushes.is_empty(), "a map is saved that is not there"),
        }
    }
}

impl<T> Marks<T> {
    /// So many saves of the map are under way, and these flushes.
    fn check_invariants(&self, saves: usize, flushes: &[Trimmed]) {
        assert!(saves == usize::from(self.saving.is_some()), "{saves} saves of the map");
        assert!(saves > 0 || self.waiting.is_empty(), "writes wait for no save of the map");
        let is_known = |name: &Trimmed| self.flushing.iter().any(|(flush, ..)| flush == name);
        let are_known = flushes.len() == self.flushing.len() && flushes.iter().all(is_known);
        assert!(are_known, "what is kept for flushes is not for those that are under way");
        for Waiting { write, .. } in &self.waiting {
            let units = self.touched(write.offset, write.payload.length().into());
            assert!(!self.names_all(&units), "a write waits for a mark that is there");
            let trimmed = self.flushing.iter().map(|(_, trimmed, _)| trimmed);
            let mut trimmed = trimmed.chain([&self.trimmed]);
            let is_written = trimmed.all(|trimmed| trimmed.first_run(units.clone()).is_none());
            assert!(is_written, "a unit is to be unmarked in which a write is to begin");
        }
        if let Some(saving) = &self.saving {
            let mut named = self.map.allocated.runs(0..ALLOCATION_UNITS).take(MAX_CHECKED);
            let are_kept = named.all(|run| saving.first_run(run.clone()) == Some(run));
            assert!(are_kept, "a save takes a mark away that counts");
        }
    }
}

#[cfg(test)]
mod tests;
