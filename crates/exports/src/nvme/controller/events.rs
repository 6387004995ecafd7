//! Asynchronous events (Base 5.1.2): what a host wants to know as soon as it happens.
//!
//! A host keeps Asynchronous Event Request commands under way, which are answered one for each
//! event. An event of a kind that was reported is not reported again until the host has read the
//! log page that tells what happened (Base 5.1.2).

use super::AdminAnswer;
use crate::nvme::command::Status;
use crate::nvme::connection::Tag;

/// Asynchronous Event Request commands that may be under way at once.
pub const MAX_EVENT_REQUESTS: u8 = 4;

/// SMART warnings in the configuration of events: they may be asked for, but none is ever raised.
const WARNINGS: u32 = 0xff;
/// What is raised without being asked for: a mask of its own says which reservation notices are.
const UNASKED: u32 = Notice::Reservation.bit();

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The namespace has another size or other attributes.
    Namespace,
    /// The state of the path to the namespace has changed.
    Path,
    /// Discovery shows this host something else.
    Discovery,
    /// Another host has changed reservations.
    Reservation,
}

impl Notice {
    const ALL: [Self; 4] = [Self::Namespace, Self::Path, Self::Discovery, Self::Reservation];

    /// Its bit in OAES and in the configuration of events (Base 5.1.25.1.5). That of reservations
    /// is none of these, and reserved there.
    #[must_use]
    pub const fn bit(self) -> u32 {
        match self {
            Self::Namespace => 1 << 8,
            Self::Path => 1 << 11,
            Self::Discovery => 1 << 31,
            Self::Reservation => 1 << 30,
        }
    }

    /// LID of the log page that tells more.
    #[must_use]
    pub const fn log(self) -> u8 {
        match self {
            Self::Namespace => 0x04,
            Self::Path => 0x0c,
            Self::Discovery => 0x70,
            Self::Reservation => 0x80,
        }
    }

    /// Dword 0 of the answer: the log page, what happened, and of which type that is.
    const fn result(self) -> u64 {
        const NOTICE: u64 = 2;
        const OF_COMMAND_SET: u64 = 6;
        let (what, kind) = match self {
            Self::Namespace => (0x00, NOTICE),
            Self::Path => (0x03, NOTICE),
            Self::Discovery => (0xf0, NOTICE),
            Self::Reservation => (0x00, OF_COMMAND_SET),
        };
        (self.log() as u64) << 16 | what << 8 | kind
    }
}

/// A controller's events.
#[derive(Debug)]
pub(super) struct Events {
    /// Commands under way, in the order in which they came.
    waiting: Vec<Tag>,
    /// What can be raised, and what the host has asked for.
    supported: u32,
    configuration: u32,
    /// Bits of what has happened and isn't reported, and of what is reported and not read.
    raised: u32,
    reported: u32,
    answers: Vec<AdminAnswer>,
}

impl Events {
    pub(super) const fn new(supported: u32) -> Self {
        Self {
            waiting: Vec::new(),
            supported,
            configuration: 0,
            raised: 0,
            reported: 0,
            answers: Vec::new(),
        }
    }

    pub(super) const fn configuration(&self) -> u32 {
        self.configuration
    }

    /// What the host wants to know from now on.
    pub(super) fn configure(&mut self, configuration: u32) -> Result<(), Status> {
        if configuration & !(self.supported | WARNINGS) != 0 {
            return Err(Status::InvalidField);
        }
        self.configuration = configuration;
        self.raised &= configuration | UNASKED;
        Ok(())
    }

    /// Keeps a command until something happens.
    pub(super) fn request(&mut self, tag: Tag) -> Result<(), Status> {
        if self.waiting.len() >= usize::from(MAX_EVENT_REQUESTS) {
            return Err(Status::EventLimit);
        }
        self.waiting.push(tag);
        self.report();
        Ok(())
    }

    pub(super) fn raise(&mut self, notice: Notice) {
        let bit = notice.bit();
        if (self.configuration | UNASKED) & bit != 0 && self.reported & bit == 0 {
            self.raised |= bit;
            self.report();
        }
    }

    fn report(&mut self) {
        for notice in Notice::ALL {
            if self.raised & notice.bit() != 0 && !self.waiting.is_empty() {
                let tag = self.waiting.remove(0);
                self.raised &= !notice.bit();
                self.reported |= notice.bit();
                let (status, result) = (Status::Success, notice.result());
                self.answers.push(AdminAnswer { tag, status, result });
            }
        }
    }

    /// The host has read a log page, and with it all that has happened until now.
    pub(super) fn read(&mut self, log: u8) {
        for notice in Notice::ALL.into_iter().filter(|notice| notice.log() == log) {
            self.raised &= !notice.bit();
            self.reported &= !notice.bit();
        }
    }

    /// Answers a command that the host wants aborted. Returns whether it was under way here.
    pub(super) fn abort(&mut self, tag: Tag) -> bool {
        let count = self.waiting.len();
        self.waiting.retain(|waiting| *waiting != tag);
        let is_here = self.waiting.len() < count;
        if is_here {
            self.answers.push(AdminAnswer { tag, status: Status::AbortRequested, result: 0 });
        }
        is_here
    }

    /// Answers all commands, and forgets what the host has asked for.
    pub(super) fn reset(&mut self) {
        let aborted = self.waiting.drain(..);
        let status = Status::AbortRequested;
        self.answers.extend(aborted.map(|tag| AdminAnswer { tag, status, result: 0 }));
        (self.configuration, self.raised, self.reported) = (0, 0, 0);
    }

    /// What has to be answered now.
    pub(super) fn take_answers(&mut self) -> Vec<AdminAnswer> {
        std::mem::take(&mut self.answers)
    }

    /// How many commands are under way.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Asserts what holds after each step.
    pub(super) fn check_invariants(&self) {
        assert!(self.waiting.len() <= usize::from(MAX_EVENT_REQUESTS), "few commands are kept");
        assert!(self.raised & self.reported == 0, "what is reported isn't raised again");
        let asked = self.configuration | UNASKED;
        assert!(self.raised & !asked == 0, "only what was asked for is raised");
        assert!(self.raised == 0 || self.waiting.is_empty(), "what can be reported is");
    }
}

#[cfg(test)]
mod tests;
