//! Learning: a rebuilding replica asks its source what it lacks, and in the end what others lack
//! (rules W7, B4).

use std::collections::BTreeSet;

use super::{BlockSet, Count, Phase, Rebuild};
use crate::block_set::PageBits;
use crate::ids::*;
use crate::time::Instant;

/// A question that is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::replica::rebuilds) struct Question {
    replica: ReplicaId,
    page: u32,
    pub asked_at: Instant,
}

impl Rebuild {
    /// It asks from the beginning what this replica lacks.
    pub fn learns_anew(&mut self) {
        self.out_of_sync = BlockSet::default();
    }

    /// These pages of what others lack are to be saved.
    pub fn saves(&mut self, pages: BTreeSet<(ReplicaId, u32)>) {
        self.phase = Phase::Saving(pages);
    }

    /// The source is asked what a replica lacks from this page on, if it may be. Returns the link
    /// to it.
    pub fn ask(&mut self, now: Instant, replica: ReplicaId, page: u32) -> Option<LinkId> {
        let (_, link) = self.source.open()?;
        match &mut self.phase {
            Phase::Learning(question) | Phase::Inheriting(_, question) => {
                *question = Some(Question { replica, page, asked_at: now });
                Some(link)
            }
            _ => None,
        }
    }

    /// Takes an answer, if it is the one that is expected: it may have come late.
    pub fn take_answer(&mut self, link: LinkId, replica: ReplicaId, page: u32) -> bool {
        let is_source = self.source.open().is_some_and(|(_, open)| open == link);
        let (Phase::Learning(question) | Phase::Inheriting(_, question)) = &mut self.phase else {
            return false;
        };
        let is_expected = |asked: &mut Question| (asked.replica, asked.page) == (replica, page);
        is_source && question.take_if(is_expected).is_some()
    }

    /// This replica lacks what a page names.
    pub fn mark_page_out_of_sync(&mut self, page: u32, bits: &PageBits) {
        self.out_of_sync.insert_page(page, bits);
    }

    /// The source has told everything: of the replica's blocks up to `end` it lacks that, and what
    /// its own bitmap says.
    pub fn has_learnt(&mut self, own: Option<&BlockSet>, end: u64) {
        if let Some(own) = own {
            self.out_of_sync.insert_all(own);
        }
        self.out_of_sync.remove(end..u64::from(u32::MAX) * 64);
        self.begin_copying();
    }

    /// This replica lacks all its blocks.
    pub fn mark_all_out_of_sync(&mut self, end: u64) {
        self.out_of_sync = BlockSet::all(end);
        self.begin_copying();
    }

    fn begin_copying(&mut self) {
        (self.count, self.done, self.total) = (Count::default(), 0, None);
        self.phase = Phase::Copying;
    }

    /// It is known what another replica lacks.
    pub fn inherited(&mut self, replica: ReplicaId) {
        if let Phase::Inheriting(others, _) = &mut self.phase {
            others.retain(|other| *other != replica);
        }
    }
}
