//! One slot of the intent log: which regions of a replica's data may differ from the other
//! replicas' because of its primary's writes.
//!
//! A region is open from before its data are touched (invariant I5) until all members have written
//! what was written there, and a device flush has followed on each of them (rule W6). The table of
//! open regions is saved as a whole, so opening many costs as much as opening one, and writing to
//! an open region costs nothing.
//!
//! With [`Bitmap::None`] the table says only that all is open, or nothing: one save when writing
//! begins, one after it has ended. Regions are kept in memory all the same, so that what a replica
//! lacks that leaves is known.
//!
//! A primary tells by one number how far its writes are stable, so a region remembers only the
//! last write that came to it. A stable region stays open until its place is needed, or nothing
//! has been written there for some time.

use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeMap;

use crate::block_set::BlockSet;
use crate::ids::*;
use crate::settings::BLOCK;
use crate::time::Instant;
use crate::view::{Bitmap, IntentLayout};

/// In a table instead of a region: all of the replica is open.
pub const ALL_OPEN: u64 = u32::MAX as u64;

/// The open regions of a replica, as a table on its disk names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRegions {
    /// The slot whose table it is.
    pub slot: u8,
    /// Bytes of one region when the table was saved.
    pub region: u64,
    /// Which are open, in ascending order; or [`ALL_OPEN`] alone.
    pub open: Vec<u64>,
}

impl OpenRegions {
    /// Nothing is open.
    #[must_use]
    pub const fn none(layout: IntentLayout, slot: u8) -> Self {
        Self { slot, region: layout.region, open: Vec::new() }
    }

    /// Everything is open.
    #[must_use]
    pub fn all(layout: IntentLayout, slot: u8) -> Self {
        Self { slot, region: layout.region, open: vec![ALL_OPEN] }
    }

    /// Whether everything is open.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.open.contains(&ALL_OPEN)
    }
}

/// Regions that a log remembers that does not save them: 6 MiB of memory.
const MAX_REMEMBERED: usize = 1 << 16;

/// One open region.
#[derive(Debug, Clone, Copy)]
struct Region {
    pending: Pending,
    /// Operations that will write there or are writing there.
    operations: u32,
    /// The number of the first table that names it.
    named_by: u64,
    used_at: Instant,
}

/// What of the writes to a region is not stable: all members may not have it, durably.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Pending {
    /// Writes of a primary: the last one.
    up_to: Option<(PrimaryId, Sequence)>,
    /// Writes whose primary is not asked any more, or that came in an earlier incarnation.
    orphaned: bool,
    /// Writes of which it is known who may lack them, but this disk has not been flushed since.
    unflushed: bool,
}

impl Pending {
    const ORPHANED: Self = Self { up_to: None, orphaned: true, unflushed: false };

    fn is_stable(&self) -> bool {
        *self == Self::default()
    }

    fn merged(&self, other: &Self) -> Self {
        let (up_to, differ) = match (self.up_to, other.up_to) {
            (Some((p, a)), Some((q, b))) => (Some((q, if p == q { a.max(b) } else { b })), p != q),
            (one, other) => (one.or(other), false),
        };
        Self {
            up_to,
            // With several primaries the region waits until the volume's orphans are resolved.
            orphaned: self.orphaned || other.orphaned || differ,
            unflushed: self.unflushed || other.unflushed,
        }
    }
}

/// What came of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reservation {
    /// All its regions are open: write.
    Open,
    /// They will be when the table has been saved.
    Opening,
    /// There is no place for them.
    Full,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct IntentLog {
    slot: u8,
    layout: IntentLayout,
    bitmap: Bitmap,
    /// Blocks of the replica.
    blocks: u64,
    regions: BTreeMap<u64, Region>,
    /// All was open when the replica started, and has not been closed since.
    remnant: Option<Pending>,
    /// Whether the saved table says that all is open, whatever replaces it.
    covers_all: bool,
    /// The last table that replaces one which says that all is open: what it names was open before,
    /// too.
    covered: u64,
    /// Tables are numbered: the last one that was made, the last one that is on the disk, and the
    /// one that has to be there before all open regions may be written.
    made: u64,
    durable: u64,
    wanted: u64,
    /// Regions that are not stable, and the remnant.
    unstable: usize,
    /// Blocks that were written and are not stable.
    touched: BlockSet,
    /// Whether the saved table names regions that are open no more.
    is_outdated: bool,
}

impl IntentLog {
    /// The log as it was found on the disk: what was open then stays open until something is known
    /// of it.
    pub fn new(
        layout: IntentLayout,
        bitmap: Bitmap,
        size: u64,
        found: &OpenRegions,
        now: Instant,
    ) -> Self {
        let blocks = size.div_ceil(u64::from(BLOCK));
        let covers_all = found.is_all();
        let mut log = Self {
            slot: found.slot,
            layout: IntentLayout { region: found.region, ..layout },
            bitmap,
            blocks,
            regions: BTreeMap::new(),
            remnant: covers_all.then_some(Pending::ORPHANED),
            covers_all,
            covered: 0,
            made: 0,
            durable: 0,
            wanted: 0,
            unstable: 0,
            touched: BlockSet::default(),
            is_outdated: false,
        };
        for region in found.open.iter().filter(|region| **region != ALL_OPEN) {
            let pending = Pending::ORPHANED;
            let found = Region { pending, operations: 0, named_by: 0, used_at: now };
            log.regions.insert(*region, found);
            log.touched.insert(log.blocks_of(*region));
        }
        log.unstable = log.regions.len() + usize::from(covers_all);
        if covers_all {
            log.touched.insert(0..blocks);
        }
        log.set_layout(layout);
        log
    }

    /// The view says how closely to remember from now on.
    pub fn set_bitmap(&mut self, bitmap: Bitmap) {
        self.bitmap = bitmap;
    }

    /// The replica has so many bytes now: what is new has never been written.
    pub fn set_size(&mut self, size: u64) {
        self.blocks = size.div_ceil(u64::from(BLOCK));
    }

    /// The view says how large the log is from now on. Nothing is being written.
    ///
    /// What is open stays open under other numbers. The table on the disk says it by the old ones,
    /// and counts until the next one replaces it; whatever is written from now on waits for that.
    pub fn set_layout(&mut self, layout: IntentLayout) {
        let old = core::mem::replace(&mut self.layout, layout);
        if old.region == layout.region {
            return;
        }
        let block = u64::from(BLOCK);
        for (number, entry) in core::mem::take(&mut self.regions) {
            let first = number * (old.region / block);
            let blocks = first..(first + old.region / block).min(self.blocks);
            for region in self.regions_of(&blocks) {
                let merged = self.regions.get(&region).map(|other| other.merged(&entry));
                self.regions.insert(region, merged.unwrap_or(entry));
            }
            if self.regions.len() > MAX_REMEMBERED {
                return self.open_all();
            }
        }
        self.recount();
    }

    /// Too much is open to be remembered region by region.
    fn open_all(&mut self) {
        self.remnant = Some(Pending::ORPHANED);
        self.regions.clear();
        self.recount();
    }

    /// No table yet names any region by its number.
    fn recount(&mut self) {
        self.name_all_anew();
        let pending = self.regions.values().map(|region| region.pending).chain(self.remnant);
        self.unstable = pending.filter(|pending| !pending.is_stable()).count();
        self.is_outdated = true;
    }

    /// Only the next table names those that are open.
    fn name_all_anew(&mut self) {
        let next = self.made + 1;
        self.regions.values_mut().for_each(|entry| entry.named_by = next);
        self.wanted = if self.regions.is_empty() { 0 } else { next };
    }

    /// Most regions that are open at once.
    fn capacity(&self) -> usize {
        match self.bitmap {
            Bitmap::Internal => usize::from(self.layout.places),
            Bitmap::None => MAX_REMEMBERED,
        }
    }

    /// The blocks of a range of bytes.
    pub fn blocks(&self, offset: u64, length: u32) -> Range<u64> {
        let block = u64::from(BLOCK);
        offset / block..(offset + u64::from(length)).div_ceil(block).min(self.blocks)
    }

    fn blocks_of(&self, region: u64) -> Range<u64> {
        let first = region * self.blocks_per_region();
        first..(first + self.blocks_per_region()).min(self.blocks)
    }

    fn blocks_per_region(&self) -> u64 {
        self.layout.region / u64::from(BLOCK)
    }

    fn regions_of(&self, blocks: &Range<u64>) -> Range<u64> {
        blocks.start / self.blocks_per_region()..blocks.end.div_ceil(self.blocks_per_region())
    }

    /// Makes sure that the regions of these blocks are open before they are written.
    pub fn reserve(
        &mut self,
        now: Instant,
        blocks: &Range<u64>,
        by: (PrimaryId, Sequence),
    ) -> Reservation {
        let regions = self.regions_of(blocks);
        let room = self.capacity().saturating_sub(self.regions.len());
        if regions.end - regions.start > room as u64 {
            let new = regions.filter(|region| !self.regions.contains_key(region)).count();
            if new > room {
                return Reservation::Full;
            }
        }
        self.reserve_beyond(now, blocks, by)
    }

    /// The same beyond the log's places: its table says that all is open until there are fewer.
    pub fn reserve_beyond(
        &mut self,
        now: Instant,
        blocks: &Range<u64>,
        by: (PrimaryId, Sequence),
    ) -> Reservation {
        let mut all_saved = true;
        let (covers_all, durable, next) = (self.covers_all, self.durable, self.made + 1);
        for region in self.regions_of(blocks) {
            let wanted = &mut self.wanted;
            let entry = self.regions.entry(region).or_insert_with(|| {
                *wanted = next;
                let pending = Pending::default();
                Region { pending, operations: 0, named_by: next, used_at: now }
            });
            entry.used_at = now;
            entry.operations += 1;
            self.unstable += usize::from(entry.pending.is_stable());
            // The flush that makes it stable covers older ones that only lack a flush.
            let write = Pending { up_to: Some(by), ..Pending::default() };
            entry.pending = Pending { unflushed: false, ..entry.pending.merged(&write) };
            all_saved &= entry.named_by <= durable || covers_all;
        }
        self.touched.insert(blocks.clone());
        if all_saved { Reservation::Open } else { Reservation::Opening }
    }

    /// Whether it would wait for ever: it needs more places than there are, or some are held by
    /// what does not become stable before it: this write or later ones, and, if it was sent before
    /// this incarnation of the replica, those of earlier incarnations.
    pub fn waits_for_itself(
        &self,
        blocks: &Range<u64>,
        (primary, sequence): (PrimaryId, Sequence),
        last_of_earlier_incarnations: Option<Sequence>,
    ) -> bool {
        let is_of_earlier_incarnation =
            last_of_earlier_incarnations.is_some_and(|last| sequence <= last);
        let needed = self.regions_of(blocks).count();
        needed > self.capacity()
            || self.regions.values().map(|region| region.pending).any(|pending| {
                let is_later = |(holder, last)| holder == primary && last >= sequence;
                pending.up_to.is_some_and(is_later)
                    || (pending.orphaned && is_of_earlier_incarnation)
            })
    }

    /// Whether the regions of these blocks are open on the disk.
    pub fn is_open(&self, blocks: &Range<u64>) -> bool {
        let is_named =
            |region| self.regions.get(&region).is_some_and(|r| r.named_by <= self.durable);
        self.covers_all || self.regions_of(blocks).all(is_named)
    }

    /// Whether the disk says of the regions of these blocks, in which an operation has begun, that
    /// they are open, whichever of the tables that were made it holds.
    pub fn stays_open(&self, blocks: &Range<u64>) -> bool {
        let known = self.durable.max(self.covered);
        let is_held = |r: &Region| r.operations > 0 && (r.named_by <= known || self.covers_all);
        self.regions_of(blocks).all(|region| self.regions.get(&region).is_some_and(is_held))
    }

    /// An operation for which regions were reserved has ended.
    pub fn release(&mut self, blocks: &Range<u64>) {
        for region in self.regions_of(blocks) {
            if let Some(entry) = self.regions.get_mut(&region) {
                entry.operations -= 1;
            }
        }
    }

    /// All members have written this primary's writes up to `through`, and flushed since. Tells
    /// whether any region becomes stable by that.
    pub fn stable(&mut self, by: PrimaryId, through: Sequence) -> bool {
        let is_stable = |(primary, last)| primary == by && last <= through;
        self.stabilize(|pending| {
            pending.up_to.take_if(|up_to| is_stable(*up_to));
        })
    }

    /// All that is open is known to be the same on all members, or known to be missing elsewhere.
    pub fn stabilize_orphans(&mut self) {
        self.stabilize(|pending| pending.orphaned = false);
    }

    /// Of what is open, it is known who may lack it. Tells whether the disk has to be flushed,
    /// which [`Self::flushed`] is to be told.
    pub fn adopt_orphans(&mut self) -> bool {
        let orphans = self.all_pending().filter(|pending| pending.orphaned);
        let adopt = |pending: &mut Pending| (pending.orphaned, pending.unflushed) = (false, true);
        orphans.map(adopt).count() > 0
    }

    /// The disk was flushed after [`Self::adopt_orphans`].
    pub fn flushed(&mut self) {
        self.stabilize(|pending| pending.unflushed = false);
    }

    /// The volume was detached cleanly.
    pub fn stabilize_all(&mut self) {
        self.stabilize(|pending| *pending = Pending::default());
    }

    /// What is pending anywhere.
    fn all_pending(&mut self) -> impl Iterator<Item = &mut Pending> {
        self.regions.values_mut().map(|entry| &mut entry.pending).chain(&mut self.remnant)
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
            .filter_map(|(region, entry)| stabilizes(&mut entry.pending).then_some(*region))
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
        let is_unstable = |region: &Region| !region.pending.is_stable();
        let unstable = self.regions.iter().filter(|(_, r)| is_unstable(r)).map(|(n, _)| *n);
        let mut touched = BlockSet::default();
        unstable.for_each(|region| touched.insert(self.blocks_of(region)));
        self.touched = touched;
    }

    /// Nobody will tell any more how far the writes of these primaries are.
    pub fn orphan(&mut self, is_gone: impl Fn(PrimaryId) -> bool) {
        for pending in self.all_pending() {
            pending.orphaned |= pending.up_to.take_if(|(primary, _)| is_gone(*primary)).is_some();
        }
    }

    /// These primaries have detached: every member has their writes, durably.
    pub fn stabilize_gone(&mut self, is_gone: impl Fn(PrimaryId) -> bool) {
        self.stabilize(|pending| {
            pending.up_to.take_if(|(primary, _)| is_gone(*primary));
        });
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
        if self.remnant.is_some_and(|pending| pending.orphaned) {
            return self.touched.clone();
        }
        let mut orphaned = BlockSet::default();
        for (region, _) in self.regions.iter().filter(|(_, r)| r.pending.orphaned) {
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
        let is_idle = |entry: &Region| entry.pending.is_stable() && entry.operations == 0;
        let mut idle: Vec<_> = self
            .regions
            .iter()
            .filter(|(region, entry)| !wanted.contains(*region) && is_idle(entry))
            .filter(|(region, _)| may_close(&self.blocks_of(**region)))
            .map(|(region, entry)| (entry.used_at, *region))
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
            .filter(|(_, r)| r.pending.is_stable() && r.operations == 0)
            .filter(|(_, r)| now.since(r.used_at) >= unused_for)
            .map(|(region, _)| *region)
            .filter(|region| may_close(&self.blocks_of(*region)))
            .collect();
        unused.into_iter().for_each(|region| self.close(region));
    }

    fn close_remnant(&mut self, may_close: &impl Fn(&Range<u64>) -> bool) {
        let all = 0..self.blocks;
        self.remnant.take_if(|pending| pending.is_stable() && may_close(&all));
    }

    fn close(&mut self, region: u64) {
        let closed = self.regions.remove(&region);
        debug_assert!(
            closed.is_none_or(|entry| entry.pending.is_stable() && entry.operations == 0),
            "W6: a region is closed that is not stable"
        );
        self.is_outdated |= closed.is_some_and(|entry| entry.named_by <= self.made);
    }

    /// Whether operations wait for the table to be saved.
    pub fn must_save(&self) -> bool {
        self.wanted > self.durable && !self.covers_all
    }

    /// Whether the last table holds too much.
    pub fn is_outdated(&self) -> bool {
        (self.is_outdated || self.covers_all) && !self.must_cover_all()
    }

    /// Whether the next table has to say that all is open.
    fn must_cover_all(&self) -> bool {
        let is_unnamed = match self.bitmap {
            Bitmap::None => !self.regions.is_empty(),
            Bitmap::Internal => self.regions.len() > self.capacity(),
        };
        is_unnamed || self.remnant.is_some()
    }

    /// The table to save. What is opened or closed from now on is left to the next one.
    pub fn table(&mut self) -> OpenRegions {
        self.is_outdated = false;
        self.made += 1;
        if self.must_cover_all() {
            return OpenRegions::all(self.layout, self.slot);
        }
        // From now on the disk may hold this table, so what is opened later waits for the next one.
        if core::mem::take(&mut self.covers_all) {
            self.covered = self.made;
        }
        let open = self.regions.keys().copied().collect();
        OpenRegions { slot: self.slot, region: self.layout.region, open }
    }

    /// The last table that was made is on the disk. Costs nothing for each region: at each save
    /// there are a thousand.
    pub fn saved(&mut self, table: &OpenRegions) {
        self.durable = self.made;
        if table.is_all() {
            self.covers_all = true;
            self.name_all_anew();
        }
    }

    /// Whether so much is not stable that the primary should see to it.
    pub fn is_filling(&self) -> bool {
        self.unstable * 4 >= self.capacity() * 3
    }

    /// How many regions are open, as far as they are known one by one.
    pub fn open_regions(&self) -> usize {
        self.regions.len()
    }

    /// Whether nothing is open, and the saved table says so, too.
    pub fn is_closed(&self) -> bool {
        self.is_empty() && !self.is_outdated()
    }

    /// Whether nothing is open.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty() && self.remnant.is_none()
    }
}

impl Region {
    /// One region that both become.
    fn merged(&self, other: &Self) -> Self {
        let operations = self.operations + other.operations;
        let used_at = self.used_at.max(other.used_at);
        let pending = self.pending.merged(&other.pending);
        Self { pending, operations, named_by: self.named_by, used_at }
    }
}

#[cfg(test)]
mod tests;
