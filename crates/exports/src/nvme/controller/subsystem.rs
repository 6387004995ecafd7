//! Subsystems: whom a Connect lets in (Base 6.3), and the controllers that it made.
//!
//! Controllers are dynamic: each Connect of an admin queue makes one (Base 3.1.1.1). What one
//! attachment gives as CNTLID the next one doesn't give, so that a host whose volume has moved to
//! another node never takes a new controller for an old one.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use evenkeel_core::Instant;

use super::hosts::{Host, Hosts};
use super::{Controller, Notice};
use crate::nvme::command::{Connect, ConnectData, Refusal, Status};

/// CNTLID of a Connect that asks for a new controller.
const DYNAMIC: u16 = 0xffff;

/// The identifiers that one attachment of a volume may give to controllers of its subsystem: none
/// that an attachment before or after it gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identifiers(RangeInclusive<u16>);

impl Identifiers {
    /// Controllers that a subsystem may have at once.
    pub const EACH: u16 = 63;
    /// Ranges of so many. Identifiers from FFF0h on are reserved.
    pub const RANGES: u16 = 1024;

    /// Those of the attachment that follows this generation of the volume's views.
    #[must_use]
    pub fn of_attachment(generation: u64) -> Self {
        let first = (generation % u64::from(Self::RANGES)) as u16 * Self::EACH;
        Self(first..=first + Self::EACH - 1)
    }

    /// Those of discovery, which has more than it has controllers at once: who comes takes the
    /// place of somebody whose connection need not be gone yet.
    #[must_use]
    pub const fn of_discovery() -> Self {
        Self(0..=0xffef)
    }

    /// From the first to the last.
    #[must_use]
    pub const fn range(&self) -> &RangeInclusive<u16> {
        &self.0
    }
}

/// What a subsystem is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A volume.
    Volume,
    /// Discovery: which subsystems there are.
    Discovery,
}

/// How much a host may take up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Controllers of one host in a subsystem on this node. Those count that end.
    pub controllers: u16,
    /// I/O queues of one controller.
    pub queues: u16,
    /// Entries of one queue; 2 to 65,535.
    pub entries: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { controllers: 8, queues: 16, entries: 128 }
    }
}

/// A queue of a subsystem on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName {
    /// CNTLID, which is also the result of its Connect.
    pub controller: u16,
    /// QID; 0 is the admin queue.
    pub queue: u16,
}

/// A subsystem on one node.
#[derive(Debug)]
pub struct Subsystem {
    /// SUBNQN.
    name: String,
    kind: Kind,
    hosts: Hosts,
    limits: Limits,
    identifiers: Identifiers,
    /// The identifier to try first: one that was free for long is given first.
    next: u16,
    controllers: BTreeMap<u16, Controller>,
}

impl Subsystem {
    /// The name of the discovery subsystem (Base 3.1.3.3).
    pub const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";

    /// One without controllers.
    #[must_use]
    pub const fn new(
        name: String,
        kind: Kind,
        hosts: Hosts,
        limits: Limits,
        identifiers: Identifiers,
    ) -> Self {
        let next = *identifiers.0.start();
        Self { name, kind, hosts, limits, identifiers, next, controllers: BTreeMap::new() }
    }

    /// What to answer to a Connect for a subsystem that does not exist.
    #[must_use]
    pub const fn unknown() -> Refusal {
        Refusal::in_data(ConnectData::SUBSYSTEM_FIELD)
    }

    /// Makes the connection on which this Connect came a queue: the admin queue of a new
    /// controller, or a queue for I/O of an existing one.
    ///
    /// # Errors
    /// What to answer if the host is not permitted, names what does not exist, asks for more than
    /// there may be, or comes at a wrong moment. Nothing has changed.
    pub fn connect(
        &mut self,
        connect: &Connect,
        data: &ConnectData<'_>,
        now: Instant,
    ) -> Result<QueueName, Refusal> {
        let name = self.offer(connect, data, |_| false)?;
        self.open(name, connect, data, now)?;
        Ok(name)
    }

    /// The queue that a connection would become by this Connect. Who has to prove first who it is
    /// gets no more than this name: a controller's place, and a queue's, are for those who have
    /// done so. The host's controllers for which `is_lost` are to end by then, and don't count.
    ///
    /// # Errors
    /// As those of [`Subsystem::connect`].
    pub fn offer(
        &mut self,
        connect: &Connect,
        data: &ConnectData<'_>,
        is_lost: impl Fn(u16) -> bool,
    ) -> Result<QueueName, Refusal> {
        self.admit(connect, data)?;
        let controller = match connect.queue {
            0 => {
                self.may_have_another(data, is_lost)?;
                let identifier = self.free().ok_or(Status::ControllerBusy)?;
                self.next = identifier + 1;
                identifier
            }
            _ => {
                self.joinable(data)?.may_join(connect)?;
                data.controller
            }
        };
        Ok(QueueName { controller, queue: connect.queue })
    }

    /// Makes a connection the queue that was offered for this Connect.
    ///
    /// # Errors
    /// As those of [`Subsystem::connect`]; and [`Status::ControllerBusy`], if another host has been
    /// quicker.
    pub fn open(
        &mut self,
        name: QueueName,
        connect: &Connect,
        data: &ConnectData<'_>,
        now: Instant,
    ) -> Result<(), Refusal> {
        self.admit(connect, data)?;
        match connect.queue {
            0 => self.create(name.controller, connect, data, now),
            _ => self.joinable(data)?.join(connect, now),
        }
    }

    /// Looks whether a host of this name may ask for such a queue.
    fn admit(&self, connect: &Connect, data: &ConnectData<'_>) -> Result<(), Refusal> {
        if data.subsystem != self.name {
            return Err(Self::unknown());
        }
        if !self.hosts.admit(data.host_name) {
            return Err(Status::ConnectHost.into());
        }
        // All zeroes are nobody, and here they would be the node itself.
        if data.host == [0; 16] {
            return Err(Refusal::in_data(ConnectData::HOST_FIELD));
        }
        if connect.size > self.limits.entries {
            return Err(Refusal::in_entry(Connect::SIZE_FIELD));
        }
        Ok(())
    }

    /// Looks whether this host may have one more controller than those that are not lost.
    fn may_have_another(
        &self,
        data: &ConnectData<'_>,
        is_lost: impl Fn(u16) -> bool,
    ) -> Result<(), Refusal> {
        if data.controller != DYNAMIC {
            return Err(Refusal::in_data(ConnectData::CONTROLLER_FIELD));
        }
        let has = self.of_host(data).filter(|identifier| !is_lost(*identifier)).count();
        if has >= usize::from(self.limits.controllers) {
            return Err(Status::ControllerBusy.into());
        }
        Ok(())
    }

    fn create(
        &mut self,
        identifier: u16,
        connect: &Connect,
        data: &ConnectData<'_>,
        now: Instant,
    ) -> Result<(), Refusal> {
        self.may_have_another(data, |_| false)?;
        if self.controllers.contains_key(&identifier) {
            return Err(Status::ControllerBusy.into());
        }
        let host = Host { identifier: data.host, name: data.host_name.to_owned() };
        let (kind, limits, time) = (self.kind, self.limits, connect.keep_alive);
        let controller = Controller::new(identifier, kind, limits, host, time, now);
        self.controllers.insert(identifier, controller);
        Ok(())
    }

    /// An identifier that no controller has.
    fn free(&self) -> Option<u16> {
        let (first, last) = (*self.identifiers.0.start(), *self.identifiers.0.end());
        let mut in_turn = (self.next..=last).chain(first..self.next);
        in_turn.find(|identifier| !self.controllers.contains_key(identifier))
    }

    /// Only the host that made a controller may add queues to it (Base 3.3.2.2).
    fn joinable(&mut self, data: &ConnectData<'_>) -> Result<&mut Controller, Refusal> {
        let controller = self.controllers.get_mut(&data.controller);
        let controller = controller.filter(|controller| !controller.has_ended());
        let controller = controller.ok_or(Refusal::in_data(ConnectData::CONTROLLER_FIELD))?;
        if controller.host().name != data.host_name {
            return Err(Refusal::in_data(ConnectData::HOST_NAME_FIELD));
        }
        if controller.host().identifier != data.host {
            return Err(Refusal::in_data(ConnectData::HOST_FIELD));
        }
        Ok(controller)
    }

    /// Whether a controller of this host has ended, and its queues are not all gone.
    #[must_use]
    pub fn is_ending(&self, data: &ConnectData<'_>) -> bool {
        let mut of_host = self.controllers.values().filter(|controller| controller.host().is(data));
        of_host.any(Controller::has_ended)
    }

    /// Whether commands are under way of a controller of this host that has ended.
    #[must_use]
    pub fn is_draining(&self, data: &ConnectData<'_>) -> bool {
        let is_of_host = |controller: &&Controller| controller.host().is(data);
        let mut of_host = self.controllers.values().filter(is_of_host);
        of_host.any(|controller| controller.has_ended() && controller.has_io())
    }

    /// The identifiers of this host's controllers, also of those that have ended.
    pub fn of_host(&self, data: &ConnectData<'_>) -> impl Iterator<Item = u16> {
        let of_host = self.controllers.values().filter(|controller| controller.host().is(data));
        of_host.map(Controller::identifier)
    }

    /// Looks whether a host may have a new controller by this Connect, once those of its own are
    /// gone for which `is_lost`.
    ///
    /// # Errors
    /// As those of [`Subsystem::connect`].
    pub fn may_create(
        &self,
        connect: &Connect,
        data: &ConnectData<'_>,
        is_lost: impl Fn(u16) -> bool,
    ) -> Result<(), Refusal> {
        self.admit(connect, data)?;
        self.may_have_another(data, &is_lost)?;
        if self.free().is_none() && !self.of_host(data).any(is_lost) {
            return Err(Status::ControllerBusy.into());
        }
        Ok(())
    }

    /// A host waits until then at most for the queue for I/O that it asks for by this Connect. It
    /// counts as silent from then on at the earliest.
    pub fn keep_waiting(&mut self, connect: &Connect, data: &ConnectData<'_>, until: Instant) {
        if self.admit(connect, data).is_ok()
            && let Ok(controller) = self.joinable(data)
            && controller.may_join(connect).is_ok()
        {
            controller.keep_waiting(until);
        }
    }

    /// Ends the controllers of this host for which `is_lost`: it has lost their associations.
    pub fn supersede(&mut self, data: &ConnectData<'_>, is_lost: impl Fn(u16) -> bool) {
        for (identifier, controller) in &mut self.controllers {
            if controller.host().is(data) && is_lost(*identifier) {
                controller.end();
            }
        }
    }

    /// A queue's connection is gone, and with it the last of its commands. Names one that
    /// [`Subsystem::connect`] has made, once.
    pub fn gone(&mut self, name: QueueName) {
        // A controller is kept for as long as it has queues: without one there is nothing to do.
        let Some(controller) = self.controllers.get_mut(&name.controller) else { return };
        controller.gone(name.queue);
        if controller.is_gone() {
            self.controllers.remove(&name.controller);
        }
    }

    /// From now on only these hosts are permitted; the others' controllers end.
    pub fn permit(&mut self, hosts: Hosts) {
        self.hosts = hosts;
        for controller in self.controllers.values_mut() {
            if !self.hosts.admit(&controller.host().name) {
                controller.end();
            }
        }
    }

    /// Ends the controllers of these hosts.
    pub fn expel(&mut self, is_one: impl Fn(&str) -> bool) {
        for controller in self.controllers.values_mut() {
            if is_one(&controller.host().name) {
                controller.end();
            }
        }
    }

    /// Ends all controllers.
    pub fn end(&mut self) {
        self.controllers.values_mut().for_each(Controller::end);
    }

    /// Tells all hosts what has happened.
    pub fn notify(&mut self, notice: Notice) {
        self.controllers.values_mut().for_each(|controller| controller.notify(notice));
    }

    /// The controller of this identifier.
    #[must_use]
    pub fn controller(&mut self, identifier: u16) -> Option<&mut Controller> {
        self.controllers.get_mut(&identifier)
    }

    /// Its controllers, also those that only wait for their queues to be gone.
    pub fn controllers(&mut self) -> impl Iterator<Item = &mut Controller> {
        self.controllers.values_mut()
    }

    /// When a host will have been silent for too long.
    #[must_use]
    pub fn expires(&self) -> Option<Instant> {
        self.controllers.values().filter_map(Controller::expires).min()
    }

    /// Ends the controllers whose hosts have been silent for too long.
    pub fn expire(&mut self, now: Instant) {
        for controller in self.controllers.values_mut() {
            controller.expire(now);
        }
    }

    /// Asserts what holds after each step.
    pub fn check_invariants(&self) {
        let is_own = |identifier| self.identifiers.0.contains(identifier);
        assert!(self.controllers.keys().all(is_own), "identifiers are those of this node");
        for (identifier, controller) in &self.controllers {
            assert_eq!(controller.identifier(), *identifier);
            assert!(!controller.is_gone(), "who has no queue is forgotten");
            let is_permitted = self.hosts.admit(&controller.host().name);
            assert!(is_permitted || controller.has_ended(), "who isn't permitted is ended");
            controller.check_invariants();
        }
    }
}

#[cfg(test)]
mod tests;
