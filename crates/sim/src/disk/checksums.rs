//! The block checksums of a disk, as the engine keeps them: a start forgets those of the regions
//! that are open on the disk, and a write of the whole block makes one known again (decisions 25
//! and 31).
//!
//! Damage in a block whose checksum is known makes every read of it fail. Where the checksum is
//! forgotten, the read returns garbage instead, and the block says only that nothing vouches for
//! it.

use std::collections::BTreeSet;
use std::ops::Range;

use evenkeel_core::replica::{OpenRegions, Unverified};
use evenkeel_format::CHECKSUMS_PER_PAGE;

use super::{BLOCK, Disk};
use crate::payload::{HOLE, SECTOR, ZERO};

/// Blocks of a page of checksums.
const PAGE: u32 = CHECKSUMS_PER_PAGE as u32;

/// What a disk knows of its blocks.
#[derive(Debug, Clone, Default)]
pub(super) struct Checksums {
    /// Blocks that have a checksum. Those that were never written have none.
    known: BTreeSet<u32>,
    /// Sectors without a checksum whose bits have rotted since they were written.
    garbled: BTreeSet<u32>,
}

impl Checksums {
    /// Whether the page of checksums is there to which a block's belongs.
    fn knows_of_page(&self, block: u32) -> bool {
        let first = block - block % PAGE;
        self.known.range(first..first + PAGE).next().is_some()
    }

    /// This sector was written.
    pub fn wrote(&mut self, sector: u32) {
        self.garbled.remove(&sector);
    }
}

impl Disk {
    /// From now on checksums may be forgotten; so far all blocks are as they were made.
    pub fn keep_checksums(&mut self) {
        self.checksums = Some(Checksums::default());
    }

    /// Whether a block's checksum can be unknown although the block was written.
    #[must_use]
    pub const fn may_forget(&self) -> bool {
        self.checksums.is_some()
    }

    /// The disk is opened after a crash, and this table of open regions is found on it. Bits that
    /// rotted in them before count as whole again: with their checksums, whoever rebuilds from this
    /// disk would lose the good copy, which nobody can prevent.
    pub fn forget_checksums(&mut self, open: &OpenRegions) {
        let all = 0..self.sectors().div_ceil(BLOCK);
        let Some(sums) = &mut self.checksums else { return };
        let (blocks, limit) = (open.region / u64::from(BLOCK * SECTOR), u64::from(all.end));
        let of = |region: &u64| {
            let start = region.saturating_mul(blocks).min(limit);
            start as u32..start.saturating_add(blocks).min(limit) as u32
        };
        let runs =
            if open.is_all() { vec![all.clone()] } else { open.open.iter().map(of).collect() };
        for run in runs {
            sums.known.retain(|block| !run.contains(block));
            let torn = &self.torn;
            self.damaged.retain(|block| !run.contains(block) || torn.contains(block));
        }
    }

    /// A change of these sectors begins: the blocks that it touches, and for each whether its
    /// checksum is known when it has succeeded. Zeroes that are written to a whole block say
    /// nothing new of one that has none.
    #[must_use]
    pub fn sums_after(&self, sectors: Range<u32>, is_zeroing: bool) -> Vec<(u32, bool)> {
        let Some(sums) = &self.checksums else { return Vec::new() };
        let is_known = |block: u32| {
            let whole = self.block(block);
            let is_whole = sectors.start <= whole.start && whole.end <= sectors.end;
            match (is_whole, is_zeroing) {
                (true, false) => true,
                (true, true) => sums.knows_of_page(block),
                (false, false) => sums.known.contains(&block) || self.is_empty(block),
                // The rest of empty space stays empty.
                (false, true) => sums.known.contains(&block),
            }
        };
        let touched = sectors.start / BLOCK..sectors.end.div_ceil(BLOCK);
        touched.map(|block| (block, is_known(block))).collect()
    }

    /// The change has ended. One that failed leaves nothing known.
    pub fn changed(&mut self, after: &[(u32, bool)], succeeded: bool) {
        let Some(sums) = &mut self.checksums else { return };
        for (block, is_known) in after {
            if *is_known && succeeded {
                sums.known.insert(*block);
            } else {
                sums.known.remove(block);
            }
        }
    }

    /// Whether a checksum vouches for the block of this sector, and fits it.
    #[must_use]
    pub fn vouches_for(&self, sector: u32) -> bool {
        let block = sector / BLOCK;
        let is_known = self.checksums.as_ref().is_some_and(|sums| sums.known.contains(&block));
        is_known && !self.damaged.contains(&block)
    }

    /// Whether the checksum of a sector's block is lost, and the block holds something.
    #[must_use]
    pub fn has_forgotten(&self, sector: u32) -> bool {
        let block = sector / BLOCK;
        self.checksums.as_ref().is_some_and(|sums| !sums.known.contains(&block))
            && !self.is_empty(block)
    }

    /// The sectors of this range that a read returns as garbage.
    #[must_use]
    pub fn garbled(&self, sectors: Range<u32>) -> Vec<u32> {
        let garbled = self.checksums.as_ref().map(|sums| &sums.garbled);
        garbled.map(|garbled| garbled.range(sectors).copied().collect()).unwrap_or_default()
    }

    /// Bits of the block rot, of which nothing is known.
    pub(super) fn garble(&mut self, sector: u32) {
        let block = self.block(sector / BLOCK);
        if let Some(sums) = &mut self.checksums {
            sums.garbled.extend(block);
        }
    }

    /// The bits of these sectors are again what was written.
    pub fn restore(&mut self, sectors: Range<u32>) {
        if let Some(sums) = &mut self.checksums {
            sums.garbled.retain(|sector| !sectors.contains(sector));
        }
    }

    /// What no checksum vouches for, of the blocks that a range touches.
    #[must_use]
    pub fn unverified(&self, sectors: Range<u32>) -> Option<Unverified> {
        let sums = self.checksums.as_ref()?;
        let first = sectors.start / BLOCK;
        let unknown = (first..sectors.end.div_ceil(BLOCK)).filter(|b| !sums.known.contains(b));
        let (empty, forgotten): (Vec<_>, Vec<_>) = unknown.partition(|b| self.is_empty(*b));
        let count = |blocks: Vec<u32>| blocks.into_iter().map(|block| block - first).collect();
        let is_any = !(empty.is_empty() && forgotten.is_empty());
        is_any.then(|| Unverified::Blocks { empty: count(empty), forgotten: count(forgotten) })
    }

    /// The last block was a part of one, and is longer now.
    pub(super) fn grew(&mut self, before: u32) {
        let is_cut = !before.is_multiple_of(BLOCK);
        if let Some(sums) = self.checksums.as_mut().filter(|_| is_cut) {
            sums.known.remove(&(before / BLOCK));
        }
    }

    /// Whether all of a block reads as zeroes.
    fn is_empty(&self, block: u32) -> bool {
        let sectors = self.block(block);
        self.garbled(sectors.clone()).is_empty()
            && sectors.into_iter().all(|sector| matches!(self.cell(sector), HOLE | ZERO))
    }

    /// The sectors of a block.
    pub(super) fn block(&self, block: u32) -> Range<u32> {
        block * BLOCK..((block + 1) * BLOCK).min(self.sectors())
    }
}

#[cfg(test)]
mod tests;
