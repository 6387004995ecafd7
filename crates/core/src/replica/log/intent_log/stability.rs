//! What of an intent log becomes stable, and so may be closed.

use core::ops::Range;
use core::time::Duration;

use super::IntentLog;
use super::region::{Pending, Region};
use crate::block_set::BlockSet;
use crate::ids::*;
use crate::time::Instant;

impl IntentLog {
    /// All members have written this primary's writes up to `through`, and flushed since. Tells
    /// whether any region becomes stable by that.
    pub fn stable(&mut self, by: PrimaryId, through: Sequence) -> bool {
        self.stabilize(|pending| {
            pending.forget_writes(|last| last.primary == by && last.sequence <= through)
        })
    }

    /// All that is open is known to be the same on all members, or known to be missing elsewhere.
    pub fn stabilize_orphans(&mut self) {
        self.stabilize(Pending::forget_orphans);
    }

    /// Of what is open, it is known who may lack it. Tells whether the disk has to be flushed,
    /// which [`Self::flushed`] is to be told.
    pub fn adopt_orphans(&mut self) -> bool {
        let orphans = self.all_pending().filter(|pending| pending.is_orphaned());
        orphans.map(Pending::adopt_orphans).count() > 0
    }

    /// The disk was flushed after [`Self::adopt_orphans`].
    pub fn flushed(&mut self) {
        self.stabilize(Pending::flushed);
    }

    /// The volume was detached cleanly.
    pub fn stabilize_all(&mut self) {
        self.stabilize(|pending| *pending = Pending::default());
    }

    /// What is pending anywhere.
    fn all_pending(&mut self) -> impl Iterator<Item = &mut Pending> {
        self.regions.values_mut().map(Region::pending_mut).chain(&mut self.remnant)
    }

    /// Tells whether any region becomes stable by that.
    fn stabilize(&mut self, change: impl Fn(&mut Pending)) -> bool {
        let stabilizes = |pending: &mut Pending| {
            let was_stable = pending.is_stable();
            change(pending);
            !was_stable && pending.is_stable()
        };
        let regions = self.regions.iter_mut();
        let found: Vec<_> = regions
            .filter_map(|(region, entry)| stabilizes(entry.pending_mut()).then_some(*region))
            .collect();
        let remnant_stabilizes = self.remnant.as_mut().is_some_and(stabilizes);
        self.unstable -= found.len() + usize::from(remnant_stabilizes);
        if remnant_stabilizes {
            self.touch_unstable_regions();
        } else if self.remnant.is_none_or(|pending| pending.is_stable()) {
            for region in &found {
                self.touched.remove(self.blocks_of(*region));
            }
        }
        !found.is_empty() || remnant_stabilizes
    }

    /// Not everything is touched any more; which blocks of the unstable regions are, is not known.
    fn touch_unstable_regions(&mut self) {
        let unstable = self.regions.iter().filter(|(_, r)| !r.is_stable()).map(|(n, _)| *n);
        let mut touched = BlockSet::default();
        unstable.for_each(|region| touched.insert(self.blocks_of(region)));
        self.touched = touched;
    }

    /// Nobody will tell any more how far the writes of these primaries are.
    pub fn orphan(&mut self, is_gone: impl Fn(PrimaryId) -> bool) {
        for pending in self.all_pending() {
            pending.orphan_writes(|last| is_gone(last.primary));
        }
    }

    /// These primaries have detached: every member has their writes, durably.
    pub fn stabilize_gone(&mut self, is_gone: impl Fn(PrimaryId) -> bool) {
        self.stabilize(|pending| pending.forget_writes(|last| is_gone(last.primary)));
    }

    /// This replica rebuilds from now on, or waits for that: what it has not flushed it may have
    /// lost, and what it has others may lack.
    pub fn begin_anew(&mut self) {
        let unstable = self.all_pending().filter(|pending| !pending.is_stable());
        unstable.for_each(|pending| *pending = Pending::ORPHANED);
    }

    /// Blocks that were written and that some other replica may lack, or this one's disk after a
    /// power cut.
    pub fn touched(&self) -> &BlockSet {
        &self.touched
    }

    /// Of those, the ones whose primary is not asked any more.
    pub fn orphaned(&self) -> BlockSet {
        if self.remnant.is_some_and(|pending| pending.is_orphaned()) {
            return self.touched.clone();
        }
        let mut orphaned = BlockSet::default();
        for (region, _) in self.regions.iter().filter(|(_, r)| r.pending().is_orphaned()) {
            self.touched.runs(self.blocks_of(*region)).for_each(|run| orphaned.insert(run));
        }
        orphaned
    }

    /// Closes stable regions, those first that have been unused for longest, until there is room
    /// for the regions of these blocks and a fourth of the log. `may_close` tells whether the
    /// bitmaps of these blocks are durable. Returns whether there is room.
    pub fn make_room(
        &mut self,
        blocks: &Range<u64>,
        may_close: impl Fn(&Range<u64>) -> bool,
    ) -> bool {
        self.close_remnant(&may_close);
        let wanted = self.regions_of(blocks);
        let new = wanted.clone().filter(|region| !self.regions.contains_key(region)).count();
        let mut idle: Vec<_> = self
            .regions
            .iter()
            .filter(|(region, entry)| !wanted.contains(*region) && entry.is_idle())
            .filter(|(region, _)| may_close(&self.blocks_of(**region)))
            .map(|(region, entry)| (entry.used_at(), *region))
            .collect();
        idle.sort_unstable();
        let excess = (self.regions.len() + new).saturating_sub(self.capacity());
        idle.truncate(excess.max(self.capacity() / 4));
        idle.into_iter().for_each(|(_, region)| self.close(region));
        self.regions.len() + new <= self.capacity()
    }

    /// Closes stable regions that nobody has written to for so long.
    pub fn close_unused(
        &mut self,
        now: Instant,
        unused_for: Duration,
        may_close: impl Fn(&Range<u64>) -> bool,
    ) {
        self.close_remnant(&may_close);
        let unused: Vec<_> = self
            .regions
            .iter()
            .filter(|(_, r)| r.is_idle())
            .filter(|(_, r)| now.since(r.used_at()) >= unused_for)
            .map(|(region, _)| *region)
            .filter(|region| may_close(&self.blocks_of(*region)))
            .collect();
        unused.into_iter().for_each(|region| self.close(region));
    }

    fn close_remnant(&mut self, may_close: &impl Fn(&Range<u64>) -> bool) {
        let all = 0..self.blocks;
        self.remnant.take_if(|pending| pending.is_stable() && may_close(&all));
    }

    pub(super) fn close(&mut self, region: u64) {
        let closed = self.regions.remove(&region);
        debug_assert!(
            closed.is_none_or(|entry| entry.is_idle()),
            "W6: a region is closed that is not stable"
        );
        self.is_outdated |= closed.is_some_and(|entry| entry.named_by() <= self.made);
    }
}

#[cfg(test)]
mod tests;
