//! Learning at work: what a rebuilding replica asks its source, and what the source answers (rules
//! W7, B4).

use super::rebuild::{Inherits, NextQuestion};
use super::{Below, Rebuilds};
use crate::block_set::{BlockSet, page_of};
use crate::ids::*;
use crate::message::{Message, MissingContent, RebuildWait};
use crate::payload::Payload;
use crate::replica::Context;

impl Rebuilds {
    /// Begins to ask what this replica lacks, if that has not been asked; or takes everything if
    /// nobody can know.
    pub(super) fn learn<P: Payload>(&mut self, cx: &mut Context<'_, P>, below: &mut Below<'_, P>) {
        let end = below.views.blocks();
        let has_bitmap = below.views.record().is_some_and(|record| record.missing_since.is_some());
        if let Some(rebuild) = self.rebuild.as_mut().filter(|rebuild| rebuild.phase().is_to_learn())
        {
            if has_bitmap {
                rebuild.learns_anew();
                self.ask(cx, below, cx.me.id, 0);
            } else {
                rebuild.mark_all_out_of_sync(end);
            }
        }
    }

    /// Asks how the next blocks begin, or ends the count.
    pub(super) fn count_ahead<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
    ) {
        let generation = below.views.generation();
        let counts_ahead = cx.me.settings.count_ahead;
        let next = self.rebuild.as_mut().map(|rebuild| rebuild.next_to_count(counts_ahead));
        if let Some(NextQuestion::Ask(link, blocks)) = next {
            let token = CopyToken(cx.next_number());
            let (offset, length) = below.views.place_of(&blocks);
            if let Some(rebuild) = &mut self.rebuild {
                rebuild.asks_count(token, blocks, cx.now);
            }
            cx.send(link, Message::Copy { generation, token, offset, length }, None);
        }
    }

    /// Goes on asking what others lack; when that is known, all has to become durable.
    pub(super) fn inherit<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
    ) {
        if let Some(rebuild) = &mut self.rebuild {
            match rebuild.phase().inherits() {
                Inherits::None => {}
                Inherits::From(other) => self.ask(cx, below, other, 0),
                Inherits::All => rebuild.saves(below.log.unsaved_pages()),
            }
        }
    }

    fn ask<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        replica: ReplicaId,
        page: u32,
    ) {
        let generation = below.views.generation();
        let rebuild = self.rebuild.as_mut();
        if let Some(link) = rebuild.and_then(|rebuild| rebuild.ask(cx.now, replica, page)) {
            cx.send(link, Message::AskMissing { generation, replica, page }, None);
        }
    }

    /// The source answers.
    pub(super) fn missing_reported<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        link: LinkId,
        replica: ReplicaId,
        asked: u32,
        content: MissingContent,
    ) {
        let rebuild = self.rebuild.as_mut();
        if !rebuild.is_some_and(|rebuild| rebuild.take_answer(link, replica, asked)) {
            return; // It has come late.
        }
        let is_own = replica == cx.me.id;
        match content {
            MissingContent::Page(page, bits)
                if page >= asked && page <= page_of(below.views.blocks().saturating_sub(1)) =>
            {
                match &mut self.rebuild {
                    Some(rebuild) if is_own => rebuild.mark_page_out_of_sync(page, &bits),
                    _ => below.log.mark_page_out_of_sync(replica, page, &bits),
                }
                self.ask(cx, below, replica, page.saturating_add(1));
            }
            MissingContent::End => self.reported_all(cx.me.id, below, replica),
            MissingContent::Unknown => {
                let end = below.views.blocks();
                match &mut self.rebuild {
                    Some(rebuild) if is_own => rebuild.mark_all_out_of_sync(end),
                    _ => {
                        below.log.mark_out_of_sync(replica, &BlockSet::all(end));
                        self.reported_all(cx.me.id, below, replica);
                    }
                }
            }
            MissingContent::Page(..) | MissingContent::Refused => {
                self.lose_source(cx, below, RebuildWait::Source);
            }
        }
    }

    /// The source has told everything that a replica lacks. What this one may have that others
    /// lack is added.
    fn reported_all<P>(&mut self, me: ReplicaId, below: &Below<'_, P>, replica: ReplicaId) {
        let end = below.views.blocks();
        if let Some(rebuild) = &mut self.rebuild {
            match replica == me {
                true => rebuild.has_learnt(below.log.out_of_sync_of(me), end),
                false => rebuild.inherited(replica),
            }
        }
    }
}
