//! A disk with a volatile cache and two superblock copies.
//!
//! A write is seen by every later read at once, and is durable when a flush that began after it has
//! ended. A power cut keeps, of each sector by itself, any of the contents that it had since.

mod checksums;

use std::collections::{BTreeMap, BTreeSet};

use std::ops::Range;

use evenkeel_core::settings::BLOCK as BLOCK_BYTES;

use self::checksums::Checksums;
use crate::payload::{Cell, HOLE, SECTOR, ZERO};
use crate::random::Random;

/// Sectors of a block.
pub const BLOCK: u32 = BLOCK_BYTES / SECTOR;

/// One replica's disk.
#[derive(Debug, Clone)]
pub struct Disk {
    cells: Vec<Cell>,
    unflushed: BTreeMap<u32, Unflushed>,
    /// Sectors whose last contents a failed flush has dropped, with what is durable of them: reads
    /// still find the new content, but no later flush makes it durable, and it goes when the
    /// process ends.
    dropped: BTreeMap<u32, Cell>,
    writes: u64,
    /// Both copies of the superblock.
    copies: [Vec<u8>; 2],
    /// The two copies of the table of each slot of the intent log.
    tables: BTreeMap<(u8, usize), Vec<u8>>,
    /// The pages of bitmaps, by place and number.
    pages: BTreeMap<(u8, u32), Vec<u8>>,
    /// Blocks of which it holds something else than was written: their checksums tell, so they
    /// can't be read before they are written again.
    damaged: BTreeSet<u32>,
    /// Of these, those that the medium itself can't read, whatever is known of them.
    torn: BTreeSet<u32>,
    /// Blocks that it ever damaged.
    ever_damaged: BTreeSet<u32>,
    /// `None`: the checksum of each block is always known.
    checksums: Option<Checksums>,
}

/// A sector that was written since the last flush.
#[derive(Debug, Clone)]
struct Unflushed {
    durable: Cell,
    later: Vec<(u64, Cell)>,
}

impl Disk {
    /// An empty disk of this many sectors with these bytes in both superblock copies.
    #[must_use]
    pub fn new(sectors: u32, superblock: &[u8]) -> Self {
        Self {
            cells: vec![HOLE; sectors as usize],
            unflushed: BTreeMap::new(),
            dropped: BTreeMap::new(),
            writes: 0,
            copies: [superblock.to_vec(), superblock.to_vec()],
            tables: BTreeMap::new(),
            pages: BTreeMap::new(),
            damaged: BTreeSet::new(),
            torn: BTreeSet::new(),
            ever_damaged: BTreeSet::new(),
            checksums: None,
        }
    }

    /// Damages the block of a sector: its bits rot, or a write there is lost or lands elsewhere.
    pub fn damage(&mut self, sector: u32) {
        self.ever_damaged.insert(sector / BLOCK);
        if self.has_forgotten(sector) {
            self.garble(sector);
        } else {
            self.damaged.insert(sector / BLOCK);
        }
    }

    /// A write of the sector was torn: its block can't be read.
    pub fn tear(&mut self, sector: u32) {
        self.damaged.insert(sector / BLOCK);
        self.torn.insert(sector / BLOCK);
        self.ever_damaged.insert(sector / BLOCK);
    }

    /// Whether each block of these sectors was damaged at some time.
    #[must_use]
    pub fn ever_damaged(&self, sectors: Range<u32>) -> bool {
        let mut blocks = sectors.start / BLOCK..sectors.end.div_ceil(BLOCK);
        blocks.all(|block| self.ever_damaged.contains(&block))
    }

    /// Whether any of these sectors lies in a block that can't be read, or would be read wrong.
    #[must_use]
    pub fn is_harmed(&self, sectors: Range<u32>) -> bool {
        let blocks = sectors.start / BLOCK..sectors.end.div_ceil(BLOCK);
        let garbled = self.garbled(blocks.start * BLOCK..blocks.end * BLOCK);
        self.is_damaged(sectors) || !garbled.is_empty()
    }

    /// Whether any of these sectors lies in a damaged block.
    #[must_use]
    pub fn is_damaged(&self, sectors: Range<u32>) -> bool {
        self.damaged.range(sectors.start / BLOCK..sectors.end.div_ceil(BLOCK)).next().is_some()
    }

    /// These sectors were written: what is left of a block that was damaged stays so. Returns
    /// whether any is whole again.
    pub fn repair(&mut self, sectors: Range<u32>) -> bool {
        let end = self.sectors();
        let before = self.damaged.len();
        self.damaged.retain(|block| {
            let whole = block * BLOCK..((block + 1) * BLOCK).min(end);
            !(sectors.start <= whole.start && whole.end <= sectors.end)
        });
        self.torn.retain(|block| self.damaged.contains(block));
        self.damaged.len() < before
    }

    /// The disk's owner has put all of it in order.
    pub fn repair_all(&mut self) {
        self.damaged.clear();
        self.torn.clear();
        self.restore(0..self.sectors());
    }

    /// Number of sectors.
    #[must_use]
    pub fn sectors(&self) -> u32 {
        self.cells.len() as u32
    }

    /// Makes room for this many sectors; what is new has never been written.
    pub fn extend(&mut self, sectors: u32) {
        let before = self.sectors();
        if sectors > before {
            self.cells.resize(sectors as usize, HOLE);
            self.grew(before);
        }
    }

    /// What a sector holds now, holes included.
    #[must_use]
    pub fn cell(&self, sector: u32) -> Cell {
        self.cells[sector as usize]
    }

    /// What a read of the sector returns.
    #[must_use]
    pub fn content(&self, sector: u32) -> Cell {
        match self.cell(sector) {
            HOLE => ZERO,
            cell => cell,
        }
    }

    /// What the sector would return if only flushed data were there.
    #[must_use]
    pub fn durable_content(&self, sector: u32) -> Cell {
        let unflushed = self.unflushed.get(&sector).map(|unflushed| unflushed.durable);
        let durable = unflushed.or_else(|| self.dropped.get(&sector).copied());
        match durable.unwrap_or(self.cell(sector)) {
            HOLE => ZERO,
            cell => cell,
        }
    }

    /// Writes one sector into the cache.
    pub fn put(&mut self, sector: u32, cell: Cell) {
        self.writes += 1;
        if let Some(checksums) = &mut self.checksums {
            checksums.wrote(sector);
        }
        let before = std::mem::replace(&mut self.cells[sector as usize], cell);
        let durable = self.dropped.remove(&sector).unwrap_or(before);
        let unflushed =
            self.unflushed.entry(sector).or_insert(Unflushed { durable, later: Vec::new() });
        unflushed.later.push((self.writes, cell));
    }

    /// A flush begins; what it returns is for [`Disk::flushed`].
    #[must_use]
    pub fn flush_mark(&self) -> u64 {
        self.writes
    }

    /// The flush that began at this mark has ended.
    pub fn flushed(&mut self, mark: u64) {
        self.unflushed.retain(|_, unflushed| {
            let covered = unflushed.later.partition_point(|(number, _)| *number <= mark);
            if let Some((_, cell)) = unflushed.later[..covered].last() {
                unflushed.durable = *cell;
            }
            unflushed.later.drain(..covered);
            !unflushed.later.is_empty()
        });
    }

    /// These sectors were written last by one write that is durable now, and by nothing since.
    pub fn made_durable(&mut self, sectors: Range<u32>) {
        sectors.for_each(|sector| {
            self.unflushed.remove(&sector);
            self.dropped.remove(&sector);
        });
    }

    /// The flush that began at this mark has failed, and what it covered counts as clean from now
    /// on, as an operating system has it whose write-back failed.
    pub fn drop_unflushed(&mut self, mark: u64) {
        let dropped = &mut self.dropped;
        self.unflushed.retain(|sector, unflushed| {
            let is_covered = unflushed.later.last().is_none_or(|(number, _)| *number <= mark);
            if is_covered {
                dropped.insert(*sector, unflushed.durable);
            }
            !is_covered
        });
    }

    /// The process ends: returns the sectors of which a failed flush had dropped the content, and
    /// which went back to an older one.
    pub fn forget_dropped(&mut self, random: &mut Random) -> Vec<u32> {
        let dropped = std::mem::take(&mut self.dropped);
        let gone = dropped.into_iter().filter(|_| random.chance(700));
        let gone: Vec<_> = gone.collect();
        gone.iter().for_each(|(sector, durable)| self.cells[*sector as usize] = *durable);
        gone.into_iter().map(|(sector, _)| sector).collect()
    }

    /// Power is lost: returns the sectors that went back to older contents.
    pub fn power_cut(&mut self, random: &mut Random) -> Vec<u32> {
        let keep_all = random.chance(300);
        let keep_none = random.chance(300);
        let mut lost = Vec::new();
        for (sector, unflushed) in std::mem::take(&mut self.unflushed) {
            let choices = unflushed.later.len();
            let kept = match (keep_all, keep_none) {
                (true, _) => choices,
                (_, true) => 0,
                _ => random.index(choices + 1),
            };
            if kept < choices {
                let cell = if kept == 0 { unflushed.durable } else { unflushed.later[kept - 1].1 };
                self.cells[sector as usize] = cell;
                lost.push(sector);
            }
        }
        lost
    }

    /// Puts bytes into a superblock copy; with `torn`, only the first that many of them.
    pub fn write_copy(&mut self, copy: usize, bytes: &[u8], torn: Option<usize>) {
        overwrite(&mut self.copies[copy], bytes, torn);
    }

    /// Puts bytes into a copy of the table of a slot of the intent log; with `torn`, only the first
    /// so many.
    pub fn write_table(&mut self, place: (u8, usize), bytes: &[u8], torn: Option<usize>) {
        overwrite(self.tables.entry(place).or_default(), bytes, torn);
    }

    /// The bytes of both copies of a slot's table.
    #[must_use]
    pub fn tables(&self, slot: u8) -> [&[u8]; 2] {
        [0, 1].map(|copy| self.tables.get(&(slot, copy)).map_or(&[][..], Vec::as_slice))
    }

    /// Puts bytes into the place of a bitmap's page; with `torn`, only the first so many.
    pub fn write_page(&mut self, place: (u8, u32), bytes: &[u8], torn: Option<usize>) {
        overwrite(self.pages.entry(place).or_default(), bytes, torn);
    }

    /// All pages of bitmaps that were ever written.
    pub fn pages(&self) -> impl Iterator<Item = ((u8, u32), &[u8])> {
        self.pages.iter().map(|(place, bytes)| (*place, bytes.as_slice()))
    }

    /// The bytes of both superblock copies.
    #[must_use]
    pub fn copies(&self) -> [&[u8]; 2] {
        [&self.copies[0], &self.copies[1]]
    }
}

fn overwrite(stored: &mut Vec<u8>, bytes: &[u8], torn: Option<usize>) {
    let length = torn.unwrap_or(bytes.len()).min(bytes.len());
    if stored.len() < bytes.len() {
        stored.resize(bytes.len(), 0);
    }
    stored[..length].copy_from_slice(&bytes[..length]);
}

#[cfg(test)]
mod tests;
