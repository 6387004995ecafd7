//! Counting: how much there really is to copy. While it copies, the replica asks its source ahead
//! how each long lacking run begins, and notes what holds no data: that costs next to nothing, and
//! would make the amount and the time left look larger than they are.
//!
//! Only what people are shown comes of it. What is copied is decided anew, under a hold
//! ([`super::copies`]), as clients may write or trim meanwhile.

use core::ops::Range;

use super::copies::UNIT;
use super::{BLOCK, BlockSet, Rebuild};
use crate::ids::{CopyToken, LinkId};
use crate::message::CopyContent;
use crate::settings::MAX_ZERO;
use crate::time::Instant;

/// Blocks of the longest range that is asked about in one question.
const MAX_QUESTION: u64 = (MAX_ZERO / BLOCK) as u64;

/// The amount that a rebuild has to copy, and what is known of it.
#[derive(Debug)]
pub(super) enum Count {
    /// Blocks below `next` are counted: they hold data, unless they are in `holes`.
    UnderWay { next: u64, question: Option<CountQuestion>, holes: BlockSet },
    /// All are counted.
    Complete { holes: BlockSet },
}

/// A question that the source has not answered.
#[derive(Debug, Clone)]
pub(super) struct CountQuestion {
    token: CopyToken,
    blocks: Range<u64>,
    asked_at: Instant,
}

/// What is to be counted next.
#[derive(Debug)]
pub(in crate::replica::rebuilds) enum NextQuestion {
    /// Nothing at present.
    None,
    /// The source is to be [asked](Rebuild::asks_count) how these blocks begin.
    Ask(LinkId, Range<u64>),
}

/// Whether an answer of the source was one to a question of the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::replica::rebuilds) enum Counted {
    /// No.
    No,
    /// Yes.
    Yes,
    /// Yes, and the source does not answer it.
    Refused,
}

impl Default for Count {
    fn default() -> Self {
        Self::UnderWay { next: 0, question: None, holes: BlockSet::default() }
    }
}

impl Count {
    /// How many of these blocks are not known to hold nothing.
    fn data_in(&self, blocks: Range<u64>) -> u64 {
        let (Self::UnderWay { holes, .. } | Self::Complete { holes }) = self;
        let none: u64 = holes.runs(blocks.clone()).map(|run| run.end - run.start).sum();
        blocks.end - blocks.start - none
    }

    /// Whether nothing below this block is still to be counted.
    fn has_counted(&self, end: u64) -> bool {
        match self {
            Self::UnderWay { next, .. } => end <= *next,
            Self::Complete { .. } => true,
        }
    }

    /// The source is another one, or will be: what it was asked, the next one is.
    pub fn lose_question(&mut self) {
        if let Self::UnderWay { question, .. } = self {
            *question = None;
        }
    }

    /// Since when a question has not been answered.
    pub fn asked_at(&self) -> Option<Instant> {
        match self {
            Self::UnderWay { question, .. } => question.as_ref().map(|q| q.asked_at),
            Self::Complete { .. } => None,
        }
    }
}

impl Rebuild {
    /// These blocks are copied or, if the source has told that nothing is there, zeroed.
    pub(super) fn clear_out_of_sync(&mut self, blocks: Range<u64>, was_hole: bool) {
        let uncounted_hole = was_hole && !self.count.has_counted(blocks.end);
        if !uncounted_hole {
            self.done += self.count.data_in(blocks.clone()) * u64::from(BLOCK);
        }
        self.out_of_sync.remove(blocks);
    }

    /// All is counted that is to be copied, or will not be: the amount is known from now on.
    fn end_count(&mut self) {
        let count = core::mem::take(&mut self.count);
        let (Count::UnderWay { holes, .. } | Count::Complete { holes }) = count;
        let mut left = self.out_of_sync.clone();
        left.remove_all(&holes);
        self.total = Some(self.done + left.count() * u64::from(BLOCK));
        self.count = Count::Complete { holes };
    }

    /// What is to be counted next; ends the count if nothing is, or if nothing is counted ahead.
    pub fn next_to_count(&mut self, counts_ahead: bool) -> NextQuestion {
        let (Count::UnderWay { next, question: None, .. }, true, Some((_, link))) =
            (&self.count, self.phase.is_copying(), self.source.open())
        else {
            return NextQuestion::None;
        };
        // What is short counts as data.
        let run = self.out_of_sync.runs(*next..u64::MAX).find(|run| run.end - run.start > UNIT);
        if let Some(run) = run.filter(|_| counts_ahead) {
            return NextQuestion::Ask(link, run.start..run.end.min(run.start + MAX_QUESTION));
        }
        self.end_count();
        NextQuestion::None
    }

    /// The source is asked how these blocks begin.
    pub fn asks_count(&mut self, token: CopyToken, blocks: Range<u64>, now: Instant) {
        if let Count::UnderWay { question, .. } = &mut self.count {
            *question = Some(CountQuestion { token, blocks, asked_at: now });
        }
    }

    /// Takes an answer of the source, if it is one to a question of the count.
    pub fn counted(&mut self, link: LinkId, token: CopyToken, content: CopyContent) -> Counted {
        let is_source = self.source.link() == Some(link);
        let Count::UnderWay { next, question, holes } = &mut self.count else {
            return Counted::No;
        };
        let Some(asked) = question.take_if(|asked| is_source && asked.token == token) else {
            return Counted::No;
        };
        let (zeroes, data) = match content {
            CopyContent::Begins { zeroes, data } => (zeroes, data),
            CopyContent::Refused => return Counted::Refused,
            // What cannot be counted counts as data; the copy will say what is wrong there.
            _ => (0, MAX_ZERO),
        };
        let hole = asked.blocks.start + u64::from(zeroes / BLOCK);
        let hole = hole.min(asked.blocks.end);
        holes.insert(asked.blocks.start..hole);
        // One question for each unit at most, however small the pieces are.
        let known = (hole + u64::from(data.div_ceil(BLOCK))).max((hole / UNIT + 1) * UNIT);
        *next = if hole == asked.blocks.end { hole } else { known.min(asked.blocks.end) };
        Counted::Yes
    }
}
