//! Copies at work: regions are held and drained, runs are read from the source and written.

use core::ops::Range;

use super::rebuild::{Counted, Late, LetGo, NextRun};
use super::{Below, Rebuilds};
use crate::ids::*;
use crate::message::{CopyContent, Message, RebuildWait};
use crate::payload::Payload;
use crate::replica::{Context, DiskAction, DiskError, Sender};
use crate::settings::{BLOCK, MAX_PAYLOAD};

impl Rebuilds {
    /// Begins as many copies as may run at once, if it is time for copies; ends that time when
    /// nothing is lacking.
    pub(super) fn begin_copies<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
    ) {
        let is_everyone_connected = below.sessions.is_everyone_connected(below.views);
        let Some(rebuild) = self.rebuild.as_mut().filter(|rebuild| rebuild.phase().is_copying())
        else {
            return; // It is another phase's time.
        };
        if !is_everyone_connected {
            return rebuild.waits_for_drain();
        }
        while self.begin_copy(cx, below) {}
        let me = cx.me.id;
        let others = below.log.out_of_sync().filter(|replica| *replica != me);
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.end_copying(others);
        }
    }

    /// Begins one copy, if one more may run now. Returns whether it has.
    fn begin_copy<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
    ) -> bool {
        let token = CopyToken(cx.next_number());
        let (settings, limit) = (&cx.me.settings, below.views.view().rebuild_limit);
        let rebuild = self.rebuild.as_mut();
        let blocks = rebuild.and_then(|it| it.begin_copy(cx.now, token, settings, limit));
        let Some(blocks) = blocks else { return false };
        let (offset, length) = below.views.place_of(&blocks);
        let (data, lower) = &mut below.data(self);
        // The hold may be granted at once.
        let lock = data.hold(cx, lower, token, offset, length);
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.locks(token, lock);
        }
        true
    }

    pub(super) fn drained<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        from: Sender,
        token: CopyToken,
        is_busy: bool,
    ) {
        if let Some(primary) = below.sessions.primary_of(from.link)
            && below.views.is_current(from.generation)
            && let Some(rebuild) = &mut self.rebuild
            && rebuild.drained(cx.now, token, primary, is_busy)
        {
            self.read_runs(cx, below, token);
        }
    }

    /// Asks the source for the next lacking runs of a region; ends the hold if there are none left.
    fn read_runs<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        region: CopyToken,
    ) {
        let generation = below.views.generation();
        loop {
            let token = CopyToken(cx.next_number());
            let next = self.rebuild.as_mut().map(|rebuild| rebuild.next_run(region, token));
            match next.unwrap_or(NextRun::None) {
                NextRun::None => return,
                NextRun::Over => return self.region_over(cx, below, region),
                NextRun::Read(link, blocks) => {
                    let (offset, length) = below.views.place_of(&blocks);
                    cx.send(link, Message::Copy { generation, token, offset, length }, None);
                }
            }
        }
    }

    pub(super) fn copied<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        link: LinkId,
        token: CopyToken,
        content: CopyContent,
        payload: Option<P>,
    ) {
        let rebuild = self.rebuild.as_mut();
        match rebuild.map_or(Counted::No, |rebuild| rebuild.counted(link, token, content)) {
            Counted::No => self.run_copied(cx, below, link, token, (content, payload)),
            Counted::Yes => {}
            Counted::Refused => self.lose_source(cx, below, RebuildWait::Source),
        }
    }

    fn run_copied<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        link: LinkId,
        token: CopyToken,
        answer: (CopyContent, Option<P>),
    ) {
        let run = self.rebuild.as_ref().and_then(|rebuild| rebuild.asked_for(link, token));
        let Some((region, blocks)) = run else {
            return; // It was let go meanwhile, or another source is asked.
        };
        let (offset, length) = below.views.place_of(&blocks);
        let action = match answer {
            (CopyContent::Data, Some(payload)) if payload.length() == length => {
                DiskAction::Write { offset, payload, durable: false, forgotten: None }
            }
            // With a checksum it would win over a copy elsewhere that is right and has lost its
            // own.
            (CopyContent::Unverified { forgotten }, Some(payload))
                if payload.length() == length =>
            {
                let forgotten = Some(Box::new(forgotten));
                DiskAction::Write { offset, payload, durable: false, forgotten }
            }
            (CopyContent::Zeroes, None) => DiskAction::Zero { offset, length, unmap: true },
            // Only of a long run it was asked how it begins.
            (CopyContent::Begins { zeroes, data }, None) if length > MAX_PAYLOAD => {
                let (zeroes, data) = (zeroes.min(length) / BLOCK, data.div_ceil(BLOCK));
                let rebuild = self.rebuild.as_mut();
                match rebuild.and_then(|rebuild| rebuild.surveyed(token, zeroes, data)) {
                    Some(length) => DiskAction::Zero { offset, length, unmap: true },
                    None => return self.read_runs(cx, below, region),
                }
            }
            (CopyContent::Failed(_), _) => return self.source_failed(cx, below, region, blocks),
            _ => return self.lose_source(cx, below, RebuildWait::Source),
        };
        let sent = if matches!(action, DiskAction::Write { .. }) { length } else { 0 };
        let lock = self.rebuild.as_mut().and_then(|rebuild| rebuild.writes(token, sent));
        debug_assert!(lock.is_some(), "B1: {token:?} is of no region");
        if let Some(lock) = lock {
            below.data.begin_held(cx, lock, token, action);
        }
    }

    /// The source could not read a run; if there is another source that one is asked.
    fn source_failed<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        region: CopyToken,
        run: Range<u64>,
    ) {
        let has_others = below.views.sources().count() > 1;
        let (offset, _) = below.views.place_of(&run);
        let rebuild = self.rebuild.as_mut();
        let unit = rebuild.and_then(|rebuild| rebuild.source_failed(cx.now, region, run));
        if has_others {
            self.lose_source(cx, below, RebuildWait::SourceMedium(offset));
        } else if let Some(unit) = unit {
            self.let_go(cx, below, LetGo::Unit(unit));
        }
    }

    /// A copied run is on the disk, or could not be written.
    pub fn copy_written<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        token: CopyToken,
        outcome: Result<(), DiskError>,
    ) {
        let rebuild = self.rebuild.as_mut();
        let region = rebuild.and_then(|rebuild| rebuild.written(token, outcome.is_ok()));
        debug_assert!(region.is_some(), "a rebuild goes on until its writes have ended");
        if let Some(region) = region {
            if let Err(error) = outcome {
                self.rebuild_broke(cx, below, error);
                self.let_go(cx, below, LetGo::All);
            }
            self.read_runs(cx, below, region);
        }
    }

    /// Nothing of a region is under way any more: lets the waiting writes go.
    fn region_over<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        region: CopyToken,
    ) {
        let share = cx.me.settings.rebuild_share;
        let rebuild = self.rebuild.as_mut();
        let over = rebuild.and_then(|rebuild| rebuild.region_over(cx.now, region, share));
        if let Some((lock, is_flush_due)) = over {
            let (data, lower) = &mut below.data(self);
            data.let_go(cx, lower, lock, is_flush_due);
        }
    }

    /// Lets go of regions that are held for too long, and of a source that does not answer.
    pub(super) fn let_go_of_late_copies<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
    ) {
        let (now, settings) = (cx.now, &cx.me.settings);
        let longest = settings.longest_hold;
        let late = self.rebuild.as_ref().map_or(Late::None, |rebuild| rebuild.late(now, settings));
        match late {
            Late::None => {}
            Late::Source => self.lose_source(cx, below, RebuildWait::Source),
            Late::Hold => self.let_go(cx, below, LetGo::ReadFor(now, longest)),
            Late::Drain => {
                self.let_go(cx, below, LetGo::HeldFor(now, longest));
                if let Some(rebuild) = &mut self.rebuild {
                    rebuild.drain_failed(now);
                }
            }
        }
    }

    /// Lets go of the chosen regions, but for what is being written; the rest is copied later.
    pub(super) fn let_go<P: Payload>(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        chosen: LetGo,
    ) {
        let over = self.rebuild.as_mut().map(|rebuild| rebuild.let_go(&chosen));
        for region in over.into_iter().flatten() {
            self.region_over(cx, below, region);
        }
    }
}

#[cfg(test)]
mod tests;
