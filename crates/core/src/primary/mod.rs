//! A primary: runs the mirrors of one volume that is attached on its node.
//!
//! What it knows is in four rooms with fields that nobody else sees, and each uses only those
//! before it: [`membership`] what is known of the replicas, [`views`] the view and what becomes of
//! it, [`io`] what clients ask, [`scrub`] what is compared and repaired. A method takes the lower
//! rooms that it uses, and tells its caller what a higher one has to do. [`Informed`] has all four,
//! routes events, and does what follows for several rooms. Before it has read a view a primary is
//! [`Unread`]: it reaches nobody, and there is no view to ask for.
//!
//! The way of a write, in [`io`]: the request is accepted and takes the lock on its range; it is
//! cut into one part per mirror, and each is sent to every member; the answers come back there, and
//! [`crate::policy`] decides when the client is answered. The way of a failure: [`sessions`]
//! notices that a replica is gone or late; [`views`] makes a view without it, which the coordinator
//! commits and the others adopt ([`changes`]); the parts that waited for it go on. While that is
//! not possible, [`io`] says what requests wait for, and fails them in time. [`unread`], [`start`]
//! and [`end`] are the attach and the detach. How several primaries of one volume find out that one
//! has died is in [`views`], and in [`io`] how one of them has a range for itself: to compare and
//! repair it, to compare and write, to keep hosts out.

mod changes;
mod end;
mod informed;
mod interface;
mod invariants;
mod io;
mod membership;
mod scrub;
mod sessions;
mod start;
mod status;
mod unread;
mod views;

pub use self::scrub::verify::{Covered, VerifyState, VerifyStatus, Wrong, WrongRange};
pub use interface::*;

use self::io::Io;
use self::membership::Membership;
use self::scrub::Scrub;
use self::unread::Unread;
use self::views::Views;
use self::views::takeover::Gathering;
use crate::ids::*;
use crate::message::Message;
use crate::operation::RequestError;
use crate::payload::Payload;
use crate::time::Instant;
use core::ops::ControlFlow;
use std::rc::Rc;

/// Runs the mirrors of one attached volume. See the module's documentation.
#[derive(Debug)]
pub struct Primary<P> {
    /// Shared with the [`Context`] of each step: to copy it would cost as much as a short step.
    config: Rc<PrimaryConfig>,
    clock: Clock,
    state: State<P>,
}

/// When this primary looks at everything again, and the numbers that it gives.
#[derive(Debug, Clone, Copy)]
struct Clock {
    tick_at: Instant,
    last_number: u64,
}

/// Whether a primary has a view.
#[derive(Debug)]
enum State<P> {
    /// It has read none yet.
    Unread(Box<Unread<P>>),
    /// It has read one, and has one from then on.
    Informed(Box<Informed<P>>),
    /// It has ended before it read one.
    Over,
}

/// A primary that has a view.
#[derive(Debug)]
struct Informed<P> {
    phase: Phase,
    membership: Membership,
    views: Views,
    io: Io<P>,
    scrub: Scrub,
}

#[derive(Debug)]
enum Phase {
    Starting(Gathering),
    Serving,
    Detaching(end::Detaching),
    Ended,
}

/// How far a primary is, for whoever only asks that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It has not taken office yet.
    Starting,
    Serving,
    Detaching,
    Ended,
}

impl Phase {
    #[inline]
    fn stage(&self) -> Stage {
        match self {
            Self::Starting(_) => Stage::Starting,
            Self::Serving => Stage::Serving,
            Self::Detaching(_) => Stage::Detaching,
            Self::Ended => Stage::Ended,
        }
    }
}

impl Stage {
    /// Whether it is a primary: it has taken office, and has not ended.
    #[inline]
    fn is_acting(self) -> bool {
        matches!(self, Self::Serving | Self::Detaching)
    }
}

/// Whether a primary goes on after something, or ends by it.
type Flow = ControlFlow<EndReason>;

/// What all rooms of a primary share during one step: the present moment, who it is, how far it is,
/// and where effects go.
struct Context<'a, P> {
    now: Instant,
    config: Rc<PrimaryConfig>,
    stage: Stage,
    clock: Clock,
    effects: &'a mut Vec<PrimaryEffect<P>>,
}

impl<P> Context<'_, P> {
    /// A number that was not given before.
    #[inline]
    fn next_number(&mut self) -> u64 {
        self.clock.last_number += 1;
        self.clock.last_number
    }

    /// Everything is looked at again at this moment, or before.
    #[inline]
    fn wake_at(&mut self, at: Instant) {
        self.clock.tick_at = self.clock.tick_at.min(at);
    }

    fn send(&mut self, link: LinkId, message: Message, payload: Option<P>) {
        self.effects.push(PrimaryEffect::Send { link, message, payload });
    }

    fn command_done(&mut self, id: CommandId, result: Result<(), CommandError>) {
        self.effects.push(PrimaryEffect::CommandDone { id, result });
    }

    fn note(&mut self, note: Note) {
        self.effects.push(PrimaryEffect::Note(note));
    }
}

impl<P: Payload> Primary<P> {
    /// A primary that does nothing until [`PrimaryEvent::Start`].
    #[must_use]
    pub fn new(config: PrimaryConfig, now: Instant) -> Self {
        Self {
            config: Rc::new(config),
            clock: Clock { tick_at: now, last_number: 0 },
            state: State::Unread(Box::new(Unread::new(now))),
        }
    }

    /// Handles one event; what is to be done about it is appended to `effects`.
    pub fn step(
        &mut self,
        now: Instant,
        event: PrimaryEvent<P>,
        effects: &mut Vec<PrimaryEffect<P>>,
    ) {
        let cx = &mut self.context(now, effects);
        match &mut self.state {
            State::Informed(informed) => informed.step(cx, event),
            State::Unread(_) => self.step_unread(cx, event),
            State::Over => answer_after_end(cx, event),
        }
        self.clock = cx.clock;
        if cfg!(debug_assertions) {
            self.check_invariants(cx.now);
            check_end(cx.effects);
        }
    }

    fn step_unread(&mut self, cx: &mut Context<'_, P>, event: PrimaryEvent<P>) {
        if let State::Unread(unread) = core::mem::replace(&mut self.state, State::Over) {
            self.state = unread.step(cx, event);
        }
    }

    fn context<'a>(&self, now: Instant, effects: &'a mut Vec<PrimaryEffect<P>>) -> Context<'a, P> {
        let stage = match &self.state {
            State::Unread(_) => Stage::Starting,
            State::Informed(informed) => informed.phase.stage(),
            State::Over => Stage::Ended,
        };
        Context { now, config: Rc::clone(&self.config), stage, clock: self.clock, effects }
    }

    /// When [`PrimaryEvent::Tick`] is due, if nothing else happens before. Ask after each step.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        match &self.state {
            State::Unread(unread) => unread.is_started().then_some(self.clock.tick_at),
            State::Informed(informed) => informed.next_wakeup(self.clock.tick_at),
            State::Over => None,
        }
    }

    /// What it is once it has a view, for tests to break.
    #[cfg(test)]
    fn informed(&mut self) -> &mut Informed<P> {
        let State::Informed(informed) = &mut self.state else { panic!("it has no view") };
        informed
    }
}

/// Panics if anything is done after the end: nobody would carry it out.
fn check_end<P>(effects: &[PrimaryEffect<P>]) {
    let end = effects.iter().position(|effect| matches!(effect, PrimaryEffect::Ended { .. }));
    assert!(end.is_none_or(|at| at + 1 == effects.len()), "it does something after its end");
}

/// An ended primary answers, so that nobody waits, and does nothing else.
fn answer_after_end<P>(cx: &mut Context<'_, P>, event: PrimaryEvent<P>) {
    match event {
        PrimaryEvent::Request { request, .. } => {
            let result = Err(RequestError::Detached);
            cx.effects.push(PrimaryEffect::Reply { request, result });
        }
        PrimaryEvent::Command { id, .. } => cx.command_done(id, Err(CommandError::Ended)),
        PrimaryEvent::LinkUp { link, .. } => {
            cx.effects.push(PrimaryEffect::Disconnect { link });
        }
        _ => {}
    }
}
