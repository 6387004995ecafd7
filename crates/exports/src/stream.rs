//! The stream socket of one client, as a front end leads it: what has arrived and is not used yet,
//! what is queued for the client, and when the client last moved on.
//!
//! Bounds: one receive buffer of [`RECEIVE_BUFFER`] bytes; [`MAX_QUEUED`] bytes of answers, beyond
//! which a front end takes no further request.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Duration;

use evenkeel_core::Instant;
use evenkeel_engine::{Buffer, BufferMut, Descriptor, FrontendContext};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bytes of the receive buffer of one connection: seven writes of 4 KiB. What is received together
/// is sent to the disks together, and with more they have nothing to do meanwhile
/// (`docs/decisions/0042-short-turns.md`).
pub const RECEIVE_BUFFER: usize = 32 << 10;
/// Bytes of answers that may wait for the client before no further request is read.
pub const MAX_QUEUED: usize = 4 << 20;
/// How long a client may hold memory without moving on, once its volume's memory is short: a
/// payload that does not arrive, answers that it does not take. Then its connection ends, so that
/// it does not keep other clients waiting.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// From here on a payload is received straight into its buffer.
pub const DIRECT: usize = 16 << 10;
/// How much is received at once while a large payload is expected, which is better received
/// straight into its buffer.
const SHORT_RECEIVE: usize = 4 << 10;

#[derive(Debug)]
pub struct Stream {
    /// What the protocol calls the other side, for reasons.
    client: &'static str,
    /// `None` once the engine has it.
    socket: Option<OwnedFd>,
    /// Another handle of it, for who wants to know whether the client is there.
    watched: Option<OwnedFd>,
    descriptor: Descriptor,
    /// `None` while it is lent to the engine, or taken.
    received: Option<BufferMut>,
    /// Which part of the buffer has been received and not used yet.
    pending: Range<usize>,
    /// Bytes that were given to the engine and have not been sent.
    queued: usize,
    /// When the client last moved on, or was last forgiven that it did not.
    moved: Instant,
}

impl Stream {
    pub const fn new(client: &'static str, socket: OwnedFd) -> Self {
        Self {
            client,
            socket: Some(socket),
            watched: None,
            descriptor: Descriptor(0),
            received: None,
            pending: 0..0,
            queued: 0,
            moved: Instant(0),
        }
    }

    /// Gives the socket to the engine, and takes what has come during the handshake.
    ///
    /// # Errors
    /// If that is more than the receive buffer holds; why the connection has to end.
    pub fn start(&mut self, rest: &[u8], context: &mut FrontendContext) -> Result<(), String> {
        let Some(socket) = self.socket.take() else { return Ok(()) };
        self.descriptor = context.open(socket);
        let mut received = context.allocate_fixed(RECEIVE_BUFFER);
        let Some(start) = received.get_mut(..rest.len()) else {
            return Err(format!("the {} sent requests before the handshake ended", self.client));
        };
        start.copy_from_slice(rest);
        self.pending = 0..rest.len();
        self.received = Some(received);
        Ok(())
    }

    /// Keeps a handle of the socket, before it is given to the engine, for
    /// [`Stream::has_hung_up`].
    ///
    /// # Errors
    /// If the system refuses another handle; why the connection has to end.
    pub fn watch(&mut self) -> Result<(), String> {
        let watched = self.socket.as_ref().map(OwnedFd::try_clone).transpose();
        self.watched = watched.map_err(|e| format!("no handle of the connection is left: {e}"))?;
        Ok(())
    }

    /// Whether the client sends no more than what is in the socket: it has closed the connection,
    /// or has been cut off. Asks the system.
    pub fn has_hung_up(&self) -> bool {
        let Some(watched) = &self.watched else { return false };
        let mut asked = [PollFd::new(watched, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A socket that can't be asked tells the same when it is received from.
        let answered = poll(&mut asked, Some(&at_once)).is_ok();
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        answered && asked[0].revents().intersects(gone)
    }

    /// What has arrived and is not used yet; nothing while the engine has the buffer.
    pub fn bytes(&self) -> &[u8] {
        self.received.as_ref().map_or(&[], |received| &received[self.pending.clone()])
    }

    /// How much of it there is.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// These many bytes of it are used.
    pub const fn consume(&mut self, count: usize) {
        self.pending.start += count;
    }

    /// Takes the buffer, with the range of what has arrived in it, for whoever changes other things
    /// while he reads it. [`Stream::put_back`] returns it.
    pub fn take(&mut self) -> Option<(BufferMut, Range<usize>)> {
        Some((self.received.take()?, self.pending.clone()))
    }

    pub fn put_back(&mut self, received: BufferMut) {
        self.received = Some(received);
    }

    /// Has the engine receive into the buffer, after what is left in it; a little only if a large
    /// payload is expected. Returns whether it does.
    pub fn receive(&mut self, is_large: bool, context: &mut FrontendContext) -> bool {
        let Some(mut received) = self.received.take() else { return false };
        received.copy_within(self.pending.clone(), 0);
        self.pending = 0..self.pending.len();
        let end = if is_large { SHORT_RECEIVE } else { received.len() };
        context.receive(self.descriptor, received, self.pending.end..end);
        true
    }

    /// Has the engine fill a part of a payload's buffer.
    pub fn receive_into(
        &self,
        buffer: BufferMut,
        range: Range<usize>,
        context: &mut FrontendContext,
    ) {
        context.receive_all(self.descriptor, buffer, range);
    }

    /// What came of receiving: how many bytes.
    ///
    /// # Errors
    /// If nothing more will come; why.
    pub fn received(&mut self, result: io::Result<usize>, now: Instant) -> Result<usize, String> {
        self.moved = now;
        match result {
            Ok(0) => Err(format!("the {} has closed the connection", self.client)),
            Ok(count) => Ok(count),
            Err(error) => Err(format!("receiving failed: {error}")),
        }
    }

    /// The engine returns the buffer with so much more in it.
    pub fn arrived(&mut self, received: BufferMut, count: usize) {
        self.pending.end += count;
        self.received = Some(received);
    }

    /// Queues bytes for the client.
    pub fn send(&mut self, bytes: &[u8], context: &mut FrontendContext) {
        self.queue(bytes.len(), context.now());
        context.send(self.descriptor, bytes);
    }

    /// Queues what is in a buffer, without a copy.
    pub fn send_buffer(&mut self, buffer: Buffer, context: &mut FrontendContext) {
        self.queue(buffer.len(), context.now());
        context.send_buffer(self.descriptor, buffer);
    }

    const fn queue(&mut self, count: usize, now: Instant) {
        if self.queued == 0 {
            self.moved = now;
        }
        self.queued += count;
    }

    /// What came of sending.
    ///
    /// # Errors
    /// If nothing can be sent any more; why.
    pub fn sent(&mut self, result: io::Result<usize>, now: Instant) -> Result<(), String> {
        match result {
            Ok(count) => {
                self.moved = now;
                self.queued = self.queued.saturating_sub(count);
                Ok(())
            }
            Err(error) => {
                self.queued = 0;
                Err(format!("sending failed: {error}"))
            }
        }
    }

    /// Whether bytes wait for the client.
    pub const fn is_sending(&self) -> bool {
        self.queued > 0
    }

    /// Whether so many do that no further request is to be read.
    pub const fn is_full(&self) -> bool {
        self.queued > MAX_QUEUED
    }

    /// Nothing of what is queued is awaited any more.
    pub const fn forget_queued(&mut self) {
        self.queued = 0;
    }

    /// The client has moved on, or is forgiven that it has not.
    pub const fn move_on(&mut self, now: Instant) {
        self.moved = now;
    }

    /// Until when it is given time to do so.
    pub fn deadline(&self) -> Instant {
        self.moved + PATIENCE
    }

    /// Why a client ends that held memory until the deadline.
    pub fn impatience(&self) -> String {
        let seconds = PATIENCE.as_secs();
        let client = self.client;
        format!(
            "the {client} neither sent nor took anything for {seconds} s, and others need memory"
        )
    }

    /// Asserts what holds after each step.
    pub fn check_invariants(&self) {
        let Range { start, end } = self.pending;
        assert!(start <= end && end <= RECEIVE_BUFFER, "what has arrived is in the buffer");
        let length = self.received.as_ref().map_or(RECEIVE_BUFFER, |received| received.len());
        assert!(length == RECEIVE_BUFFER, "the buffer that returns is the one that was lent");
        assert!(self.socket.is_none() || self.queued == 0, "nothing is sent before the start");
    }

    #[cfg(test)]
    pub const fn descriptor(&self) -> Descriptor {
        self.descriptor
    }

    #[cfg(test)]
    pub const fn queued(&self) -> usize {
        self.queued
    }
}

#[cfg(test)]
pub mod bench;
