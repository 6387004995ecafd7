//! What a front end is given with each event: memory of its volume, and methods that note what it
//! wants. What it waits for comes as a [`FrontendEvent`](super::FrontendEvent).

use std::ops::Range;
use std::os::fd::OwnedFd;

use evenkeel_core::settings::{MAX_COMPARE, MAX_REQUEST};
use evenkeel_core::{HostId, Instant, Operation, Payload};

use super::{FrontendAction, RequestToken};
use crate::memory::{Budget, Buffer, BufferMut, Part, Pool, Reservation};
use crate::ring::{Descriptor, DescriptorToken};

/// Bytes of the room that [`FrontendContext::reserve_spare`] gives.
pub const MAX_SPARE: usize = 8 << 10;

/// By which a front end says what it wants. One context belongs to one front end for its life.
#[derive(Debug)]
pub struct FrontendContext {
    budget: Budget,
    /// An empty budget admits one request, whatever its limit.
    spare: Budget,
    actions: Vec<FrontendAction>,
    opened: u32,
    wants_memory: bool,
    /// For whom it asks.
    host: Option<HostId>,
    now: Instant,
}

impl FrontendContext {
    pub(crate) fn new(budget: Budget) -> Self {
        Self {
            spare: Budget::new(budget.pool().clone(), 0),
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

    /// Sets the moment: for the engine, and for tests of front ends.
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
    /// arbitrary contents. `None`: wait for `FrontendEvent::MemoryAvailable`.
    pub fn allocate(&mut self, length: usize) -> Option<BufferMut> {
        let buffer = self.budget.allocate(length);
        self.wants_memory |= buffer.is_none();
        buffer
    }

    /// Room in the volume's memory for buffers of all these lengths, or for none. `None`: wait for
    /// `FrontendEvent::MemoryAvailable`.
    pub fn reserve<const N: usize>(&mut self, lengths: [usize; N]) -> Option<[Reservation; N]> {
        let rooms = self.budget.reserve_all(lengths);
        self.wants_memory |= rooms.is_none();
        rooms
    }

    /// Room for one buffer of at most [`MAX_SPARE`] bytes, which is not counted against the
    /// volume's memory, and which a front end has once: for what has to be taken because behind it
    /// in the stream comes what other memory waits for. `None`: wait for
    /// `FrontendEvent::MemoryAvailable`. What takes it must need nothing more of the client.
    pub fn reserve_spare(&mut self, length: usize) -> Option<Reservation> {
        let room = if length <= MAX_SPARE { self.spare.reserve(length) } else { None };
        self.wants_memory |= room.is_none();
        room
    }

    /// Whether the engine would say `FrontendEvent::MemoryAvailable` now, for tests of front ends.
    pub fn is_woken(&mut self) -> bool {
        let is_woken = self.wants_memory && self.budget.pool().take_released();
        self.wants_memory &= !is_woken;
        is_woken
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
    pub fn read(
        &mut self,
        descriptor: Descriptor,
        memory: BufferMut,
        offset: u64,
        token: DescriptorToken,
    ) {
        self.actions.push(FrontendAction::Read { descriptor, token, memory, offset });
    }

    /// One `pwritev` of these parts; several may be under way.
    pub fn write(
        &mut self,
        descriptor: Descriptor,
        parts: Vec<Part>,
        offset: u64,
        token: DescriptorToken,
    ) {
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
        token: DescriptorToken,
    ) {
        self.actions.push(FrontendAction::Command { descriptor, token, operation, argument });
    }

    /// Closes a descriptor at once: what is queued is dropped, what is under way is cancelled, and
    /// nothing more is heard of it.
    pub fn close(&mut self, descriptor: Descriptor) {
        self.actions.push(FrontendAction::Close { descriptor });
    }

    /// Asks the volume for something; answered by exactly one `FrontendEvent::Reply`.
    ///
    /// # Errors
    /// Gives the operation back if there is no room for a read's answer: wait for
    /// `FrontendEvent::MemoryAvailable` and submit it again. Only what reads is given back:
    /// reads, and compare-and-writes.
    pub fn submit(
        &mut self,
        token: RequestToken,
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
        self.push_submit(token, operation, room);
        Ok(())
    }

    /// As [`FrontendContext::submit`], with the room for what is read.
    pub fn submit_in(
        &mut self,
        token: RequestToken,
        operation: Operation<Buffer>,
        room: Reservation,
    ) {
        self.push_submit(token, operation, Some(room));
    }

    fn push_submit(
        &mut self,
        token: RequestToken,
        operation: Operation<Buffer>,
        room: Option<Reservation>,
    ) {
        let host = self.host;
        self.actions.push(FrontendAction::Submit { token, host, operation, room });
    }

    /// Gives a request up. It still has its one `FrontendEvent::Reply`: if no replica was sent it,
    /// at once `RequestError::Cancelled`, and it has no effect; otherwise it runs, and has its own
    /// answer.
    pub fn cancel(&mut self, token: RequestToken) {
        self.actions.push(FrontendAction::Cancel { token });
    }

    /// Asks to be told by one `FrontendEvent::Drained` when nothing is under way any more that
    /// this front end has submitted. An answer does not say that: by protocols A and B replicas may
    /// be about to write what was answered, and a write that has failed may yet be sent to some. To
    /// be submitted meanwhile delays it. If the volume ends before, `FrontendEvent::Stopping` comes
    /// instead.
    pub fn drain(&mut self) {
        self.actions.push(FrontendAction::Drain);
    }

    /// What is submitted from now on is asked by this host, which may have reserved the volume, or
    /// be kept out. Before, it is asked by the node.
    pub fn speak_for(&mut self, host: HostId) {
        self.host = Some(host);
    }

    /// This front end is at its end (its client has gone, or sent what can't be understood). All
    /// its descriptors are closed, and its requests are cancelled; nothing more is called.
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
