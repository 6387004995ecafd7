//! Controllers: what a host sees of a subsystem through the queues that it has connected.
//!
//! 1. [`Subsystem`]: which hosts may connect, and the controllers that they have made.
//! 2. [`Controller`]: one of them, from its admin queue's Connect until all its queues are gone; it
//!    answers the commands of the admin queue.
//! 3. [`Facts`]: what a controller knows of its volume or, for discovery, of its node's exports.
//! 4. [`Properties`], [`Identity`], [`Notice`]: what it can do, what it says, and what it reports.

mod aborts;
mod admin;
mod events;
mod facts;
mod features;
mod hosts;
mod identify;
mod logs;
mod properties;
mod queues;
mod reservations;
mod subsystem;

use std::time::Duration;

use evenkeel_core::Instant;

use super::command::{Connect, Refusal, Status};
use super::connection::Tag;
use super::reservation::ReservationNotice;
use aborts::Aborts;
use events::Events;
use queues::Queues;
use reservations::Reservations;

pub use admin::{AdminCommand, Done};
pub use events::{MAX_EVENT_REQUESTS, Notice};
pub use facts::{Facts, Health, Path, PathState, Subject, Volume};
pub use hosts::{Host, Hosts};
pub(in crate::nvme) use identify::put_text;
pub use identify::{IDENTIFY_LENGTH, Identity, KEEP_ALIVE_UNIT, MAX_ABORTS, NAMESPACE, Namespace};
pub use properties::{Change, Properties};
pub use subsystem::{Identifiers, Kind, Limits, QueueName, Subsystem};

/// How long a controller is kept that isn't enabled, and a discovery controller whose host has set
/// no keep-alive time and asks nothing (Base 3.6.2, 3.1.3.3).
pub const IDLE_TIME: Duration = Duration::from_secs(120);

/// The answer to a command that was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdminAnswer {
    /// The place of the command that has ended.
    pub tag: Tag,
    /// How it ended.
    pub status: Status,
    /// The completion's result.
    pub result: u64,
}

/// One controller: an association of a host with a subsystem.
#[derive(Debug)]
pub struct Controller {
    /// CNTLID.
    identifier: u16,
    kind: Kind,
    limits: Limits,
    host: Host,
    properties: Properties,
    queues: Queues,
    events: Events,
    aborts: Aborts,
    reservations: Reservations,
    /// Whether the host has not read yet that the namespace has changed.
    has_changed: bool,
    /// KATO; zero for never.
    keep_alive: Duration,
    /// When the host gave the last sign that counts (Keep Alive, a keep-alive time, Connect of a
    /// queue for I/O), or will be answered what it waits for; or when the controller was enabled or
    /// disabled.
    since: Instant,
}

impl Controller {
    fn new(
        identifier: u16,
        kind: Kind,
        limits: Limits,
        host: Host,
        keep_alive: Duration,
        now: Instant,
    ) -> Self {
        let (notices, queues) = match kind {
            Kind::Volume => (Notice::Namespace.bit() | Notice::Path.bit(), limits.queues),
            Kind::Discovery => (Notice::Discovery.bit(), 0),
        };
        Self {
            identifier,
            kind,
            limits,
            host,
            properties: Properties::new(
                limits.entries.saturating_sub(1) as u16,
                kind == Kind::Volume,
            ),
            queues: Queues::new(queues),
            events: Events::new(notices),
            aborts: Aborts::default(),
            reservations: Reservations::default(),
            has_changed: false,
            keep_alive: features::rounded(keep_alive),
            since: now,
        }
    }

    /// CNTLID.
    #[must_use]
    pub const fn identifier(&self) -> u16 {
        self.identifier
    }

    /// Who has connected.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// Whether commands for the volume are permitted.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.properties.is_ready() && !self.queues.has_ended()
    }

    /// Looks whether a queue for I/O may be added.
    fn may_join(&self, connect: &Connect) -> Result<(), Refusal> {
        if !self.properties.is_ready() {
            return Err(Status::Sequence.into());
        }
        self.queues.may_add(connect.queue)
    }

    /// Adds a queue for I/O: its Connect is a sign of life.
    fn join(&mut self, connect: &Connect, now: Instant) -> Result<(), Refusal> {
        self.may_join(connect)?;
        self.queues.add(connect.queue)?;
        self.since = now;
        Ok(())
    }

    /// The host waits for a queue for I/O until then, and may have no other sign to give before:
    /// Linux before 6.7 begins to send Keep Alive when it has its queues.
    fn keep_waiting(&mut self, until: Instant) {
        self.since = self.since.max(until);
    }

    /// The host deletes a queue for I/O by Disconnect (Base 6.4), which is to be answered before
    /// the connection is closed.
    pub fn disconnect(&mut self, queue: u16) {
        self.queues.delete(queue);
    }

    /// A queue's connection is gone, and with it the last of its commands.
    fn gone(&mut self, queue: u16) {
        self.queues.gone(queue);
        self.aborts.gone(queue);
        if self.queues.has_ended() {
            self.end();
        }
        self.finish_waiting();
    }

    /// Ends the association: no command is answered any more.
    pub fn end(&mut self) {
        self.queues.end();
        self.events = Events::new(0);
        self.aborts = Aborts::default();
        self.reservations = Reservations::default();
    }

    /// Whether the association has ended, and only waits for its queues to be gone.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.queues.has_ended()
    }

    /// Whether a queue for I/O is not gone yet.
    fn has_io(&self) -> bool {
        !self.queues.are_idle()
    }

    /// Whether all its queues are gone.
    fn is_gone(&self) -> bool {
        self.queues.are_gone()
    }

    /// The queues whose connections have to be closed, each told once.
    pub fn take_closing(&mut self) -> Vec<u16> {
        self.queues.take_closing()
    }

    /// Answers for commands that were kept.
    pub fn take_answers(&mut self) -> Vec<AdminAnswer> {
        let mut answers = self.events.take_answers();
        answers.append(&mut self.aborts.take_answers());
        answers.append(&mut self.reservations.take_answers());
        answers
    }

    /// The queues for I/O that have to abort a command, and its identifier, each told once:
    /// [`Controller::aborted`] tells what came of it.
    pub fn take_aborts(&mut self) -> Vec<(u16, u16)> {
        self.aborts.take_unreported()
    }

    /// A queue has answered a command that it was to abort, or does not have it.
    pub fn aborted(&mut self, queue: u16, command: u16, is_aborted: bool) {
        self.aborts.answer(queue, command, is_aborted);
    }

    /// Another host has changed reservations of the volume, which concerns this one.
    pub fn notify_reservation(&mut self, notice: ReservationNotice) {
        if self.is_ready() && self.reservations.note(notice) {
            self.events.raise(Notice::Reservation);
        }
    }

    /// Commands by which the host has said whether the volume's reservations persist, by a number,
    /// each told once: [`Controller::persisted`] tells what came of it.
    pub fn take_persisting(&mut self) -> Vec<(u64, bool)> {
        self.reservations.take_unreported()
    }

    /// The volume has carried such a command out, or refused it.
    pub fn persisted(&mut self, number: u64, status: Status) {
        self.reservations.persisted(number, status);
    }

    /// Whether the host waits until all that was acknowledged is durable. All queues for I/O are
    /// gone then. [`Controller::shut_down`] tells it so.
    #[must_use]
    pub fn wants_flush(&self) -> bool {
        self.properties.is_shutting_down() && self.queues.are_idle()
    }

    /// What was acknowledged is durable (Base 3.6.2).
    pub fn shut_down(&mut self) {
        if self.wants_flush() {
            self.properties.shut_down();
        }
    }

    /// Something has happened that the host may want to know.
    pub fn notify(&mut self, notice: Notice) {
        self.has_changed |= notice == Notice::Namespace;
        self.events.raise(notice);
    }

    /// When the host will have been silent for too long (Base 3.9). A host that sets no time is
    /// awaited for ever once it has enabled a controller with a namespace.
    #[must_use]
    pub fn expires(&self) -> Option<Instant> {
        let is_ready = self.properties.is_ready();
        let patience = match (is_ready, self.keep_alive.is_zero(), self.kind) {
            (true, true, Kind::Volume) => return None,
            (true, false, _) => self.keep_alive,
            (true, true, Kind::Discovery) | (false, ..) => IDLE_TIME,
        };
        (!self.has_ended()).then(|| self.since + patience)
    }

    /// Ends the association if the host has been silent for too long. Returns whether it has.
    pub fn expire(&mut self, now: Instant) -> bool {
        let has_expired = self.expires().is_some_and(|moment| moment <= now);
        if has_expired {
            self.end();
        }
        has_expired
    }

    /// Goes on with what waited for the end of queues.
    fn finish_waiting(&mut self) {
        if self.queues.are_idle() {
            self.properties.reset_done();
        }
        if self.kind == Kind::Discovery {
            // There is nothing to flush.
            self.shut_down();
        }
    }

    /// How many commands it keeps that it has not answered.
    pub(in crate::nvme) fn kept(&self) -> usize {
        self.events.waiting() + self.aborts.waiting() + self.reservations.waiting()
    }

    /// Asserts what holds after each step.
    pub fn check_invariants(&self) {
        self.queues.check_invariants();
        self.events.check_invariants();
        self.aborts.check_invariants();
        self.reservations.check_invariants();
        assert!(self.is_ready() || self.kept() == 0, "commands are kept only by who is ready");
        assert!(self.expires().is_some() || self.is_ready() || self.has_ended(), "none is kept");
    }
}

#[cfg(test)]
mod tests;
