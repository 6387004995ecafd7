//! What others lack: told to rebuilding replicas that ask, cleared when they say that they have it,
//! learnt from the source of this one, and saved.

use core::ops::Range;
use std::collections::BTreeSet;

use super::{Log, Lower, MissingPage};
use crate::block_set::{BlockSet, PageBits};
use crate::ids::*;
use crate::message::{Message, MissingContent};
use crate::replica::{Context, DiskAction, DiskError, DiskTicket, Obeyed, Sender, Violation};
use crate::settings::BLOCK;
use crate::view::ReplicaState;

impl Log {
    /// The replicas that lack something.
    pub fn out_of_sync(&self) -> impl Iterator<Item = ReplicaId> {
        self.missing.replicas()
    }

    /// The blocks that a replica lacks, if that is known.
    pub fn out_of_sync_of(&self, replica: ReplicaId) -> Option<&BlockSet> {
        self.missing.of(replica)
    }

    /// This replica lacks these blocks, too.
    pub fn mark_out_of_sync(&mut self, replica: ReplicaId, blocks: &BlockSet) {
        self.missing.add(replica, blocks);
    }

    /// This replica lacks these blocks, too: a page that another replica has told.
    pub fn mark_page_out_of_sync(&mut self, replica: ReplicaId, page: u32, bits: &PageBits) {
        self.missing.add_page(replica, page, bits);
    }

    /// This replica has these blocks now, durably.
    pub fn has_got(&mut self, replica: ReplicaId, blocks: Range<u64>) {
        self.missing.clear_bits(replica, blocks);
    }

    /// A rebuilding replica asks what it or another one lacks.
    pub fn missing_asked<P>(
        &self,
        cx: &mut Context<'_, P>,
        lower: Lower<'_>,
        from: Sender,
        replica: ReplicaId,
        page: u32,
    ) -> Obeyed {
        let Lower { views, sessions } = lower;
        sessions.copier_of(from.link).ok_or(Violation)?;
        let is_source = views.state() == Some(ReplicaState::InSync);
        let is_member = sessions.is_copier_of_the_view(views, from.link);
        let is_current = views.is_current(from.generation);
        let content = if !is_source || !is_member || !is_current {
            MissingContent::Refused
        } else if let Some(blocks) = self.missing.of(replica) {
            match blocks.page_from(page) {
                Some(page) => MissingContent::Page(page, Box::new(blocks.page(page))),
                None => MissingContent::End,
            }
        } else {
            MissingContent::Unknown
        };
        cx.send(from.link, Message::MissingBlocks { replica, asked: page, content }, None);
        Ok(())
    }

    /// A rebuilding replica has this range now.
    pub fn clear_bits(&mut self, lower: Lower<'_>, from: Sender, offset: u64, length: u64) {
        let Lower { views, sessions } = lower;
        let Some(copier) = sessions.copier_of(from.link) else {
            return; // Who is nobody's copier has nothing to clear.
        };
        let end = offset.saturating_add(length).min(views.size());
        let is_rebuilding = views
            .view()
            .replica(copier)
            .is_some_and(|(_, record)| record.state == ReplicaState::Rebuilding);
        if views.is_current(from.generation) && is_rebuilding && offset < end {
            let block = u64::from(BLOCK);
            self.missing.clear_bits(copier, offset.div_ceil(block)..end.div_ceil(block));
        }
    }

    /// Whether pages are being saved.
    pub fn is_saving_pages(&self) -> bool {
        self.missing.is_saving()
    }

    /// The pages that the disk does not hold as they are.
    pub fn unsaved_pages(&self) -> BTreeSet<(ReplicaId, u32)> {
        self.missing.unsaved()
    }

    /// Takes the first of these pages, as many as are saved at once, to be [saved](save_pages), as
    /// far as their bitmaps still exist. No save is under way. Leaves those that come later.
    pub fn begin_save_of(&mut self, pages: &mut BTreeSet<(ReplicaId, u32)>) -> Vec<MissingPage> {
        self.missing.begin_save_of(pages)
    }

    /// Saves pages that are not on the disk.
    pub fn save_missing<P>(&mut self, cx: &mut Context<'_, P>) {
        save_pages(cx, self.missing.begin_save());
    }

    /// The save of pages has ended.
    pub fn missing_saved<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: Lower<'_>,
        outcome: Result<(), DiskError>,
    ) {
        self.missing.saved(cx.now, outcome.is_ok());
        if let Err(error) = outcome {
            return lower.sessions.report_disk_failed(cx, lower.views, error.into());
        }
        if self.first_in_line().is_some() {
            self.save_missing(cx);
        }
    }
}

/// Saves these pages.
pub(in crate::replica) fn save_pages<P>(cx: &mut Context<'_, P>, pages: Vec<MissingPage>) {
    if !pages.is_empty() {
        cx.disk(DiskTicket::Bitmaps, DiskAction::SaveMissing(pages));
    }
}
