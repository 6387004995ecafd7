//! Rebuilds: a replica that lacks data finds a source, goes on from phase to phase ([`learning`],
//! [`copying`]), and tells primaries how far it is. What a rebuild knows and decides is in
//! [`rebuild`].
//!
//! The highest of a replica's rooms: it uses all others ([`Below`]), and is a [`Copier`] to
//! [`super::data`].

mod copying;
mod learning;
mod rebuild;

use core::ops::Range;
use std::collections::BTreeSet;

use self::rebuild::{Connected, Ending, LetGo, Rebuild};
use super::data::{Copier, Data, FlushWaiter, Lower};
use super::log::{Log, save_pages};
use super::sessions::Sessions;
use super::views::Views;
use super::{Context, DiskError, ReplicaEffect, Sender};
use crate::block_set::BlockSet;
use crate::ids::*;

use crate::message::{Message, Opener, RebuildProgress, RebuildWait, ReplicaReport};
use crate::payload::Payload;
use crate::time::Instant;
use crate::view::{Cause, ReplicaRecord, ReplicaState, View};

/// The rebuild of a replica, if one is under way.
#[derive(Debug, Default)]
pub(super) struct Rebuilds {
    rebuild: Option<Rebuild>,
}

/// What a rebuild uses: all other rooms.
pub(super) struct Below<'a, P> {
    pub views: &'a Views,
    pub sessions: &'a mut Sessions,
    pub log: &'a mut Log,
    pub data: &'a mut Data<P>,
}

impl<P> Below<'_, P> {
    /// What is under way on the disk, and what that uses.
    fn data<'a>(&'a mut self, copier: &'a mut Rebuilds) -> (&'a mut Data<P>, Lower<'a>) {
        let Self { views, sessions, log, data } = self;
        (data, Lower { views, sessions, log, copier })
    }
}

impl Copier for Rebuilds {
    fn is_to_copy(&self, blocks: &Range<u64>) -> bool {
        self.rebuild.as_ref().is_some_and(|rebuild| rebuild.is_to_copy(blocks))
    }

    fn held(
        &mut self,
        now: Instant,
        token: CopyToken,
        primaries: BTreeSet<PrimaryId>,
    ) -> Option<(ReplicaId, Range<u64>)> {
        self.rebuild.as_mut()?.held(now, token, primaries)
    }

    fn flush_begins(&mut self) {
        self.rebuild.iter_mut().for_each(Rebuild::flush_begins);
    }

    fn flush_ended(&mut self, succeeded: bool) {
        self.rebuild.iter_mut().for_each(|rebuild| rebuild.flush_ended(succeeded));
    }

    fn flushed(&mut self, now: Instant, outcome: Result<(), DiskError>) -> Result<(), DiskError> {
        // A view that came meanwhile may have it begin anew.
        let Some(rebuild) = self.rebuild.as_mut().filter(|rebuild| rebuild.phase().is_flushing())
        else {
            return Ok(());
        };
        match outcome {
            Ok(()) => rebuild.flushed(now),
            Err(error) => rebuild.broke(error),
        }
        outcome
    }

    fn failure(&self) -> Option<DiskError> {
        self.rebuild.as_ref().and_then(|rebuild| rebuild.phase().failure())
    }
}

impl Rebuilds {
    /// How far it is, if one is under way.
    pub fn progress(&self) -> Option<RebuildProgress> {
        self.rebuild.as_ref().map(Rebuild::progress)
    }

    /// When it is to be gone on with.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.rebuild.as_ref().and_then(Rebuild::next_wakeup)
    }

    /// Whether these blocks come with the copy, or may.
    pub fn is_to_be_copied(&self, blocks: &Range<u64>) -> bool {
        self.rebuild
            .as_ref()
            .is_some_and(|rebuild| rebuild.phase().is_learning() || rebuild.is_out_of_sync(blocks))
    }

    /// The source or a primary says something that only a rebuild waits for.
    pub fn message<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        link: LinkId,
        message: Message,
        payload: Option<P>,
    ) {
        match message {
            Message::SessionOpened { session: _, report } => {
                self.source_opened(cx, below, link, *report);
            }
            Message::MissingBlocks { replica, asked, content } => {
                self.missing_reported(cx, below, link, replica, asked, content);
            }
            Message::Copied { token, content } => {
                self.copied(cx, below, link, token, content, payload);
            }
            Message::Drained { generation, token, is_busy } => {
                self.drained(cx, below, Sender { link, generation }, token, is_busy);
            }
            Message::WritesFinished { generation, number } => {
                self.writes_finished(below, link, generation, number);
            }
            _ => debug_assert!(false, "no rebuild waits for {message:?}"),
        }
    }

    /// Panics if who is rebuilt is not what the view says, or holds what it may not (B1, B2, B4).
    pub fn check_invariants<P: Payload>(&self, views: &Views, data: &Data<P>) {
        let Some(rebuild) = &self.rebuild else {
            return; // None is under way.
        };
        let state = views.state();
        assert!(state == Some(ReplicaState::Rebuilding), "B4: it rebuilds, and is {state:?}");
        rebuild.check_invariants(views.view());
        for (token, lock, is_waited_for) in rebuild.range_locks() {
            data.check_hold(token, lock, is_waited_for);
        }
        assert!(
            !views.is_paused() || !rebuild.holds_anything(),
            "V2: a rebuild holds a range while a view is being adopted"
        );
    }

    /// Whether this incarnation of the replica has completed a rebuild, and has told so.
    pub fn has_rebuilt(&self) -> bool {
        self.rebuild.as_ref().is_some_and(|rebuild| rebuild.phase().is_complete())
    }

    /// Takes the rebuild as far as it goes now. Nothing of it begins elsewhere: while a view is
    /// being adopted answers still come, and what they would begin would keep the adoption from its
    /// end.
    pub fn advance<P: Payload>(&mut self, cx: &mut Context<'_, P>, below: &mut Below<'_, P>) {
        if self.rebuild.is_none() || below.views.is_paused() {
            return;
        }
        self.let_go_of_late_copies(cx, below);
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.advance(cx.now);
            if !rebuild.is_pausing(cx.now) {
                match rebuild.wants_source() {
                    true => self.find_source(cx, below),
                    false => self.advance_phases(cx, below),
                }
            }
        }
        self.advance_barrier(cx, below);
        self.report_progress(cx, below);
    }

    /// Each does nothing unless it is its phase, and may leave the next one to be gone on with.
    fn advance_phases<P: Payload>(&mut self, cx: &mut Context<'_, P>, below: &mut Below<'_, P>) {
        self.learn(cx, below);
        self.count_ahead(cx, below);
        self.begin_copies(cx, below);
        self.inherit(cx, below);
        self.finish(cx, below);
    }

    /// If all is copied and inherited: it has to be durable before the replica may be relied upon.
    fn finish<P: Payload>(&mut self, cx: &mut Context<'_, P>, below: &mut Below<'_, P>) {
        if let Some(rebuild) = &mut self.rebuild {
            match rebuild.next_ending(below.log) {
                Ending::None => {}
                Ending::Save(pages) => save_pages(cx, pages),
                Ending::Flush => {
                    let (data, lower) = &mut below.data(self);
                    data.flush(cx, lower, FlushWaiter::Rebuild);
                }
            }
        }
    }

    fn find_source<P: Payload>(&mut self, cx: &mut Context<'_, P>, below: &mut Below<'_, P>) {
        let sources: Vec<_> = below.views.sources().copied().collect();
        let chosen = self.rebuild.as_mut().and_then(|rebuild| rebuild.choose_source(&sources));
        if let Some(ReplicaRecord { id: replica, node, .. }) = chosen {
            cx.effects.push(ReplicaEffect::ConnectSource { replica, node });
        }
    }

    pub fn source_link<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        replica: ReplicaId,
        link: Option<LinkId>,
    ) {
        let session = SessionNumber(cx.next_number());
        let connected = match &mut self.rebuild {
            Some(rebuild) => rebuild.connected(cx.now, replica, link),
            None => Connected::Unwanted,
        };
        match (connected, link) {
            (Connected::Wanted, Some(link)) => {
                let opener = Opener::Copier(cx.me.id);
                let named_incarnations = Box::default();
                cx.send(link, Message::OpenSession { session, opener, named_incarnations }, None);
            }
            (Connected::Unwanted, Some(link)) => cx.disconnect(link),
            (Connected::Failed, _) => self.lose_source(cx, below, RebuildWait::Source),
            (Connected::Wanted | Connected::Unwanted, None) => {}
        }
    }

    fn source_opened<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        link: LinkId,
        report: ReplicaReport,
    ) {
        // A source that restarted has left (W5), though its primaries may not know yet: its machine
        // may have taken back what it had answered.
        let known =
            below.views.view().replica(report.replica).map(|(_, record)| record.incarnation);
        if let Some(rebuild) = &mut self.rebuild
            && rebuild.source().is_opening(report.replica, link)
        {
            match known == Some(report.incarnation) {
                true => rebuild.source_opened(report.replica, link),
                false => self.lose_source(cx, below, RebuildWait::Source),
            }
        }
    }

    /// Gives up the present source; another one is tried after a pause.
    fn lose_source<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        why: RebuildWait,
    ) {
        if let Some(rebuild) = &mut self.rebuild {
            if let Some(link) = rebuild.lose_source(cx.now, why) {
                cx.disconnect(link);
            }
            self.let_go(cx, below, LetGo::All);
        }
    }

    /// Notices that the link to the source has closed; tells whether it was that link.
    pub fn source_link_closed<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        link: LinkId,
    ) -> bool {
        let of_source = self.rebuild.as_mut().filter(|r| r.source().link() == Some(link));
        let is_source = of_source.map(Rebuild::source_closed).is_some();
        if is_source {
            self.lose_source(cx, below, RebuildWait::Source);
        }
        is_source
    }

    fn rebuild_broke<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        error: DiskError,
    ) {
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.broke(error);
        }
        below.sessions.report_disk_failed(cx, below.views, error.into());
    }

    /// Asks the primaries to finish what they have sent, if something that was copied waits for
    /// that, and clears the bits of what waits no more.
    fn advance_barrier<P: Payload>(&mut self, cx: &mut Context<'_, P>, below: &mut Below<'_, P>) {
        let primaries = &below.views.view().primaries;
        let passed =
            self.rebuild.as_mut().and_then(|rebuild| rebuild.pass_barrier(cx.now, primaries));
        if let Some(covered) = passed {
            self.clear_copied(cx, below, &covered);
        }
        if self.rebuild.as_ref().is_some_and(Rebuild::wants_barrier) {
            let number = BarrierNumber(cx.next_number());
            if let Some(rebuild) = &mut self.rebuild {
                rebuild.ask_barrier(number);
            }
            self.ask_barrier(cx, below);
        }
    }

    /// Asks, perhaps again: a primary may not have been there, or not in this view.
    fn ask_barrier<P: Payload>(&mut self, cx: &mut Context<'_, P>, below: &mut Below<'_, P>) {
        let generation = below.views.generation();
        if let Some(number) = self.rebuild.as_ref().and_then(Rebuild::barrier) {
            below.sessions.report_primaries(cx, &Message::RebuildCopied { generation, number });
        }
    }

    /// These blocks are here, durably, and on every member: nobody need remember that this replica
    /// lacked them.
    fn clear_copied<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        copied: &BlockSet,
    ) {
        let generation = below.views.generation();
        let link = self.rebuild.as_ref().and_then(|rebuild| rebuild.source().link());
        for run in copied.runs(0..u64::MAX) {
            below.log.has_got(cx.me.id, run.clone());
            let bytes = below.views.bytes_of(&run);
            let (offset, length) = (bytes.start, bytes.end - bytes.start);
            if let Some(link) = link {
                cx.send(link, Message::ClearBits { generation, offset, length }, None);
            }
        }
    }

    /// A view is to be adopted: let go of all regions that are not being written.
    pub fn pause<P: Payload>(&mut self, cx: &mut Context<'_, P>, below: &mut Below<'_, P>) {
        self.let_go(cx, below, LetGo::All);
    }

    /// A view could not be saved. By it this replica may have to begin anew, so nobody is to hear
    /// its number with what came of a rebuild before.
    pub fn suspend<P: Payload>(&mut self, cx: &mut Context<'_, P>, below: &mut Below<'_, P>) {
        self.lose_source(cx, below, RebuildWait::Source);
    }

    /// A view has been adopted: go on, begin, or end, as it says.
    pub fn follow<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        old: &View,
    ) {
        let id = cx.me.id;
        let is_rebuilding = below.views.state() == Some(ReplicaState::Rebuilding);
        let since = |view: &View| view.replica(id).map(|(_, record)| record.since);
        let never_left = since(old) == since(below.views.view());
        let keep = is_rebuilding && never_left;
        if let Some(rebuild) = self.rebuild.as_mut().filter(|_| keep) {
            // What came with the copy has not been noted here for who left. The source has.
            rebuild.goes_on(cx.now, misses_more(id, old, below.views.view()));
            let source = rebuild.progress().source;
            let is_source = |id| {
                below.views.view().replica(id).is_some_and(|(_, r)| r.state == ReplicaState::InSync)
            };
            if source.is_some_and(|id| !is_source(id)) {
                self.lose_source(cx, below, RebuildWait::Source);
            }
            return;
        }
        // Also of what was held while the view was on its way.
        self.let_go(cx, below, LetGo::All);
        if let Some(link) = self.rebuild.as_ref().and_then(|rebuild| rebuild.source().link()) {
            cx.disconnect(link);
        }
        if is_rebuilding && !differs_by_one_slot(below.views, old) {
            // What a failed flush may have lost is not stable, so others note it as missing here.
            below.data.forget_failure();
        }
        self.rebuild = is_rebuilding.then(|| Rebuild::new(cx.now));
    }

    fn report_progress<P: Payload>(&mut self, cx: &mut Context<'_, P>, below: &mut Below<'_, P>) {
        let (generation, limit) = (below.views.generation(), below.views.view().rebuild_limit);
        let report = self.rebuild.as_mut().and_then(|rebuild| rebuild.take_report(cx.now, limit));
        if let Some(progress) = report.map(Box::new) {
            below.sessions.report_primaries(cx, &Message::RebuildProgress { generation, progress });
            self.ask_barrier(cx, below);
            self.report_complete(cx, below);
        }
    }

    /// Tells the primaries that it may become in-sync, if it may.
    fn report_complete<P: Payload>(&mut self, cx: &mut Context<'_, P>, below: &mut Below<'_, P>) {
        let generation = below.views.generation();
        if self.rebuild.as_ref().is_some_and(Rebuild::may_become_in_sync) {
            below.sessions.report_primaries(cx, &Message::RebuildDone { generation });
        }
    }

    /// A primary has finished its writes.
    fn writes_finished<P>(
        &mut self,
        below: &Below<'_, P>,
        link: LinkId,
        generation: Generation,
        number: BarrierNumber,
    ) {
        if let Some(primary) = below.sessions.primary_of(link)
            && below.views.is_current(generation)
            && let Some(rebuild) = &mut self.rebuild
        {
            rebuild.barrier_answered(number, primary);
        }
    }
}

/// Whether this replica may be rebuilding only for what one dead primary has left undone,
/// beside others that go on. What is not stable of these nobody notes as missing here then.
fn differs_by_one_slot(views: &Views, old: &View) -> bool {
    let record = views.record();
    let is_unclean = record
        .is_some_and(|record| record.cause == Cause::UncleanEnd && record.missing_since.is_some());
    is_unclean && old.primaries.iter().any(|primary| views.view().has_primary(primary.id))
}

/// Whether somebody in the mirror of this replica lacks writes by the new view who did not by the
/// old one.
fn misses_more(id: ReplicaId, old: &View, new: &View) -> bool {
    let Some((mirror, _)) = new.replica(id) else { return false };
    new.mirrors[mirror].replicas.iter().any(|record| {
        let before = old.replica(record.id).map(|(_, record)| *record);
        let has_left = |before: ReplicaRecord| {
            let was_member = before.state.takes_writes() && before.since != record.since;
            was_member || before.missing_since != record.missing_since
        };
        record.missing_since.is_some() && before.is_none_or(has_left)
    })
}

#[cfg(test)]
mod tests;
