//! Learning: a rebuilding replica asks its source what it lacks, and in the end what others lack;
//! and what the source answers (rules W7, B4).

use super::super::Replica;
use super::{BLOCK, BlockSet, Context, Count, Phase, Source};
use crate::block_set::PageBits;
use crate::ids::*;
use crate::message::{Message, MissingContent, RebuildWait};
use crate::payload::Payload;
use crate::time::Instant;
use crate::view::ReplicaState;

/// A question that is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Question {
    replica: ReplicaId,
    page: u32,
    pub asked_at: Instant,
}

impl<P: Payload> Replica<P> {
    /// Begins to ask what this replica lacks, if that has not been asked; or takes everything if
    /// nobody can know.
    pub(super) fn learn(&mut self, cx: &mut Context<'_, P>) {
        let me = self.config.id;
        if self.rebuild.as_ref().is_none_or(|rebuild| rebuild.phase != Phase::Learning(None)) {
            return;
        }
        if self.record().is_none_or(|record| record.missing_since.is_none()) {
            return self.lacks_everything();
        }
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.lacking = BlockSet::default();
        }
        self.ask(cx, me, 0);
    }

    /// Goes on asking what others lack; when that is known, all has to become durable.
    pub(super) fn inherit(&mut self, cx: &mut Context<'_, P>) {
        let Some(rebuild) = &mut self.rebuild else { return };
        let Phase::Inheriting(others, None) = &rebuild.phase else { return };
        match others.first().copied() {
            Some(other) => self.ask(cx, other, 0),
            None => {
                rebuild.phase = Phase::Saving(self.missing.unsaved());
            }
        }
    }

    fn ask(&mut self, cx: &mut Context<'_, P>, replica: ReplicaId, page: u32) {
        let generation = self.view.generation;
        let Some(rebuild) = &mut self.rebuild else { return };
        let Source::Open(_, link) = rebuild.source else { return };
        if let Phase::Learning(question) | Phase::Inheriting(_, question) = &mut rebuild.phase {
            *question = Some(Question { replica, page, asked_at: cx.now });
            cx.send(link, Message::AskMissing { generation, replica, page }, None);
        }
    }

    /// The source answers.
    pub(in crate::replica) fn missing_told(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        replica: ReplicaId,
        asked: u32,
        content: MissingContent,
    ) {
        let Some(rebuild) = &mut self.rebuild else { return };
        let (Phase::Learning(question) | Phase::Inheriting(_, question)) = &mut rebuild.phase
        else {
            return;
        };
        let is_expected = question.is_some_and(|q| q.replica == replica && q.page == asked);
        if rebuild.source.link() != Some(link) || !is_expected {
            return;
        }
        *question = None;
        let is_own = replica == self.config.id;
        match content {
            MissingContent::Page(page, bits) if page >= asked && self.is_page(page) => {
                self.page_told(replica, page, &bits);
                self.ask(cx, replica, page.saturating_add(1));
            }
            MissingContent::End if is_own => self.learnt(),
            MissingContent::End => self.inherited(replica),
            MissingContent::Unknown if is_own => self.lacks_everything(),
            MissingContent::Unknown => {
                let all = BlockSet::all(self.size().div_ceil(u64::from(BLOCK)));
                self.missing.add(replica, &all);
                self.inherited(replica);
            }
            MissingContent::Page(..) | MissingContent::Refused => {
                self.lose_source(cx, RebuildWait::Source);
            }
        }
    }

    fn is_page(&self, page: u32) -> bool {
        let last = self.size().div_ceil(u64::from(BLOCK)).saturating_sub(1);
        page <= crate::block_set::page_of(last)
    }

    fn page_told(&mut self, replica: ReplicaId, page: u32, bits: &PageBits) {
        if replica != self.config.id {
            self.missing.add_page(replica, page, bits);
        } else if let Some(rebuild) = &mut self.rebuild {
            rebuild.lacking.insert_page(page, bits);
        }
    }

    /// The source has told everything: what this replica may have that others lack is added.
    fn learnt(&mut self) {
        let end = self.size().div_ceil(u64::from(BLOCK));
        let own = self.missing.of(self.config.id);
        let Some(rebuild) = &mut self.rebuild else { return };
        if let Some(own) = own {
            rebuild.lacking.insert_all(own);
        }
        rebuild.lacking.remove(end..u64::from(u32::MAX) * 64);
        self.begin_copying();
    }

    fn lacks_everything(&mut self) {
        let all = BlockSet::all(self.size().div_ceil(u64::from(BLOCK)));
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.lacking = all;
        }
        self.begin_copying();
    }

    fn begin_copying(&mut self) {
        let Some(rebuild) = &mut self.rebuild else { return };
        (rebuild.count, rebuild.done, rebuild.total) = (Count::default(), 0, None);
        rebuild.phase = Phase::Copying;
    }

    fn inherited(&mut self, replica: ReplicaId) {
        if let Some(rebuild) = &mut self.rebuild
            && let Phase::Inheriting(others, _) = &mut rebuild.phase
        {
            others.retain(|other| *other != replica);
        }
    }

    /// A rebuilding replica asks what it or another one lacks.
    pub(in crate::replica) fn missing_asked(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        generation: Generation,
        replica: ReplicaId,
        page: u32,
    ) {
        if self.links.copier_of(link).is_none() {
            return self.drop_link(cx, link);
        }
        let is_source = self.state() == Some(ReplicaState::InSync);
        let content = if !is_source || !self.is_current(generation) {
            MissingContent::Refused
        } else if let Some(blocks) = self.missing.of(replica) {
            match blocks.page_from(page) {
                Some(page) => MissingContent::Page(page, Box::new(blocks.page(page))),
                None => MissingContent::End,
            }
        } else {
            MissingContent::Unknown
        };
        cx.send(link, Message::MissingBlocks { replica, asked: page, content }, None);
    }

    /// A rebuilding replica has this range now.
    pub(in crate::replica) fn clear_bits(
        &mut self,
        link: LinkId,
        generation: Generation,
        offset: u64,
        length: u64,
    ) {
        let Some(copier) = self.links.copier_of(link) else { return };
        let end = offset.saturating_add(length).min(self.size());
        let is_rebuilding = self
            .view
            .replica(copier)
            .is_some_and(|(_, record)| record.state == ReplicaState::Rebuilding);
        if self.is_current(generation) && is_rebuilding && offset < end {
            let block = u64::from(BLOCK);
            self.missing.clear_bits(copier, offset.div_ceil(block)..end.div_ceil(block));
        }
    }
}

impl Source {
    /// The link to a source that may be asked.
    fn link(self) -> Option<LinkId> {
        match self {
            Self::Open(_, link) => Some(link),
            _ => None,
        }
    }
}
