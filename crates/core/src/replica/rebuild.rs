//! The rebuild: the replica pulls what it lacks from an in-sync one (rules B1, B2, B4, B5).
//!
//! It asks its source what it lacks ([`learning`]), counts what of that holds data ([`counting`])
//! while it copies all of it region by region ([`copies`]), takes over what the source knows that
//! others lack, makes all durable, and says so. The source clears the bits of what it has copied
//! durably, so that a rebuild that is interrupted goes on where it was.

mod copies;
mod counting;
mod learning;
mod set_aside;

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use self::copies::{Copy, Run};
use self::counting::Count;
use self::learning::Question;
use self::set_aside::SetAside;
use super::flush_queue::FlushWaiter;
use super::{Context, DiskError, Replica, ReplicaEffect};
use crate::block_set::BlockSet;
use crate::ids::*;
use crate::incarnations::Incarnations;
use crate::message::{Message, Opener, RebuildProgress, RebuildWait, ReplicaReport};
use crate::pace::Pace;
use crate::payload::Payload;
use crate::settings::BLOCK;
use crate::time::Instant;
use crate::view::{Cause, RebuildLimit, ReplicaRecord, ReplicaState, View};
use core::time::Duration;

/// Pause before a region or a source is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// How often primaries are told how far the rebuild is.
const REPORT_PERIOD: Duration = Duration::from_millis(250);

/// A rebuild under way.
#[derive(Debug)]
pub(super) struct Rebuild {
    source: Source,
    phase: Phase,
    /// What is still to be copied; complete once it has been learnt.
    lacking: BlockSet,
    /// The first block that no copy has been begun for in this round.
    cursor: u64,
    /// Blocks of which the source has told that they may hold data.
    dense: Range<u64>,
    /// What the source can't read.
    set_aside: SetAside,
    copies: BTreeMap<CopyToken, Copy>,
    runs: BTreeMap<CopyToken, Run>,
    /// Copied since a device flush last began, and before the one that runs.
    unflushed: BlockSet,
    flushing: BlockSet,
    /// What people are shown, but for the amounts.
    progress: RebuildProgress,
    count: Count,
    /// Bytes that are copied, without what holds no data.
    done: u64,
    /// The same of all that is to be copied; `None` until it is counted.
    total: Option<u64>,
    /// The primaries that have finished what they had sent when all was copied, by the adopted
    /// view.
    finished: BTreeSet<PrimaryId>,
    pace: Pace,
    /// Nothing is begun before this moment.
    retry_at: Instant,
    report_at: Instant,
    /// How many sources were tried; chooses the next one.
    tries: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    None,
    Connecting(ReplicaId),
    Opening(ReplicaId, LinkId, Instant),
    Open(ReplicaId, LinkId),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// It asks what it lacks.
    Learning(Option<Question>),
    Copying,
    /// It asks what these others lack.
    Inheriting(Vec<ReplicaId>, Option<Question>),
    /// It saves these pages of what others lack.
    Saving(BTreeSet<(ReplicaId, u32)>),
    /// It makes what it has copied durable.
    Flushing,
    /// Nothing is left, all is durable; the primaries have been told.
    Complete,
    /// This replica's disk failed so; each primary is told, also who comes later.
    Broken(DiskError),
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

impl Rebuild {
    fn new(now: Instant) -> Self {
        Self {
            source: Source::None,
            phase: Phase::Learning(None),
            lacking: BlockSet::default(),
            cursor: 0,
            dense: 0..0,
            set_aside: SetAside::default(),
            copies: BTreeMap::new(),
            runs: BTreeMap::new(),
            unflushed: BlockSet::default(),
            flushing: BlockSet::default(),
            progress: RebuildProgress::default(),
            count: Count::default(),
            done: 0,
            total: None,
            finished: BTreeSet::new(),
            pace: Pace::new(now),
            retry_at: now,
            report_at: now,
            tries: 0,
        }
    }

    /// How far it is; no amounts until all is counted.
    pub fn progress(&self) -> RebuildProgress {
        let (done, total) = self.total.map_or((0, 0), |total| (self.done.min(total), total));
        let unreadable = self.set_aside.first();
        let unreadable =
            unreadable.map(|block| RebuildWait::SourceMedium(block * u64::from(BLOCK)));
        let waits_for = self.progress.waits_for.or(unreadable);
        RebuildProgress { done, total, waits_for, ..self.progress }
    }

    /// How this replica's disk has failed it, if it has.
    fn failure(&self) -> Option<DiskError> {
        match self.phase {
            Phase::Broken(error) => Some(error),
            _ => None,
        }
    }

    /// Whether nothing is left to be copied.
    fn has_copied(&self) -> bool {
        matches!(
            self.phase,
            Phase::Inheriting(..) | Phase::Saving(_) | Phase::Flushing | Phase::Complete
        )
    }

    pub fn next_wakeup(&self) -> Option<Instant> {
        let copy = self.pace.next_wakeup().filter(|_| self.phase == Phase::Copying);
        let report = self.failure().is_none().then_some(self.report_at);
        [copy, report].into_iter().flatten().min()
    }

    /// Whether it is not known yet what is lacking.
    pub fn is_learning(&self) -> bool {
        matches!(self.phase, Phase::Learning(_))
    }

    /// Whether all these blocks are known to be lacking.
    pub fn lacks(&self, blocks: &Range<u64>) -> bool {
        self.lacking.first_run(blocks.clone()).as_ref() == Some(blocks)
    }

    /// Whether all these blocks are lacking and none is being copied.
    pub fn is_to_copy(&self, blocks: &Range<u64>) -> bool {
        self.lacks(blocks) && !self.copies.values().any(|copy| copy.touches(blocks))
    }

    fn source_link(&self) -> Option<LinkId> {
        match self.source {
            Source::Opening(_, link, _) | Source::Open(_, link) => Some(link),
            Source::None | Source::Connecting(_) => None,
        }
    }
}

impl<P: Payload> Replica<P> {
    /// Whether this incarnation of the replica has completed a rebuild, and has told so.
    pub(super) fn has_rebuilt(&self) -> bool {
        self.rebuild.as_ref().is_some_and(|rebuild| rebuild.phase == Phase::Complete)
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
        if self.rebuild.is_none() || self.adoption.is_some() || self.is_unsaved() {
            return;
        }
        self.let_go_of_late_copies(cx);
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.pace.advance(cx.now);
            rebuild.set_aside.advance(cx.now);
        }
        self.advance_phase(cx);
        self.report_progress(cx);
    }

    fn advance_phase(&mut self, cx: &mut Context<'_, P>) {
        let Some(rebuild) = &self.rebuild else { return };
        if cx.now < rebuild.retry_at {
            return;
        }
        let needs_source =
            matches!(rebuild.phase, Phase::Learning(_) | Phase::Copying | Phase::Inheriting(..));
        if needs_source && !matches!(rebuild.source, Source::Open(..)) {
            return self.find_source(cx);
        }
        // Each does nothing unless it is its phase, and may leave the next one to be gone on with.
        self.learn(cx);
        self.count_ahead(cx);
        self.begin_copies(cx);
        self.inherit(cx);
        self.finish(cx);
    }

    /// If all is copied and inherited: it has to be durable before the replica may be relied upon.
    fn finish(&mut self, cx: &mut Context<'_, P>) {
        let Some(Rebuild { phase: Phase::Saving(pages), .. }) = &mut self.rebuild else { return };
        if self.missing.is_saving() {
            return;
        }
        if pages.is_empty() {
            if let Some(rebuild) = &mut self.rebuild {
                rebuild.phase = Phase::Flushing;
            }
            return self.flush(cx, FlushWaiter::Rebuild);
        }
        let pages = self.missing.begin_save_of(pages);
        Self::save_pages(cx, pages);
    }

    fn find_source(&mut self, cx: &mut Context<'_, P>) {
        let Some((mirror, _)) = self.view.replica(self.config.id) else { return };
        let sources: Vec<_> = self.view.mirrors[mirror].in_sync().copied().collect();
        let Some(rebuild) = &mut self.rebuild else { return };
        if rebuild.source != Source::None || sources.is_empty() {
            return;
        }
        let chosen = sources[rebuild.tries % sources.len()];
        rebuild.source = Source::Connecting(chosen.id);
        rebuild.progress.source = Some(chosen.id);
        cx.effects.push(ReplicaEffect::ConnectSource { replica: chosen.id, node: chosen.node });
    }

    pub(super) fn source_link(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        link: Option<LinkId>,
    ) {
        let id = self.config.id;
        let number = SessionNumber(self.next_number());
        let wanted = self.rebuild.as_mut().filter(|r| r.source == Source::Connecting(replica));
        match (wanted, link) {
            (Some(rebuild), Some(link)) => {
                rebuild.source = Source::Opening(replica, link, cx.now);
                let opener = Opener::Copier(id);
                let named_incarnations = Incarnations::default();
                cx.send(
                    link,
                    Message::OpenSession { session: number, opener, named_incarnations },
                    None,
                );
            }
            (Some(_), None) => self.lose_source(cx, RebuildWait::Source),
            (None, Some(link)) => cx.disconnect(link),
            (None, None) => {}
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
        let Some(rebuild) = &mut self.rebuild else { return };
        if let Source::Opening(replica, opening, _) = rebuild.source
            && opening == link
            && report.replica == replica
        {
            if known != Some(report.incarnation) {
                return self.lose_source(cx, RebuildWait::Source);
            }
            rebuild.source = Source::Open(replica, link);
            rebuild.progress.waits_for = None;
        }
    }

    /// Gives up the present source; another one is tried after a pause.
    fn lose_source(&mut self, cx: &mut Context<'_, P>, why: RebuildWait) {
        let Some(rebuild) = &mut self.rebuild else { return };
        if let Some(link) = rebuild.source_link() {
            cx.disconnect(link);
        }
        rebuild.source = Source::None;
        rebuild.progress.waits_for = Some(why);
        rebuild.retry_at = cx.now + RETRY_PAUSE;
        rebuild.tries += 1;
        if let Phase::Learning(question) | Phase::Inheriting(_, question) = &mut rebuild.phase {
            *question = None;
        }
        rebuild.count.lose_question();
        self.let_go(cx, |_| true);
    }

    /// Notices that the link to the source has closed; tells whether it was that link.
    pub(super) fn source_link_closed(&mut self, cx: &mut Context<'_, P>, link: LinkId) -> bool {
        let Some(rebuild) = &mut self.rebuild else { return false };
        if rebuild.source_link() != Some(link) {
            return false;
        }
        rebuild.source = Source::None;
        self.lose_source(cx, RebuildWait::Source);
        true
    }

    pub(super) fn rebuild_broke(&mut self, cx: &mut Context<'_, P>, error: DiskError) {
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.phase = Phase::Broken(error);
        }
        self.tell_disk_failed(cx, error.into());
    }

    pub(super) fn rebuild_flushed(
        &mut self,
        cx: &mut Context<'_, P>,
        outcome: Result<(), DiskError>,
    ) {
        let Some(rebuild) = &mut self.rebuild else { return };
        if rebuild.phase != Phase::Flushing {
            return;
        }
        match outcome {
            Ok(()) => {
                rebuild.phase = Phase::Complete;
                rebuild.report_at = cx.now;
            }
            Err(error) => self.rebuild_broke(cx, error),
        }
    }

    /// A device flush begins: it makes durable what was copied before.
    pub(super) fn rebuild_flush_begins(&mut self) {
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.flushing = core::mem::take(&mut rebuild.unflushed);
        }
    }

    /// A device flush has ended: the source need not remember that this replica lacked these
    /// blocks.
    pub(super) fn rebuild_flush_ended(&mut self, cx: &mut Context<'_, P>, succeeded: bool) {
        let me = self.config.id;
        let generation = self.view.generation;
        let is_current = self.is_current(generation);
        let Some(rebuild) = &mut self.rebuild else { return };
        let durable = core::mem::take(&mut rebuild.flushing);
        let link = rebuild.source_link().filter(|_| is_current);
        if !succeeded {
            return;
        }
        for run in durable.runs(0..u64::MAX) {
            self.missing.clear_bits(me, run.clone());
            let bytes = self.bytes_of(&run);
            let (offset, length) = (bytes.start, bytes.end - bytes.start);
            if let Some(link) = link {
                cx.send(link, Message::ClearBits { generation, offset, length }, None);
            }
        }
    }

    /// A view is to be adopted: let go of all regions that are not being written.
    pub(super) fn pause_rebuild(&mut self, cx: &mut Context<'_, P>) {
        self.let_go(cx, |_| true);
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
        let somebody_left = misses_more(id, old, &self.view);
        if let Some(rebuild) = self.rebuild.as_mut().filter(|_| keep) {
            if somebody_left && rebuild.has_copied() {
                // What came with the copy has not been noted here for who left. The source has.
                rebuild.phase = Phase::Copying;
            }
            rebuild.report_at = cx.now;
            rebuild.retry_at = cx.now;
            rebuild.finished.clear();
            rebuild.pace.reset();
            let source = rebuild.progress.source;
            let is_source =
                |id| self.view.replica(id).is_some_and(|(_, r)| r.state == ReplicaState::InSync);
            if source.is_some_and(|id| !is_source(id)) {
                self.lose_source(cx, RebuildWait::Source);
            }
            return;
        }
        // Also of what was held while the view was on its way.
        self.let_go(cx, |_| true);
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
        let generation = self.view.generation;
        let Some(rebuild) = &mut self.rebuild else { return };
        if cx.now < rebuild.report_at || rebuild.failure().is_some() {
            return;
        }
        rebuild.report_at = cx.now + REPORT_PERIOD;
        let is_paused =
            self.view.rebuild_limit == RebuildLimit::Paused && rebuild.phase == Phase::Copying;
        let mut progress = rebuild.progress();
        if is_paused {
            progress.waits_for = Some(RebuildWait::Operator);
        }
        let complete = rebuild.phase == Phase::Complete;
        self.tell_primaries(cx, Message::RebuildProgress { generation, progress });
        if complete {
            self.tell_complete(cx);
        }
    }

    /// What was copied may hold writes that another member has not written yet, and of which
    /// neither of their logs tells: every primary has to finish those.
    fn tell_complete(&mut self, cx: &mut Context<'_, P>) {
        let generation = self.view.generation;
        let Some(rebuild) = &self.rebuild else { return };
        let mut primaries = self.view.primaries.iter();
        match primaries.all(|primary| rebuild.finished.contains(&primary.id)) {
            true => self.tell_primaries(cx, Message::RebuildDone { generation }),
            false => self.tell_primaries(cx, Message::RebuildCopied { generation }),
        }
    }

    /// A primary has finished its writes.
    pub(super) fn writes_finished(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        generation: Generation,
    ) {
        let Some(primary) = self.links.primary_of(link) else { return };
        let is_current = self.is_current(generation);
        let Some(rebuild) = &mut self.rebuild else { return };
        if is_current && rebuild.phase == Phase::Complete && rebuild.finished.insert(primary) {
            rebuild.report_at = cx.now;
        }
    }

    pub(super) fn tell_primaries(&mut self, cx: &mut Context<'_, P>, message: Message) {
        let links: Vec<_> = self.links.open_primaries().map(|(link, _)| link).collect();
        for link in links {
            cx.send(link, message.clone(), None);
        }
    }
}
