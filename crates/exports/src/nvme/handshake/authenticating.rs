//! A connection whose host has to prove who it is before it is a queue (Base 8.3.5): between the
//! answer to Connect, which says so, and the first command.
//!
//! Only Authentication Send and Authentication Receive are permitted, one at a time.

use zeroize::Zeroizing;

use crate::nvme::authentication::{Authentication, Computation, Fault, MAX_MESSAGE, Sent, Then};
use crate::nvme::command::{Entry, Refusal, Security, Status};
use crate::nvme::connection::{Connection, End, Event, NotExpected, Tag, Transfer};

/// Most room for a message that a host may offer; what is left of it is zeroes.
const MAX_ROOM: u32 = 16384;

/// What the bytes have led to.
#[derive(Debug)]
pub enum ProofProgress {
    /// More bytes are needed.
    Wait,
    /// That is to be computed for [`Authenticating::computed`]. Nothing more is to be received
    /// until then.
    Compute(Computation),
    /// The host has proved who it is. Nothing more is to be received until that is finished, or
    /// refused.
    Proved,
    /// Send what was appended, then close: the host is not let in.
    Failed(Fault),
    /// Send what was appended, then close.
    End(End),
}

/// The command that is under way.
#[derive(Debug)]
enum UnderWay {
    /// It brings a message.
    Sending(Tag),
    /// It waits for what is computed.
    Computing(Tag),
    /// With its answer, and this message if it takes one, the host is let in.
    Last(Tag, Option<Vec<u8>>),
}

/// See the module. Takes [`MAX_MESSAGE`] bytes besides the connection.
#[derive(Debug)]
pub struct Authenticating {
    connection: Connection,
    machine: Authentication,
    under_way: Option<UnderWay>,
    /// As much of a message as has come.
    message: Vec<u8>,
}

impl Authenticating {
    /// The connection's Connect has been answered: the host has to authenticate.
    #[must_use]
    pub const fn new(connection: Connection, machine: Authentication) -> Self {
        Self { connection, machine, under_way: None, message: Vec::new() }
    }

    /// The conversation.
    #[must_use]
    pub const fn machine(&self) -> &Authentication {
        &self.machine
    }

    /// Takes bytes as they come. Returns how many were used.
    pub fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> (usize, ProofProgress) {
        let mut used = 0;
        loop {
            let (count, event) = self.connection.receive(&bytes[used..], out);
            used += count;
            let step = match event {
                None => return (used, ProofProgress::Wait),
                Some(Event::Command { tag, entry, transfer }) => {
                    self.command(tag, &entry, transfer, out)
                }
                Some(Event::Data { tag, offset, bytes }) => {
                    self.data(tag, offset as usize, bytes);
                    ProofProgress::Wait
                }
                Some(Event::Received(tag)) if self.is_sending(tag) => self.sent(tag, out),
                Some(Event::Damaged(tag)) if self.is_sending(tag) => {
                    self.under_way = None;
                    ProofProgress::Wait
                }
                // Of other commands no data is awaited.
                Some(Event::Received(_) | Event::Damaged(_) | Event::Refused(_)) => {
                    ProofProgress::Wait
                }
                Some(Event::End(end)) => ProofProgress::End(end),
            };
            if !matches!(step, ProofProgress::Wait) {
                return (used, step);
            }
        }
    }

    fn command(
        &mut self,
        tag: Tag,
        entry: &Entry,
        transfer: Transfer,
        out: &mut Vec<u8>,
    ) -> ProofProgress {
        self.try_command(tag, entry, transfer, out).unwrap_or_else(|status| {
            self.answer(tag, status.into(), out);
            ProofProgress::Wait
        })
    }

    fn try_command(
        &mut self,
        tag: Tag,
        entry: &Entry,
        transfer: Transfer,
        out: &mut Vec<u8>,
    ) -> Result<ProofProgress, Status> {
        let security = Security::read(entry)?;
        if self.under_way.is_some() {
            return Err(Status::Sequence);
        }
        match (security, transfer) {
            (Security::Send(length), Transfer::InCapsule(data) | Transfer::OnRequest(data))
                if length == data =>
            {
                if length as usize > MAX_MESSAGE {
                    return Err(Status::InvalidField);
                }
                if let Transfer::OnRequest(length) = transfer {
                    self.connection.request(tag, length, out).map_err(|_| Status::Internal)?;
                }
                self.message = vec![0; length as usize];
                self.under_way = Some(UnderWay::Sending(tag));
                Ok(ProofProgress::Wait)
            }
            (Security::Receive(length), Transfer::ToHost(room)) if length == room => {
                if room > MAX_ROOM {
                    return Err(Status::InvalidField);
                }
                self.hand_over(tag, room as usize, out)
            }
            _ => Err(Status::DataLength),
        }
    }

    /// Whether this command brings a message.
    fn is_sending(&self, tag: Tag) -> bool {
        matches!(self.under_way, Some(UnderWay::Sending(it)) if it == tag)
    }

    fn data(&mut self, tag: Tag, start: usize, bytes: &[u8]) {
        if self.is_sending(tag)
            && let Some(place) = self.message.get_mut(start..start + bytes.len())
        {
            place.copy_from_slice(bytes);
        }
    }

    /// A message is here.
    fn sent(&mut self, tag: Tag, out: &mut Vec<u8>) -> ProofProgress {
        let message = std::mem::take(&mut self.message);
        let (under_way, step) = match self.machine.send(&message) {
            Sent::Taken => (None, ProofProgress::Wait),
            Sent::Failed(fault) => (None, ProofProgress::Failed(fault)),
            Sent::Compute(it) => (Some(UnderWay::Computing(tag)), ProofProgress::Compute(it)),
            Sent::Proved => (Some(UnderWay::Last(tag, None)), ProofProgress::Proved),
        };
        if under_way.is_none() {
            self.answer(tag, Status::Success.into(), out);
        }
        self.under_way = under_way;
        step
    }

    /// What was to be computed is this.
    pub fn computed(&mut self, value: Zeroizing<Vec<u8>>, out: &mut Vec<u8>) {
        if let Some(UnderWay::Computing(tag)) = self.under_way {
            self.under_way = None;
            self.machine.computed(value);
            self.answer(tag, Status::Success.into(), out);
        }
    }

    /// Gives the host the message that it asks for.
    fn hand_over(
        &mut self,
        tag: Tag,
        room: usize,
        out: &mut Vec<u8>,
    ) -> Result<ProofProgress, Status> {
        let received = self.machine.receive(room)?;
        let mut message = received.message;
        message.resize(room, 0);
        match received.then {
            Then::Proved => {
                self.under_way = Some(UnderWay::Last(tag, Some(message)));
                return Ok(ProofProgress::Proved);
            }
            Then::GoOn | Then::Failed(_) => {}
        }
        self.answer_with(tag, &message, out).map_err(|_| Status::Internal)?;
        Ok(match received.then {
            Then::Failed(fault) => ProofProgress::Failed(fault),
            _ => ProofProgress::Wait,
        })
    }

    /// The host is let in.
    ///
    /// # Errors
    /// If it has not proved who it is.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<Connection, NotExpected> {
        match self.under_way.take() {
            Some(UnderWay::Last(tag, Some(message))) => self.answer_with(tag, &message, out)?,
            Some(UnderWay::Last(tag, None)) => {
                self.connection.answer(tag, Status::Success, 0, out)?;
            }
            _ => return Err(NotExpected),
        }
        Ok(self.connection)
    }

    /// The host has proved who it is, and there is no place for it any more. Send what was
    /// appended, then close.
    pub fn refuse(mut self, refusal: Refusal, out: &mut Vec<u8>) {
        if let Some(UnderWay::Last(tag, _)) = self.under_way.take() {
            self.answer(tag, refusal, out);
        }
    }

    fn answer(&mut self, tag: Tag, refusal: Refusal, out: &mut Vec<u8>) {
        // A command is answered once.
        let _ = self.connection.answer(tag, refusal.status, refusal.result, out);
    }

    fn answer_with(
        &mut self,
        tag: Tag,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), NotExpected> {
        let mut after = Vec::new();
        self.connection.answer_with(tag, 0, &[message], out, &mut after)?;
        out.extend_from_slice(message);
        out.append(&mut after);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
