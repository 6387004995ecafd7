//! Copying: per region, hold it, so that incoming writes wait; let every primary say that the
//! source has answered all writes that were sent there before; copy what is lacking there, run by
//! run; let the waiting writes go.
//!
//! Of a long lacking run the source is first asked how it begins, in the same way: what was never
//! written there, or was trimmed, is zeroed here and not read.
//!
//! Whatever goes wrong, the region is let go and begun again later, so writes are held for
//! [`crate::Settings::longest_hold`] and one disk action at most.

mod invariants;

use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeSet;

use super::{Phase, RETRY_PAUSE, Rebuild};
use crate::ids::*;
use crate::message::RebuildWait;
use crate::settings::{BLOCK, MAX_ZERO, REGION, Settings};
use crate::time::Instant;
use crate::view::RebuildLimit;

/// Blocks of the unit that is held and drained at once while no client is busy.
pub(super) const UNIT: u64 = (REGION / BLOCK) as u64;
/// The same while clients are: their requests wait for as little as possible, on the disks as well.
const SMALL_UNIT: u64 = UNIT / 2;
/// Blocks of the longest unit that the source is asked about without reading it.
const SURVEY: u64 = (MAX_ZERO / BLOCK) as u64;
/// Runs of one region that are copied at once.
const MAX_RUNS: usize = 16;
/// Units after which what was copied is made durable, so that it can be cleared.
const FLUSH_AFTER: u64 = 256;

/// One region on its way.
#[derive(Debug)]
pub(super) struct Copy {
    /// What the rebuild has seen to when it is over.
    unit: Range<u64>,
    /// Of that, from the first lacking block to the last one.
    blocks: Range<u64>,
    /// The first block that no run has been begun for.
    next: u64,
    lock: OperationNumber,
    phase: CopyPhase,
    /// When the hold was granted.
    since: Instant,
    /// Whether any run was answered since.
    is_alive: bool,
    /// Runs whose data are being written.
    writing: usize,
    /// Given up, but for what is being written.
    is_let_go: bool,
}

impl Rebuild {
    /// What is held for the beginning of a lacking run: a unit that is copied, or a longer one of
    /// which the source has not told what it holds.
    fn unit_at(&self, now: Instant, run: &Range<u64>) -> Range<u64> {
        // What is read block by block is not part of the question: that has one run alone.
        let asked = self.set_aside.piece(run.clone());
        if asked.end - asked.start > UNIT && !self.dense.contains(&run.start) {
            return asked.start..asked.end.min(asked.start + SURVEY);
        }
        let length = if self.pace.is_busy(now) { SMALL_UNIT } else { UNIT };
        let start = run.start / length * length;
        start..start + length
    }
}

impl Copy {
    /// Whether it asks what there is to be copied.
    fn is_survey(&self) -> bool {
        self.blocks.end - self.blocks.start > UNIT
    }

    /// Whether it holds any of these blocks.
    pub fn touches(&self, blocks: &Range<u64>) -> bool {
        self.blocks.start < blocks.end && blocks.start < self.blocks.end
    }

    fn is_late(&self, now: Instant, longest_hold: Duration) -> bool {
        now.since(self.since) >= longest_hold
    }

    fn is_draining(&self) -> bool {
        matches!(self.phase, CopyPhase::Draining(_))
    }

    fn is_reading(&self) -> bool {
        matches!(self.phase, CopyPhase::Copying) && !self.is_let_go
    }

    fn overlaps(&self, unit: &Range<u64>) -> bool {
        self.unit.start < unit.end && unit.start < self.unit.end
    }
}

/// What a region is to go on with.
#[derive(Debug)]
pub(in crate::replica::rebuilds) enum NextRun {
    /// What is under way.
    None,
    /// The source is to be asked for these blocks.
    Read(LinkId, Range<u64>),
    /// Nothing: [it is over](Rebuild::region_over).
    Over,
}

/// What takes too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::replica::rebuilds) enum Late {
    /// Nothing.
    None,
    /// The source does not answer.
    Source,
    /// A primary does not drain a region.
    Drain,
    /// A region is read for longer than it may be held.
    Hold,
}

/// Which regions are let go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::replica::rebuilds) enum LetGo {
    /// All of them.
    All,
    /// The one of this unit.
    Unit(Range<u64>),
    /// Those that are held for so long now.
    HeldFor(Instant, Duration),
    /// Of these, those that are read.
    ReadFor(Instant, Duration),
}

#[derive(Debug)]
enum CopyPhase {
    /// Waits for its hold.
    Locking,
    /// Waits for these primaries.
    Draining(BTreeSet<PrimaryId>),
    /// Its runs are read and written.
    Copying,
}

/// A run of lacking blocks that is being copied.
#[derive(Debug)]
pub(super) struct Run {
    region: CopyToken,
    blocks: Range<u64>,
    is_writing: bool,
    /// Whether the source has told, without reading, that nothing is there.
    is_hole: bool,
}

impl Rebuild {
    /// A primary has no session here: nothing can be drained.
    pub fn waits_for_drain(&mut self) {
        self.progress.waits_for = Some(RebuildWait::Drain);
    }

    /// Begins the next copy, if one more may run now: from the first lacking block of a region to
    /// the last one, which is to be held.
    pub fn begin_copy(
        &mut self,
        now: Instant,
        token: CopyToken,
        settings: &Settings,
        limit: RebuildLimit,
    ) -> Option<Range<u64>> {
        let may_begin = self.copies.len() < self.pace.max_copies(now, settings.concurrent_copies)
            && self.pace.may_begin(now)
            && limit != RebuildLimit::Paused;
        let (unit, blocks) = if may_begin { self.next_region(now)? } else { return None };
        let copy = Copy {
            unit,
            next: blocks.start,
            blocks: blocks.clone(),
            lock: OperationNumber::default(),
            phase: CopyPhase::Locking,
            since: now,
            is_alive: false,
            writing: 0,
            is_let_go: false,
        };
        if !copy.is_survey() {
            let runs = self.out_of_sync.runs(copy.blocks.clone());
            let out_of_sync = runs.map(|run| run.end - run.start).sum::<u64>() * u64::from(BLOCK);
            self.pace.began(now, out_of_sync, limit);
        }
        self.copies.insert(token, copy);
        Some(blocks)
    }

    /// The next region that is not under way, and in it from the first lacking block to the last
    /// one.
    fn next_region(&mut self, now: Instant) -> Option<(Range<u64>, Range<u64>)> {
        if self.copies.values().any(Copy::is_survey) {
            return None;
        }
        for from in [self.cursor, 0] {
            self.cursor = from;
            while let Some(run) = self.set_aside.first_run(&self.out_of_sync, self.cursor..u64::MAX)
            {
                let unit = self.unit_at(now, &run);
                self.cursor = unit.end;
                if self.copies.values().any(|copy| copy.overlaps(&unit)) {
                    continue;
                }
                let last = self.out_of_sync.runs(run.start..unit.end).last();
                return last.map(|last| (unit, run.start..last.end));
            }
        }
        None
    }

    /// The number of the lock by which the blocks of a copy are held, or will be.
    pub fn locks(&mut self, token: CopyToken, lock: OperationNumber) {
        if let Some(copy) = self.copies.get_mut(&token) {
            copy.lock = lock;
        }
    }

    /// Ends the time for copies when nothing is lacking: then it asks what these others lack.
    pub fn end_copying(&mut self, others: impl Iterator<Item = ReplicaId>) {
        if self.phase.is_copying() && self.out_of_sync.is_empty() && self.copies.is_empty() {
            self.phase = Phase::Inheriting(others.collect(), None);
        }
    }

    /// The blocks of a copy are held: all these primaries are to drain them. Returns the source
    /// that it is about, and the blocks.
    pub fn held(
        &mut self,
        now: Instant,
        token: CopyToken,
        primaries: BTreeSet<PrimaryId>,
    ) -> Option<(ReplicaId, Range<u64>)> {
        let (source, _) = self.source.open()?;
        let copy = self.copies.get_mut(&token)?;
        copy.since = now;
        copy.phase = CopyPhase::Draining(primaries);
        Some((source, copy.blocks.clone()))
    }

    /// A primary has drained the blocks of a copy. Returns whether that was the last one: then
    /// [runs](Self::next_run) are read. It may be an answer to an earlier hold.
    pub fn drained(
        &mut self,
        now: Instant,
        token: CopyToken,
        primary: PrimaryId,
        is_busy: bool,
    ) -> bool {
        self.pace.clients_are(now, is_busy);
        let Some(copy) = self.copies.get_mut(&token) else { return false };
        let CopyPhase::Draining(primaries) = &mut copy.phase else { return false };
        primaries.remove(&primary);
        let is_last = primaries.is_empty();
        if is_last {
            copy.phase = CopyPhase::Copying;
        }
        is_last
    }

    /// What a region is to go on with; a run that is to be read has this token.
    pub fn next_run(&mut self, region: CopyToken, token: CopyToken) -> NextRun {
        let Some(copy) = self.copies.get_mut(&region) else { return NextRun::None };
        let under_way = self.runs.values().filter(|run| run.region == region).count();
        let wanted = copy.next..copy.blocks.end;
        let next = self.set_aside.first_run(&self.out_of_sync, wanted);
        let next = next.map(|run| self.set_aside.piece(run));
        let Some(blocks) = next.filter(|_| !copy.is_let_go) else {
            return if under_way == 0 { NextRun::Over } else { NextRun::None };
        };
        let Some((_, link)) = self.source.open() else { return NextRun::None };
        if under_way >= MAX_RUNS {
            return NextRun::None;
        }
        copy.next = blocks.end;
        let run = Run { region, blocks: blocks.clone(), is_writing: false, is_hole: false };
        self.runs.insert(token, run);
        NextRun::Read(link, blocks)
    }

    /// A run that the source was asked for over this link, and in which region it lies.
    pub fn asked_for(&self, link: LinkId, token: CopyToken) -> Option<(CopyToken, Range<u64>)> {
        let run = self.runs.get(&token).filter(|run| !run.is_writing)?;
        let is_source = self.source.link() == Some(link);
        is_source.then(|| (run.region, run.blocks.clone()))
    }

    /// A run is written from now on, of which the source has sent so many bytes. Returns the lock
    /// by which its region is held.
    pub fn writes(&mut self, token: CopyToken, sent: u32) -> Option<OperationNumber> {
        self.progress.copied += u64::from(sent);
        let run = self.runs.get_mut(&token)?;
        run.is_writing = true;
        let copy = self.copies.get_mut(&run.region)?;
        copy.writing += 1;
        copy.is_alive = true;
        Some(copy.lock)
    }

    /// The source could not read a run. Its other blocks are copied without it, and what it can't
    /// read later. Returns the unit of its region, which is to be let go.
    pub fn source_failed(
        &mut self,
        now: Instant,
        region: CopyToken,
        run: Range<u64>,
    ) -> Option<Range<u64>> {
        // Its primaries can have that repaired.
        self.report_at = now;
        if run.end - run.start > UNIT {
            // How it begins can't be told, so it is copied.
            self.dense = run;
        } else {
            self.set_aside.failed(now, run);
        }
        self.copies.get(&region).map(|copy| copy.unit.clone())
    }

    /// The source has told how a long run begins: so many blocks of zeroes, then so many of data.
    /// Returns the bytes to be zeroed; if there are none the region goes on.
    pub fn surveyed(&mut self, token: CopyToken, zeroes: u32, data: u32) -> Option<u32> {
        let run = self.runs.get_mut(&token)?;
        let (start, end) = (run.blocks.start + u64::from(zeroes), run.blocks.end);
        run.blocks.end = start;
        run.is_hole = true;
        let copy = self.copies.get_mut(&run.region)?;
        copy.unit.end = start;
        // One question for each unit at most, however small the pieces are.
        let known = (start + u64::from(data)).max((start / UNIT + 1) * UNIT);
        self.dense = start..known.min(end.max(start));
        self.cursor = start;
        if zeroes > 0 {
            return Some(zeroes * BLOCK);
        }
        copy.is_let_go = true;
        self.runs.remove(&token);
        None
    }

    /// The write of a run has ended. Returns its region, which is to go on.
    pub fn written(&mut self, token: CopyToken, succeeded: bool) -> Option<CopyToken> {
        let run = self.runs.remove(&token)?;
        if let Some(copy) = self.copies.get_mut(&run.region) {
            copy.writing -= 1;
        }
        if succeeded {
            self.progress.waits_for = None;
            self.set_aside.copied(run.blocks.clone());
            self.clear_out_of_sync(run.blocks, run.is_hole);
        }
        Some(run.region)
    }

    /// Nothing of a region is under way any more. Returns its lock, and whether so much was copied
    /// that it is to be flushed.
    pub fn region_over(
        &mut self,
        now: Instant,
        region: CopyToken,
        share: u32,
    ) -> Option<(OperationNumber, bool)> {
        let copy = self.copies.remove(&region)?;
        self.pace.ended(now, now.since(copy.since), share);
        if self.out_of_sync.first_run(copy.unit.clone()).is_none() {
            self.unflushed.insert(copy.unit);
        }
        Some((copy.lock, self.unflushed.count() >= FLUSH_AFTER * UNIT))
    }

    /// What takes too long.
    pub fn late(&self, now: Instant, settings: &Settings) -> Late {
        let is_late = |copy: &Copy| copy.is_late(now, settings.longest_hold);
        let is_silent =
            |copy: &Copy| copy.is_reading() && is_late(copy) && !copy.is_alive && copy.writing == 0;
        let mut copies = self.copies.values();
        if self.waits_since().is_some_and(|at| now.since(at) >= settings.deadline)
            || copies.any(is_silent)
        {
            return Late::Source;
        }
        let mut copies = self.copies.values().filter(|copy| is_late(copy));
        if copies.clone().any(Copy::is_draining) {
            return Late::Drain;
        }
        if copies.any(Copy::is_reading) { Late::Hold } else { Late::None }
    }

    /// Since when the source has not answered what it was asked apart from copies.
    fn waits_since(&self) -> Option<Instant> {
        let asked = [self.source.opening_since(), self.count.asked_at(), self.phase.asked_at()];
        asked.into_iter().flatten().min()
    }

    /// A primary did not drain a region in time: it is tried again after a pause.
    pub fn drain_failed(&mut self, now: Instant) {
        self.progress.waits_for = Some(RebuildWait::Drain);
        self.retry_at = now + RETRY_PAUSE;
    }

    /// Lets go of the chosen regions, but for what is being written; the rest is copied later.
    /// Returns those that are over by that, the newest first.
    pub fn let_go(&mut self, chosen: &LetGo) -> Vec<CopyToken> {
        let is_chosen = |copy: &Copy| match chosen {
            LetGo::All => true,
            LetGo::Unit(unit) => copy.unit == *unit,
            LetGo::HeldFor(now, longest) => copy.is_late(*now, *longest),
            LetGo::ReadFor(now, longest) => copy.is_reading() && copy.is_late(*now, *longest),
        };
        let mut regions = Vec::new();
        for (token, copy) in self.copies.iter_mut().filter(|(_, copy)| is_chosen(copy)) {
            copy.is_let_go = true;
            if copy.writing == 0 {
                regions.push(*token);
            }
        }
        let copies = &self.copies;
        self.runs.retain(|_, run| {
            run.is_writing || copies.get(&run.region).is_some_and(|copy| !copy.is_let_go)
        });
        regions.reverse();
        regions
    }
}
