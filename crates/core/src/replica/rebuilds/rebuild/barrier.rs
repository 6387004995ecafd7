//! What of a rebuild is not cleared yet: a copy may bring a write that another in-sync member has
//! not written yet, and of which only bits of the copied blocks tell. So these bits are cleared,
//! and the replica becomes in-sync (B4), only when every primary has finished what it had sent when
//! the copy was read.

use std::collections::BTreeSet;

use crate::block_set::BlockSet;
use crate::ids::{BarrierNumber, PrimaryId};
use crate::view::PrimaryRecord;

/// Asks all primaries to finish what they have sent: one question at a time.
#[derive(Debug, Default)]
pub(super) struct Barrier {
    /// Copied and durable, since the question that is under way was asked.
    waiting: BlockSet,
    asked: Option<Asked>,
    /// All that was copied is covered by a question that was answered.
    has_passed: bool,
}

/// A question under way.
#[derive(Debug)]
struct Asked {
    number: BarrierNumber,
    /// Copied and durable when it was asked.
    covers: BlockSet,
    /// Whether nothing was left to be copied then.
    is_last: bool,
    /// The primaries that have answered it.
    finished: BTreeSet<PrimaryId>,
}

impl Barrier {
    /// These blocks are copied and durable.
    pub fn add(&mut self, durable: &BlockSet) {
        self.waiting.insert_all(durable);
    }

    /// Whether a question is to be asked: none is under way, and there is something to ask for.
    pub fn wants_question(&self, is_complete: bool) -> bool {
        let has_reason = !self.waiting.is_empty() || (is_complete && !self.has_passed);
        self.asked.is_none() && has_reason
    }

    /// A question begins, by this number. It covers all that is copied and durable by now;
    /// `is_complete` says whether that is everything.
    pub fn ask(&mut self, number: BarrierNumber, is_complete: bool) {
        debug_assert!(self.asked.is_none(), "one question at a time");
        let covers = core::mem::take(&mut self.waiting);
        let finished = BTreeSet::new();
        self.asked = Some(Asked { number, covers, is_last: is_complete, finished });
    }

    /// The question that is under way.
    pub fn under_way(&self) -> Option<BarrierNumber> {
        self.asked.as_ref().map(|asked| asked.number)
    }

    /// A primary has answered a question, perhaps one of before.
    pub fn answered(&mut self, number: BarrierNumber, primary: PrimaryId) {
        if let Some(asked) = self.asked.as_mut().filter(|asked| asked.number == number) {
            asked.finished.insert(primary);
        }
    }

    /// If all of these primaries have answered: ends the question, and returns what it covers.
    pub fn pass(&mut self, primaries: &[PrimaryRecord]) -> Option<BlockSet> {
        let has_passed = |asked: &mut Asked| {
            primaries.iter().all(|primary| asked.finished.contains(&primary.id))
        };
        let asked = self.asked.take_if(has_passed)?;
        self.has_passed |= asked.is_last;
        Some(asked.covers)
    }

    /// Whether all that was copied is covered by a question that was answered.
    pub fn has_passed(&self) -> bool {
        self.has_passed
    }

    /// The view has changed: what was answered by the one before does not count.
    pub fn begin_anew(&mut self) {
        if let Some(asked) = self.asked.take() {
            self.waiting.insert_all(&asked.covers);
        }
        self.has_passed = false;
    }
}

#[cfg(test)]
mod tests;
