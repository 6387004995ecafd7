//! An I/O queue: a front end of the engine that has a volume carry out what a host asks.
//!
//! Commands arrive in one buffer. Data in a capsule is copied from there into an aligned buffer;
//! data on request is requested when there is room for all of it, and large data is received where
//! it belongs. So a write that waits for memory doesn't keep the commands behind it waiting. Data
//! in a capsule has to be taken, because behind it may come data for which others hold memory:
//! without memory of the volume one command at a time gets the queue's own. What a Compare compares
//! with is read first, and the host's data is compared as it comes, so that it needs memory once.
//!
//! Compare and Write is two commands, one behind the other. Room for both is made with the first,
//! and the volume is asked when the data of both is here, so that no half holds anything of others'
//! up. A half in a capsule for which there is no room is interrupted: the host tries again.
//!
//! A queue ends only when nothing of it is under way in the volume, whether the host deletes the
//! queue, breaks the protocol or is gone: what no replica was sent is cancelled, and the rest is
//! awaited ([`ending`]). So is a command that the host aborts ([`aborting`]). Commands about
//! reservations are carried out by the control plane, and awaited as well ([`reserving`]).
//!
//! Bounds: as many commands as the queue has entries, besides those of its [`Stream`]. Data comes
//! out of the volume's memory budget.

mod aborting;
mod answers;
mod commands;
mod ending;
mod fused;
mod invariants;
mod receiving;
mod reserving;

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_core::{HostId, Instant};
use evenkeel_engine::{Buffer, BufferMut, Frontend, FrontendContext, FrontendEvent, FrontendMaker};

use super::connection::{Connection, Tag, Transfer};
use super::controller::Namespace;
use super::io::Ask;
use crate::stream::Stream;
use fused::{Before, Pair};
use receiving::Receiving;

pub use reserving::{ReservationAnswers, Reserving};

/// A queue whose Connect has been answered.
pub struct IoQueue {
    /// What [`super::handshake::Handshake::accept`] has returned.
    pub connection: Connection,
    /// The volume, but for its size.
    pub namespace: Namespace,
    /// Bytes of the volume. It may grow meanwhile: a command is checked against what there is when
    /// it comes.
    pub size: Arc<AtomicU64>,
    /// For whom it asks.
    pub host: HostId,
    /// Bytes that came after Connect.
    pub rest: Vec<u8>,
    /// Is called when the host deletes the queue, before it is told that it is: see
    /// [`super::controller::Controller::disconnect`].
    pub deleted: Box<dyn FnOnce() + Send>,
    /// Is called for each command that was to be aborted ([`abort`]), with its identifier, when it
    /// is over; and whether it was aborted, so that it has no effect. Not for those that are under
    /// way when the volume ends, which ends the queue.
    pub aborted: Box<dyn FnMut(u16, bool) + Send>,
    /// Who carries out commands about reservations. `None`: there are none.
    pub reserving: Option<Reserving>,
}

/// What a queue is told ([`FrontendEvent::Reported`]) so that it aborts the command that the host
/// calls so.
#[must_use]
pub const fn abort(command: u16) -> u64 {
    command as u64
}

/// What a queue is told when its connection was closed on this side. It may not see that by itself:
/// while it waits for the volume it does not receive.
pub const CLOSED: u64 = 1 << 16;

/// What a queue is told when commands about reservations have been answered.
pub const RESERVATIONS_ANSWERED: u64 = 1 << 17;

impl fmt::Debug for IoQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoQueue").field("host", &self.host).finish_non_exhaustive()
    }
}

/// Makes the front end that serves a queue. The socket is a stream socket without TLS (or one end
/// of a pair whose other end is served by who does TLS).
#[must_use]
pub fn front_end(socket: OwnedFd, queue: IoQueue) -> FrontendMaker {
    Box::new(move || Box::new(Queue::new(socket, queue)))
}

/// A command that has not been answered.
#[derive(Debug)]
struct Open {
    tag: Tag,
    ask: Ask,
    transfer: Transfer,
    phase: Phase,
}

/// How far a command is.
#[derive(Debug)]
enum Phase {
    /// It waits for memory.
    Waiting,
    /// Its data comes into this buffer, which is `None` while it is lent to the engine.
    Filling(Option<BufferMut>),
    /// Its data is here, and that of the other half of Compare and Write is not.
    Held(Buffer),
    /// Its data is compared with this as it comes; whether it differs so far.
    Comparing(Vec<(u32, Buffer)>, bool),
    /// The volume carries it out. Of ranges, those that are left.
    Submitted(Vec<(u64, u64)>),
    /// The control plane carries it out; the buffer is for a report.
    Asked(Option<BufferMut>),
}

/// What the queue is doing.
#[derive(Debug)]
enum State {
    Serving,
    /// It ends because of this, when nothing of it is under way in the volume.
    Draining(Cause),
    /// It ends for this reason once all that was queued is sent.
    Closing(String),
    Ended,
}

/// Why a queue ends.
#[derive(Debug)]
enum Cause {
    /// The host deletes it by this command, which is answered then.
    Deleted(Tag),
    /// For this reason.
    Other(String),
}

struct Queue {
    stream: Stream,
    queue: IoQueue,
    state: State,
    receiving: Receiving,
    last_was_large: bool,
    /// Whether nothing can be sent any more.
    is_lost: bool,
    /// By tag. A tag's index is also the token for the volume.
    open: Vec<Option<Open>>,
    /// Commands that wait for memory, in the order in which they came.
    waiting: VecDeque<Tag>,
    /// A command whose data comes next in the stream, which has to wait until it can be taken:
    /// until the volume has done something, and never for the host.
    stalled: Option<Tag>,
    /// What the command before was to the next one.
    before: Before,
    /// Halves of Compare and Write.
    pairs: Vec<Pair>,
    /// Whether nothing is under way in the volume any more, of a queue that ends.
    is_drained: bool,
    /// Commands that the host wants aborted and the volume has, with their identifiers.
    aborting: Vec<(Tag, u16)>,
    /// What is to be sent.
    out: Vec<u8>,
}

impl Frontend for Queue {
    fn handle(&mut self, event: FrontendEvent, context: &mut FrontendContext) {
        match event {
            FrontendEvent::Started => self.start(context),
            FrontendEvent::Received { memory, result, .. } => {
                self.received(memory, result, context);
            }
            FrontendEvent::Reply { token, result } => self.replied(token, result, context),
            FrontendEvent::Sent { result, .. } => {
                if let Err(reason) = self.stream.sent(result, context.now()) {
                    self.lose(reason, context);
                }
            }
            FrontendEvent::Stopping => self.stop(context),
            FrontendEvent::Tick => self.tick(context),
            FrontendEvent::Drained => self.drained(),
            FrontendEvent::Reported { what: CLOSED } => {
                self.lose("its controller has closed the connection".to_owned(), context);
            }
            FrontendEvent::Reported { what: RESERVATIONS_ANSWERED } => {
                self.reservations_answered(context);
            }
            FrontendEvent::Reported { what } => self.abort(what as u16, context),
            FrontendEvent::MemoryAvailable => {}
            // Nothing of the kind is ever asked for.
            FrontendEvent::Read { .. }
            | FrontendEvent::Written { .. }
            | FrontendEvent::Readable { .. }
            | FrontendEvent::Command { .. } => {}
        }
        self.advance(context);
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.keeps_others_waiting().then(|| self.stream.deadline())
    }
}

impl Queue {
    fn new(socket: OwnedFd, queue: IoQueue) -> Self {
        let depth = queue.connection.depth() as usize;
        Self {
            stream: Stream::new("host", socket),
            queue,
            state: State::Serving,
            receiving: Receiving::Nothing,
            last_was_large: false,
            is_lost: false,
            open: std::iter::repeat_with(|| None).take(depth).collect(),
            waiting: VecDeque::with_capacity(depth),
            stalled: None,
            before: Before::Other,
            pairs: Vec::new(),
            is_drained: false,
            aborting: Vec::new(),
            out: Vec::new(),
        }
    }

    fn start(&mut self, context: &mut FrontendContext) {
        let rest = std::mem::take(&mut self.queue.rest);
        context.speak_for(self.queue.host);
        if let Err(reason) = self.stream.start(&rest, context) {
            self.end(reason, context);
        }
    }

    /// The volume as it is now.
    fn namespace(&self) -> Namespace {
        Namespace { size: self.queue.size.load(Ordering::Relaxed), ..self.queue.namespace }
    }

    /// Goes as far as possible.
    fn advance(&mut self, context: &mut FrontendContext) {
        self.retry(context);
        self.read_on(context);
        self.send(context);
        if let State::Closing(reason) = &mut self.state
            && !self.stream.is_sending()
        {
            let reason = std::mem::take(reason);
            self.end(reason, context);
        }
    }

    fn end(&mut self, reason: String, context: &mut FrontendContext) {
        if !matches!(self.state, State::Ended) {
            self.state = State::Ended;
            context.end(reason);
        }
    }

    /// Gives the engine what is to be sent.
    fn send(&mut self, context: &mut FrontendContext) {
        if self.is_lost {
            self.out.clear();
        }
        if self.out.is_empty() || matches!(self.state, State::Ended) {
            return;
        }
        self.stream.send(&self.out, context);
        self.out.clear();
    }

    /// Whether memory returns only when the host moves on.
    fn keeps_others_waiting(&self) -> bool {
        let awaits_data = |open: &Open| {
            let is_held =
                matches!(open.phase, Phase::Filling(_) | Phase::Held(_) | Phase::Comparing(..));
            is_held && open.transfer.length() > 0
        };
        let is_ended = matches!(self.state, State::Ended);
        !is_ended && (self.stream.is_sending() || self.open.iter().flatten().any(awaits_data))
    }

    fn tick(&mut self, context: &mut FrontendContext) {
        if !self.keeps_others_waiting() || context.now() < self.stream.deadline() {
            return;
        }
        if context.memory_is_short() || !matches!(self.state, State::Serving) {
            self.stream.forget_queued();
            self.lose(self.stream.impatience(), context);
        }
        self.stream.move_on(context.now());
    }
}

#[cfg(test)]
mod tests;
