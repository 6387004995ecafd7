//! Counting: how much there really is to copy. While it copies, the replica asks its source ahead
//! how each long lacking run begins, and notes what holds no data: that costs next to nothing, and
//! would make the amount and the time left look larger than they are.
//!
//! Only what people are shown comes of it. What is copied is decided anew, under a hold
//! ([`super::copies`]), as clients may write or trim meanwhile.

use core::ops::Range;

use super::copies::UNIT;
use super::{BLOCK, BlockSet, Context, Phase, Rebuild, Replica, Source};
use crate::ids::{CopyToken, LinkId};
use crate::message::{CopyContent, Message, RebuildWait};
use crate::payload::Payload;
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
    pub(super) fn not_lacking_any_more(&mut self, blocks: Range<u64>, was_hole: bool) {
        let uncounted_hole = was_hole && !self.count.has_counted(blocks.end);
        if !uncounted_hole {
            self.done += self.count.data_in(blocks.clone()) * u64::from(BLOCK);
        }
        self.lacking.remove(blocks);
    }

    /// All is counted that is to be copied, or will not be: the amount is known from now on.
    pub(super) fn end_count(&mut self) {
        let count = core::mem::take(&mut self.count);
        let (Count::UnderWay { holes, .. } | Count::Complete { holes }) = count;
        let mut left = self.lacking.clone();
        left.remove_all(&holes);
        self.total = Some(self.done + left.count() * u64::from(BLOCK));
        self.count = Count::Complete { holes };
    }

    /// The next long run that is not counted. What is short counts as data.
    fn next_to_count(&self) -> Option<Range<u64>> {
        let Count::UnderWay { next, question: None, .. } = &self.count else { return None };
        let mut runs = self.lacking.runs(*next..u64::MAX);
        let run = runs.find(|run| run.end - run.start > UNIT)?;
        Some(run.start..run.end.min(run.start + MAX_QUESTION))
    }
}

impl<P: Payload> Replica<P> {
    /// Asks what comes next, or ends the count.
    pub(super) fn count_ahead(&mut self, cx: &mut Context<'_, P>) {
        let generation = self.view.generation;
        let Some(rebuild) = &mut self.rebuild else { return };
        let Count::UnderWay { question: None, .. } = &rebuild.count else { return };
        if rebuild.phase != Phase::Copying {
            return;
        }
        let Source::Open(_, link) = rebuild.source else { return };
        let wanted = rebuild.next_to_count().filter(|_| self.config.settings.count_ahead);
        let Some(blocks) = wanted else { return rebuild.end_count() };
        let token = CopyToken(self.next_number());
        let bytes = self.bytes_of(&blocks);
        let (offset, length) = (bytes.start, (bytes.end - bytes.start) as u32);
        if let Some(Rebuild { count: Count::UnderWay { question, .. }, .. }) = &mut self.rebuild {
            *question = Some(CountQuestion { token, blocks, asked_at: cx.now });
        }
        cx.send(link, Message::Copy { generation, token, offset, length }, None);
    }

    /// Takes an answer of the source to a question of the count. Returns whether it was one.
    pub(super) fn counted(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        token: CopyToken,
        content: CopyContent,
    ) -> bool {
        let Some(rebuild) = &mut self.rebuild else { return false };
        if rebuild.source_link() != Some(link) {
            return false;
        }
        let Count::UnderWay { next, question, holes } = &mut rebuild.count else { return false };
        let Some(asked) = question.take_if(|question| question.token == token) else {
            return false;
        };
        let (zeroes, data) = match content {
            CopyContent::Begins { zeroes, data } => (zeroes, data),
            CopyContent::Refused => {
                self.lose_source(cx, RebuildWait::Source);
                return true;
            }
            // What cannot be counted counts as data; the copy will say what is wrong there.
            _ => (0, MAX_ZERO),
        };
        let hole = asked.blocks.start + u64::from(zeroes / BLOCK);
        let hole = hole.min(asked.blocks.end);
        holes.insert(asked.blocks.start..hole);
        // One question for each unit at most, however small the pieces are.
        let known = (hole + u64::from(data.div_ceil(BLOCK))).max((hole / UNIT + 1) * UNIT);
        *next = if hole == asked.blocks.end { hole } else { known.min(asked.blocks.end) };
        true
    }
}
