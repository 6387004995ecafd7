//! One client's requests and their answers: a front end of the engine.
//!
//! Requests arrive in one buffer. The payload of a small write is copied from there into an aligned
//! buffer; of a large one, what has not arrived yet is received straight into that. The receive
//! buffer is not read on while there is no room for a request's data, while [`MAX_REQUESTS`]
//! requests are in flight, or while the client leaves too many answers untaken ([`Stream`]): that
//! is the backpressure that the client feels.
//!
//! A client that closes the connection without a disconnect request has given up what had not begun
//! by then: it may write the same over another connection, and what it wrote here must not come
//! later ([`held`]).

mod answers;
mod held;
mod invariants;

use std::io;
use std::os::fd::OwnedFd;

use evenkeel_core::{Instant, Operation};
use evenkeel_engine::{
    Buffer, BufferMut, Frontend, FrontendContext, FrontendEvent, FrontendMaker, RequestToken,
};

use super::Negotiated;
use super::request::{Command, ErrorNumber, HEADER_LENGTH, Request};
use crate::stream::{DIRECT, Stream};
use held::Presence;

/// Most requests of one client that are in flight at once.
pub const MAX_REQUESTS: usize = 256;

/// Most bytes that are received straight into a buffer at once.
const MAX_RECEIVE: usize = 1 << 20;
/// Longest payload of a refused write that is passed over; a longer one ends the connection.
const MAX_DRAIN: u32 = 64 << 20;

/// A defect here, and nothing that a client can bring about.
const LOST_PLACE: &str =
    "this server has lost its place in what the client sent: please report this";

const REFUSED: &str = "the request is not permitted, outside the export, not a multiple of its block size, or unknown";

/// Makes the front end that serves a client from the handshake on. The socket is a stream socket
/// without TLS (or one end of a pair whose other end is served by who does TLS).
#[must_use]
pub fn front_end(socket: OwnedFd, negotiated: Negotiated) -> FrontendMaker {
    Box::new(move || Box::new(Connection::new(socket, negotiated)))
}

/// What is expected next from the client.
#[derive(Debug)]
enum Expected {
    Header,
    /// Room for the data of this request, which is known to be sound.
    Room(Request, Command),
    /// The rest of a write's payload, after the first bytes.
    Payload {
        request: Request,
        durable: bool,
        buffer: BufferMut,
        filled: usize,
    },
    /// The rest of a payload, straight into the buffer, which is lent to the engine.
    Direct {
        request: Request,
        durable: bool,
        filled: usize,
    },
    /// The rest of the payload of a refused write; then the answer.
    Drain {
        request: Request,
        error: ErrorNumber,
        left: usize,
    },
    /// Nothing more: answer what is in flight, then end.
    Nothing,
    /// The connection has ended.
    Ended,
    /// Taken by [`Connection::advance`]; what it calls says what follows. A way that forgets to say
    /// so leaves this behind, so that nothing of the client's is read as a header that is none.
    Poisoned,
}

/// Whether to go on with what has been received.
enum Advance {
    GoOn,
    /// More bytes are needed.
    Receive,
    /// Something must end first; its event calls again.
    Wait,
}

/// A request that the volume has not answered.
#[derive(Debug, Clone, Copy)]
struct Open {
    request: Request,
    command: Command,
}

#[derive(Debug)]
struct Connection {
    stream: Stream,
    negotiated: Negotiated,
    expected: Expected,
    /// Whether the buffer or a buffer is lent to the engine.
    receiving: bool,
    /// Whether a large write came last: another one is likely to follow.
    last_was_large: bool,
    /// Requests in flight, by token, and the tokens that are free.
    open: Vec<Option<Open>>,
    free: Vec<usize>,
    presence: Presence,
    /// Changes that begin when the client's disconnect request comes, by token.
    held: Vec<(usize, Operation<Buffer>)>,
    /// Since when the volume has answered nothing and a request waits for room, so that the socket
    /// is not read.
    stuck: Option<Instant>,
}

impl Frontend for Connection {
    fn handle(&mut self, event: FrontendEvent, context: &mut FrontendContext) {
        self.presence.forget();
        match event {
            FrontendEvent::Started => self.start(context),
            FrontendEvent::Received { memory, result, .. } => {
                self.received(memory, result, context);
            }
            FrontendEvent::Reply { token, result } => self.replied(token, result, context),
            FrontendEvent::Sent { result, .. } => {
                if let Err(reason) = self.stream.sent(result, context.now()) {
                    self.not_sent(&reason, context);
                }
            }
            FrontendEvent::Stopping => self.refuse_all(context),
            FrontendEvent::Tick => self.tick(context),
            FrontendEvent::MemoryAvailable => {}
            // Nothing of the kind is ever asked for.
            FrontendEvent::Read { .. }
            | FrontendEvent::Written { .. }
            | FrontendEvent::Readable { .. }
            | FrontendEvent::Command { .. }
            | FrontendEvent::Drained
            | FrontendEvent::Reported { .. } => {}
        }
        self.advance(context);
        self.note_stuck(context.now());
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        let deadline = self.keeps_others_waiting().then(|| self.stream.deadline());
        [deadline, self.next_look()].into_iter().flatten().min()
    }
}

impl Connection {
    fn new(socket: OwnedFd, negotiated: Negotiated) -> Self {
        Self {
            stream: Stream::new("client", socket),
            negotiated,
            expected: Expected::Header,
            receiving: false,
            last_was_large: false,
            open: vec![None; MAX_REQUESTS],
            free: (0..MAX_REQUESTS).rev().collect(),
            presence: Presence::Unknown,
            held: Vec::new(),
            stuck: None,
        }
    }

    fn start(&mut self, context: &mut FrontendContext) {
        let rest = std::mem::take(&mut self.negotiated.rest);
        let started = self.stream.watch().and_then(|()| self.stream.start(&rest, context));
        if let Err(reason) = started {
            self.end(&reason, context);
        }
    }

    fn end(&mut self, reason: &str, context: &mut FrontendContext) {
        if !matches!(self.expected, Expected::Ended) {
            self.expected = Expected::Ended;
            self.held.clear();
            context.end(reason);
        }
    }

    /// Whether memory returns only when the client moves on.
    fn keeps_others_waiting(&self) -> bool {
        let incomplete =
            matches!(self.expected, Expected::Payload { .. } | Expected::Direct { .. });
        incomplete || (self.stream.is_sending() && !matches!(self.expected, Expected::Ended))
    }

    fn tick(&mut self, context: &mut FrontendContext) {
        if self.next_look().is_some_and(|at| at <= context.now()) {
            self.look(context);
        }
        if !self.keeps_others_waiting() || context.now() < self.stream.deadline() {
            return;
        }
        if context.memory_is_short() {
            self.end(&self.stream.impatience(), context);
        }
        self.stream.move_on(context.now());
    }

    fn received(
        &mut self,
        memory: BufferMut,
        result: io::Result<usize>,
        context: &mut FrontendContext,
    ) {
        self.receiving = false;
        let count = match self.stream.received(result, context.now()) {
            Ok(count) => count,
            Err(reason) => return self.end(&reason, context),
        };
        if let Expected::Direct { request, durable, filled } = self.expected {
            let filled = filled + count;
            self.expected = Expected::Payload { request, durable, buffer: memory, filled };
        } else {
            self.stream.arrived(memory, count);
        }
    }

    /// Goes as far as possible with what has been received, and receives more if that helps.
    fn advance(&mut self, context: &mut FrontendContext) {
        let mut advance = Advance::GoOn;
        while matches!(advance, Advance::GoOn) {
            if self.receiving || self.stream.is_full() {
                return;
            }
            advance = match std::mem::replace(&mut self.expected, Expected::Poisoned) {
                Expected::Header => self.header(context),
                Expected::Room(request, command) => self.begin(request, command, context),
                Expected::Payload { request, durable, buffer, filled } => {
                    self.payload(request, durable, buffer, filled, context)
                }
                Expected::Drain { request, error, left } => {
                    self.drain(request, error, left, context)
                }
                Expected::Nothing => self.finish(context),
                expected @ (Expected::Direct { .. } | Expected::Ended) => {
                    self.expected = expected;
                    Advance::Wait
                }
                Expected::Poisoned => {
                    self.end(LOST_PLACE, context);
                    Advance::Wait
                }
            };
        }
        if matches!(advance, Advance::Receive) {
            self.receive(context);
        }
    }

    fn header(&mut self, context: &mut FrontendContext) -> Advance {
        self.expected = Expected::Header;
        if self.free.is_empty() && !self.is_disconnect_next() {
            return self.wait(context);
        }
        let Some(bytes) = self.stream.bytes().first_chunk::<HEADER_LENGTH>() else {
            return Advance::Receive;
        };
        let request = match Request::decode(bytes) {
            Ok(request) => request,
            Err(fault) => {
                self.end(&fault.to_string(), context);
                return Advance::Wait;
            }
        };
        self.stream.consume(HEADER_LENGTH);
        self.last_was_large = request.payload_length() as usize >= DIRECT;
        match request.check(&self.negotiated) {
            Ok(command) => self.expected = Expected::Room(request, command),
            Err(error) => self.refuse(request, error, context),
        }
        Advance::GoOn
    }

    /// Begins a request, if there is room for its data.
    fn begin(
        &mut self,
        request: Request,
        command: Command,
        context: &mut FrontendContext,
    ) -> Advance {
        let (offset, length) = (request.offset, request.length);
        let operation = match command {
            Command::Write { durable } => {
                let Some(buffer) = context.allocate(length as usize) else {
                    self.expected = Expected::Room(request, command);
                    return self.wait(context);
                };
                self.stream.move_on(context.now());
                self.expected = Expected::Payload { request, durable, buffer, filled: 0 };
                return Advance::GoOn;
            }
            Command::Disconnect => {
                self.begin_held(context);
                self.expected = Expected::Nothing;
                return Advance::GoOn;
            }
            Command::Cache => {
                self.expected = Expected::Header;
                self.answer(request, Ok(()), context);
                return Advance::GoOn;
            }
            Command::Read => Operation::Read { offset, length },
            Command::Zero { unmap, durable } => {
                Operation::Zero { offset, length: length.into(), unmap, durable }
            }
            Command::Flush => Operation::Flush,
            Command::Status { .. } => Operation::Map { offset, length: length.into() },
        };
        if self.submit(Open { request, command }, operation, context) {
            self.expected = Expected::Header;
            return Advance::GoOn;
        }
        self.expected = Expected::Room(request, command);
        self.wait(context)
    }

    /// Whether there was room for the answer.
    fn submit(
        &mut self,
        open: Open,
        operation: Operation<Buffer>,
        context: &mut FrontendContext,
    ) -> bool {
        let Some(token) = self.free.pop() else { return false };
        if changes(&operation) && self.presence.has_left(&self.stream) {
            self.held.push((token, operation));
            self.open[token] = Some(open);
            return true;
        }
        if context.submit(RequestToken::of_index(token), operation).is_err() {
            self.free.push(token);
            return false;
        }
        self.open[token] = Some(open);
        true
    }

    fn payload(
        &mut self,
        request: Request,
        durable: bool,
        mut buffer: BufferMut,
        mut filled: usize,
        context: &mut FrontendContext,
    ) -> Advance {
        let received = self.stream.bytes();
        let count = received.len().min(buffer.len() - filled);
        buffer[filled..filled + count].copy_from_slice(&received[..count]);
        self.stream.consume(count);
        filled += count;
        let missing = buffer.len() - filled;
        if missing >= DIRECT {
            let range = filled..buffer.len().min(filled + MAX_RECEIVE);
            self.stream.receive_into(buffer, range, context);
            self.receiving = true;
            self.expected = Expected::Direct { request, durable, filled };
            return Advance::Wait;
        }
        if missing > 0 {
            self.expected = Expected::Payload { request, durable, buffer, filled };
            return Advance::Receive;
        }
        let open = Open { request, command: Command::Write { durable } };
        let payload = buffer.freeze();
        let operation = Operation::Write { offset: request.offset, payload, durable };
        // A header is read only while a token is free, and a write is never given back.
        self.submit(open, operation, context);
        self.expected = Expected::Header;
        Advance::GoOn
    }

    /// Refuses a request; the payload that follows it is passed over first.
    fn refuse(&mut self, request: Request, error: ErrorNumber, context: &mut FrontendContext) {
        match request.payload_length() {
            0 => self.answer(request, Err((error, REFUSED)), context),
            left if left <= MAX_DRAIN => {
                self.expected = Expected::Drain { request, error, left: left as usize };
            }
            left => self.end(&format!("the client sent a write of {left} bytes"), context),
        }
    }

    fn drain(
        &mut self,
        request: Request,
        error: ErrorNumber,
        left: usize,
        context: &mut FrontendContext,
    ) -> Advance {
        let count = self.stream.pending().min(left);
        self.stream.consume(count);
        let left = left - count;
        if left > 0 {
            self.expected = Expected::Drain { request, error, left };
            return Advance::Receive;
        }
        self.expected = Expected::Header;
        self.answer(request, Err((error, REFUSED)), context);
        Advance::GoOn
    }

    /// Whether the client's disconnect request comes next, which takes no place.
    fn is_disconnect_next(&self) -> bool {
        let header = self.stream.bytes().first_chunk::<HEADER_LENGTH>();
        let request = header.and_then(|bytes| Request::decode(bytes).ok());
        let command = request.map(|request| request.check(&self.negotiated));
        matches!(command, Some(Ok(Command::Disconnect)))
    }

    /// An answer could not be sent. A client that has asked to disconnect awaits none, and may have
    /// closed at once: what it asked before is carried out.
    fn not_sent(&mut self, reason: &str, context: &mut FrontendContext) {
        if !matches!(self.expected, Expected::Nothing) {
            self.end(reason, context);
        }
    }

    /// Ends once everything in flight has been answered and sent.
    fn finish(&mut self, context: &mut FrontendContext) -> Advance {
        self.expected = Expected::Nothing;
        if self.free.len() == MAX_REQUESTS && !self.stream.is_sending() {
            self.end("the client has disconnected", context);
        }
        Advance::Wait
    }

    /// Receives into the buffer, after what is left in it: less than a header.
    fn receive(&mut self, context: &mut FrontendContext) {
        let is_at_header = matches!(self.expected, Expected::Header);
        self.receiving |= self.stream.receive(is_at_header && self.last_was_large, context);
    }
}

/// Whether this changes data.
const fn changes(operation: &Operation<Buffer>) -> bool {
    matches!(operation, Operation::Write { .. } | Operation::Zero { .. })
}

#[cfg(test)]
mod tests;
