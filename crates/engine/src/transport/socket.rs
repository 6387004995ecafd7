//! One link's socket: what is on its way, and what the messages that came over it hold.

use std::collections::HashMap;

use evenkeel_core::message::Message;
use evenkeel_core::settings::MAX_PAYLOAD;
use evenkeel_core::{CopyToken, Sequence};

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
    pub(crate) file: SharedFile,
    pub(crate) outbox: Outbox,
    inbox: Inbox,
    /// With TLS.
    records: Option<Records>,
    /// Whether the worker knows that there is something to send.
    pub(crate) queued: bool,
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

    /// Lets the room of what is answered return when the answer has been sent.
    pub(crate) fn answered(&mut self, message: &Message, payload: Option<&Buffer>) {
        if let Some(admission) = &mut self.admission {
            admission.answered(message, payload);
        }
    }

    /// Begins to send what is queued, unless a send is under way.
    pub(crate) fn flush(
        &mut self,
        ring: &mut Ring,
        owner: Owner,
        pool: &Pool,
    ) -> Result<(), String> {
        let Some(records) = &mut self.records else {
            self.outbox.flush(ring, owner, &self.file);
            return Ok(());
        };
        self.outbox
            .flush_sealed((records.tls(), pool), ring, owner, &self.file)
            .map_err(|error| format!("TLS: {error}"))
    }

    /// Takes note of a send that has ended with this many bytes.
    pub(crate) fn sent(
        &mut self,
        ring: &mut Ring,
        owner: Owner,
        batch: Box<Batch>,
        count: usize,
    ) -> Sent {
        self.outbox.sent(ring, owner, &self.file, batch, count)
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

    fn answered(&mut self, message: &Message, payload: Option<&Buffer>) {
        let room = match message {
            Message::Data { id, .. } | Message::Done { id, .. } => Room::Read(id.sequence),
            Message::Refused { sequence: Some(sequence), .. } => Room::Read(*sequence),
            Message::Copied { token, .. } => Room::Copy(*token),
            _ => return,
        };
        if let (Some(reservation), Some(payload)) = (self.rooms.remove(&room), payload) {
            payload.hold(reservation);
        }
    }
}
