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
//!   payload, [`FrontendContext::submit`] for the answer to a read, [`FrontendContext::reserve`]
//!   for several buffers. If there is no room, stop reading requests until
//!   [`FrontendEvent::MemoryAvailable`]. That is the volume's backpressure. What waits for room
//!   keeps what it has: room that it took and returned would wake it again, for ever.
//!   Bound also what is queued towards a client that does not read: it holds such room.
//! - A front end may make non-blocking system calls of its own on its descriptors (FUSE: `read`
//!   after [`FrontendEvent::Readable`], `writev` for answers).
//! - Tokens are the front end's own; the engine returns them and does not look at them. A
//!   [`RequestToken`] names one request at a time. After [`FrontendContext::end`] or
//!   [`FrontendEvent::Stopping`] nothing more is heard of open requests: those that no replica was
//!   sent are cancelled, and answers are dropped. A front end whose client has to know when they
//!   are over cancels them itself, and ends when they are [drained](FrontendContext::drain).

mod context;

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

use evenkeel_core::{HostId, Instant, Operation, Reply, RequestError};

pub use self::context::{FrontendContext, MAX_SPARE};
use crate::memory::{Buffer, BufferMut, Part, Reservation};
use crate::ring::{Descriptor, DescriptorToken};

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

/// A request of a front end to its volume, as the front end names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestToken(pub u64);

impl RequestToken {
    /// That of what stands at this index of a front end's own table.
    #[must_use]
    pub const fn of_index(index: usize) -> Self {
        Self(index as u64)
    }

    /// The index in that table; beyond every table if the token is of none.
    #[must_use]
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// What happened.
#[derive(Debug)]
pub enum FrontendEvent {
    /// The front end has been added to its volume. Open descriptors and begin.
    Started,
    /// A request has been answered. Data buffers keep their room reserved until they are dropped.
    Reply {
        /// As given to [`FrontendContext::submit`].
        token: RequestToken,
        /// The answer.
        result: Result<Reply<Buffer>, RequestError>,
    },
    /// Nothing is under way any more that this front end has asked of the volume: see
    /// [`FrontendContext::drain`].
    Drained,
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
        token: DescriptorToken,
        /// The memory that was lent.
        memory: BufferMut,
        /// How many bytes came, or the error.
        result: io::Result<usize>,
    },
    /// A [`FrontendContext::write`] has ended.
    Written {
        /// As given.
        token: DescriptorToken,
        /// How many bytes went, or the error.
        result: io::Result<usize>,
    },
    /// A [`FrontendContext::wait_readable`] has ended: a read will not block, or tell an error.
    Readable {
        /// The one that was waited for.
        descriptor: Descriptor,
    },
    /// A [`FrontendContext::command`] has ended.
    Command {
        /// As given.
        token: DescriptorToken,
        /// What the driver returned: negative errors.
        result: i32,
    },
    /// The control plane tells this front end something, by [`crate::Engine::tell_frontend`].
    Reported {
        /// What, as the two have agreed.
        what: u64,
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
        token: DescriptorToken,
        memory: BufferMut,
        offset: u64,
    },
    Write {
        descriptor: Descriptor,
        token: DescriptorToken,
        parts: Vec<Part>,
        offset: u64,
    },
    WaitReadable {
        descriptor: Descriptor,
    },
    Command {
        descriptor: Descriptor,
        token: DescriptorToken,
        operation: u32,
        argument: [u8; 16],
    },
    Close {
        descriptor: Descriptor,
    },
    Submit {
        token: RequestToken,
        host: Option<HostId>,
        operation: Operation<Buffer>,
        room: Option<Reservation>,
    },
    Cancel {
        token: RequestToken,
    },
    Drain,
    End {
        reason: String,
    },
}
