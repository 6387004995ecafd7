//! Learning at work: what a rebuilding replica asks its source, and what the source answers (rules
//! W7, B4).

use crate::block_set::{BlockSet, PageBits, page_of};
use crate::ids::*;
use crate::message::{Message, MissingContent, RebuildWait};
use crate::payload::Payload;
use crate::replica::rebuild::{Inherits, NextQuestion};
use crate::replica::{Context, Replica};
use crate::settings::BLOCK;
use crate::view::ReplicaState;

impl<P: Payload> Replica<P> {
    /// Begins to ask what this replica lacks, if that has not been asked; or takes everything if
    /// nobody can know.
    pub(super) fn learn(&mut self, cx: &mut Context<'_, P>) {
        let end = self.blocks();
        let has_bitmap = self.record().is_some_and(|record| record.missing_since.is_some());
        if let Some(rebuild) = self.rebuild.as_mut().filter(|rebuild| rebuild.is_to_learn()) {
            if has_bitmap {
                rebuild.learns_anew();
                self.ask(cx, self.config.id, 0);
            } else {
                rebuild.lacks_all(end);
            }
        }
    }

    /// The blocks of this replica.
    fn blocks(&self) -> u64 {
        self.size().div_ceil(u64::from(BLOCK))
    }

    /// Asks how the next blocks begin, or ends the count.
    pub(super) fn count_ahead(&mut self, cx: &mut Context<'_, P>) {
        let generation = self.view.generation;
        let counts_ahead = self.config.settings.count_ahead;
        let next = self.rebuild.as_mut().map(|rebuild| rebuild.next_to_count(counts_ahead));
        if let Some(NextQuestion::Ask(link, blocks)) = next {
            let token = CopyToken(self.next_number());
            let (offset, length) = self.place_of(&blocks);
            if let Some(rebuild) = &mut self.rebuild {
                rebuild.asks_count(token, blocks, cx.now);
            }
            cx.send(link, Message::Copy { generation, token, offset, length }, None);
        }
    }

    /// Goes on asking what others lack; when that is known, all has to become durable.
    pub(super) fn inherit(&mut self, cx: &mut Context<'_, P>) {
        if let Some(rebuild) = &mut self.rebuild {
            match rebuild.inherits() {
                Inherits::None => {}
                Inherits::From(other) => self.ask(cx, other, 0),
                Inherits::All => rebuild.saves(self.missing.unsaved()),
            }
        }
    }

    fn ask(&mut self, cx: &mut Context<'_, P>, replica: ReplicaId, page: u32) {
        let generation = self.view.generation;
        let rebuild = self.rebuild.as_mut();
        if let Some(link) = rebuild.and_then(|rebuild| rebuild.ask(cx.now, replica, page)) {
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
        let rebuild = self.rebuild.as_mut();
        if !rebuild.is_some_and(|rebuild| rebuild.take_answer(link, replica, asked)) {
            return; // It has come late.
        }
        let is_own = replica == self.config.id;
        match content {
            MissingContent::Page(page, bits) if page >= asked && self.is_page(page) => {
                self.page_told(replica, page, &bits);
                self.ask(cx, replica, page.saturating_add(1));
            }
            MissingContent::End => self.told_all(replica),
            MissingContent::Unknown => {
                let end = self.blocks();
                match &mut self.rebuild {
                    Some(rebuild) if is_own => rebuild.lacks_all(end),
                    _ => {
                        self.missing.add(replica, &BlockSet::all(end));
                        self.told_all(replica);
                    }
                }
            }
            MissingContent::Page(..) | MissingContent::Refused => {
                self.lose_source(cx, RebuildWait::Source);
            }
        }
    }

    fn is_page(&self, page: u32) -> bool {
        page <= page_of(self.blocks().saturating_sub(1))
    }

    fn page_told(&mut self, replica: ReplicaId, page: u32, bits: &PageBits) {
        if replica != self.config.id {
            self.missing.add_page(replica, page, bits);
        } else if let Some(rebuild) = &mut self.rebuild {
            rebuild.lacks_page(page, bits);
        }
    }

    /// The source has told everything that a replica lacks. What this one may have that others
    /// lack is added.
    fn told_all(&mut self, replica: ReplicaId) {
        let (me, end) = (self.config.id, self.blocks());
        if let Some(rebuild) = &mut self.rebuild {
            match replica == me {
                true => rebuild.has_learnt(self.missing.of(me), end),
                false => rebuild.inherited(replica),
            }
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
        let Some(copier) = self.links.copier_of(link) else {
            return; // Who is nobody's copier has nothing to clear.
        };
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
