//! A connection until it is a queue: its parameters (TCP 3.2), Connect (Base 6.3), and a proof of
//! who the host is where one is needed ([`Authenticating`]).
//!
//! Whoever drives it gives bytes and sends what is appended to `out`. Once the host's Connect is
//! there with its data, it asks the subsystem of that name, and either refuses or gets the
//! connection as a queue. A host that is refused may try again.

use super::authentication::Authentication;
use super::command::{CONNECT_DATA_LENGTH, Connect, ConnectData, Entry, Fabrics, Refusal, Status};
use super::connection::{Connection, End, Event, NotExpected, Tag, Transfer};
use super::controller::QueueName;

mod authenticating;

pub use authenticating::{Authenticating, ProofProgress};

/// In the answer to Connect: the host has to authenticate (ATR, Base 6.3).
const AUTHENTICATION_REQUIRED: u64 = 1 << 17;

/// What the bytes have led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed.
    Wait,
    /// The host asks to make this connection a queue: see [`Handshake::data`]. Nothing more is to
    /// be received until it is accepted or refused.
    Connect(Connect),
    /// Send what was appended, then close.
    End(End),
}

/// A connection that is no queue yet. Takes 1,024 bytes besides the connection.
#[derive(Debug)]
pub struct Handshake {
    connection: Connection,
    /// Connect's entry, once it is there; then as much of its data as has come.
    asked: Option<(Tag, Connect)>,
    data: Box<[u8; CONNECT_DATA_LENGTH]>,
}

impl Default for Handshake {
    fn default() -> Self {
        let connection = Connection::default();
        Self { connection, asked: None, data: Box::new([0; CONNECT_DATA_LENGTH]) }
    }
}

impl Handshake {
    /// Takes bytes as they come. Returns how many were used.
    pub fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> (usize, Progress) {
        let mut used = 0;
        loop {
            let (count, event) = self.connection.receive(&bytes[used..], out);
            used += count;
            match event {
                None => return (used, Progress::Wait),
                Some(Event::Command { tag, entry, transfer }) => {
                    if let Err(refusal) = self.begin(tag, &entry, transfer, out) {
                        self.answer(tag, refusal, out);
                    }
                }
                Some(Event::Data { offset, bytes, .. }) => {
                    let start = offset as usize;
                    if let Some(place) = self.data.get_mut(start..start + bytes.len()) {
                        place.copy_from_slice(bytes);
                    }
                }
                Some(Event::Received(_)) => {
                    if let Some((_, connect)) = self.asked {
                        return (used, Progress::Connect(connect));
                    }
                }
                Some(Event::Damaged(_)) => self.asked = None,
                Some(Event::Refused(_)) => {}
                Some(Event::End(end)) => return (used, Progress::End(end)),
            }
        }
    }

    /// Only Connect is permitted, with its data (Base 3.3.2.2).
    fn begin(
        &mut self,
        tag: Tag,
        entry: &Entry,
        transfer: Transfer,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        if entry.opcode != Fabrics::OPCODE {
            return Err(Status::Sequence.into());
        }
        let Fabrics::Connect(connect) = Fabrics::read(entry)? else {
            return Err(Status::Sequence.into());
        };
        if transfer.length() as usize != CONNECT_DATA_LENGTH {
            return Err(Status::DataLength.into());
        }
        if let Transfer::OnRequest(length) = transfer {
            self.connection.request(tag, length, out).map_err(|_| Status::Internal)?;
        }
        self.asked = Some((tag, connect));
        Ok(())
    }

    /// What Connect carries.
    ///
    /// # Errors
    /// What to refuse it with, if it is invalid.
    pub fn data(&self) -> Result<ConnectData<'_>, Refusal> {
        ConnectData::read(&self.data[..])
    }

    /// Refuses Connect.
    pub fn refuse(&mut self, refusal: Refusal, out: &mut Vec<u8>) {
        if let Some((tag, _)) = self.asked.take() {
            self.answer(tag, refusal, out);
        }
    }

    fn answer(&mut self, tag: Tag, refusal: Refusal, out: &mut Vec<u8>) {
        // Only a command is refused that is under way and not answered.
        let _ = self.connection.answer(tag, refusal.status, refusal.result, out);
    }

    /// The connection has become this queue.
    ///
    /// # Errors
    /// If there is no Connect to answer.
    pub fn accept(self, name: QueueName, out: &mut Vec<u8>) -> Result<Connection, NotExpected> {
        self.connected(name, 0, out)
    }

    /// The connection becomes this queue if its host proves who it is.
    ///
    /// # Errors
    /// If there is no Connect to answer.
    pub fn challenge(
        self,
        name: QueueName,
        machine: Authentication,
        out: &mut Vec<u8>,
    ) -> Result<Authenticating, NotExpected> {
        let connection = self.connected(name, AUTHENTICATION_REQUIRED, out)?;
        Ok(Authenticating::new(connection, machine))
    }

    fn connected(
        mut self,
        name: QueueName,
        required: u64,
        out: &mut Vec<u8>,
    ) -> Result<Connection, NotExpected> {
        let (tag, connect) = self.asked.ok_or(NotExpected)?;
        self.connection.connected(connect.size, connect.without_flow_control)?;
        let result = u64::from(name.controller) | required;
        self.connection.answer(tag, Status::Success, result, out)?;
        Ok(self.connection)
    }
}

#[cfg(test)]
mod tests;
