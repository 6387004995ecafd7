//! Front ends: how clients reach an attached volume. NBD, FUSE and ublk are state machines outside
//! of this crate that implement [`Frontend`]; the engine runs each inside the worker that owns the
//! volume, on the worker's ring.
//!
//! A front end is told what happened by [`Frontend::handle`], and says what it wants by the methods
//! of its [`FrontendContext`], which only notes it; the engine carries it out afterwards, in order.
//! So a front end never blocks, is never called recursively, and is tested without an engine:
//! make a context with [`FrontendContext::detached`], call `handle`, and look at
//! [`FrontendContext::take_actions`].
//!
//! Rules:
//! - Memory that the kernel fills is lent to the engine as a [`BufferMut`] and comes back with the
//!   event that ends the operation; nothing is freed while the kernel may touch it.
//! - What a request holds is reserved when it begins: [`FrontendContext::allocate`] for a write's
//!   payload, [`FrontendContext::submit`] for the answer to a read. If there is no room, stop
//!   reading requests until [`FrontendEvent::MemoryAvailable`]. That is the volume's backpressure.
//!   Bound also what is queued towards a client that does not read: it holds such room.
//! - A front end may make non-blocking system calls of its own on its descriptors (FUSE: `read`
//!   after [`FrontendEvent::Readable`], `writev` for answers).
//! - Tokens are the front end's own; the engine returns them and does not look at them. A token of
//!   `submit` names one request at a time. After [`FrontendContext::end`] or
//!   [`FrontendEvent::Stopping`] nothing more is heard of open requests: their answers are dropped.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

use evenkeel_core::settings::{MAX_COMPARE, MAX_REQUEST};
use evenkeel_core::{HostId, Instant, Operation, Payload, Reply, RequestError};

use crate::memory::{Budget, Buffer, BufferMut, Part, Pool, Reservation};
use crate::ring::Descriptor;

/// A state machine that serves clients of one volume.
pub trait Frontend {
    /// Handles one event. The first one is [`FrontendEvent::Started`].
    fn handle(&mut self, event: FrontendEvent, context: &mut FrontendContext);

    /// When [`FrontendEvent::Tick`] is due, if nothing else happens before. Asked after each event.
    fn next_wakeup(&self) -> Option<Instant> {
        None
    }
}

/// Makes a front end on the worker that will run it: what is inside need not be `Send`.
pub type FrontendMaker = Box<dyn FnOnce() -> Box<dyn Frontend> + Send>;

/// What happened.
#[derive(Debug)]
pub enum FrontendEvent {
    /// The front end has been added to its volume. Open descriptors and begin.
    Started,
    /// A request has been answered. Data buffers keep their room reserved until they are dropped.
    Reply {
        /// As given to [`FrontendContext::submit`].
        token: u64,
        /// The answer.
        result: Result<Reply<Buffer>, RequestError>,
    },
    /// A [`FrontendContext::receive`] has ended.
    Received {
        /// From where.
        descriptor: Descriptor,
        /// The memory that was lent, filled from the start of the range that was given.
        memory: BufferMut,
        /// How many bytes came (0: the other side has closed), or the error.
        result: io::Result<usize>,
    },
    /// Everything that was queued by [`FrontendContext::send`] and `send_buffer` has been handed to
    /// the kernel, or sending has failed and the rest was dropped.
    Sent {
        /// To where.
        descriptor: Descriptor,
        /// Bytes since the last such event, or the error.
        result: io::Result<usize>,
    },
    /// A [`FrontendContext::read`] has ended.
    Read {
        /// As given.
        token: u64,
        /// The memory that was lent.
        memory: BufferMut,
        /// How many bytes came, or the error.
        result: io::Result<usize>,
    },
    /// A [`FrontendContext::write`] has ended.
    Written {
        /// As given.
        token: u64,
        /// How many bytes went, or the error.
        result: io::Result<usize>,
    },
    /// A [`FrontendContext::wait_readable`] has ended: a read will not block, or tell an error.
    Readable {
        /// Which.
        descriptor: Descriptor,
    },
    /// A [`FrontendContext::command`] has ended.
    Command {
        /// As given.
        token: u64,
        /// What the driver returned: negative errors.
        result: i32,
    },
    /// Room was returned after [`FrontendContext::allocate`] or `submit` had none. Try again.
    MemoryAvailable,
    /// The moment named by [`Frontend::next_wakeup`] has come.
    Tick,
    /// The volume ends, or this front end is removed. Everything queued by `send` is still sent
    /// (for at most 2 s), then all descriptors are closed; nothing more is called.
    Stopping,
}

/// What a front end wants done. The engine carries it out; tests look at it.
#[derive(Debug)]
#[expect(missing_docs, reason = "each is one method of the context, described there")]
pub enum FrontendAction {
    Open {
        descriptor: Descriptor,
        file: OwnedFd,
    },
    Receive {
        descriptor: Descriptor,
        memory: BufferMut,
        range: Range<usize>,
        all: bool,
    },
    Send {
        descriptor: Descriptor,
        bytes: Vec<u8>,
    },
    SendBuffer {
        descriptor: Descriptor,
        buffer: Buffer,
    },
    Read {
        descriptor: Descriptor,
        token: u64,
        memory: BufferMut,
        offset: u64,
    },
    Write {
        descriptor: Descriptor,
        token: u64,
        parts: Vec<Part>,
        offset: u64,
    },
    WaitReadable {
        descriptor: Descriptor,
    },
    Command {
        descriptor: Descriptor,
        token: u64,
        operation: u32,
        argument: [u8; 16],
    },
    Close {
        descriptor: Descriptor,
    },
    Submit {
        token: u64,
        host: Option<HostId>,
        operation: Operation<Buffer>,
        room: Option<Reservation>,
    },
    End {
        reason: String,
    },
}

/// By which a front end says what it wants. One context belongs to one front end for its life.
#[derive(Debug)]
pub struct FrontendContext {
    budget: Budget,
    actions: Vec<FrontendAction>,
    opened: u32,
    wants_memory: bool,
    /// For whom it asks.
    host: Option<HostId>,
    pub(crate) now: Instant,
}

impl FrontendContext {
    pub(crate) fn new(budget: Budget) -> Self {
        Self {
            budget,
            actions: Vec::new(),
            opened: 0,
            wants_memory: false,
            host: None,
            now: Instant(0),
        }
    }

    /// A context without an engine, for tests of front ends, with this much memory in bytes.
    #[must_use]
    pub fn detached(memory: usize) -> Self {
        Self::new(Budget::new(Pool::new(memory), memory))
    }

    /// What was wanted since the last call, in order.
    pub fn take_actions(&mut self) -> Vec<FrontendAction> {
        std::mem::take(&mut self.actions)
    }

    /// As `take_actions`, keeping the memory of both vectors.
    pub(crate) fn swap_actions(&mut self, actions: &mut Vec<FrontendAction>) {
        std::mem::swap(&mut self.actions, actions);
    }

    /// Whether room was asked for in vain since the last call.
    pub(crate) fn take_wants_memory(&mut self) -> bool {
        std::mem::take(&mut self.wants_memory)
    }

    /// Sets the moment, for tests of front ends.
    pub fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// The moment at which the event happened.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Whether the volume's memory is nearly used up, so that other clients may have to wait.
    #[must_use]
    pub fn memory_is_short(&self) -> bool {
        self.budget.used() / 3 >= self.budget.limit() / 4
    }

    /// Gives a socket or device to the engine. `close` it there.
    pub fn open(&mut self, file: OwnedFd) -> Descriptor {
        let descriptor = Descriptor(self.opened);
        self.opened += 1;
        self.actions.push(FrontendAction::Open { descriptor, file });
        descriptor
    }

    /// A buffer of `length` bytes of the volume's memory, up to [`crate::memory::MAX_BUFFER`], with
    /// arbitrary contents. `None`: wait for [`FrontendEvent::MemoryAvailable`].
    pub fn allocate(&mut self, length: usize) -> Option<BufferMut> {
        let buffer = self.budget.allocate(length);
        self.wants_memory |= buffer.is_none();
        buffer
    }

    /// A buffer that is not counted against the volume's memory: only for a fixed, small number of
    /// buffers that the front end keeps for its life, such as the one it receives requests into.
    #[must_use]
    pub fn allocate_fixed(&mut self, length: usize) -> BufferMut {
        self.budget.pool().take(length)
    }

    /// Receives from a stream socket into this range of the memory, at least one byte. One
    /// receive at a time on one descriptor.
    pub fn receive(&mut self, descriptor: Descriptor, memory: BufferMut, range: Range<usize>) {
        self.actions.push(FrontendAction::Receive { descriptor, memory, range, all: false });
    }

    /// As [`FrontendContext::receive`], but ends only when the whole range is filled, or the
    /// stream has ended before: for the rest of a long payload.
    pub fn receive_all(&mut self, descriptor: Descriptor, memory: BufferMut, range: Range<usize>) {
        self.actions.push(FrontendAction::Receive { descriptor, memory, range, all: true });
    }

    /// Queues bytes on a stream socket. What is queued in one go leaves in one system call.
    pub fn send(&mut self, descriptor: Descriptor, bytes: &[u8]) {
        if let Some(FrontendAction::Send { descriptor: last, bytes: queued }) =
            self.actions.last_mut()
            && *last == descriptor
        {
            queued.extend_from_slice(bytes);
            return;
        }
        self.actions.push(FrontendAction::Send { descriptor, bytes: bytes.to_vec() });
    }

    /// Queues data on a stream socket.
    pub fn send_buffer(&mut self, descriptor: Descriptor, buffer: Buffer) {
        self.actions.push(FrontendAction::SendBuffer { descriptor, buffer });
    }

    /// One `pread` of a file or device into the whole memory; several may be under way.
    pub fn read(&mut self, descriptor: Descriptor, memory: BufferMut, offset: u64, token: u64) {
        self.actions.push(FrontendAction::Read { descriptor, token, memory, offset });
    }

    /// One `pwritev` of these parts; several may be under way.
    pub fn write(&mut self, descriptor: Descriptor, parts: Vec<Part>, offset: u64, token: u64) {
        self.actions.push(FrontendAction::Write { descriptor, token, parts, offset });
    }

    /// Waits until a read will not block.
    pub fn wait_readable(&mut self, descriptor: Descriptor) {
        self.actions.push(FrontendAction::WaitReadable { descriptor });
    }

    /// A command of the descriptor's driver (`IORING_OP_URING_CMD`) with 16 bytes of argument.
    /// Memory that it names must be kept by the front end until the command has ended.
    pub fn command(
        &mut self,
        descriptor: Descriptor,
        operation: u32,
        argument: [u8; 16],
        token: u64,
    ) {
        self.actions.push(FrontendAction::Command { descriptor, token, operation, argument });
    }

    /// Closes a descriptor at once: what is queued is dropped, what is under way is cancelled, and
    /// nothing more is heard of it.
    pub fn close(&mut self, descriptor: Descriptor) {
        self.actions.push(FrontendAction::Close { descriptor });
    }

    /// Asks the volume for something; answered by exactly one [`FrontendEvent::Reply`].
    ///
    /// # Errors
    /// Gives the operation back if there is no room for a read's answer: wait for
    /// [`FrontendEvent::MemoryAvailable`] and submit it again. Only what reads is given back:
    /// reads, and compare-and-writes.
    pub fn submit(
        &mut self,
        token: u64,
        operation: Operation<Buffer>,
    ) -> Result<(), Operation<Buffer>> {
        let room = match read_by(&operation) {
            0 => None,
            length => {
                let room = self.budget.reserve(length as usize);
                if room.is_none() {
                    self.wants_memory = true;
                    return Err(operation);
                }
                room
            }
        };
        let host = self.host;
        self.actions.push(FrontendAction::Submit { token, host, operation, room });
        Ok(())
    }

    /// What is submitted from now on is asked by this host, which may have reserved the volume, or
    /// be kept out. Before, it is asked by the node.
    pub fn speak_for(&mut self, host: HostId) {
        self.host = Some(host);
    }

    /// This front end is at its end (its client has gone, or sent what can't be understood). All
    /// its descriptors are closed; nothing more is called.
    pub fn end(&mut self, reason: impl Into<String>) {
        self.actions.push(FrontendAction::End { reason: reason.into() });
    }
}

/// Bytes that an operation reads; 0 if it will be refused because it is too long.
fn read_by(operation: &Operation<Buffer>) -> u32 {
    let (length, longest) = match operation {
        Operation::Read { length, .. } => (*length, MAX_REQUEST),
        Operation::CompareAndWrite { expected, .. } => (expected.length(), MAX_COMPARE),
        _ => (0, 0),
    };
    if length <= longest { length } else { 0 }
}
