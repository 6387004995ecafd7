//! Copies at work: regions are held and drained, runs are read from the source and written.

use core::ops::Range;

use crate::ids::*;
use crate::message::{CopyContent, Message, RebuildWait};
use crate::payload::Payload;
use crate::replica::flush_queue::FlushWaiter;
use crate::replica::rebuild::{Counted, Late, LetGo, NextRun};
use crate::replica::{Context, DiskAction, DiskError, Replica};
use crate::settings::{BLOCK, MAX_PAYLOAD};

impl<P: Payload> Replica<P> {
    /// Begins as many copies as may run at once, if it is time for copies; ends that time when
    /// nothing is lacking.
    pub(super) fn begin_copies(&mut self, cx: &mut Context<'_, P>) {
        let is_everyone_connected = self.is_everyone_connected();
        let Some(rebuild) = self.rebuild.as_mut().filter(|rebuild| rebuild.is_copying()) else {
            return; // It is another phase's time.
        };
        if !is_everyone_connected {
            return rebuild.waits_for_drain();
        }
        while self.begin_copy(cx) {}
        let me = self.config.id;
        let others = self.missing.replicas().filter(|replica| *replica != me);
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.end_copying(others);
        }
    }

    /// Whether every primary of the adopted view has a session here: each has to drain.
    fn is_everyone_connected(&self) -> bool {
        let is_connected = |id| self.links.open_primaries().any(|(_, open)| open == id);
        let primaries = &self.view.primaries;
        !primaries.is_empty() && primaries.iter().all(|primary| is_connected(primary.id))
    }

    /// Begins one copy, if one more may run now. Returns whether it has.
    fn begin_copy(&mut self, cx: &mut Context<'_, P>) -> bool {
        let token = CopyToken(self.next_number());
        let (settings, limit) = (&self.config.settings, self.view.rebuild_limit);
        let rebuild = self.rebuild.as_mut();
        let blocks = rebuild.and_then(|it| it.begin_copy((cx.now, token), settings, limit));
        let held = blocks.map(|blocks| {
            let (offset, length) = self.place_of(&blocks);
            self.hold(cx, token, offset, length)
        });
        if let (Some(lock), Some(rebuild)) = (held, &mut self.rebuild) {
            rebuild.locks(token, lock);
        }
        held.is_some()
    }

    /// Where the bytes of a run of blocks begin, and how many they are.
    pub(super) fn place_of(&self, blocks: &Range<u64>) -> (u64, u32) {
        let bytes = self.bytes_of(blocks);
        (bytes.start, (bytes.end - bytes.start) as u32)
    }

    /// A hold was granted: ask all primaries to drain the range.
    pub(in crate::replica) fn range_held(&mut self, cx: &mut Context<'_, P>, token: CopyToken) {
        let generation = self.view.generation;
        // Those that are not connected at present, too: what they sent before may not have reached
        // the source.
        let primaries = self.view.primaries.iter().map(|primary| primary.id).collect();
        let rebuild = self.rebuild.as_mut();
        if let Some((source, blocks)) = rebuild.and_then(|it| it.held(cx.now, token, primaries)) {
            let (offset, length) = self.place_of(&blocks);
            for (link, primary) in self.links.open_primaries() {
                if self.view.has_primary(primary) {
                    let drain = Message::Drain { generation, token, offset, length, source };
                    cx.send(link, drain, None);
                }
            }
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
        if let Some(primary) = self.links.primary_of(link)
            && self.is_current(generation)
            && let Some(rebuild) = &mut self.rebuild
            && rebuild.drained(cx.now, token, (primary, is_busy))
        {
            self.read_runs(cx, token);
        }
    }

    /// Asks the source for the next lacking runs of a region; ends the hold if there are none left.
    fn read_runs(&mut self, cx: &mut Context<'_, P>, region: CopyToken) {
        let generation = self.view.generation;
        loop {
            let token = CopyToken(self.next_number());
            let next = self.rebuild.as_mut().map(|rebuild| rebuild.next_run(region, token));
            match next.unwrap_or(NextRun::None) {
                NextRun::None => return,
                NextRun::Over => return self.region_over(cx, region),
                NextRun::Read(link, blocks) => {
                    let (offset, length) = self.place_of(&blocks);
                    cx.send(link, Message::Copy { generation, token, offset, length }, None);
                }
            }
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
        let rebuild = self.rebuild.as_mut();
        match rebuild.map_or(Counted::No, |rebuild| rebuild.counted(link, token, content)) {
            Counted::No => self.run_copied(cx, link, token, (content, payload)),
            Counted::Yes => {}
            Counted::Refused => self.lose_source(cx, RebuildWait::Source),
        }
    }

    fn run_copied(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        token: CopyToken,
        answer: (CopyContent, Option<P>),
    ) {
        let run = self.rebuild.as_ref().and_then(|rebuild| rebuild.asked_for(link, token));
        let Some((region, blocks)) = run else {
            return; // It was let go meanwhile, or another source is asked.
        };
        let (offset, length) = self.place_of(&blocks);
        let action = match answer {
            (CopyContent::Data, Some(payload)) if payload.length() == length => {
                DiskAction::Write { offset, payload, durable: false }
            }
            (CopyContent::Zeroes, None) => DiskAction::Zero { offset, length, unmap: true },
            // Only of a long run it was asked how it begins.
            (CopyContent::Begins { zeroes, data }, None) if length > MAX_PAYLOAD => {
                let (zeroes, data) = (zeroes.min(length) / BLOCK, data.div_ceil(BLOCK));
                let rebuild = self.rebuild.as_mut();
                match rebuild.and_then(|rebuild| rebuild.surveyed(token, zeroes, data)) {
                    Some(length) => DiskAction::Zero { offset, length, unmap: true },
                    None => return self.read_runs(cx, region),
                }
            }
            (CopyContent::Failed(_), _) => return self.source_failed(cx, region, blocks),
            _ => return self.lose_source(cx, RebuildWait::Source),
        };
        let sent = if matches!(action, DiskAction::Write { .. }) { length } else { 0 };
        let lock = self.rebuild.as_mut().and_then(|rebuild| rebuild.writes(token, sent));
        debug_assert!(lock.is_some(), "B1: {token:?} is of no region");
        if let Some(lock) = lock {
            self.begin_held(cx, lock, token, action);
        }
    }

    /// The source could not read a run; if there is another source that one is asked.
    fn source_failed(&mut self, cx: &mut Context<'_, P>, region: CopyToken, run: Range<u64>) {
        let has_others = self.sources().count() > 1;
        let (offset, _) = self.place_of(&run);
        let rebuild = self.rebuild.as_mut();
        let unit = rebuild.and_then(|rebuild| rebuild.source_failed(cx.now, region, run));
        if has_others {
            self.lose_source(cx, RebuildWait::SourceMedium(offset));
        } else if let Some(unit) = unit {
            self.let_go(cx, LetGo::Unit(unit));
        }
    }

    /// A copied run is on the disk, or could not be written.
    pub(in crate::replica) fn copy_written(
        &mut self,
        cx: &mut Context<'_, P>,
        token: CopyToken,
        outcome: Result<(), DiskError>,
    ) {
        let rebuild = self.rebuild.as_mut();
        let region = rebuild.and_then(|rebuild| rebuild.written(token, outcome.is_ok()));
        debug_assert!(region.is_some(), "a rebuild goes on until its writes have ended");
        if let Some(region) = region {
            if let Err(error) = outcome {
                self.rebuild_broke(cx, error);
                self.let_go(cx, LetGo::All);
            }
            self.read_runs(cx, region);
        }
    }

    /// Nothing of a region is under way any more: lets the waiting writes go.
    fn region_over(&mut self, cx: &mut Context<'_, P>, region: CopyToken) {
        let share = self.config.settings.rebuild_share;
        let rebuild = self.rebuild.as_mut();
        let over = rebuild.and_then(|rebuild| rebuild.region_over(cx.now, region, share));
        if let Some((lock, is_flush_due)) = over {
            self.end_operation(cx, lock);
            if is_flush_due && !self.flushes.awaits_copies() {
                self.flush(cx, FlushWaiter::Copies);
            }
            self.start_flush(cx);
        }
    }

    /// Lets go of regions that are held for too long, and of a source that does not answer.
    pub(super) fn let_go_of_late_copies(&mut self, cx: &mut Context<'_, P>) {
        let (now, settings) = (cx.now, &self.config.settings);
        let longest = settings.longest_hold;
        let late = self.rebuild.as_ref().map_or(Late::None, |rebuild| rebuild.late(now, settings));
        match late {
            Late::None => {}
            Late::Source => self.lose_source(cx, RebuildWait::Source),
            Late::Hold => self.let_go(cx, LetGo::ReadFor(now, longest)),
            Late::Drain => {
                self.let_go(cx, LetGo::HeldFor(now, longest));
                if let Some(rebuild) = &mut self.rebuild {
                    rebuild.drain_failed(now);
                }
            }
        }
    }

    /// Lets go of the chosen regions, but for what is being written; the rest is copied later.
    pub(super) fn let_go(&mut self, cx: &mut Context<'_, P>, chosen: LetGo) {
        let over = self.rebuild.as_mut().map(|rebuild| rebuild.let_go(&chosen));
        for region in over.into_iter().flatten() {
            self.region_over(cx, region);
        }
    }
}
