//! An admin queue: a connection whose commands its controller answers.

use evenkeel_core::Instant;

use super::command::{Entry, Refusal, Status};
use super::connection::{Connection, End, Event, NotExpected, Tag, Transfer};
use super::controller::{AdminCommand, Controller, Done, Facts};

/// An admin queue, from the answer to its Connect on. No command waits for anything but an event,
/// so nothing is kept but what the connection keeps.
#[derive(Debug)]
pub struct AdminQueue {
    connection: Connection,
}

/// What answers commands.
struct Answerer<'a, 'facts> {
    controller: &'a mut Controller,
    facts: &'a Facts<'facts>,
    now: Instant,
}

impl AdminQueue {
    /// The queue of this connection.
    #[must_use]
    pub const fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// Takes bytes as they come, and appends answers.
    ///
    /// # Errors
    /// [`End`], if the connection has to be closed once that is sent.
    pub fn receive(
        &mut self,
        mut bytes: &[u8],
        controller: &mut Controller,
        facts: &Facts<'_>,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Result<(), End> {
        let mut answerer = Answerer { controller, facts, now };
        loop {
            let (used, event) = self.connection.receive(bytes, out);
            bytes = &bytes[used..];
            match event {
                None => return Ok(()),
                Some(Event::Command { tag, entry, transfer }) => {
                    self.command(tag, &entry, transfer, &mut answerer, out);
                    self.answer_kept(answerer.controller, out);
                }
                // Each command was answered when it came: its data is nobody's.
                Some(
                    Event::Data { .. } | Event::Received(_) | Event::Damaged(_) | Event::Refused(_),
                ) => {}
                Some(Event::End(end)) => return Err(end),
            }
        }
    }

    /// Appends answers to commands that the controller had kept, when something has happened.
    pub fn answer_kept(&mut self, controller: &mut Controller, out: &mut Vec<u8>) {
        for answer in controller.take_answers() {
            let refusal = Refusal { status: answer.status, result: answer.result };
            self.answer(answer.tag, refusal, out);
        }
        if cfg!(debug_assertions) {
            self.check_invariants(controller);
        }
    }

    /// Asserts what holds after each step, of an association that has not ended.
    fn check_invariants(&self, controller: &Controller) {
        self.connection.check_invariants();
        // Without tags the connection is at its end.
        if !controller.has_ended() && self.connection.depth() > 0 {
            let unanswered = self.connection.unanswered().count();
            assert_eq!(unanswered, controller.kept(), "a command is answered, or kept once");
        }
    }

    fn command(
        &mut self,
        tag: Tag,
        entry: &Entry,
        transfer: Transfer,
        answerer: &mut Answerer<'_, '_>,
        out: &mut Vec<u8>,
    ) {
        let find = |identifier| self.connection.find(identifier);
        let command = AdminCommand { tag, entry, transfer, find: &find };
        match answerer.controller.admin(&command, answerer.facts, answerer.now) {
            Ok(Done::Kept) => {}
            Ok(Done::Result(result)) => {
                self.answer(tag, Refusal { status: Status::Success, result }, out);
            }
            Ok(Done::Data(data)) => {
                if self.answer_with(tag, &data, out).is_err() {
                    self.answer(tag, Status::Internal.into(), out);
                }
            }
            Err(refusal) => self.answer(tag, refusal, out),
        }
    }

    fn answer(&mut self, tag: Tag, refusal: Refusal, out: &mut Vec<u8>) {
        // A command is answered once.
        let _ = self.connection.answer(tag, refusal.status, refusal.result, out);
    }

    fn answer_with(&mut self, tag: Tag, data: &[u8], out: &mut Vec<u8>) -> Result<(), NotExpected> {
        let mut after = Vec::new();
        self.connection.answer_with(tag, 0, &[data], out, &mut after)?;
        out.extend_from_slice(data);
        out.append(&mut after);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
