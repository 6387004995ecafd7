//! What other replicas lack: a bitmap per replica that is not in-sync, stamped with the generation
//! in which it ceased to be (rule W7). A replica that returns gets only what its bitmap names (I7).
//!
//! Bits are set in memory when a write comes, and reach the disk before the region of the write is
//! closed in the intent log. After a crash the open regions count as missing as a whole.

use core::ops::Range;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use crate::block_set::{BlockSet, PageBits, page_of};
use crate::ids::*;
use crate::settings::MAX_REPLICAS;
use crate::time::Instant;
use crate::view::{MirrorView, ReplicaState};

/// Pause before a save that has failed is tried again.
const SAVE_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Most pages of bitmaps that are saved at once.
const MAX_PAGES: usize = 256;

/// One page of a bitmap, as it lies on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingPage {
    /// Which of the disk's places for bitmaps: 0 to [`MAX_REPLICAS`] - 1.
    pub place: u8,
    /// Who lacks these blocks.
    pub replica: ReplicaId,
    /// The generation in which it ceased to be in-sync.
    pub since: Generation,
    /// Which page of the bitmap.
    pub page: u32,
    /// The bits.
    pub bits: Box<PageBits>,
}

/// What was found in the disk's places for bitmaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundPage {
    /// A whole page.
    Whole(MissingPage),
    /// Something that fails its checksum: a save was interrupted there.
    Damaged {
        /// In which place.
        place: u8,
        /// Which page.
        page: u32,
    },
}

/// The bitmap of one replica.
#[derive(Debug)]
struct Bitmap {
    place: u8,
    since: Generation,
    blocks: BlockSet,
    /// Pages that the disk does not hold like this.
    unsaved: BTreeSet<u32>,
    /// Whether it gets no writes at present, so that each has to be noted here.
    is_absent: bool,
}

/// The bitmaps of all replicas of the mirror that are not in-sync.
#[derive(Debug)]
pub(super) struct Missing {
    bitmaps: BTreeMap<ReplicaId, Bitmap>,
    /// Pages that are being saved.
    under_way: BTreeSet<(ReplicaId, u32)>,
    /// Whose turn it was last.
    saved_last: (ReplicaId, u32),
    /// When a save that has failed is tried again.
    save_again_at: Option<Instant>,
}

impl Default for Missing {
    fn default() -> Self {
        let (bitmaps, under_way) = (BTreeMap::new(), BTreeSet::new());
        Self { bitmaps, under_way, saved_last: (ReplicaId(0), 0), save_again_at: None }
    }
}

impl Missing {
    /// Takes over what was found on the disk, as far as the view says that it counts.
    pub fn found(mirror: &MirrorView, me: ReplicaId, pages: &[FoundPage], blocks: u64) -> Self {
        let mut missing = Self::default();
        for page in pages {
            let FoundPage::Whole(page) = page else { continue };
            let counts = mirror
                .replicas
                .iter()
                .any(|r| r.id == page.replica && r.missing_since == Some(page.since));
            if counts {
                let bitmap = missing
                    .bitmaps
                    .entry(page.replica)
                    .or_insert_with(|| Bitmap::new(page.place, page.since));
                bitmap.blocks.insert_page(page.page, &page.bits);
            }
        }
        missing.follow(mirror, me);
        missing.distrust(pages, blocks);
        missing
    }

    /// A page that is damaged may have held any bit: all its blocks count as missing.
    fn distrust(&mut self, pages: &[FoundPage], blocks: u64) {
        let is_known = |replica: &ReplicaId, pages: &[FoundPage]| {
            pages.iter().any(|p| matches!(p, FoundPage::Whole(p) if p.replica == *replica))
        };
        for found in pages {
            let FoundPage::Damaged { place, page } = *found else { continue };
            let first = u64::from(page) * crate::block_set::PAGE_BLOCKS;
            let range = first..(first + crate::block_set::PAGE_BLOCKS).min(blocks);
            for (replica, bitmap) in &mut self.bitmaps {
                if bitmap.place == place || !is_known(replica, pages) {
                    bitmap.add(range.clone());
                }
            }
        }
    }

    /// Keeps a bitmap for each replica that the view says is not in-sync and lacks only a part.
    pub fn follow(&mut self, mirror: &MirrorView, me: ReplicaId) {
        self.bitmaps.retain(|id, bitmap| {
            mirror.replicas.iter().any(|r| r.id == *id && r.missing_since == Some(bitmap.since))
        });
        for record in mirror.replicas.iter().filter(|r| r.state != ReplicaState::InSync) {
            let Some(since) = record.missing_since else { continue };
            let place = self.free_place();
            let bitmap = self.bitmaps.entry(record.id).or_insert_with(|| Bitmap::new(place, since));
            bitmap.is_absent = record.id != me && !record.state.takes_writes();
        }
    }

    /// Panics if a replica lacks a part that no bitmap names, or two bitmaps share a place on the
    /// disk (W7).
    pub fn check_invariants(&self, mirror: &MirrorView, me: ReplicaId) {
        for record in mirror.replicas.iter().filter(|r| r.state != ReplicaState::InSync) {
            let Some(since) = record.missing_since else { continue };
            let Some(bitmap) = self.bitmaps.get(&record.id) else {
                panic!("W7: {:?} lacks a part, and no bitmap says which", record.id);
            };
            assert!(bitmap.since == since, "W7: the bitmap of {:?} is an older one", record.id);
            let is_absent = record.id != me && !record.state.takes_writes();
            assert!(bitmap.is_absent == is_absent, "W7: {:?} gets writes, or not", record.id);
        }
        let places = self.bitmaps.values().fold(0u32, |places, b| places | 1 << b.place);
        let count = places.count_ones() as usize;
        assert!(count == self.bitmaps.len(), "W7: two bitmaps share a place on the disk");
    }

    fn free_place(&self) -> u8 {
        let taken = |place: &u8| self.bitmaps.values().any(|bitmap| bitmap.place == *place);
        (0..MAX_REPLICAS as u8).find(|place| !taken(place)).unwrap_or(0)
    }

    /// A write comes: whoever gets none lacks it.
    pub fn note(&mut self, blocks: &Range<u64>) {
        for bitmap in self.bitmaps.values_mut().filter(|bitmap| bitmap.is_absent) {
            bitmap.add(blocks.clone());
        }
    }

    /// This replica lacks these blocks, too.
    pub fn add(&mut self, replica: ReplicaId, blocks: &BlockSet) {
        if let Some(bitmap) = self.bitmaps.get_mut(&replica) {
            bitmap.unsaved.extend(blocks.pages());
            bitmap.blocks.insert_all(blocks);
        }
    }

    /// This replica lacks these blocks, too: a page that another replica has told.
    pub fn add_page(&mut self, replica: ReplicaId, page: u32, bits: &PageBits) {
        if let Some(bitmap) = self.bitmaps.get_mut(&replica) {
            bitmap.unsaved.insert(page);
            bitmap.blocks.insert_page(page, bits);
        }
    }

    /// This replica has these blocks now, durably.
    pub fn clear_bits(&mut self, replica: ReplicaId, blocks: Range<u64>) {
        if let Some(bitmap) = self.bitmaps.get_mut(&replica) {
            bitmap.unsaved.extend(page_of(blocks.start)..=page_of(blocks.end.max(1) - 1));
            bitmap.blocks.remove(blocks);
        }
    }

    /// The blocks that a replica lacks, if that is known.
    pub fn of(&self, replica: ReplicaId) -> Option<&BlockSet> {
        self.bitmaps.get(&replica).map(|bitmap| &bitmap.blocks)
    }

    /// The replicas that lack something.
    pub fn replicas(&self) -> impl Iterator<Item = ReplicaId> {
        self.bitmaps.keys().copied()
    }

    /// Whether bits of these blocks are not on the disk.
    pub fn has_unsaved(&self, blocks: &Range<u64>) -> bool {
        let pages = page_of(blocks.start)..=page_of(blocks.end.max(1) - 1);
        let is_unsaved = |bitmap: &Bitmap| bitmap.unsaved.range(pages.clone()).next().is_some();
        self.bitmaps.values().any(is_unsaved)
            || self.under_way.iter().any(|(_, page)| pages.contains(page))
    }

    /// Whether any bit is not on the disk.
    pub fn is_saved(&self) -> bool {
        self.bitmaps.values().all(|bitmap| bitmap.unsaved.is_empty())
    }

    /// The pages that the disk does not hold as they are.
    pub fn unsaved(&self) -> BTreeSet<(ReplicaId, u32)> {
        let pages = |(id, bitmap): (&ReplicaId, &Bitmap)| {
            let id = *id;
            bitmap.unsaved.iter().map(move |page| (id, *page)).collect::<Vec<_>>()
        };
        self.bitmaps.iter().flat_map(pages).collect()
    }

    /// Whether pages are being saved.
    pub fn is_saving(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Time has passed.
    pub fn advance(&mut self, now: Instant) {
        self.save_again_at.take_if(|at| *at <= now);
    }

    /// When a save that has failed is tried again.
    pub const fn next_wakeup(&self) -> Option<Instant> {
        self.save_again_at
    }

    /// Begins to save pages that are not on the disk, if no save is under way or has just failed:
    /// each page in its turn, so that none waits for long however often others change.
    pub fn begin_save(&mut self) -> Vec<MissingPage> {
        if self.is_saving() || self.save_again_at.is_some() {
            return Vec::new();
        }
        let all = self.unsaved();
        let from = (self.saved_last.0, self.saved_last.1.saturating_add(1));
        let turn: BTreeSet<_> =
            all.range(from..).chain(all.range(..from)).take(MAX_PAGES).copied().collect();
        let last = all.range(from..).chain(all.range(..from)).take(MAX_PAGES).last();
        self.saved_last = last.copied().unwrap_or(self.saved_last);
        self.take(&turn)
    }

    /// Begins to save the first of these pages, as many as are saved at once, as far as their
    /// bitmaps still exist. No save is under way. Leaves those that come later.
    pub fn begin_save_of(&mut self, pages: &mut BTreeSet<(ReplicaId, u32)>) -> Vec<MissingPage> {
        let rest = pages.iter().nth(MAX_PAGES).copied();
        let later = rest.map_or_else(BTreeSet::new, |first| pages.split_off(&first));
        let now = core::mem::replace(pages, later);
        self.take(&now)
    }

    fn take(&mut self, pages: &BTreeSet<(ReplicaId, u32)>) -> Vec<MissingPage> {
        let mut taken = Vec::new();
        for (replica, page) in pages {
            let Some(bitmap) = self.bitmaps.get_mut(replica) else { continue };
            bitmap.unsaved.remove(page);
            self.under_way.insert((*replica, *page));
            taken.push(MissingPage {
                place: bitmap.place,
                replica: *replica,
                since: bitmap.since,
                page: *page,
                bits: Box::new(bitmap.blocks.page(*page)),
            });
        }
        taken
    }

    /// The save that was begun has ended.
    pub fn saved(&mut self, now: Instant, succeeded: bool) {
        if !succeeded {
            self.save_again_at = Some(now + SAVE_AGAIN_AFTER);
        }
        for (replica, page) in core::mem::take(&mut self.under_way) {
            if let Some(bitmap) = self.bitmaps.get_mut(&replica).filter(|_| !succeeded) {
                bitmap.unsaved.insert(page);
            }
        }
    }
}

impl Bitmap {
    fn new(place: u8, since: Generation) -> Self {
        let (blocks, unsaved) = (BlockSet::default(), BTreeSet::new());
        Self { place, since, blocks, unsaved, is_absent: false }
    }

    fn add(&mut self, blocks: Range<u64>) {
        self.unsaved.extend(page_of(blocks.start)..=page_of(blocks.end.max(1) - 1));
        self.blocks.insert(blocks);
    }
}

#[cfg(test)]
mod tests;
