//! The end of a queue: what no replica was sent is cancelled, and the rest is awaited, before the
//! host is told or the queue's place is given back. So no command of a queue that is gone takes
//! effect.

use evenkeel_engine::{FrontendContext, RequestToken};

use super::{Cause, Open, Phase, Queue, State};
use crate::nvme::command::Status;
use crate::nvme::connection::Tag;
use crate::nvme::io::Ask;

impl Queue {
    /// The host deletes the queue.
    pub(super) fn delete(&mut self, tag: Tag, context: &mut FrontendContext) {
        let deleted = std::mem::replace(&mut self.queue.deleted, Box::new(|| {}));
        deleted();
        for index in 0..self.open.len() {
            if let Some(open) = self.open[index].take_if(|open| !open.is_submitted()) {
                self.answer(open.tag, Status::QueueDeleted);
            }
        }
        self.drain(Cause::Deleted(tag), context);
    }

    /// The queue ends for this reason.
    pub(super) fn close(&mut self, reason: String, context: &mut FrontendContext) {
        match &mut self.state {
            State::Serving => {
                for open in &mut self.open {
                    open.take_if(|open| !open.is_submitted());
                }
                self.drain(Cause::Other(reason), context);
            }
            State::Draining(cause @ Cause::Deleted(_)) => *cause = Cause::Other(reason),
            State::Draining(Cause::Other(_)) | State::Closing(_) | State::Ended => {}
        }
    }

    /// As [`Queue::close`], but the host is gone.
    pub(super) fn lose(&mut self, reason: String, context: &mut FrontendContext) {
        self.is_lost = true;
        self.close(reason, context);
    }

    /// Gives up what the volume has, and waits until nothing of it is under way.
    fn drain(&mut self, cause: Cause, context: &mut FrontendContext) {
        self.state = State::Draining(cause);
        self.waiting.clear();
        self.forget_pairs();
        for open in self.open.iter().flatten() {
            // The volume has both halves of a pair by the first one's name.
            let is_in_volume = matches!(open.phase, Phase::Submitted(_));
            if is_in_volume && !matches!(open.ask, Ask::FusedWrite { .. }) {
                context.cancel(RequestToken::of_index(open.tag.index()));
            }
        }
        context.drain();
    }

    /// Nothing is under way in the volume.
    pub(super) fn drained(&mut self) {
        self.is_drained = true;
        self.end_drained();
    }

    /// Ends a queue that is to end, if the control plane has nothing of it, either.
    pub(super) fn end_drained(&mut self) {
        let is_asked = |open: &Open| matches!(open.phase, Phase::Asked(_));
        let is_over = self.is_drained && !self.open.iter().flatten().any(is_asked);
        // It may have been stopped meanwhile.
        if !is_over || !matches!(self.state, State::Draining(_)) {
            return;
        }
        let state = std::mem::replace(&mut self.state, State::Ended);
        if let State::Draining(cause) = state {
            self.state = State::Closing(match cause {
                Cause::Other(reason) => reason,
                Cause::Deleted(tag) => {
                    self.answer(tag, Status::Success);
                    "the host has deleted the queue".to_owned()
                }
            });
        }
    }

    /// The volume ends. What it has not done may be possible through another path.
    pub(super) fn stop(&mut self, context: &mut FrontendContext) {
        self.aborting.clear();
        self.waiting.clear();
        for index in 0..self.open.len() {
            if let Some(open) = self.open[index].take() {
                self.answer(open.tag, Status::InternalPath);
            }
        }
        self.send(context);
        self.state = State::Ended;
    }
}

impl Open {
    /// Whether the volume has it, or the control plane.
    pub(super) const fn is_submitted(&self) -> bool {
        matches!(self.phase, Phase::Submitted(_) | Phase::Asked(_))
    }
}
