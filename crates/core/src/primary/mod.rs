//! A primary: runs the mirrors of one volume that is attached on its node.
//!
//! What it knows is in four rooms with fields that nobody else sees, and each uses only those
//! before it: [`membership`] what is known of the replicas, [`views`] the view and what becomes of
//! it, [`io`] what clients ask, [`scrub`] what is compared and repaired. A method takes the lower
//! rooms that it uses, and tells its caller what a higher one has to do. [`Primary`] has what all
//! share, routes events and effects, and does what follows for several rooms.
//!
//! The way of a write, in [`io`]: the request is accepted and takes the lock on its range; it is
//! cut into one part per mirror, and each is sent to every member; the answers come back there, and
//! [`crate::policy`] decides when the client is answered. The way of a failure: [`sessions`]
//! notices that a replica is gone or late; [`views`] makes a view without it, which the coordinator
//! commits and the others adopt ([`changes`]); the parts that waited for it go on. While that is
//! not possible, [`io`] says what requests wait for, and fails them in time. [`start`] and [`end`]
//! are the attach and the detach. How several primaries of one volume find out that one has died
//! is in [`views`], and in [`io`] how one of them has a range for itself: to compare and repair it,
//! to compare and write, to keep hosts out.

mod changes;
mod end;
mod interface;
mod invariants;
mod io;
mod membership;
mod scrub;
mod sessions;
mod start;
mod status;
mod views;

pub use self::scrub::verify::{Covered, VerifyState, VerifyStatus, Wrong, WrongRange};
pub use interface::*;

use self::io::{Asked, Client, Io, Lower, Origin};
use self::membership::Membership;
use self::scrub::Scrub;
use self::views::Views;
use self::views::takeover::Gathering;
use crate::ids::*;
use crate::message::Message;
use crate::operation::RequestError;
use crate::payload::Payload;
use crate::time::Instant;
use core::ops::ControlFlow;
use core::time::Duration;
use std::rc::Rc;

/// Runs the mirrors of one attached volume. See the module's documentation.
#[derive(Debug)]
pub struct Primary<P> {
    /// Shared with the [`Context`] of each step: to copy it would cost as much as a short step.
    config: Rc<PrimaryConfig>,
    phase: Phase,
    membership: Membership,
    views: Views,
    io: Io<P>,
    scrub: Scrub,
    clock: Clock,
}

/// When this primary looks at everything again, and the numbers that it gives.
#[derive(Debug, Clone, Copy)]
struct Clock {
    tick_at: Instant,
    last_number: u64,
}

#[derive(Debug)]
enum Phase {
    Idle,
    Starting(Gathering),
    Serving,
    Detaching(end::Detaching),
    Ended,
}

/// How far a primary is, for whoever only asks that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    Starting,
    Serving,
    Detaching,
    Ended,
}

impl Phase {
    #[inline]
    fn stage(&self) -> Stage {
        match self {
            Self::Idle => Stage::Idle,
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
            phase: Phase::Idle,
            membership: Membership::new(now),
            views: Views::new(now),
            io: Io::new(now),
            scrub: Scrub::default(),
            clock: Clock { tick_at: now, last_number: 0 },
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
        if cx.stage == Stage::Ended {
            return Self::step_after_end(cx, event);
        }
        match event {
            PrimaryEvent::Start => self.start(cx),
            PrimaryEvent::Request { request, host, path, operation } => {
                let client = Client { request, since: cx.now };
                let (io, lower) = &mut self.io();
                io.request(cx, lower, Asked { client, origin: Origin { host, path }, operation });
            }
            PrimaryEvent::Cancel { request } => {
                let (io, lower) = &mut self.io();
                io.cancel(cx, lower, request);
            }
            PrimaryEvent::Drain { path } => {
                let (io, lower) = &mut self.io();
                io.drain_path(cx, lower, path);
            }
            PrimaryEvent::LinkUp { replica, link } => self.link_up(cx, replica, link),
            PrimaryEvent::LinkDown { replica, link } => self.link_down(cx, replica, link),
            PrimaryEvent::Message { link, message, payload } => {
                self.message(cx, link, message, payload);
            }
            PrimaryEvent::Coordinator { call, answer } => self.coordinator(cx, call, answer),
            PrimaryEvent::Command { id, command } => self.command(cx, id, command),
            PrimaryEvent::Tick => {}
        }
        self.run_to_fixpoint(cx);
        self.clock = cx.clock;
        if cfg!(debug_assertions) {
            self.check_invariants(cx.now);
        }
    }

    fn context<'a>(&self, now: Instant, effects: &'a mut Vec<PrimaryEffect<P>>) -> Context<'a, P> {
        let (config, stage, clock) = (Rc::clone(&self.config), self.phase.stage(), self.clock);
        Context { now, config, stage, clock, effects }
    }

    /// From now on it is this far.
    fn enter(&mut self, cx: &mut Context<'_, P>, phase: Phase) {
        cx.stage = phase.stage();
        self.phase = phase;
    }

    /// An ended primary answers, so that nobody waits, and does nothing else.
    fn step_after_end(cx: &mut Context<'_, P>, event: PrimaryEvent<P>) {
        match event {
            PrimaryEvent::Request { request, .. } => {
                let result = Err(RequestError::Detached);
                cx.effects.push(PrimaryEffect::Reply { request, result });
            }
            PrimaryEvent::Command { id, .. } => {
                let result = Err(CommandError::Ended);
                cx.effects.push(PrimaryEffect::CommandDone { id, result });
            }
            PrimaryEvent::LinkUp { link, .. } => {
                cx.effects.push(PrimaryEffect::Disconnect { link });
            }
            _ => {}
        }
    }

    /// What clients have under way, and what that uses.
    #[inline]
    fn io(&mut self) -> (&mut Io<P>, Lower<'_>) {
        (&mut self.io, Lower { peers: &mut self.membership, views: &mut self.views })
    }

    /// All rooms, the highest first.
    #[inline]
    fn rooms(&mut self) -> (&mut Scrub, &mut Io<P>, Lower<'_>) {
        let lower = Lower { peers: &mut self.membership, views: &mut self.views };
        (&mut self.scrub, &mut self.io, lower)
    }

    /// Ends if that follows from what was just done.
    #[inline]
    fn follow(&mut self, cx: &mut Context<'_, P>, flow: Flow) {
        if let ControlFlow::Break(reason) = flow {
            self.end(cx, reason);
        }
    }

    /// Brings everything as far as it goes after an event.
    fn run_to_fixpoint(&mut self, cx: &mut Context<'_, P>) {
        if cx.now >= cx.clock.tick_at {
            self.tick(cx);
        }
        self.advance_start(cx);
        let (io, lower) = &mut self.io();
        io.tell_finished(cx, lower);
        self.advance_change(cx);
        let (io, lower) = &mut self.io();
        io.place_reads(cx, lower);
        self.dispatch_ready(cx);
        self.advance_check(cx);
        let (io, lower) = &mut self.io();
        io.advance_cluster_locks(cx, lower);
        io.tell_drained(cx);
        self.advance_detach(cx);
        let (scrub, io, lower) = &mut self.rooms();
        scrub.take_findings(io, lower);
        if cx.stage == Stage::Ended {
            self.release_everything();
        }
    }

    /// Takes the check under way as far as it goes, or begins the next one.
    fn advance_check(&mut self, cx: &mut Context<'_, P>) {
        let (scrub, io, lower) = &mut self.rooms();
        if scrub.advance(cx, io, lower) {
            self.dispatch_ready(cx);
        }
    }

    /// Sends what has its range, and goes on with the check that has.
    fn dispatch_ready(&mut self, cx: &mut Context<'_, P>) {
        loop {
            let (scrub, io, lower) = &mut self.rooms();
            match io.dispatch_ready(cx, lower) {
                Some(number) => scrub.locked(cx, io, lower, number),
                None => return,
            }
        }
    }

    /// What depends on time alone.
    fn tick(&mut self, cx: &mut Context<'_, P>) {
        self.views.notice_own_pause(cx, &mut self.membership);
        self.watch_peers(cx);
        if cx.stage == Stage::Ended {
            return; // The last replica of a mirror has lost what was acknowledged.
        }
        self.views.watch_primaries(cx, &self.membership);
        let (io, lower) = &mut self.io();
        io.watch_obstacle(cx, lower);
        lower.views.give_up_commands(cx);
        io.give_up_clearing(cx);
        io.watch_stability(cx, lower);
        self.watch_speed(cx);
        let settings = &self.config.settings;
        let is_idle = self.io.are_parts_over()
            && self.views.adoption().is_over()
            && !self.views.calls().is_under_way()
            && self.views.edits().is_empty()
            && matches!(self.phase, Phase::Serving)
            && self
                .membership
                .values()
                .all(|peer| peer.is_quiet() || self.views.is_idle_spare(peer.id()));
        let pause =
            if is_idle { self.views.lease().time() / 4 } else { settings.reconnect_grace / 4 };
        let tick_at = cx.now + pause.max(Duration::from_millis(1));
        // Idle volumes tick together, a little earlier: a node that has many wakes up once for all.
        cx.clock.tick_at = if is_idle { tick_at.earlier_multiple_of(pause / 4) } else { tick_at };
    }

    /// When [`PrimaryEvent::Tick`] is due, if nothing else happens before. Ask after each step.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        match self.phase {
            Phase::Idle | Phase::Ended => None,
            _ => self.scrub.next_wakeup().into_iter().chain([self.clock.tick_at]).min(),
        }
    }

    fn message(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        message: Message,
        payload: Option<P>,
    ) {
        let Some(replica) = self.membership.at(link) else {
            return; // The link was closed from here.
        };
        match message {
            Message::SessionOpened { session, report } => {
                self.session_opened(cx, (replica, link), session, report);
            }
            Message::Adopted { generation } => self.adopted(cx, replica, generation),
            Message::Refused { adopted, sequence } => {
                let (io, lower) = &mut self.io();
                sequence.into_iter().for_each(|it| io.part_refused(lower, replica, it, adopted));
                lower.views.refused(lower.peers, replica, adopted, sequence);
            }
            Message::Fenced { generation } => self.views.fenced(link, generation),
            Message::RebuildDone { generation } => {
                self.views.rebuild_done(&self.membership, replica, generation);
            }
            Message::Received { .. }
            | Message::Done { .. }
            | Message::Data { .. }
            | Message::Digests { .. }
            | Message::Extents { .. }
            | Message::Pong { .. }
            | Message::DiskFailed { .. }
            | Message::Drain { .. }
            | Message::ClusterLock { .. }
            | Message::Granted { .. }
            | Message::LogFilling { .. }
            | Message::RebuildProgress { .. }
            | Message::RebuildCopied { .. } => {
                let (io, lower) = &mut self.io();
                let flow = io.message(cx, lower, (replica, link), message, payload);
                self.follow(cx, flow);
            }
            // Only a primary or a rebuilding replica says these.
            Message::OpenSession { .. }
            | Message::Adopt { .. }
            | Message::Write { .. }
            | Message::Zero { .. }
            | Message::Read { .. }
            | Message::Digest { .. }
            | Message::Flush { .. }
            | Message::Map { .. }
            | Message::Ping { .. }
            | Message::FenceConfirmed { .. }
            | Message::Drained { .. }
            | Message::Copy { .. }
            | Message::Copied { .. }
            | Message::Stable { .. }
            | Message::AskMissing { .. }
            | Message::MissingBlocks { .. }
            | Message::ClearBits { .. }
            | Message::WritesFinished { .. } => self.drop_link(cx, link),
        }
    }
}
