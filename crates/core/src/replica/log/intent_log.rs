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

mod invariants;
mod open_regions;
mod region;
mod stability;

use core::ops::Range;
use std::collections::BTreeMap;

pub use self::open_regions::{ALL_OPEN, OpenRegions};
use self::region::{Pending, Region};

use crate::block_set::BlockSet;
use crate::ids::*;
use crate::settings::BLOCK;
use crate::time::Instant;
use crate::view::{Bitmap, IntentLayout};

/// Regions that a log remembers that does not save them: 6 MiB of memory.
const MAX_REMEMBERED: usize = 1 << 16;

/// What came of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::replica) enum Reservation {
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
        // One that names what the replica does not have can't be believed: anything may be open.
        let count = size.div_ceil(found.region);
        let is_known = |region: &&u64| **region != ALL_OPEN && **region < count;
        let covers_all = !found.open.iter().all(|region| is_known(&region));
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
        for region in found.open.iter().filter(is_known) {
            log.regions.insert(*region, Region::found(now));
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
                // One region may be billions of smaller ones.
                if self.regions.len() > MAX_REMEMBERED {
                    return self.open_all();
                }
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
        let pending = self.regions.values().map(Region::pending).chain(self.remnant);
        self.unstable = pending.filter(|pending| !pending.is_stable()).count();
        self.is_outdated = true;
    }

    /// Only the next table names those that are open.
    fn name_all_anew(&mut self) {
        let next = self.made + 1;
        self.regions.values_mut().for_each(|entry| entry.name_by(next));
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
    pub fn reserve(&mut self, now: Instant, blocks: &Range<u64>, by: WriteId) -> Reservation {
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
        by: WriteId,
    ) -> Reservation {
        let mut all_saved = true;
        let (covers_all, durable, next) = (self.covers_all, self.durable, self.made + 1);
        for region in self.regions_of(blocks) {
            let wanted = &mut self.wanted;
            let entry = self.regions.entry(region).or_insert_with(|| {
                *wanted = next;
                Region::new(next, now)
            });
            self.unstable += usize::from(entry.is_stable());
            entry.begin_write(now, by);
            all_saved &= entry.named_by() <= durable || covers_all;
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
        write: WriteId,
        last_of_earlier_incarnations: Option<Sequence>,
    ) -> bool {
        let is_of_earlier_incarnation =
            last_of_earlier_incarnations.is_some_and(|last| write.sequence <= last);
        let needed = self.regions_of(blocks).count();
        needed > self.capacity()
            || self.regions.values().map(Region::pending).any(|pending| {
                pending.is_at_or_after(write)
                    || (pending.is_orphaned() && is_of_earlier_incarnation)
            })
    }

    /// Whether the regions of these blocks are open on the disk.
    pub fn is_open(&self, blocks: &Range<u64>) -> bool {
        let is_named =
            |region| self.regions.get(&region).is_some_and(|r| r.named_by() <= self.durable);
        self.covers_all || self.regions_of(blocks).all(is_named)
    }

    /// Whether the disk says of the regions of these blocks, in which an operation has begun, that
    /// they are open, whichever of the tables that were made it holds.
    pub fn stays_open(&self, blocks: &Range<u64>) -> bool {
        let known = self.durable.max(self.covered);
        let is_held = |r: &Region| r.is_in_use() && (r.named_by() <= known || self.covers_all);
        self.regions_of(blocks).all(|region| self.regions.get(&region).is_some_and(is_held))
    }

    /// An operation for which regions were reserved has ended.
    pub fn release(&mut self, blocks: &Range<u64>) {
        for region in self.regions_of(blocks) {
            if let Some(entry) = self.regions.get_mut(&region) {
                entry.end_operation();
            }
        }
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

#[cfg(test)]
mod tests;
