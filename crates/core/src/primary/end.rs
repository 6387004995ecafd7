//! The detach, and every other end of a primary.

use super::io::{Origin, RequestNumber};
use super::views::edits::Edit;
use super::{CommandError, Context, EndReason, Informed, Phase, PrimaryEffect};
use crate::ids::*;
use crate::message::Message;
use crate::operation::{Operation, RequestError};
use crate::payload::Payload;
use crate::time::Instant;

/// How many deadlines a detach may take before it gives up leaving the volume clean.
const PATIENCE: u32 = 3;

/// A detach under way.
#[derive(Debug)]
pub(super) struct Detaching {
    command: CommandId,
    since: Instant,
    phase: DetachPhase,
}

#[derive(Debug, Clone, Copy)]
enum DetachPhase {
    /// Everything under way ends.
    Draining,
    /// All members flush.
    Flushing(RequestNumber),
    /// The coordinator commits a view without this primary.
    GivingUp,
}

impl EndReason {
    /// What requests fail with by this end.
    pub(super) const fn error(self) -> RequestError {
        match self {
            Self::Fenced | Self::Evicted => RequestError::Fenced,
            Self::LostWrites => RequestError::LostWrites,
            Self::NoData | Self::StaleClone(_) => RequestError::NoData,
            Self::NoCoordinator => RequestError::NoCoordinator,
            Self::Detached
            | Self::DetachedUnclean
            | Self::NoVolume
            | Self::Unconfirmed(_)
            | Self::NotReached(_)
            | Self::TooManyPrimaries
            | Self::PredecessorAlive
            | Self::CoordinatorBehind => RequestError::Detached,
        }
    }
}

impl<P: Payload> Informed<P> {
    pub(super) fn begin_detach(&mut self, cx: &mut Context<'_, P>, command: CommandId) {
        match &self.phase {
            Phase::Serving => {
                self.scrub.wind_up(cx.now);
                self.io.fail_early(cx, RequestError::Detached, |_| true);
                let detaching = Detaching { command, since: cx.now, phase: DetachPhase::Draining };
                self.enter(cx, Phase::Detaching(detaching));
            }
            Phase::Detaching(_) => cx.command_done(command, Err(CommandError::Ended)),
            Phase::Starting(_) | Phase::Ended => {
                cx.command_done(command, Ok(()));
                self.end(cx, EndReason::DetachedUnclean);
            }
        }
    }

    /// Whether the swap that gives up the volume may have been sent.
    pub(super) fn is_giving_up(&self) -> bool {
        matches!(&self.phase, Phase::Detaching(Detaching { phase: DetachPhase::GivingUp, .. }))
    }

    /// Takes a detach as far as it goes now.
    pub(super) fn advance_detach(&mut self, cx: &mut Context<'_, P>) {
        let Phase::Detaching(detaching) = &self.phase else {
            return; // Nobody has asked for it.
        };
        let late = cx.now.since(detaching.since) >= cx.config.settings.deadline * PATIENCE;
        if self.views.has_given_up(&cx.config) && (self.views.adoption().is_over() || late) {
            return self.end(cx, EndReason::Detached);
        }
        if late {
            return self.end(cx, EndReason::DetachedUnclean);
        }
        match detaching.phase {
            DetachPhase::Draining if self.io.is_over() => {
                let (io, lower) = &mut self.io();
                let flush = io.accept(cx, lower, None, Origin::ITSELF, Operation::Flush);
                self.go_on_detaching(DetachPhase::Flushing(flush));
                self.dispatch_ready(cx);
            }
            DetachPhase::Flushing(number) if !self.io.is_under_way(number) => {
                if self.io.is_unflushed() {
                    return self.end(cx, EndReason::DetachedUnclean);
                }
                self.go_on_detaching(DetachPhase::GivingUp);
                self.views.edit(Edit::Detach);
                self.advance_change(cx);
            }
            _ => {}
        }
    }

    fn go_on_detaching(&mut self, phase: DetachPhase) {
        if let Phase::Detaching(detaching) = &mut self.phase {
            detaching.phase = phase;
        }
    }

    /// Ends for good: every request and command is answered, every link closed.
    pub(super) fn end(&mut self, cx: &mut Context<'_, P>, reason: EndReason) {
        if matches!(self.phase, Phase::Ended) {
            return; // What ended it first is the reason.
        }
        self.io.fail_requests(cx, reason.error());
        let unfinished: Vec<_> =
            self.views.commands().into_iter().chain(self.io.commands()).collect();
        for id in unfinished {
            cx.command_done(id, Err(CommandError::Ended));
        }
        if let Phase::Detaching(Detaching { command, .. }) = self.phase {
            cx.command_done(command, Ok(()));
        }
        for (link, generation) in self.views.take_fence_notices() {
            if self.membership.at(link).is_some() {
                cx.send(link, Message::FenceConfirmed { generation }, None);
            }
        }
        for link in self.membership.take_links() {
            cx.effects.push(PrimaryEffect::Disconnect { link });
        }
        self.scrub.stop_verify(cx.now);
        self.enter(cx, Phase::Ended);
        cx.effects.push(PrimaryEffect::Ended { reason });
    }

    /// Gives back what an ended primary holds; its status stays.
    pub(super) fn release_everything(&mut self) {
        self.io.forget();
        self.membership.forget();
        self.views.forget();
        self.scrub.forget();
    }
}
