//! Commands that the host aborts (Base 5.1.1). What the volume does not have is answered at once;
//! what it has is cancelled there if no replica was sent it, and has its own answer otherwise. The
//! Abort command is answered when the aborted one is over, also if the queue ends meanwhile.

use evenkeel_engine::FrontendContext;

use super::fused::Before;
use super::{Phase, Queue, State};
use crate::nvme::command::Status;
use crate::nvme::connection::Tag;
use crate::nvme::io::Ask;

impl Queue {
    /// The host wants the command aborted that it calls so.
    pub(super) fn abort(&mut self, command: u16, context: &mut FrontendContext) {
        let tag = self.queue.connection.find(command);
        let Some(open) = tag.and_then(|tag| self.open[tag.index()].as_ref()) else {
            // It is over, or has not come yet and will run.
            return (self.queue.aborted)(command, false);
        };
        let tag = open.tag;
        if !open.is_submitted() {
            self.abort_here(tag);
            return (self.queue.aborted)(command, true);
        }
        // A queue that ends has cancelled all of its own. What the control plane has runs. Of
        // several ranges some may be deallocated already: all are.
        let is_serving = matches!(self.state, State::Serving);
        let is_in_volume = matches!(open.phase, Phase::Submitted(_));
        if is_serving && is_in_volume && !matches!(open.ask, Ask::Manage { .. }) {
            context.cancel(self.token(tag));
        }
        self.aborting.push((tag, command));
    }

    /// Answers a command that the volume does not have, with the other half of its pair.
    fn abort_here(&mut self, tag: Tag) {
        self.waiting.retain(|waiting| *waiting != tag);
        match self.pair_of(tag) {
            None => self.answer(tag, Status::AbortRequested),
            Some(index) => {
                if self.before == Before::First(tag) {
                    self.before = Before::Failed;
                }
                let (first, second) = self.halves(index);
                self.waiting.retain(|waiting| *waiting != first && Some(*waiting) != second);
                self.end_pair(
                    first,
                    match first == tag {
                        true => [Status::AbortRequested, Status::FusedFailed],
                        false => [Status::FusedFailed, Status::AbortRequested],
                    },
                );
            }
        }
        self.release(tag);
    }

    /// The volume has cancelled what this command asked: it has no effect, nor has the other half
    /// of its pair.
    pub(super) fn report_cancelled(&mut self, tag: Tag) {
        self.report_aborted(tag, true);
        let second = self.pair_of(tag).and_then(|index| self.halves(index).1);
        if let Some(second) = second {
            self.report_aborted(second, true);
        }
    }

    /// A command is over: if the host wants it aborted, it learns whether it was.
    pub(super) fn report_aborted(&mut self, tag: Tag, is_aborted: bool) {
        while let Some(at) = self.aborting.iter().position(|(aborting, _)| *aborting == tag) {
            let (_, command) = self.aborting.swap_remove(at);
            (self.queue.aborted)(command, is_aborted);
        }
    }
}
