//! Abort commands for commands of queues for I/O (Base 5.1.1). Each is kept until its queue says
//! whether the other command was aborted, or is gone.

use super::{AdminAnswer, MAX_ABORTS};
use crate::nvme::command::Status;
use crate::nvme::connection::Tag;

/// Dword 0 of the answer, bit 0: the command was not aborted.
const NOT_ABORTED: u64 = 1;

/// An Abort command.
#[derive(Debug)]
struct Abort {
    tag: Tag,
    queue: u16,
    /// CID of the command that is to be aborted.
    command: u16,
}

/// A controller's Abort commands.
#[derive(Debug, Default)]
pub(super) struct Aborts {
    under_way: Vec<Abort>,
    /// What queues have not been told yet.
    unreported: Vec<(u16, u16)>,
    answers: Vec<AdminAnswer>,
}

impl Aborts {
    /// Keeps a command until the queue has answered.
    pub(super) fn request(&mut self, tag: Tag, queue: u16, command: u16) -> Result<(), Status> {
        if self.under_way.len() >= usize::from(MAX_ABORTS) {
            return Err(Status::AbortLimit);
        }
        self.under_way.push(Abort { tag, queue, command });
        self.unreported.push((queue, command));
        Ok(())
    }

    /// A queue says whether a command was aborted.
    pub(super) fn answer(&mut self, queue: u16, command: u16, is_aborted: bool) {
        let is_it = |abort: &Abort| (abort.queue, abort.command) == (queue, command);
        if let Some(at) = self.under_way.iter().position(is_it) {
            let abort = self.under_way.remove(at);
            self.push(&abort, is_aborted);
        }
    }

    /// A queue is gone: its commands have been answered, or never are.
    pub(super) fn gone(&mut self, queue: u16) {
        self.unreported.retain(|(of, _)| *of != queue);
        let over: Vec<_> = self.under_way.extract_if(.., |abort| abort.queue == queue).collect();
        over.iter().for_each(|abort| self.push(abort, false));
    }

    /// Answers all of them: the controller is reset, and whatever a queue says of them later is
    /// nothing that the host asked for since.
    pub(super) fn reset(&mut self) {
        self.unreported.clear();
        let status = Status::AbortRequested;
        let aborted = self.under_way.drain(..);
        self.answers.extend(aborted.map(|it| AdminAnswer { tag: it.tag, status, result: 0 }));
    }

    fn push(&mut self, abort: &Abort, is_aborted: bool) {
        let result = if is_aborted { 0 } else { NOT_ABORTED };
        self.answers.push(AdminAnswer { tag: abort.tag, status: Status::Success, result });
    }

    /// The queues that have to be told, and of which command, each told once.
    pub(super) fn take_unreported(&mut self) -> Vec<(u16, u16)> {
        std::mem::take(&mut self.unreported)
    }

    /// How many commands are under way.
    pub(super) const fn waiting(&self) -> usize {
        self.under_way.len()
    }

    /// What has to be answered now.
    pub(super) fn take_answers(&mut self) -> Vec<AdminAnswer> {
        std::mem::take(&mut self.answers)
    }

    /// Asserts what holds after each step.
    pub(super) fn check_invariants(&self) {
        assert!(self.under_way.len() <= usize::from(MAX_ABORTS), "few commands are kept");
        assert!(self.unreported.len() <= self.under_way.len(), "who is told of is kept");
    }
}

#[cfg(test)]
mod tests;
