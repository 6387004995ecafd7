//! One link's socket: what is on its way, and what the messages that came over it hold.

use std::collections::HashMap;
use std::ops::Range;

use evenkeel_core::message::Message;
use evenkeel_core::settings::MAX_PAYLOAD;
use evenkeel_core::{CopyToken, Payload, Sequence};
use evenkeel_wire::{PayloadSummary, encode};
use rustix::net::Shutdown;

use super::connection::Connection;
use super::inbox::{Inbox, Next};
use super::outbox::{Outbox, Sent};
use super::peer::prepare_socket;
use super::records::{Advance, Records};
use crate::memory::{Budget, Buffer, BufferMut, Pool, Reservation};
use crate::ring::{Batch, Owner, Ring, SharedFile};

/// Bytes of small answers that a replica queues towards a primary that does not read them, before
/// it stops reading from it.
const MAX_UNREAD: usize = 1 << 20;

/// A link's socket, with what is on its way.
pub(crate) struct Socket {
    file: SharedFile,
    outbox: Outbox,
    inbox: Inbox,
    /// With TLS.
    records: Option<Records>,
    /// Whether something has been queued since the last flush.
    queued: bool,
    /// Of the end that was connected to.
    admission: Option<Admission>,
}

/// What the messages of one link hold.
struct Admission {
    budget: Budget,
    /// Of reads and copies that have not been answered.
    rooms: HashMap<Room, Reservation>,
    /// A read or copy for which there is no room yet.
    held: Option<Message>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Room {
    Read(Sequence),
    Copy(CopyToken),
}

impl Socket {
    /// Sets the socket up for the ring.
    pub(crate) fn new(connection: Connection, pool: &Pool, budget: Option<Budget>) -> Self {
        let file = SharedFile::new(connection.socket);
        prepare_socket(&file);
        let records = connection.tls.map(|handover| Records::new(handover, pool));
        let admission =
            budget.map(|budget| Admission { budget, rooms: HashMap::new(), held: None });
        let (outbox, inbox) = (Outbox::default(), Inbox::new(pool));
        Self { file, outbox, inbox, records, queued: false, admission }
    }

    /// Queues a message. Returns whether it is the first one since the last flush.
    ///
    /// # Errors
    /// If it can't be encoded.
    #[inline]
    pub(crate) fn queue(
        &mut self,
        message: &Message,
        payload: Option<Buffer>,
    ) -> Result<bool, String> {
        if let Some(admission) = &mut self.admission {
            admission.answered(message, payload.as_ref());
        }
        let summary =
            payload.as_ref().map(|p| PayloadSummary { length: p.length(), crc: p.checksum() });
        let mut encoded = Ok(());
        self.outbox.bytes(|out| encoded = encode(message, summary, out));
        encoded.map_err(|error| format!("a message can't be sent: {error}"))?;
        if let Some(payload) = payload {
            self.outbox.buffer(payload);
        }
        Ok(!std::mem::replace(&mut self.queued, true))
    }

    /// Begins to send what is queued, unless a send is under way: that one goes on with it.
    ///
    /// # Errors
    /// If it can't be encrypted.
    pub(crate) fn flush(
        &mut self,
        ring: &mut Ring,
        owner: Owner,
        pool: &Pool,
    ) -> Result<(), String> {
        self.queued = false;
        self.send(ring, owner, pool)
    }

    fn send(&mut self, ring: &mut Ring, owner: Owner, pool: &Pool) -> Result<(), String> {
        let Some(records) = &mut self.records else {
            self.outbox.flush(ring, owner, &self.file);
            return Ok(());
        };
        self.outbox
            .flush_sealed((records.tls(), pool), ring, owner, &self.file)
            .map_err(|error| format!("TLS: {error}"))
    }

    /// Takes note of a send that has ended with this many bytes, and begins the next one.
    ///
    /// # Errors
    /// If it can't be encrypted.
    pub(crate) fn sent(
        &mut self,
        (ring, pool): (&mut Ring, &Pool),
        owner: Owner,
        batch: Box<Batch>,
        count: usize,
    ) -> Result<Sent, String> {
        let sent = self.outbox.sent(ring, owner, &self.file, batch, count);
        if matches!(sent, Sent::All(_)) {
            self.send(ring, owner, pool)?;
        }
        Ok(sent)
    }

    /// Begins to receive, as [`Self::next`] says.
    pub(crate) fn receive(
        &self,
        ring: &mut Ring,
        owner: Owner,
        memory: BufferMut,
        range: Range<usize>,
        all: bool,
    ) {
        ring.receive(owner, &self.file, memory, range, all);
    }

    /// Ends the connection, in both directions. What is under way ends by itself then.
    pub(crate) fn shut_down(&self) {
        // It may have ended already.
        let _ = rustix::net::shutdown(&self.file, Shutdown::Both);
    }

    /// Takes back the memory of a receive, with the bytes that came.
    pub(crate) fn received(&mut self, memory: BufferMut, count: usize) {
        match &mut self.records {
            Some(records) => records.received(memory, count),
            None => self.inbox.received(memory, count),
        }
    }

    /// The next message that may be handled now, or what else is to be done.
    pub(crate) fn next(&mut self, pool: &Pool) -> Result<Next, String> {
        loop {
            if let Some(records) = &mut self.records {
                match records.advance()? {
                    Advance::Filled(memory, count) => self.inbox.received(memory, count),
                    Advance::Receive(memory, range) => {
                        return Ok(Next::Receive { memory, range, all: false });
                    }
                    Advance::Idle => {}
                }
            }
            match (self.parse(pool)?, &mut self.records) {
                (Next::Receive { memory, range, .. }, Some(records)) => records.want(memory, range),
                (next, _) => return Ok(next),
            }
        }
    }

    /// The next message in what has been received, or what else is to be done.
    fn parse(&mut self, pool: &Pool) -> Result<Next, String> {
        let Some(admission) = &mut self.admission else {
            return self.inbox.next(|length| Some(pool.take(length))).map_err(|e| e.to_string());
        };
        if self.outbox.small() > MAX_UNREAD {
            return Ok(Next::Nothing);
        }
        let next = match admission.held.take() {
            Some(message) => Next::Message(message, None),
            None => {
                let budget = &admission.budget;
                self.inbox.next(|length| budget.allocate(length)).map_err(|e| e.to_string())?
            }
        };
        admission.admit(next)
    }
}

impl Admission {
    /// Reserves room for the answer to a read or copy, or holds it back.
    fn admit(&mut self, next: Next) -> Result<Next, String> {
        let Next::Message(message, payload) = next else { return Ok(next) };
        let (room, length) = match &message {
            Message::Read { id, length, .. } => (Room::Read(id.sequence), *length),
            // A longer range is not read.
            Message::Copy { token, length, .. } if *length <= MAX_PAYLOAD => {
                (Room::Copy(*token), *length)
            }
            _ => return Ok(Next::Message(message, payload)),
        };
        if length > MAX_PAYLOAD {
            return Err(format!("a read of {length} bytes is longer than {MAX_PAYLOAD}"));
        }
        let Some(reservation) = self.budget.reserve(length as usize) else {
            self.held = Some(message);
            return Ok(Next::NoMemory);
        };
        self.rooms.insert(room, reservation);
        Ok(Next::Message(message, payload))
    }

    /// Lets the room of what is answered return when the answer has been sent.
    fn answered(&mut self, message: &Message, payload: Option<&Buffer>) {
        let room = match message {
            Message::Data { id, .. } | Message::Done { id, .. } => Room::Read(id.sequence),
            Message::Refused { sequence: Some(sequence), .. } => Room::Read(*sequence),
            Message::Copied { token, .. } => Room::Copy(*token),
            _ => return,
        };
        #[cfg(test)]
        if crate::canary::is(crate::canary::Canary::KeepRooms) {
            return;
        }
        if let (Some(reservation), Some(payload)) = (self.rooms.remove(&room), payload) {
            payload.hold(reservation);
        }
    }
}
