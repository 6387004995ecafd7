//! One client's requests and their answers: a front end of the engine.
//!
//! Requests arrive in one buffer. The payload of a small write is copied from there into an aligned
//! buffer; of a large one, what has not arrived yet is received straight into that. The receive
//! buffer is not read on while there is no room for a request's data, while [`MAX_REQUESTS`]
//! requests are in flight, or while the client leaves [`MAX_QUEUED`] bytes of answers untaken: that
//! is the backpressure that the client feels.

mod answers;

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Duration;

use evenkeel_core::{Instant, Operation};
use evenkeel_engine::{
    Buffer, BufferMut, Descriptor, Frontend, FrontendContext, FrontendEvent, FrontendMaker,
};

use super::Negotiated;
use super::request::{Command, ErrorNumber, HEADER_LENGTH, Request};

/// Bytes of the receive buffer of one connection: seven writes of 4 KiB. What is received together
/// is sent to the disks together, and with more they have nothing to do meanwhile
/// (`docs/decisions/0042-short-turns.md`).
pub const RECEIVE_BUFFER: usize = 32 << 10;
/// Most requests of one client that are in flight at once.
pub const MAX_REQUESTS: usize = 256;
/// Bytes of answers that may wait for the client before no further request is read.
pub const MAX_QUEUED: usize = 4 << 20;

/// From here on the rest of a payload is received straight into its buffer.
const DIRECT: usize = 16 << 10;
/// Most bytes that are received straight into a buffer at once.
const MAX_RECEIVE: usize = 1 << 20;
/// How much is received at once when a large write came last: another one is likely to follow, and
/// its payload is better received straight into its buffer.
const SHORT_RECEIVE: usize = 4 << 10;
/// Longest payload of a refused write that is passed over; a longer one ends the connection.
const MAX_DRAIN: u32 = 64 << 20;

const REFUSED: &str = "the request is not permitted, outside the export, not a multiple of its block size, or unknown";

/// How long a client may hold memory without moving on, once its volume's memory is short: a
/// payload that does not arrive, answers that it does not take. Then its connection ends, so that
/// it does not keep other clients waiting.
pub const PATIENCE: Duration = Duration::from_secs(30);

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
    socket: Option<OwnedFd>,
    descriptor: Descriptor,
    negotiated: Negotiated,
    expected: Expected,
    /// `None` while it is lent to the engine.
    received: Option<BufferMut>,
    /// Which part of the buffer has been received and not used yet.
    pending: Range<usize>,
    /// Whether the buffer or a buffer is lent to the engine.
    receiving: bool,
    last_was_large: bool,
    /// Requests in flight, by token, and the tokens that are free.
    open: Vec<Option<Open>>,
    free: Vec<usize>,
    /// Bytes of answers that have not been sent.
    queued: usize,
    /// When the client last moved on, or was last forgiven that it did not.
    moved: Instant,
}

impl Frontend for Connection {
    fn handle(&mut self, event: FrontendEvent, context: &mut FrontendContext) {
        match event {
            FrontendEvent::Started => self.start(context),
            FrontendEvent::Received { memory, result, .. } => {
                self.received(memory, result, context);
            }
            FrontendEvent::Reply { token, result } => self.replied(token, result, context),
            FrontendEvent::Sent { result: Ok(bytes), .. } => {
                self.moved = context.now();
                self.queued = self.queued.saturating_sub(bytes);
            }
            FrontendEvent::Sent { result: Err(error), .. } => {
                self.end(&format!("sending failed: {error}"), context);
            }
            FrontendEvent::Stopping => self.refuse_all(context),
            FrontendEvent::Tick => self.tick(context),
            FrontendEvent::MemoryAvailable => {}
            // Nothing of the kind is ever asked for.
            FrontendEvent::Read { .. }
            | FrontendEvent::Written { .. }
            | FrontendEvent::Readable { .. }
            | FrontendEvent::Command { .. } => {}
        }
        self.advance(context);
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.keeps_others_waiting().then_some(self.moved + PATIENCE)
    }
}

impl Connection {
    fn new(socket: OwnedFd, negotiated: Negotiated) -> Self {
        Self {
            socket: Some(socket),
            descriptor: Descriptor(0),
            negotiated,
            expected: Expected::Header,
            received: None,
            pending: 0..0,
            receiving: false,
            last_was_large: false,
            open: vec![None; MAX_REQUESTS],
            free: (0..MAX_REQUESTS).rev().collect(),
            queued: 0,
            moved: Instant(0),
        }
    }

    fn start(&mut self, context: &mut FrontendContext) {
        let Some(socket) = self.socket.take() else { return };
        self.descriptor = context.open(socket);
        let rest = std::mem::take(&mut self.negotiated.rest);
        let mut received = context.allocate_fixed(RECEIVE_BUFFER);
        let Some(start) = received.get_mut(..rest.len()) else {
            return self.end("the client sent requests before the handshake ended", context);
        };
        start.copy_from_slice(&rest);
        self.pending = 0..rest.len();
        self.received = Some(received);
    }

    fn end(&mut self, reason: &str, context: &mut FrontendContext) {
        if !matches!(self.expected, Expected::Ended) {
            self.expected = Expected::Ended;
            context.end(reason);
        }
    }

    /// Whether memory returns only when the client moves on.
    fn keeps_others_waiting(&self) -> bool {
        let incomplete =
            matches!(self.expected, Expected::Payload { .. } | Expected::Direct { .. });
        incomplete || (self.queued > 0 && !matches!(self.expected, Expected::Ended))
    }

    fn tick(&mut self, context: &mut FrontendContext) {
        if !self.keeps_others_waiting() || context.now().since(self.moved) < PATIENCE {
            return;
        }
        if context.memory_is_short() {
            let reason =
                "the client neither sent nor took anything for 30 s, and others need memory";
            self.end(reason, context);
        }
        self.moved = context.now();
    }

    fn received(
        &mut self,
        memory: BufferMut,
        result: io::Result<usize>,
        context: &mut FrontendContext,
    ) {
        self.receiving = false;
        self.moved = context.now();
        let count = match result {
            Ok(0) => return self.end("the client has closed the connection", context),
            Ok(count) => count,
            Err(error) => return self.end(&format!("receiving failed: {error}"), context),
        };
        if let Expected::Direct { request, durable, filled } = self.expected {
            let filled = filled + count;
            self.expected = Expected::Payload { request, durable, buffer: memory, filled };
        } else {
            self.pending.end += count;
            self.received = Some(memory);
        }
    }

    /// Goes as far as possible with what has been received, and receives more if that helps.
    fn advance(&mut self, context: &mut FrontendContext) {
        let mut advance = Advance::GoOn;
        while matches!(advance, Advance::GoOn) {
            if self.receiving || self.queued > MAX_QUEUED {
                return;
            }
            advance = match std::mem::replace(&mut self.expected, Expected::Header) {
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
            };
        }
        if matches!(advance, Advance::Receive) {
            self.receive(context);
        }
    }

    fn header(&mut self, context: &mut FrontendContext) -> Advance {
        if self.free.is_empty() {
            return Advance::Wait;
        }
        let Some(bytes) = self.received_bytes().first_chunk::<HEADER_LENGTH>() else {
            return Advance::Receive;
        };
        let request = match Request::decode(bytes) {
            Ok(request) => request,
            Err(fault) => {
                self.end(&fault.to_string(), context);
                return Advance::Wait;
            }
        };
        self.pending.start += HEADER_LENGTH;
        self.last_was_large = request.payload_length() as usize >= DIRECT;
        match request.check(&self.negotiated) {
            Ok(command) => self.expected = Expected::Room(request, command),
            Err(error) => self.refuse(request, error, context),
        }
        Advance::GoOn
    }

    fn received_bytes(&self) -> &[u8] {
        self.received.as_ref().map_or(&[], |received| &received[self.pending.clone()])
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
                    return Advance::Wait;
                };
                self.moved = context.now();
                self.expected = Expected::Payload { request, durable, buffer, filled: 0 };
                return Advance::GoOn;
            }
            Command::Disconnect => {
                self.expected = Expected::Nothing;
                return Advance::GoOn;
            }
            Command::Cache => {
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
            return Advance::GoOn;
        }
        self.expected = Expected::Room(request, command);
        Advance::Wait
    }

    /// Whether there was room for the answer.
    fn submit(
        &mut self,
        open: Open,
        operation: Operation<Buffer>,
        context: &mut FrontendContext,
    ) -> bool {
        let Some(token) = self.free.pop() else { return false };
        if context.submit(token as u64, operation).is_err() {
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
        let received = self.received_bytes();
        let count = received.len().min(buffer.len() - filled);
        buffer[filled..filled + count].copy_from_slice(&received[..count]);
        self.pending.start += count;
        filled += count;
        let missing = buffer.len() - filled;
        if missing >= DIRECT {
            let range = filled..buffer.len().min(filled + MAX_RECEIVE);
            context.receive_all(self.descriptor, buffer, range);
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
        let count = self.pending.len().min(left);
        self.pending.start += count;
        let left = left - count;
        if left > 0 {
            self.expected = Expected::Drain { request, error, left };
            return Advance::Receive;
        }
        self.answer(request, Err((error, REFUSED)), context);
        Advance::GoOn
    }

    /// Ends once everything in flight has been answered and sent.
    fn finish(&mut self, context: &mut FrontendContext) -> Advance {
        self.expected = Expected::Nothing;
        if self.free.len() == MAX_REQUESTS && self.queued == 0 {
            self.end("the client has disconnected", context);
        }
        Advance::Wait
    }

    /// Receives into the buffer, after what is left in it: less than a header.
    fn receive(&mut self, context: &mut FrontendContext) {
        let Some(mut received) = self.received.take() else { return };
        received.copy_within(self.pending.clone(), 0);
        self.pending = 0..self.pending.len();
        let is_at_header = matches!(self.expected, Expected::Header);
        let end = if is_at_header && self.last_was_large { SHORT_RECEIVE } else { received.len() };
        context.receive(self.descriptor, received, self.pending.end..end);
        self.receiving = true;
    }
}

#[cfg(test)]
mod tests;
