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
use std::collections::BTreeSet;

use super::super::{DiskAction, DiskError, Replica};
use super::{Context, Phase, RETRY_PAUSE, Rebuild, Source};
use crate::ids::*;
use crate::message::{CopyContent, Message, RebuildWait};
use crate::payload::Payload;
use crate::range_lock::LockNumber;
use crate::replica::flush_queue::FlushWaiter;
use crate::settings::{BLOCK, MAX_PAYLOAD, MAX_ZERO, REGION};
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
    lock: LockNumber,
    step: Step,
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

    fn overlaps(&self, unit: &Range<u64>) -> bool {
        self.unit.start < unit.end && unit.start < self.unit.end
    }
}

#[derive(Debug)]
enum Step {
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

impl<P: Payload> Replica<P> {
    /// Begins as many copies as may run at once, if it is time for copies; ends that time when
    /// nothing is lacking.
    pub(super) fn begin_copies(&mut self, cx: &mut Context<'_, P>) {
        let most = self.config.settings.concurrent_copies;
        if self.rebuild.as_ref().is_none_or(|rebuild| rebuild.phase != Phase::Copying) {
            return;
        }
        if !self.everyone_connected() {
            if let Some(rebuild) = &mut self.rebuild {
                rebuild.progress.waits_for = Some(RebuildWait::Drain);
            }
            return;
        }
        while let Some(rebuild) = &self.rebuild
            && rebuild.copies.len() < rebuild.pace.max_copies(cx.now, most)
            && rebuild.pace.may_begin(cx.now)
            && self.view.rebuild_limit != RebuildLimit::Paused
        {
            let Some((unit, blocks)) = self.next_region(cx.now) else { break };
            self.begin_copy(cx, unit, blocks);
        }
        let Some(rebuild) = &mut self.rebuild else { return };
        if rebuild.lacking.is_empty() && rebuild.copies.is_empty() {
            let me = self.config.id;
            let others = self.missing.replicas().filter(|replica| *replica != me).collect();
            rebuild.phase = Phase::Inheriting(others, None);
        }
    }

    /// Whether every primary of the adopted view has a session here: each has to drain.
    fn everyone_connected(&self) -> bool {
        !self.view.primaries.is_empty()
            && self
                .view
                .primaries
                .iter()
                .all(|p| self.links.open_primaries().any(|(_, open)| open == p.id))
    }

    /// The next region that is not under way, and in it from the first lacking block to the last
    /// one.
    fn next_region(&mut self, now: Instant) -> Option<(Range<u64>, Range<u64>)> {
        let rebuild = self.rebuild.as_mut()?;
        if rebuild.copies.values().any(Copy::is_survey) {
            return None;
        }
        for from in [rebuild.cursor, 0] {
            rebuild.cursor = from;
            while let Some(run) =
                rebuild.set_aside.first_run(&rebuild.lacking, rebuild.cursor..u64::MAX)
            {
                let unit = rebuild.unit_at(now, &run);
                rebuild.cursor = unit.end;
                if rebuild.copies.values().any(|copy| copy.overlaps(&unit)) {
                    continue;
                }
                let last = rebuild.lacking.runs(run.start..unit.end).last();
                return last.map(|last| (unit, run.start..last.end));
            }
        }
        None
    }

    fn begin_copy(&mut self, cx: &mut Context<'_, P>, unit: Range<u64>, blocks: Range<u64>) {
        let token = CopyToken(self.next_number());
        let bytes = self.bytes_of(&blocks);
        let limit = self.view.rebuild_limit;
        let Some(rebuild) = &mut self.rebuild else { return };
        let copy = Copy {
            unit,
            next: blocks.start,
            blocks,
            lock: 0,
            step: Step::Locking,
            since: cx.now,
            is_alive: false,
            writing: 0,
            is_let_go: false,
        };
        if !copy.is_survey() {
            let runs = rebuild.lacking.runs(copy.blocks.clone());
            let lacking = runs.map(|run| run.end - run.start).sum::<u64>() * u64::from(BLOCK);
            rebuild.pace.began(cx.now, lacking, limit);
        }
        rebuild.copies.insert(token, copy);
        let lock = self.hold(cx, token, bytes.start, (bytes.end - bytes.start) as u32);
        if let Some(copy) = self.rebuild.as_mut().and_then(|r| r.copies.get_mut(&token)) {
            copy.lock = lock;
        }
    }

    /// A hold was granted: ask all primaries to drain the range.
    pub(in crate::replica) fn range_held(&mut self, cx: &mut Context<'_, P>, token: CopyToken) {
        let generation = self.view.generation;
        let links: Vec<_> = self
            .links
            .open_primaries()
            .filter(|(_, primary)| self.view.has_primary(*primary))
            .collect();
        let Some(rebuild) = &mut self.rebuild else { return };
        let Source::Open(source, _) = rebuild.source else { return };
        let Some(copy) = rebuild.copies.get_mut(&token) else { return };
        copy.since = cx.now;
        // Those that are not connected at present, too: what they sent before may not have reached
        // the source.
        copy.step = Step::Draining(self.view.primaries.iter().map(|primary| primary.id).collect());
        let blocks = copy.blocks.clone();
        let bytes = self.bytes_of(&blocks);
        let (offset, length) = (bytes.start, (bytes.end - bytes.start) as u32);
        for (link, _) in links {
            cx.send(link, Message::Drain { generation, token, offset, length, source }, None);
        }
    }

    pub(in crate::replica) fn drained(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        generation: Generation,
        token: CopyToken,
        is_busy: bool,
    ) {
        let Some(primary) = self.links.primary_of(link) else { return };
        if !self.is_current(generation) {
            return;
        }
        let Some(rebuild) = &mut self.rebuild else { return };
        rebuild.pace.clients_are(cx.now, is_busy);
        let Some(copy) = rebuild.copies.get_mut(&token) else { return };
        let Step::Draining(primaries) = &mut copy.step else { return };
        primaries.remove(&primary);
        if primaries.is_empty() {
            copy.step = Step::Copying;
            self.read_runs(cx, token);
        }
    }

    /// Asks the source for the next lacking runs of a region; ends the hold if there are none left.
    fn read_runs(&mut self, cx: &mut Context<'_, P>, region: CopyToken) {
        let generation = self.view.generation;
        loop {
            let token = CopyToken(self.next_number());
            let Some(rebuild) = &mut self.rebuild else { return };
            let Some(copy) = rebuild.copies.get_mut(&region) else { return };
            let under_way = rebuild.runs.values().filter(|run| run.region == region).count();
            let wanted = copy.next..copy.blocks.end;
            let next = rebuild.set_aside.first_run(&rebuild.lacking, wanted);
            let next = next.map(|run| rebuild.set_aside.piece(run));
            let Some(blocks) = next.filter(|_| !copy.is_let_go) else {
                if under_way == 0 {
                    self.region_over(cx, region);
                }
                return;
            };
            let Source::Open(_, link) = rebuild.source else { return };
            if under_way >= MAX_RUNS {
                return;
            }
            copy.next = blocks.end;
            let run = Run { region, blocks: blocks.clone(), is_writing: false, is_hole: false };
            rebuild.runs.insert(token, run);
            let bytes = self.bytes_of(&blocks);
            let (offset, length) = (bytes.start, (bytes.end - bytes.start) as u32);
            cx.send(link, Message::Copy { generation, token, offset, length }, None);
        }
    }

    pub(in crate::replica) fn copied(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        token: CopyToken,
        content: CopyContent,
        payload: Option<P>,
    ) {
        if self.counted(cx, link, token, content) {
            return;
        }
        let Some(rebuild) = &self.rebuild else { return };
        let Some(run) = rebuild.runs.get(&token).filter(|run| !run.is_writing) else { return };
        if rebuild.source_link() != Some(link) {
            return;
        }
        let (region, bytes) = (run.region, self.bytes_of(&run.blocks));
        let (offset, length) = (bytes.start, (bytes.end - bytes.start) as u32);
        let action = match (content, payload) {
            (CopyContent::Data, Some(payload)) if payload.length() == length => {
                DiskAction::Write { offset, payload, durable: false }
            }
            (CopyContent::Zeroes, None) => DiskAction::Zero { offset, length, unmap: true },
            // Only of a long run it was asked how it begins.
            (CopyContent::Begins { zeroes, data }, None) if length > MAX_PAYLOAD => {
                match self.surveyed(cx, token, zeroes.min(length) / BLOCK, data.div_ceil(BLOCK)) {
                    Some(length) => DiskAction::Zero { offset, length, unmap: true },
                    None => return,
                }
            }
            (CopyContent::Failed(_), _) => {
                return self.source_failed(cx, region, run.blocks.clone());
            }
            _ => return self.lose_source(cx, RebuildWait::Source),
        };
        let Some(rebuild) = &mut self.rebuild else { return };
        if let DiskAction::Write { .. } = action {
            rebuild.progress.copied += u64::from(length);
        }
        if let Some(run) = rebuild.runs.get_mut(&token) {
            run.is_writing = true;
        }
        let Some(copy) = rebuild.copies.get_mut(&region) else { return };
        copy.writing += 1;
        copy.is_alive = true;
        let lock = copy.lock;
        self.begin_held(cx, lock, token, action);
    }

    /// The source could not read a run. Its other blocks are copied without it, and what it can't
    /// read later; if there is another source that one is asked.
    fn source_failed(&mut self, cx: &mut Context<'_, P>, region: CopyToken, run: Range<u64>) {
        let me = self.config.id;
        let mirror = self.view.replica(me).map(|(mirror, _)| &self.view.mirrors[mirror]);
        let has_others = mirror.is_some_and(|mirror| mirror.in_sync().count() > 1);
        let offset = self.bytes_of(&run).start;
        let Some(rebuild) = &mut self.rebuild else { return };
        // Its primaries can have that repaired.
        rebuild.report_at = cx.now;
        if run.end - run.start > UNIT {
            // How it begins can't be told, so it is copied.
            rebuild.dense = run;
        } else {
            rebuild.set_aside.failed(cx.now, run);
        }
        if has_others {
            return self.lose_source(cx, RebuildWait::SourceMedium(offset));
        }
        let Some(unit) = rebuild.copies.get(&region).map(|copy| copy.unit.clone()) else { return };
        self.let_go(cx, |copy| copy.unit == unit);
    }

    /// The source has told how a long run begins: so many blocks of zeroes, then so many of data.
    /// Returns the bytes to be zeroed.
    fn surveyed(
        &mut self,
        cx: &mut Context<'_, P>,
        token: CopyToken,
        zeroes: u32,
        data: u32,
    ) -> Option<u32> {
        let rebuild = self.rebuild.as_mut()?;
        let run = rebuild.runs.get_mut(&token)?;
        let region = run.region;
        let (start, end) = (run.blocks.start + u64::from(zeroes), run.blocks.end);
        run.blocks.end = start;
        run.is_hole = true;
        let copy = rebuild.copies.get_mut(&region)?;
        copy.unit.end = start;
        // One question for each unit at most, however small the pieces are.
        let known = (start + u64::from(data)).max((start / UNIT + 1) * UNIT);
        rebuild.dense = start..known.min(end.max(start));
        rebuild.cursor = start;
        if zeroes > 0 {
            return Some(zeroes * BLOCK);
        }
        copy.is_let_go = true;
        rebuild.runs.remove(&token);
        self.read_runs(cx, region);
        None
    }

    /// A copied run is on the disk, or could not be written.
    pub(in crate::replica) fn copy_written(
        &mut self,
        cx: &mut Context<'_, P>,
        token: CopyToken,
        outcome: Result<(), DiskError>,
    ) {
        let Some(rebuild) = &mut self.rebuild else { return };
        let Some(run) = rebuild.runs.remove(&token) else { return };
        if let Some(copy) = rebuild.copies.get_mut(&run.region) {
            copy.writing -= 1;
        }
        match outcome {
            Ok(()) => {
                rebuild.progress.waits_for = None;
                rebuild.set_aside.copied(run.blocks.clone());
                rebuild.not_lacking_any_more(run.blocks, run.is_hole);
            }
            Err(error) => {
                self.rebuild_broke(cx, error);
                self.let_go(cx, |_| true);
            }
        }
        self.read_runs(cx, run.region);
    }

    /// Nothing of a region is under way any more: lets the waiting writes go.
    fn region_over(&mut self, cx: &mut Context<'_, P>, region: CopyToken) {
        let share = self.config.settings.rebuild_share;
        let Some(rebuild) = &mut self.rebuild else { return };
        let Some(copy) = rebuild.copies.remove(&region) else { return };
        rebuild.pace.ended(cx.now, cx.now.since(copy.since), share);
        if rebuild.lacking.first_run(copy.unit.clone()).is_none() {
            rebuild.unflushed.insert(copy.unit);
        }
        let flush_due = rebuild.unflushed.count() >= FLUSH_AFTER * UNIT;
        self.end_operation(cx, copy.lock);
        if flush_due && !self.flushes.awaits_copies() {
            self.flush(cx, FlushWaiter::Copies);
        }
        self.start_flush(cx);
    }

    /// Lets go of regions that are held for too long, and of a source that does not answer.
    pub(super) fn let_go_of_late_copies(&mut self, cx: &mut Context<'_, P>) {
        let (now, longest) = (cx.now, self.config.settings.longest_hold);
        let deadline = self.config.settings.deadline;
        let Some(rebuild) = &self.rebuild else { return };
        let late = |copy: &Copy| now.since(copy.since) >= longest;
        let is_reading = |copy: &Copy| matches!(copy.step, Step::Copying) && !copy.is_let_go;
        let is_silent =
            |copy: &Copy| is_reading(copy) && late(copy) && !copy.is_alive && copy.writing == 0;
        let opening_late = matches!(rebuild.source, Source::Opening(_, _, since)
            if now.since(since) >= deadline);
        let count_late = rebuild.count.asked_at().is_some_and(|at| now.since(at) >= deadline);
        let question_late = match &rebuild.phase {
            Phase::Learning(Some(question)) | Phase::Inheriting(_, Some(question)) => {
                now.since(question.asked_at) >= deadline
            }
            _ => false,
        };
        if opening_late || question_late || count_late || rebuild.copies.values().any(is_silent) {
            return self.lose_source(cx, RebuildWait::Source);
        }
        let is_draining = |copy: &Copy| matches!(copy.step, Step::Draining(_));
        if rebuild.copies.values().any(|copy| is_draining(copy) && late(copy)) {
            self.let_go(cx, |copy| late(copy));
            if let Some(rebuild) = &mut self.rebuild {
                rebuild.progress.waits_for = Some(RebuildWait::Drain);
                rebuild.retry_at = now + RETRY_PAUSE;
            }
        } else if rebuild.copies.values().any(|copy| is_reading(copy) && late(copy)) {
            self.let_go(cx, |copy| is_reading(copy) && late(copy));
        }
    }

    /// Lets go of the chosen regions, but for what is being written; the rest is copied later.
    pub(super) fn let_go(&mut self, cx: &mut Context<'_, P>, chosen: impl Fn(&Copy) -> bool) {
        let Some(rebuild) = &mut self.rebuild else { return };
        let mut regions = Vec::new();
        for (token, copy) in rebuild.copies.iter_mut().filter(|(_, copy)| chosen(copy)) {
            copy.is_let_go = true;
            if copy.writing == 0 {
                regions.push(*token);
            }
        }
        let copies = &rebuild.copies;
        rebuild.runs.retain(|_, run| {
            run.is_writing || copies.get(&run.region).is_some_and(|copy| !copy.is_let_go)
        });
        for region in regions.into_iter().rev() {
            self.region_over(cx, region);
        }
    }
}
