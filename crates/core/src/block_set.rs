//! Sets of blocks: sparse bitmaps, kept in pages of the size in which they lie on disks.

use core::ops::Range;
use std::collections::BTreeMap;

/// Words of one page.
pub const PAGE_WORDS: usize = 504;
/// Blocks that one page tells of: with 4 KiB blocks, 126 MiB of a replica.
pub const PAGE_BLOCKS: u64 = PAGE_WORDS as u64 * 64;

/// The bits of one page; bit *n* of word *w* stands for block 64 *w* + *n* of the page.
pub type PageBits = [u64; PAGE_WORDS];

/// A set of blocks. Takes 4 KiB of memory for each [`PAGE_BLOCKS`] in which it holds any, whatever
/// the size of the replica.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct BlockSet {
    pages: BTreeMap<u32, Box<PageBits>>,
}

impl BlockSet {
    /// The set of all blocks below `end`.
    #[must_use]
    pub fn all(end: u64) -> Self {
        let mut set = Self::default();
        set.insert(0..end);
        set
    }

    /// Adds a range of blocks.
    pub fn insert(&mut self, blocks: Range<u64>) {
        for (page, bits) in pages_of(blocks) {
            let words = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE_WORDS]));
            for (word, mask) in words_of(bits) {
                words[word] |= mask;
            }
        }
    }

    /// Takes a range of blocks out. Looks only at pages that hold any, however long the range is.
    pub fn remove(&mut self, blocks: Range<u64>) {
        if blocks.is_empty() {
            return;
        }
        let last = u32::try_from((blocks.end - 1) / PAGE_BLOCKS).unwrap_or(u32::MAX);
        let Ok(first) = u32::try_from(blocks.start / PAGE_BLOCKS) else {
            return; // No page lies beyond the last one that has a number.
        };
        let mut empty = Vec::new();
        for (page, words) in self.pages.range_mut(first..=last) {
            let start = u64::from(*page) * PAGE_BLOCKS;
            let end = blocks.end.min(start + PAGE_BLOCKS);
            for (word, mask) in words_of(blocks.start.max(start) - start..end - start) {
                words[word] &= !mask;
            }
            if words.iter().all(|word| *word == 0) {
                empty.push(*page);
            }
        }
        empty.iter().for_each(|page| drop(self.pages.remove(page)));
    }

    /// Takes all blocks of another set out.
    pub fn remove_all(&mut self, other: &Self) {
        other.runs(0..u64::MAX).for_each(|run| self.remove(run));
    }

    /// Adds all blocks of another set.
    pub fn insert_all(&mut self, other: &Self) {
        for (page, bits) in &other.pages {
            self.insert_page(*page, bits);
        }
    }

    /// Adds the blocks of one page.
    pub fn insert_page(&mut self, page: u32, bits: &PageBits) {
        if bits.iter().all(|word| *word == 0) {
            return;
        }
        let words = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE_WORDS]));
        words.iter_mut().zip(bits).for_each(|(word, more)| *word |= more);
    }

    /// The bits of one page.
    #[must_use]
    pub fn page(&self, page: u32) -> PageBits {
        self.pages.get(&page).map_or([0; PAGE_WORDS], |bits| **bits)
    }

    /// The first page from this one on that holds any block.
    #[must_use]
    pub fn page_from(&self, page: u32) -> Option<u32> {
        self.pages.range(page..).next().map(|(page, _)| *page)
    }

    /// The pages that hold any block.
    pub fn pages(&self) -> impl Iterator<Item = u32> {
        self.pages.keys().copied()
    }

    /// The first run of blocks of the set inside a range.
    #[must_use]
    pub fn first_run(&self, within: Range<u64>) -> Option<Range<u64>> {
        let start = self.next(within.clone(), true)?;
        let end = self.next(start..within.end, false).unwrap_or(within.end);
        Some(start..end)
    }

    /// The runs of blocks of the set inside a range, in ascending order.
    pub fn runs(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let mut rest = within;
        core::iter::from_fn(move || {
            let run = self.first_run(rest.clone())?;
            rest.start = run.end;
            Some(run)
        })
    }

    /// The first block inside a range that is in the set, or that is not.
    fn next(&self, within: Range<u64>, present: bool) -> Option<u64> {
        let mut at = within.start;
        while at < within.end {
            let page = (at / PAGE_BLOCKS) as u32;
            let first = u64::from(page) * PAGE_BLOCKS;
            let Some(words) = self.pages.get(&page) else {
                if !present {
                    return Some(at);
                }
                // Nothing in this page: on to the next one that holds any.
                at = u64::from(self.page_from(page)?) * PAGE_BLOCKS;
                continue;
            };
            let mut word = ((at - first) / 64) as usize;
            let mut mask = u64::MAX << ((at - first) % 64);
            while word < PAGE_WORDS {
                let bits = if present { words[word] } else { !words[word] } & mask;
                if bits != 0 {
                    let found = first + word as u64 * 64 + u64::from(bits.trailing_zeros());
                    return (found < within.end).then_some(found);
                }
                (word, mask) = (word + 1, u64::MAX);
            }
            at = first + PAGE_BLOCKS;
        }
        None
    }

    /// How many blocks it holds.
    #[must_use]
    pub fn count(&self) -> u64 {
        let words = self.pages.values().flat_map(|words| words.iter());
        words.map(|word| u64::from(word.count_ones())).sum()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}

/// The page in which a block is told of.
#[must_use]
pub fn page_of(block: u64) -> u32 {
    (block / PAGE_BLOCKS) as u32
}

/// Cuts a range of blocks at the borders of pages; ranges count from the start of their page.
fn pages_of(blocks: Range<u64>) -> impl Iterator<Item = (u32, Range<u64>)> {
    let mut at = blocks.start;
    core::iter::from_fn(move || {
        if at >= blocks.end {
            return None;
        }
        let page = at / PAGE_BLOCKS;
        let first = page * PAGE_BLOCKS;
        let end = blocks.end.min(first + PAGE_BLOCKS);
        let bits = at - first..end - first;
        at = end;
        Some((page as u32, bits))
    })
}

/// The words that a range of bits touches, each with the mask of its bits in the range.
fn words_of(bits: Range<u64>) -> impl Iterator<Item = (usize, u64)> {
    let words = bits.start / 64..bits.end.div_ceil(64);
    words.map(move |word| {
        let first = word * 64;
        let low = bits.start.max(first) - first;
        let high = bits.end.min(first + 64) - first;
        let mask = if high - low == 64 { u64::MAX } else { ((1 << (high - low)) - 1) << low };
        (word as usize, mask)
    })
}

#[cfg(test)]
mod tests;
