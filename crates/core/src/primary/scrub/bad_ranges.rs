//! Ranges that were found wanting when they were read.

use core::ops::Range;
use std::collections::VecDeque;

use crate::settings::BLOCK;
use crate::stripe::{self, Geometry};

/// Ranges that wait to be repaired; of more, each is found when it is read again.
const MAX_BAD_RANGES: usize = 64;

/// A range of a mirror that one of its replicas could not read, or could not vouch for, in whole
/// blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::primary) struct BadRange {
    mirror: usize,
    bytes: Range<u64>,
}

/// Ranges that were found wanting.
#[derive(Debug, Default)]
pub(in crate::primary) struct BadRanges {
    /// They wait to be compared and repaired.
    waiting: VecDeque<BadRange>,
    /// They were compared, and nobody knows what is right there. Each read of them would have them
    /// compared again.
    undecided: VecDeque<BadRange>,
    /// How many were rewritten.
    rewritten: u64,
}

impl BadRange {
    /// A range in whole blocks; `None` if it is not inside a mirror of this size, as a replica may
    /// name any.
    pub fn new(mirror: usize, bytes: Range<u64>, size: u64) -> Option<Self> {
        let block = u64::from(BLOCK);
        let end = bytes.end.min(size).next_multiple_of(block).min(size);
        let bad = Self { mirror, bytes: bytes.start / block * block..end };
        (bytes.start < size).then_some(bad)
    }

    /// In the volume. If it is longer than a chunk, with the chunks of other mirrors between.
    /// `None` if it is not inside the volume, the last chunk of which may be shorter.
    pub fn in_volume(&self, geometry: Geometry, mirrors: usize) -> Option<Range<u64>> {
        let place = |at| stripe::volume_offset(geometry, mirrors, self.mirror, at);
        let (start, end) = (place(self.bytes.start), place(self.bytes.end - 1) + 1);
        (start < geometry.size).then(|| start..end.min(geometry.size))
    }
}

impl BadRanges {
    /// Whether none waits.
    #[inline]
    pub fn are_repaired(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A range is to be repaired.
    pub fn add(&mut self, bad: BadRange) {
        if self.waiting.len() < MAX_BAD_RANGES && !self.waiting.contains(&bad) {
            self.waiting.push_back(bad);
        }
    }

    /// A range is to be repaired if that is not known to be in vain.
    pub fn add_unless_undecided(&mut self, bad: BadRange) {
        if !self.undecided.contains(&bad) {
            self.add(bad);
        }
    }

    /// The next range to repair.
    pub fn next(&mut self) -> Option<BadRange> {
        self.waiting.pop_front()
    }

    /// A range could not be repaired now.
    pub fn put_off(&mut self, bad: BadRange) {
        self.waiting.push_back(bad);
    }

    /// A range was compared, and nobody knows what is right there.
    pub fn is_undecided(&mut self, bad: BadRange) {
        if self.undecided.len() == MAX_BAD_RANGES {
            self.undecided.pop_front();
        }
        self.undecided.push_back(bad);
    }

    /// What was wrong in a range was rewritten.
    pub fn rewrote(&mut self) {
        self.rewritten += 1;
    }

    /// How many times something was.
    pub fn rewritten(&self) -> u64 {
        self.rewritten
    }

    /// No range is to be repaired any more.
    pub fn forget(&mut self) {
        *self = Self { rewritten: self.rewritten, ..Self::default() };
    }
}

#[cfg(test)]
mod tests;
