//! The rebuild at work: it finds a source, goes on from phase to phase, and tells primaries how far
//! it is. What it knows and decides is in [`super::rebuild`].

mod copying;
mod learning;

use super::flush_queue::FlushWaiter;
use super::rebuild::{Connected, Ending, LetGo, Rebuild};
use super::{Context, DiskError, Replica, ReplicaEffect};
use crate::block_set::BlockSet;
use crate::ids::*;
use crate::incarnations::Incarnations;
use crate::message::{Message, Opener, RebuildWait, ReplicaReport};
use crate::payload::Payload;
use crate::view::{Cause, ReplicaRecord, ReplicaState, View};

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

impl<P: Payload> Replica<P> {
    /// Whether this incarnation of the replica has completed a rebuild, and has told so.
    pub(super) fn has_rebuilt(&self) -> bool {
        self.rebuild.as_ref().is_some_and(Rebuild::is_complete)
    }

    /// How the disk has failed for good, as far as primaries have to know: they have this replica
    /// leave.
    pub(super) fn disk_failure(&self) -> Option<DiskError> {
        self.flushes.failure().or(self.rebuild.as_ref().and_then(Rebuild::failure))
    }

    /// Takes the rebuild as far as it goes now. Nothing of it begins elsewhere: while a view is
    /// being adopted answers still come, and what they would begin would keep the adoption from its
    /// end.
    pub(super) fn advance_rebuild(&mut self, cx: &mut Context<'_, P>) {
        if self.rebuild.is_none() || self.adoption.is_under_way() || self.is_unsaved() {
            return;
        }
        self.let_go_of_late_copies(cx);
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.advance(cx.now);
            if !rebuild.is_pausing(cx.now) {
                match rebuild.wants_source() {
                    true => self.find_source(cx),
                    false => self.advance_phases(cx),
                }
            }
        }
        self.advance_barrier(cx);
        self.report_progress(cx);
    }

    /// Each does nothing unless it is its phase, and may leave the next one to be gone on with.
    fn advance_phases(&mut self, cx: &mut Context<'_, P>) {
        self.learn(cx);
        self.count_ahead(cx);
        self.begin_copies(cx);
        self.inherit(cx);
        self.finish(cx);
    }

    /// If all is copied and inherited: it has to be durable before the replica may be relied upon.
    fn finish(&mut self, cx: &mut Context<'_, P>) {
        if let Some(rebuild) = &mut self.rebuild {
            match rebuild.next_ending(&mut self.missing) {
                Ending::None => {}
                Ending::Save(pages) => Self::save_pages(cx, pages),
                Ending::Flush => self.flush(cx, FlushWaiter::Rebuild),
            }
        }
    }

    fn find_source(&mut self, cx: &mut Context<'_, P>) {
        let sources: Vec<_> = self.sources().copied().collect();
        let chosen = self.rebuild.as_mut().and_then(|rebuild| rebuild.choose_source(&sources));
        if let Some(ReplicaRecord { id: replica, node, .. }) = chosen {
            cx.effects.push(ReplicaEffect::ConnectSource { replica, node });
        }
    }

    /// The replicas from which this one may copy.
    fn sources(&self) -> impl Iterator<Item = &ReplicaRecord> {
        let own = self.view.replica(self.config.id).map(|(mirror, _)| &self.view.mirrors[mirror]);
        own.into_iter().flat_map(|mirror| mirror.in_sync())
    }

    pub(super) fn source_link(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        link: Option<LinkId>,
    ) {
        let session = SessionNumber(self.next_number());
        let connected = match &mut self.rebuild {
            Some(rebuild) => rebuild.connected(cx.now, replica, link),
            None => Connected::Unwanted,
        };
        match (connected, link) {
            (Connected::Wanted, Some(link)) => {
                let opener = Opener::Copier(self.config.id);
                let named_incarnations = Incarnations::default();
                cx.send(link, Message::OpenSession { session, opener, named_incarnations }, None);
            }
            (Connected::Unwanted, Some(link)) => cx.disconnect(link),
            (Connected::Failed, _) => self.lose_source(cx, RebuildWait::Source),
            (Connected::Wanted | Connected::Unwanted, None) => {}
        }
    }

    pub(super) fn source_opened(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        report: ReplicaReport,
    ) {
        // A source that restarted has left (W5), though its primaries may not know yet: its machine
        // may have taken back what it had answered.
        let known = self.view.replica(report.replica).map(|(_, record)| record.incarnation);
        if let Some(rebuild) = &mut self.rebuild
            && rebuild.is_opening(report.replica, link)
        {
            match known == Some(report.incarnation) {
                true => rebuild.source_opened(report.replica, link),
                false => self.lose_source(cx, RebuildWait::Source),
            }
        }
    }

    /// Gives up the present source; another one is tried after a pause.
    fn lose_source(&mut self, cx: &mut Context<'_, P>, why: RebuildWait) {
        if let Some(rebuild) = &mut self.rebuild {
            if let Some(link) = rebuild.lose_source(cx.now, why) {
                cx.disconnect(link);
            }
            self.let_go(cx, LetGo::All);
        }
    }

    /// Notices that the link to the source has closed; tells whether it was that link.
    pub(super) fn source_link_closed(&mut self, cx: &mut Context<'_, P>, link: LinkId) -> bool {
        let of_source = self.rebuild.as_mut().filter(|r| r.source_link() == Some(link));
        let is_source = of_source.map(Rebuild::source_closed).is_some();
        if is_source {
            self.lose_source(cx, RebuildWait::Source);
        }
        is_source
    }

    fn rebuild_broke(&mut self, cx: &mut Context<'_, P>, error: DiskError) {
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.broke(error);
        }
        self.tell_disk_failed(cx, error.into());
    }

    pub(super) fn rebuild_flushed(
        &mut self,
        cx: &mut Context<'_, P>,
        outcome: Result<(), DiskError>,
    ) {
        // A view that came meanwhile may have it begin anew.
        if let Some(rebuild) = self.rebuild.as_mut().filter(|rebuild| rebuild.is_flushing()) {
            match outcome {
                Ok(()) => rebuild.flushed(cx.now),
                Err(error) => self.rebuild_broke(cx, error),
            }
        }
    }

    /// A device flush begins: it makes durable what was copied before.
    pub(super) fn rebuild_flush_begins(&mut self) {
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.flush_begins();
        }
    }

    /// A device flush has ended.
    pub(super) fn rebuild_flush_ended(&mut self, succeeded: bool) {
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.flush_ended(succeeded);
        }
    }

    /// Asks the primaries to finish what they have sent, if something that was copied waits for
    /// that, and clears the bits of what waits no more.
    fn advance_barrier(&mut self, cx: &mut Context<'_, P>) {
        let primaries = &self.view.primaries;
        let passed =
            self.rebuild.as_mut().and_then(|rebuild| rebuild.pass_barrier(cx.now, primaries));
        if let Some(covered) = passed {
            self.clear_copied(cx, &covered);
        }
        if self.rebuild.as_ref().is_some_and(Rebuild::wants_barrier) {
            let number = BarrierNumber(self.next_number());
            if let Some(rebuild) = &mut self.rebuild {
                rebuild.ask_barrier(number);
            }
            self.ask_barrier(cx);
        }
    }

    /// Asks, perhaps again: a primary may not have been there, or not in this view.
    fn ask_barrier(&mut self, cx: &mut Context<'_, P>) {
        let generation = self.view.generation;
        if let Some(number) = self.rebuild.as_ref().and_then(Rebuild::barrier) {
            self.tell_primaries(cx, Message::RebuildCopied { generation, number });
        }
    }

    /// These blocks are here, durably, and on every member: nobody need remember that this replica
    /// lacked them.
    fn clear_copied(&mut self, cx: &mut Context<'_, P>, copied: &BlockSet) {
        let generation = self.view.generation;
        let link = self.rebuild.as_ref().and_then(Rebuild::source_link);
        for run in copied.runs(0..u64::MAX) {
            self.missing.clear_bits(self.config.id, run.clone());
            let bytes = self.bytes_of(&run);
            let (offset, length) = (bytes.start, bytes.end - bytes.start);
            if let Some(link) = link {
                cx.send(link, Message::ClearBits { generation, offset, length }, None);
            }
        }
    }

    /// A view is to be adopted: let go of all regions that are not being written.
    pub(super) fn pause_rebuild(&mut self, cx: &mut Context<'_, P>) {
        self.let_go(cx, LetGo::All);
    }

    /// A view could not be saved. By it this replica may have to begin anew, so nobody is to hear
    /// its number with what came of a rebuild before.
    pub(super) fn suspend_rebuild(&mut self, cx: &mut Context<'_, P>) {
        self.lose_source(cx, RebuildWait::Source);
    }

    /// A view has been adopted: go on, begin, or end, as it says.
    pub(super) fn resume_rebuild(&mut self, cx: &mut Context<'_, P>, old: &View) {
        let id = self.config.id;
        let is_rebuilding = self.state() == Some(ReplicaState::Rebuilding);
        let since = |view: &View| view.replica(id).map(|(_, record)| record.since);
        let never_left = since(old) == since(&self.view);
        let keep = is_rebuilding && never_left;
        if let Some(rebuild) = self.rebuild.as_mut().filter(|_| keep) {
            // What came with the copy has not been noted here for who left. The source has.
            rebuild.goes_on(cx.now, misses_more(id, old, &self.view));
            let source = rebuild.last_source();
            let is_source =
                |id| self.view.replica(id).is_some_and(|(_, r)| r.state == ReplicaState::InSync);
            if source.is_some_and(|id| !is_source(id)) {
                self.lose_source(cx, RebuildWait::Source);
            }
            return;
        }
        // Also of what was held while the view was on its way.
        self.let_go(cx, LetGo::All);
        if let Some(link) = self.rebuild.as_ref().and_then(Rebuild::source_link) {
            cx.disconnect(link);
        }
        if is_rebuilding && !self.lacks_one_slot_only(old) {
            // What a failed flush may have lost is not stable, so others note it as missing here.
            self.flushes.forget_failure();
        }
        self.rebuild = is_rebuilding.then(|| Rebuild::new(cx.now));
    }

    /// Whether this replica may be rebuilding only for what one dead primary has left undone,
    /// beside others that go on. What is not stable of these nobody notes as missing here then.
    fn lacks_one_slot_only(&self, old: &View) -> bool {
        let record = self.record();
        let is_unclean = record.is_some_and(|record| {
            record.cause == Cause::UncleanEnd && record.missing_since.is_some()
        });
        is_unclean && old.primaries.iter().any(|primary| self.view.has_primary(primary.id))
    }

    fn report_progress(&mut self, cx: &mut Context<'_, P>) {
        let (generation, limit) = (self.view.generation, self.view.rebuild_limit);
        let report = self.rebuild.as_mut().and_then(|rebuild| rebuild.take_report(cx.now, limit));
        if let Some(progress) = report {
            self.tell_primaries(cx, Message::RebuildProgress { generation, progress });
            self.ask_barrier(cx);
            self.tell_complete(cx);
        }
    }

    /// Tells the primaries that it may become in-sync, if it may.
    fn tell_complete(&mut self, cx: &mut Context<'_, P>) {
        let generation = self.view.generation;
        if self.rebuild.as_ref().is_some_and(Rebuild::may_become_in_sync) {
            self.tell_primaries(cx, Message::RebuildDone { generation });
        }
    }

    /// A primary has finished its writes.
    pub(super) fn writes_finished(
        &mut self,
        link: LinkId,
        generation: Generation,
        number: BarrierNumber,
    ) {
        if let Some(primary) = self.links.primary_of(link)
            && self.is_current(generation)
            && let Some(rebuild) = &mut self.rebuild
        {
            rebuild.barrier_answered(number, primary);
        }
    }

    pub(super) fn tell_primaries(&mut self, cx: &mut Context<'_, P>, message: Message) {
        let links: Vec<_> = self.links.open_primaries().map(|(link, _)| link).collect();
        for link in links {
            cx.send(link, message.clone(), None);
        }
    }
}
