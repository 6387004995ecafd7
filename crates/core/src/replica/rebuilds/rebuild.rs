//! The rebuild: the replica pulls what it lacks from an in-sync one (rules B1, B2, B4, B5).
//!
//! It asks its source what it lacks ([`learning`]), counts what of that holds data ([`counting`])
//! while it copies all of it region by region ([`copies`]), takes over what the source knows that
//! others lack, makes all durable, and says so. The source clears the bits of what it has copied
//! durably, so that a rebuild that is interrupted goes on where it was.
//!
//! Here is what it knows and decides; [`super`] carries that out.

mod barrier;
mod copies;
mod counting;
mod learning;
mod phase;
mod set_aside;
mod source;

use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeMap;

use self::barrier::Barrier;
use self::copies::{Copy, Run};
pub(super) use self::copies::{Late, LetGo, NextRun};
use self::counting::Count;
pub(super) use self::counting::{Counted, NextQuestion};
pub(super) use self::phase::Inherits;
use self::phase::Phase;
use self::set_aside::SetAside;
use self::source::Source;

use crate::block_set::BlockSet;
use crate::ids::*;
use crate::message::{RebuildProgress, RebuildWait};
use crate::pace::Pace;
use crate::replica::DiskError;
use crate::replica::log::{Log, MissingPage};
use crate::settings::BLOCK;
use crate::time::Instant;
use crate::view::{PrimaryRecord, RebuildLimit, ReplicaRecord};

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
    out_of_sync: BlockSet,
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
    /// What waits for the primaries to finish what they have sent.
    barrier: Barrier,
    pace: Pace,
    /// Nothing is begun before this moment.
    retry_at: Instant,
    report_at: Instant,
    /// How many sources were tried; chooses the next one.
    tries: usize,
}

/// What is left to do when nothing is lacking here any more.
#[derive(Debug)]
pub(super) enum Ending {
    /// Nothing at present.
    None,
    /// These pages of what others lack are to be saved, if there are any.
    Save(Vec<MissingPage>),
    /// The disk is to be flushed.
    Flush,
}

/// What becomes of a connection that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connected {
    /// A session is to be opened over it.
    Wanted,
    /// It could not be made.
    Failed,
    /// Nobody waits for it any more.
    Unwanted,
}

impl Rebuild {
    /// It begins now.
    pub fn new(now: Instant) -> Self {
        Self {
            source: Source::None,
            phase: Phase::Learning(None),
            out_of_sync: BlockSet::default(),
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
            barrier: Barrier::default(),
            pace: Pace::new(now),
            retry_at: now,
            report_at: now,
            tries: 0,
        }
    }

    /// How far it is on its way.
    pub const fn phase(&self) -> &Phase {
        &self.phase
    }

    /// From whom it copies.
    pub const fn source(&self) -> Source {
        self.source
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

    /// When it is to be gone on with.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let copy = self.pace.next_wakeup().filter(|_| self.phase == Phase::Copying);
        let report = self.phase.failure().is_none().then_some(self.report_at);
        [copy, report].into_iter().flatten().min()
    }

    /// Whether all these blocks are known to be lacking.
    pub fn is_out_of_sync(&self, blocks: &Range<u64>) -> bool {
        self.out_of_sync.first_run(blocks.clone()).as_ref() == Some(blocks)
    }

    /// Whether all these blocks are lacking and none is being copied.
    pub fn is_to_copy(&self, blocks: &Range<u64>) -> bool {
        self.is_out_of_sync(blocks) && !self.copies.values().any(|copy| copy.touches(blocks))
    }

    /// Time has passed.
    pub fn advance(&mut self, now: Instant) {
        self.pace.advance(now);
        self.set_aside.advance(now);
    }

    /// Whether it has to have a source before it goes on.
    pub fn wants_source(&self) -> bool {
        self.phase.needs_source() && self.source.open().is_none()
    }

    /// Whether it pauses before it tries again what has failed.
    pub fn is_pausing(&self, now: Instant) -> bool {
        now < self.retry_at
    }

    /// Chooses one of these as its source, if it has none. A connection is to be made.
    pub fn choose_source(&mut self, sources: &[ReplicaRecord]) -> Option<ReplicaRecord> {
        if self.source != Source::None || sources.is_empty() {
            return None;
        }
        let chosen = sources[self.tries % sources.len()];
        self.source = Source::Connecting(chosen.id);
        self.progress.source = Some(chosen.id);
        Some(chosen)
    }

    /// The connection to a source is there, or could not be made.
    pub fn connected(&mut self, now: Instant, to: ReplicaId, link: Option<LinkId>) -> Connected {
        match link {
            _ if self.source != Source::Connecting(to) => Connected::Unwanted,
            None => Connected::Failed,
            Some(link) => {
                self.source = Source::Opening(to, link, now);
                Connected::Wanted
            }
        }
    }

    /// The source may be asked from now on.
    pub fn source_opened(&mut self, replica: ReplicaId, link: LinkId) {
        self.source = Source::Open(replica, link);
        self.progress.waits_for = None;
    }

    /// The link to the source has closed: there is nothing to disconnect.
    pub fn source_closed(&mut self) {
        self.source = Source::None;
    }

    /// Gives up the present source; another one is tried after a pause. Returns the link to it. All
    /// copies are to be [let go](Self::let_go).
    pub fn lose_source(&mut self, now: Instant, why: RebuildWait) -> Option<LinkId> {
        let link = self.source.link();
        self.source = Source::None;
        self.progress.waits_for = Some(why);
        self.retry_at = now + RETRY_PAUSE;
        self.tries += 1;
        if let Phase::Learning(question) | Phase::Inheriting(_, question) = &mut self.phase {
            *question = None;
        }
        self.count.lose_question();
        link
    }

    /// It goes on in another view. With `anew` what came with the copy is not known to be missing
    /// on all who lack it: the source has to be asked once more.
    pub fn goes_on(&mut self, now: Instant, anew: bool) {
        if anew && self.phase.has_copied() {
            self.phase = Phase::Copying;
        }
        self.report_at = now;
        self.retry_at = now;
        self.barrier.begin_anew();
        self.pace.reset();
    }

    /// The disk has failed it.
    pub fn broke(&mut self, error: DiskError) {
        self.phase = Phase::Broken(error);
    }

    /// What is left to do when nothing is lacking here any more: pages of what others lack are
    /// saved, then the disk is flushed.
    pub fn next_ending(&mut self, log: &mut Log) -> Ending {
        match &mut self.phase {
            Phase::Saving(_) if log.is_saving_pages() => Ending::None,
            Phase::Saving(pages) if pages.is_empty() => {
                self.phase = Phase::Flushing;
                Ending::Flush
            }
            Phase::Saving(pages) => Ending::Save(log.begin_save_of(pages)),
            _ => Ending::None,
        }
    }

    /// The flush has ended that it was waiting for: it is complete, unless it was told meanwhile to
    /// go on.
    pub fn flushed(&mut self, now: Instant) {
        if self.phase == Phase::Flushing {
            self.phase = Phase::Complete;
            self.report_at = now;
        }
    }

    /// A device flush begins: it makes durable what was copied before.
    pub fn flush_begins(&mut self) {
        self.flushing = core::mem::take(&mut self.unflushed);
    }

    /// A device flush has ended: what was copied before it is durable.
    pub fn flush_ended(&mut self, succeeded: bool) {
        let durable = core::mem::take(&mut self.flushing);
        if succeeded {
            self.barrier.add(&durable);
        }
    }

    /// Whether primaries are to be asked now to finish what they have sent.
    pub fn wants_barrier(&self) -> bool {
        self.phase.failure().is_none() && self.barrier.wants_question(self.phase.is_complete())
    }

    /// The primaries are asked, by this number.
    pub fn ask_barrier(&mut self, number: BarrierNumber) {
        self.barrier.ask(number, self.phase.is_complete());
    }

    /// The question that primaries have not all answered yet.
    pub fn barrier(&self) -> Option<BarrierNumber> {
        self.barrier.under_way()
    }

    /// A primary has answered.
    pub fn barrier_answered(&mut self, number: BarrierNumber, primary: PrimaryId) {
        self.barrier.answered(number, primary);
    }

    /// If all these primaries have answered: the blocks of which nobody need remember any more that
    /// this replica lacked them. If it has copied all, it may become in-sync, and says so at once.
    pub fn pass_barrier(&mut self, now: Instant, primaries: &[PrimaryRecord]) -> Option<BlockSet> {
        let covered = self.barrier.pass(primaries)?;
        if self.may_become_in_sync() {
            self.report_at = now;
        }
        Some(covered)
    }

    /// Whether nothing is left, and every primary has finished what it had sent by then.
    pub fn may_become_in_sync(&self) -> bool {
        self.phase.is_complete() && self.barrier.has_passed()
    }

    /// What primaries are to be told now, if it is time for that.
    pub fn take_report(&mut self, now: Instant, limit: RebuildLimit) -> Option<RebuildProgress> {
        if now < self.report_at || self.phase.failure().is_some() {
            return None;
        }
        self.report_at = now + REPORT_PERIOD;
        let mut progress = self.progress();
        if limit == RebuildLimit::Paused && self.phase == Phase::Copying {
            progress.waits_for = Some(RebuildWait::Operator);
        }
        Some(progress)
    }
}
