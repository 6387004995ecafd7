//! What the disk has to hold, and what it may answer.
//!
//! Of each sector it is known what it may hold: one thing as long as all goes well, several after a
//! failure or a crash, until a read tells. Of each block it is known whether the disk must know its
//! checksum.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::device::{Content, SECTOR};

/// Bytes of a block, which has one checksum.
pub(super) const BLOCK: u64 = 4096;

/// An oracle, and what it has to say.
pub(super) type Violation = (&'static str, String);

/// What a sector holds that was written with this stamp; 0: zeroes.
pub(super) fn content_of(stamp: u64) -> Content {
    let mut content = [0; SECTOR as usize];
    content.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&stamp.to_le_bytes()));
    content
}

fn stamp_of(content: &[u8]) -> Option<u64> {
    let (words, _) = content.as_chunks::<8>();
    let first = words.first()?;
    words.iter().all(|word| word == first).then(|| u64::from_le_bytes(*first))
}

#[derive(Debug, Clone)]
struct Sector {
    /// What it may hold.
    now: Vec<u64>,
    /// What it may have held since the last flush.
    before: Vec<u64>,
    /// When it was last changed.
    changed: u64,
    /// Whether it may hold anything.
    is_any: bool,
    /// The same since the last flush.
    was_any: bool,
}

impl Sector {
    const fn zeroes() -> Self {
        Self { now: Vec::new(), before: Vec::new(), changed: 0, is_any: false, was_any: false }
    }

    fn may_hold(&self, stamp: u64) -> bool {
        self.is_any || self.now.contains(&stamp) || (self.now.is_empty() && stamp == 0)
    }

    fn set(&mut self, stamp: u64, at: u64, flushed: u64, is_certain: bool) {
        if self.now.is_empty() {
            self.now.push(0);
        }
        if self.changed <= flushed {
            self.before.clear();
            self.was_any = false;
        }
        self.was_any |= self.is_any;
        add(&mut self.before, &self.now);
        if is_certain {
            (self.now, self.is_any) = (vec![stamp], false);
        } else {
            add(&mut self.now, &[stamp]);
        }
        self.changed = at;
    }
}

fn add(to: &mut Vec<u64>, more: &[u64]) {
    for stamp in more {
        if !to.contains(stamp) {
            to.push(*stamp);
        }
    }
}

/// Whether the disk knows the checksum of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Sum {
    /// Perhaps.
    #[default]
    Maybe,
    /// By a write.
    Written,
}

#[derive(Debug, Clone, Copy, Default)]
struct Block {
    sum: Sum,
    /// The device has damaged it.
    is_rotten: bool,
    /// A rebuild copied it, and nobody counts on it before that is durable.
    is_missing: bool,
    /// When a rebuild copied it.
    copied: u64,
}

/// A change that has ended or not.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) range: Range<u64>,
    /// Of the first sector, and one more of each that follows; 0: all are zeroed.
    pub(super) stamp: u64,
    pub(super) is_copy: bool,
    /// Whether it is durable when it has ended well.
    pub(super) is_durable: bool,
}

impl Change {
    fn sectors(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let (first, stamp) = (self.range.start / SECTOR, self.stamp);
        let stamp_of = move |sector| if stamp == 0 { 0 } else { stamp + sector - first };
        (first..self.range.end / SECTOR).map(move |sector| (sector, stamp_of(sector)))
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Model {
    length: u64,
    has_checksums: bool,
    /// The data may become longer at any moment.
    is_growing: bool,
    sectors: BTreeMap<u64, Sector>,
    blocks: BTreeMap<u64, Block>,
    clock: u64,
    /// Changes up to this time are durable.
    flushed: u64,
    /// Copies up to this time count.
    counted: u64,
}

impl Model {
    pub(super) const fn new(length: u64, has_checksums: bool) -> Self {
        Self {
            length,
            has_checksums,
            is_growing: false,
            sectors: BTreeMap::new(),
            blocks: BTreeMap::new(),
            clock: 1,
            flushed: 0,
            counted: 0,
        }
    }

    /// The last block, if there is only a part of it.
    fn last_part(&self) -> Option<u64> {
        (!self.length.is_multiple_of(BLOCK)).then_some(self.length / BLOCK)
    }

    /// The data have become longer: of a last block of which there was a part all changes.
    fn forget_part(&mut self) {
        if let Some(block) = self.last_part() {
            self.forget(block..block + 1);
        }
    }

    /// The data may become longer from now on, until the length is set or that has failed.
    pub(super) fn may_be_longer(&mut self, may_be: bool) {
        self.is_growing = may_be;
        self.forget_part();
    }

    pub(super) fn set_length(&mut self, length: u64) {
        if length != self.length {
            self.forget_part();
        }
        (self.length, self.is_growing) = (length, false);
    }

    pub(super) const fn now(&self) -> u64 {
        self.clock
    }

    fn blocks_of(&self, range: &Range<u64>) -> Range<u64> {
        range.start / BLOCK..range.end.div_ceil(BLOCK)
    }

    fn is_whole(&self, block: u64, range: &Range<u64>) -> bool {
        range.start <= block * BLOCK && range.end >= ((block + 1) * BLOCK).min(self.length)
    }

    /// Whether a block reads as zeroes for certain.
    fn is_empty(&self, block: u64) -> bool {
        let sectors = block * BLOCK / SECTOR..(block + 1) * BLOCK / SECTOR;
        self.sectors.range(sectors).all(|(_, sector)| !sector.is_any && sector.now == [0])
    }

    /// A change has ended well.
    pub(super) fn changed(&mut self, change: &Change) {
        let blocks = self.blocks_of(&change.range);
        let held_anything: BTreeSet<u64> = blocks.filter(|block| !self.is_empty(*block)).collect();
        self.clock += 1;
        let (now, flushed) = (self.clock, self.flushed);
        for (sector, stamp) in change.sectors() {
            if stamp != 0 || self.sectors.contains_key(&sector) {
                let found = self.sectors.entry(sector).or_insert(Sector::zeroes());
                found.set(stamp, now, flushed, true);
                if change.is_durable {
                    (found.before, found.was_any) = (Vec::new(), false);
                }
            }
        }
        let growing = self.last_part().filter(|_| self.is_growing);
        for number in self.blocks_of(&change.range) {
            let is_whole = self.is_whole(number, &change.range);
            let was_empty = !held_anything.contains(&number);
            let block = self.blocks.entry(number).or_default();
            let is_zeroed = change.stamp == 0;
            let may_forget = growing == Some(number);
            block.is_rotten &= !is_whole;
            block.is_missing &= !is_whole;
            block.copied = if change.is_copy { now } else { block.copied };
            let stays = match block.sum {
                // Nothing vouches for the part of it that is kept.
                Sum::Maybe => is_zeroed || block.is_rotten || !(is_whole || was_empty),
                Sum::Written => false,
            };
            if may_forget {
                block.sum = Sum::Maybe;
            } else if !stays {
                block.sum = Sum::Written;
            }
        }
    }

    /// A change has failed, or a crash has come: it may be there, or a part of it.
    pub(super) fn may_have_changed(&mut self, change: &Change) {
        self.clock += 1;
        let (now, flushed) = (self.clock, self.flushed);
        for (sector, stamp) in change.sectors() {
            if stamp != 0 || self.sectors.contains_key(&sector) {
                let found = self.sectors.entry(sector).or_insert(Sector::zeroes());
                found.set(stamp, now, flushed, false);
            }
        }
        for number in self.blocks_of(&change.range) {
            let block = self.blocks.entry(number).or_default();
            block.sum = Sum::Maybe;
            block.copied = if change.is_copy { now } else { block.copied };
        }
    }

    /// A flush has ended well that began at this time.
    pub(super) fn flushed(&mut self, began: u64, with_checksums: bool) {
        self.flushed = self.flushed.max(began);
        if with_checksums {
            self.counted = self.counted.max(began);
        }
    }

    /// What a process that ended leaves. `is_lost`: also of what was not flushed something older
    /// may be left.
    pub(super) fn crashed(&mut self, under_way: &[Change], is_lost: bool, torn: &[u64], data: u64) {
        under_way.iter().for_each(|change| self.may_have_changed(change));
        for sector in self.sectors.values_mut().filter(|s| is_lost && s.changed > self.flushed) {
            let before = core::mem::take(&mut sector.before);
            add(&mut sector.now, &before);
            sector.is_any |= sector.was_any;
            sector.before = sector.now.clone();
        }
        for sector in torn {
            if let Some(sector) = self.sectors.get_mut(&(sector - data / SECTOR)) {
                sector.is_any = true;
            }
        }
    }

    /// The disk was opened, and what it holds was made durable. `forgets`: whether the checksum of
    /// a block may not be known any more.
    pub(super) fn opened(&mut self, forgets: impl Fn(u64) -> bool) {
        self.flushed = self.clock;
        for (number, block) in &mut self.blocks {
            if block.copied > self.counted {
                block.is_missing = true;
            }
            if block.is_missing || forgets(*number) {
                block.sum = Sum::Maybe;
            }
            block.copied = 0;
        }
        self.counted = self.clock;
        self.clock += 1;
    }

    /// The page of these blocks can't be read: their checksums may not be known.
    pub(super) fn forget(&mut self, blocks: Range<u64>) {
        self.blocks.range_mut(blocks).for_each(|(_, block)| block.sum = Sum::Maybe);
    }

    /// A sector that holds something, for rot: the one after this place.
    pub(super) fn some_data(&self, from: u64) -> Option<u64> {
        let holds = |(_, sector): &(&u64, &Sector)| !sector.is_any && !sector.may_hold(0);
        self.sectors.range(from..).find(holds).map(|(number, _)| *number)
    }

    /// A sector has rotted.
    pub(super) fn rotted(&mut self, sector: u64) {
        self.sectors.entry(sector).or_insert(Sector::zeroes()).is_any = true;
        self.blocks.entry(sector * SECTOR / BLOCK).or_default().is_rotten = true;
    }

    /// Judges what a read has brought.
    pub(super) fn read(&mut self, offset: u64, data: &[u8]) -> Result<(), Violation> {
        let range = offset..offset + data.len() as u64;
        for number in self.blocks_of(&range) {
            let Some(block) = self.blocks.get(&number) else { continue };
            if block.is_rotten && !block.is_missing && block.sum != Sum::Maybe && self.has_checksums
            {
                let why = format!("block {number} is damaged, and was read without an error");
                return Err(("I9", why));
            }
        }
        for (sector, content) in
            (offset / SECTOR..).zip(data.chunks(SECTOR as usize).map(|c| (stamp_of(c), c)))
        {
            self.read_sector(sector, content.0)?;
        }
        for number in self.blocks_of(&range) {
            self.blocks.entry(number).or_default().is_rotten = false;
        }
        Ok(())
    }

    /// Judges what a disk with checksums says that it could not compare.
    pub(super) fn not_compared(&self, offset: u64, unknown: &[u32]) -> Result<(), Violation> {
        let first = offset / BLOCK;
        let is_known = |block: &&u32| {
            let block = self.blocks.get(&(first + u64::from(**block)));
            block.is_some_and(|block| block.sum == Sum::Written)
        };
        match unknown.iter().find(is_known) {
            Some(block) => Err(("I9", format!("block {} is not known", first + u64::from(*block)))),
            None => Ok(()),
        }
    }

    fn read_sector(&mut self, sector: u64, found: Option<u64>) -> Result<(), Violation> {
        let block = self.blocks.get(&(sector * SECTOR / BLOCK));
        if block.is_some_and(|block| block.is_missing) {
            return Ok(());
        }
        let zeroes = Sector::zeroes();
        let held = self.sectors.get(&sector).unwrap_or(&zeroes);
        if !held.is_any && !found.is_some_and(|stamp| held.may_hold(stamp)) {
            let why = format!("sector {sector} holds {found:x?}, and may hold {:x?}", held.now);
            return Err(("contents", why));
        }
        if let (Some(stamp), Some(held)) = (found, self.sectors.get_mut(&sector)) {
            (held.now, held.is_any) = (vec![stamp], false);
        }
        Ok(())
    }

    /// Whether a read of this range may find damage.
    pub(super) fn may_be_damaged(&self, range: &Range<u64>) -> bool {
        let mut blocks = self.blocks.range(self.blocks_of(range));
        blocks.any(|(_, block)| block.is_rotten || block.is_missing)
    }

    /// A sector of this range that holds something for certain.
    pub(super) fn holds_data(&self, range: &Range<u64>) -> Option<u64> {
        let sectors = self.sectors.range(range.start / SECTOR..range.end / SECTOR);
        let mut certain = sectors.filter(|(_, s)| !s.may_hold(0));
        certain
            .find(|(n, _)| !self.may_be_damaged(&(**n * SECTOR..**n * SECTOR + 1)))
            .map(|(n, _)| *n)
    }

    /// The ranges that were ever touched, in whole blocks.
    pub(super) fn touched(&self) -> Vec<u64> {
        self.blocks.keys().copied().collect()
    }
}
