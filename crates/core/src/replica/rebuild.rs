//! The rebuild: the replica pulls what it lacks from an in-sync one (rules B1, B2, B4).
//!
//! Per region: hold it, so that incoming writes wait; let every primary say that the source has
//! answered all writes that were sent there before; copy the region from the source; let the
//! waiting writes run. Whatever goes wrong, the region is let go and begun again later, so writes
//! are held for [`crate::Settings::longest_hold`] at most.

use std::collections::{BTreeMap, BTreeSet};

use super::flush::FlushWaiter;
use super::{Context, DiskAction, DiskError, Replica, ReplicaEffect};
use crate::ids::*;
use crate::message::{CopyContent, Message, Opener, RebuildProgress, RebuildWait, ReplicaReport};
use crate::payload::Payload;
use crate::range_lock::LockNumber;
use crate::settings::REGION;
use crate::time::Instant;
use crate::view::{ReplicaState, View};
use core::time::Duration;

/// Pause before a region or a source is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// How often primaries are told how far the rebuild is.
const REPORT_PERIOD: Duration = Duration::from_millis(250);

/// A rebuild under way.
#[derive(Debug)]
pub(super) struct Rebuild {
    source: Source,
    /// The first byte that no copy has been begun for.
    cursor: u64,
    /// Regions to copy again.
    again: Vec<u64>,
    copies: BTreeMap<CopyToken, Copy>,
    progress: RebuildProgress,
    phase: Phase,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Copying,
    Flushing,
    /// Nothing is left, all is durable; the primaries have been told.
    Complete,
    /// This replica's disk failed; the primaries have been told.
    Broken,
}

/// One region on its way.
#[derive(Debug)]
struct Copy {
    offset: u64,
    length: u32,
    lock: LockNumber,
    step: Step,
    /// When the hold was granted.
    since: Instant,
}

#[derive(Debug)]
enum Step {
    /// Waits for its hold.
    Locking,
    /// Waits for these primaries.
    Draining(BTreeSet<PrimaryId>),
    /// Waits for the source.
    Reading,
    /// Waits for the disk.
    Writing,
}

impl Rebuild {
    fn new(now: Instant, total: u64) -> Self {
        Self {
            source: Source::None,
            cursor: 0,
            again: Vec::new(),
            copies: BTreeMap::new(),
            progress: RebuildProgress { total, ..RebuildProgress::default() },
            phase: Phase::Copying,
            retry_at: now,
            report_at: now,
            tries: 0,
        }
    }

    pub fn progress(&self) -> RebuildProgress {
        self.progress
    }

    pub fn next_wakeup(&self) -> Option<Instant> {
        (self.phase != Phase::Broken).then_some(self.report_at)
    }

    fn source_link(&self) -> Option<LinkId> {
        match self.source {
            Source::Opening(_, link, _) | Source::Open(_, link) => Some(link),
            Source::None | Source::Connecting(_) => None,
        }
    }
}

impl<P: Payload> Replica<P> {
    /// Takes the rebuild as far as it goes now.
    pub(super) fn advance_rebuild(&mut self, cx: &mut Context<'_, P>) {
        if self.rebuild.is_none() || self.adoption.is_some() {
            return;
        }
        self.let_go_of_late_copies(cx);
        self.begin_copies(cx);
        self.report_progress(cx);
    }

    fn begin_copies(&mut self, cx: &mut Context<'_, P>) {
        let everyone_connected = self.everyone_connected();
        let most = self.config.settings.concurrent_copies;
        loop {
            let Some(rebuild) = &mut self.rebuild else { return };
            if rebuild.phase != Phase::Copying || cx.now < rebuild.retry_at {
                return;
            }
            if !everyone_connected {
                rebuild.progress.waits_for = Some(RebuildWait::Drain);
                return;
            }
            let nothing_left = rebuild.cursor >= rebuild.progress.total && rebuild.again.is_empty();
            if nothing_left {
                if rebuild.copies.is_empty() {
                    rebuild.phase = Phase::Flushing;
                    self.flush(cx, FlushWaiter::Rebuild);
                }
                return;
            }
            if !matches!(rebuild.source, Source::Open(..)) {
                return self.find_source(cx);
            }
            if rebuild.copies.len() >= most {
                return;
            }
            self.begin_copy(cx);
        }
    }

    /// Whether every primary of the adopted view has a session here: each has to drain.
    fn everyone_connected(&self) -> bool {
        !self.view.primaries.is_empty()
            && self.view.primaries.iter().all(|p| self.open_primaries().any(|(_, open)| open == *p))
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
                cx.send(link, Message::OpenSession { session: number, opener }, None);
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
            self.begin_copies(cx);
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

    fn begin_copy(&mut self, cx: &mut Context<'_, P>) {
        let token = CopyToken(self.next_number());
        let Some(rebuild) = &mut self.rebuild else { return };
        let offset = rebuild.again.pop().unwrap_or_else(|| {
            let next = rebuild.cursor;
            rebuild.cursor += u64::from(REGION);
            next
        });
        let length = (rebuild.progress.total - offset).min(u64::from(REGION)) as u32;
        let copy = Copy { offset, length, lock: 0, step: Step::Locking, since: cx.now };
        rebuild.copies.insert(token, copy);
        let lock = self.hold(cx, token, offset, length);
        if let Some(copy) = self.rebuild.as_mut().and_then(|r| r.copies.get_mut(&token)) {
            copy.lock = lock;
        }
    }

    /// A hold was granted: ask all primaries to drain the range.
    pub(super) fn range_held(&mut self, cx: &mut Context<'_, P>, token: CopyToken) {
        let generation = self.view.generation;
        let links: Vec<_> =
            self.open_primaries().filter(|(_, primary)| self.view.has_primary(*primary)).collect();
        let Some(rebuild) = &mut self.rebuild else { return };
        let Source::Open(source, _) = rebuild.source else { return };
        let Some(copy) = rebuild.copies.get_mut(&token) else { return };
        copy.since = cx.now;
        copy.step = Step::Draining(links.iter().map(|(_, primary)| *primary).collect());
        let (offset, length) = (copy.offset, copy.length);
        for (link, _) in links {
            cx.send(link, Message::Drain { generation, token, offset, length, source }, None);
        }
    }

    pub(super) fn drained(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        generation: Generation,
        token: CopyToken,
    ) {
        let Some(primary) = self.primary_of(link) else { return };
        if !self.is_current(generation) {
            return;
        }
        let Some(rebuild) = &mut self.rebuild else { return };
        let Source::Open(_, source_link) = rebuild.source else { return };
        let Some(copy) = rebuild.copies.get_mut(&token) else { return };
        let Step::Draining(primaries) = &mut copy.step else { return };
        primaries.remove(&primary);
        if primaries.is_empty() {
            copy.step = Step::Reading;
            let (offset, length) = (copy.offset, copy.length);
            cx.send(source_link, Message::Copy { generation, token, offset, length }, None);
        }
    }

    pub(super) fn copied(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        token: CopyToken,
        content: CopyContent,
        payload: Option<P>,
    ) {
        let Some(rebuild) = &mut self.rebuild else { return };
        if rebuild.source_link() != Some(link) {
            return;
        }
        let Some(copy) = rebuild.copies.get_mut(&token) else { return };
        if !matches!(copy.step, Step::Reading) {
            return;
        }
        let (offset, length, lock) = (copy.offset, copy.length, copy.lock);
        let action = match (content, payload) {
            (CopyContent::Data, Some(payload)) if payload.length() == length => {
                rebuild.progress.copied += u64::from(length);
                DiskAction::Write { offset, payload }
            }
            (CopyContent::Zeroes, None) => DiskAction::Zero { offset, length, unmap: true },
            (CopyContent::Failed(_), _) => {
                return self.lose_source(cx, RebuildWait::SourceMedium(offset));
            }
            _ => return self.lose_source(cx, RebuildWait::Source),
        };
        copy.step = Step::Writing;
        self.begin_held(cx, lock, action);
    }

    /// A copied region is on the disk, or could not be written. Its hold ends with this.
    pub(super) fn copy_written(
        &mut self,
        cx: &mut Context<'_, P>,
        token: CopyToken,
        outcome: Result<(), DiskError>,
    ) {
        let Some(rebuild) = &mut self.rebuild else { return };
        let Some(copy) = rebuild.copies.remove(&token) else { return };
        match outcome {
            Ok(()) => {
                rebuild.progress.done += u64::from(copy.length);
                rebuild.progress.waits_for = None;
            }
            Err(error) => self.rebuild_broke(cx, error),
        }
    }

    fn rebuild_broke(&mut self, cx: &mut Context<'_, P>, error: DiskError) {
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.phase = Phase::Broken;
        }
        let generation = self.view.generation;
        self.tell_primaries(cx, Message::DiskFailed { generation, failure: error.into() });
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

    /// Lets go of regions that are held for too long, and of a source that does not answer.
    fn let_go_of_late_copies(&mut self, cx: &mut Context<'_, P>) {
        let longest = self.config.settings.longest_hold;
        let Some(rebuild) = &self.rebuild else { return };
        let late = |copy: &Copy| cx.now.since(copy.since) >= longest;
        let reads_late = |copy: &Copy| matches!(copy.step, Step::Reading) && late(copy);
        let drains_late = |copy: &Copy| matches!(copy.step, Step::Draining(_)) && late(copy);
        let opening_late = matches!(rebuild.source, Source::Opening(_, _, since)
            if cx.now.since(since) >= self.config.settings.deadline);
        if opening_late || rebuild.copies.values().any(reads_late) {
            return self.lose_source(cx, RebuildWait::Source);
        }
        if rebuild.copies.values().any(drains_late) {
            let now = cx.now;
            self.let_go(cx, |copy| now.since(copy.since) >= longest);
            if let Some(rebuild) = &mut self.rebuild {
                rebuild.progress.waits_for = Some(RebuildWait::Drain);
                rebuild.retry_at = now + RETRY_PAUSE;
            }
        }
    }

    /// Lets go of the chosen regions, but for those that are being written; they are copied again
    /// later.
    fn let_go(&mut self, cx: &mut Context<'_, P>, chosen: impl Fn(&Copy) -> bool) {
        let Some(rebuild) = &mut self.rebuild else { return };
        let mut locks = Vec::new();
        let again = &mut rebuild.again;
        rebuild.copies.retain(|_, copy| {
            let goes = chosen(copy) && !matches!(copy.step, Step::Writing);
            if goes {
                again.push(copy.offset);
                locks.push(copy.lock);
            }
            !goes
        });
        for lock in locks.into_iter().rev() {
            self.end_operation(cx, lock);
        }
    }

    /// A view is to be adopted: let go of all regions that are not being written.
    pub(super) fn pause_rebuild(&mut self, cx: &mut Context<'_, P>) {
        self.let_go(cx, |_| true);
    }

    /// A view has been adopted: go on, begin, or end, as it says.
    pub(super) fn resume_rebuild(&mut self, cx: &mut Context<'_, P>, old: &View) {
        let id = self.config.id;
        let total = self.size();
        let is_rebuilding = self.state() == Some(ReplicaState::Rebuilding);
        let since = |view: &View| view.replica(id).map(|(_, record)| record.since);
        let never_left = since(old) == since(&self.view);
        let keep = is_rebuilding && never_left;
        if let Some(rebuild) = self.rebuild.as_mut().filter(|_| keep) {
            rebuild.report_at = cx.now;
            rebuild.retry_at = cx.now;
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
        if is_rebuilding {
            // Everything is written anew, so nothing that a failed flush may have lost counts.
            self.flushes.forget_failure();
        }
        self.rebuild = is_rebuilding.then(|| Rebuild::new(cx.now, total));
    }

    fn report_progress(&mut self, cx: &mut Context<'_, P>) {
        let generation = self.view.generation;
        let Some(rebuild) = &mut self.rebuild else { return };
        if cx.now < rebuild.report_at || rebuild.phase == Phase::Broken {
            return;
        }
        rebuild.report_at = cx.now + REPORT_PERIOD;
        let progress = rebuild.progress;
        let complete = rebuild.phase == Phase::Complete;
        self.tell_primaries(cx, Message::RebuildProgress { generation, progress });
        if complete {
            self.tell_primaries(cx, Message::RebuildDone { generation });
        }
    }

    fn tell_primaries(&mut self, cx: &mut Context<'_, P>, message: Message) {
        let links: Vec<_> = self.open_primaries().map(|(link, _)| link).collect();
        for link in links {
            cx.send(link, message.clone(), None);
        }
    }
}
