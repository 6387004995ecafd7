//! Hosts that connect: what they have lost ends first, and then they get their queues, where there
//! is a place.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::Instant;
use evenkeel_exports::nvme::authentication::{Keys, Parties};
use evenkeel_exports::nvme::command::{Connect, ConnectData, Refusal, Status};
use evenkeel_exports::nvme::controller::QueueName;

use super::{Inner, MAX_CONNECTIONS, Queue, Socket, Target, What};
use crate::nvme::places::{self, Occupant};
use crate::seats::Source;

/// Hosts that discover at once; for more, others give way. Each may have 1 MiB on its way.
pub(super) const MAX_DISCOVERING: usize = 128;
/// How long a host that has lost an association waits at most for the end of what the volume has of
/// that, before it gets the next one, with all queues that it asks for meanwhile. Then they come
/// all the same: what comes over them is in order behind what the volume has.
pub(super) const DRAINED: Duration = Duration::from_secs(5);

/// How long a Connect waits for the end of what its host has lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// Since when the host waits for this controller.
    pub since: Instant,
    /// Until then at most.
    pub until: Instant,
}

/// What a host asks for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Its Connect.
    pub connect: &'a Connect,
    /// The data of that.
    pub data: &'a ConnectData<'a>,
}

/// The addresses between which a host has a connection.
#[derive(Debug, Clone, Copy)]
pub struct Between {
    /// That of the host.
    pub from: IpAddr,
    /// That of this node.
    pub reached: SocketAddr,
}

/// When a host gets a queue.
#[derive(Debug, Clone, Copy)]
pub struct LetIn {
    /// Since when it waits for its controller: see [`Wait`].
    pub since: Instant,
    /// Now.
    pub now: Instant,
}

/// Another handle of a connection, by which its target closes it.
#[derive(Debug)]
pub struct Handle {
    /// The handle.
    pub socket: TcpStream,
    /// From where the connection comes.
    pub from: SocketAddr,
}

/// What a Connect has led to.
#[derive(Debug)]
pub enum Connected {
    /// The connection is this queue.
    Queue(QueueName),
    /// It becomes this queue if its host proves who it is: see [`Target::open`]. Until then it
    /// takes no place.
    Unproved(QueueName, Parties),
}

impl Target {
    /// A host asks for a queue, and is who it says: how long it waits for that. If it asks for a
    /// new controller it has lost those that it had between the same addresses, and these end. Its
    /// keep-alive time does not run while it waits for a queue for I/O.
    ///
    /// # Errors
    /// What to answer at once, if there will be no place for it: then nothing ends.
    pub fn end_lost(
        &self,
        asked: Asked<'_>,
        addresses: Option<Between>,
        now: Instant,
    ) -> Result<Wait, Refusal> {
        let Asked { connect, data } = asked;
        if self.volume.is_none() {
            // Nothing is ever under way that could take effect later.
            return Ok(Wait { since: now, until: now });
        }
        if connect.queue == 0 {
            if let Some(addresses) = addresses {
                self.supersede(asked, addresses)?;
            }
            return Ok(Wait { since: now, until: now + DRAINED });
        }
        let mut inner = self.lock();
        let admin = inner.queues.get(&QueueName { controller: data.controller, queue: 0 });
        let since = admin.map_or(now, |admin| admin.since);
        let until = now.max(since + DRAINED);
        let is_waiting = inner.subsystem.is_ending(data);
        inner.subsystem.keep_waiting(connect, data, if is_waiting { until } else { now });
        Ok(Wait { since, until })
    }

    /// Ends the controllers that a host has lost, though their ends need not have been seen here.
    /// What it had sent over their connections and nobody has read is not begun any more.
    fn supersede(&self, asked: Asked<'_>, addresses: Between) -> Result<(), Refusal> {
        let mut inner = self.lock();
        let lost = inner.lost(asked.data, addresses);
        if lost.is_empty() {
            return Ok(());
        }
        inner.has_room(asked, &lost)?;
        inner.subsystem.supersede(asked.data, |controller| lost.contains(&controller));
        inner.close();
        drop(inner);
        self.changed.send_replace(());
        Ok(())
    }

    /// Whether an association of this host has ended, and its queues are not all gone.
    #[must_use]
    pub fn is_ending(&self, data: &ConnectData<'_>) -> bool {
        self.lock().subsystem.is_ending(data)
    }

    /// Makes a connection the queue that its host asks for, or says what its host has to prove
    /// first.
    ///
    /// # Errors
    /// What to answer instead.
    pub fn connect(
        &self,
        asked: Asked<'_>,
        let_in: LetIn,
        handle: Handle,
    ) -> Result<Connected, Refusal> {
        let Asked { connect, data } = asked;
        let mut inner = self.lock();
        if inner.queues.len() >= MAX_CONNECTIONS {
            return Err(Status::ControllerBusy.into());
        }
        let lost = handle.between().map(|addresses| inner.lost(data, addresses));
        let is_lost = |controller| lost.as_ref().is_some_and(|lost| lost.contains(&controller));
        // Nobody gives way for what is refused.
        let name = inner.subsystem.offer(connect, data, is_lost)?;
        if let Some(keys) = inner.keys.get(data.host_name).cloned() {
            let (host, subsystem) = (data.host_name.to_owned(), self.name.clone());
            return Ok(Connected::Unproved(name, Parties { host, subsystem, keys }));
        }
        inner.make_space(data.host_name)?;
        inner.subsystem.open(name, connect, data, let_in.now)?;
        inner.insert(name, handle, let_in.since);
        Ok(Connected::Queue(name))
    }

    /// Makes a connection the queue that it was to become: its host has proved that it has these
    /// keys.
    ///
    /// # Errors
    /// What to answer instead, if there is no place for it any more, or other keys count by now.
    pub fn open(
        &self,
        name: QueueName,
        keys: &Arc<Keys>,
        asked: Asked<'_>,
        let_in: LetIn,
        handle: Handle,
    ) -> Result<(), Refusal> {
        let Asked { connect, data } = asked;
        let mut inner = self.lock();
        if inner.queues.len() >= MAX_CONNECTIONS {
            return Err(Status::ControllerBusy.into());
        }
        if inner.keys.get(data.host_name) != Some(keys) {
            return Err(Status::ConnectHost.into());
        }
        inner.subsystem.open(name, connect, data, let_in.now)?;
        inner.insert(name, handle, let_in.since);
        Ok(())
    }
}

impl Inner {
    /// The controllers that this host had between the same addresses.
    fn lost(&self, data: &ConnectData<'_>, addresses: Between) -> BTreeSet<u16> {
        let is_lost = |controller: &u16| {
            let admin = self.queues.get(&QueueName { controller: *controller, queue: 0 });
            admin.is_some_and(|admin| admin.is_between(addresses))
        };
        self.subsystem.of_host(data).filter(is_lost).collect()
    }

    /// Looks whether there is a place for a new controller once those are gone that are lost. While
    /// others of this host end, and have commands under way, that may take long: then all count.
    fn has_room(&self, asked: Asked<'_>, lost: &BTreeSet<u16>) -> Result<(), Refusal> {
        let Asked { connect, data } = asked;
        let is_quick = !self.subsystem.is_draining(data);
        let goes = |controller| is_quick && lost.contains(&controller);
        self.subsystem.may_create(connect, data, goes)?;
        let stay = self.queues.keys().filter(|name| !goes(name.controller)).count();
        if stay >= MAX_CONNECTIONS {
            return Err(Status::ControllerBusy.into());
        }
        Ok(())
    }

    /// If all places for discovery are taken, has somebody give way to this host.
    fn make_space(&mut self, host: &str) -> Result<(), Refusal> {
        let What::Discovery(directory) = &self.what else { return Ok(()) };
        let mut occupants = Vec::new();
        for controller in self.subsystem.controllers().filter(|it| !it.has_ended()) {
            let name = QueueName { controller: controller.identifier(), queue: 0 };
            let Some(queue) = self.queues.get(&name) else { continue };
            occupants.push(Occupant {
                name,
                source: Source::from(queue.from),
                is_known: directory.knows(&controller.host().name),
                number: queue.number,
            });
        }
        if occupants.len() < MAX_DISCOVERING {
            return Ok(());
        }
        let gives_way = places::who_gives_way(&occupants, directory.knows(host));
        let (occupant, of_source) = gives_way.ok_or(Status::ControllerBusy)?;
        self.evictions.note("hosts that discover by NVMe", occupant.source, of_source);
        if let Some(controller) = self.subsystem.controller(occupant.name.controller) {
            controller.end();
        }
        // Its task sees that its connection is closed.
        self.close();
        Ok(())
    }

    pub(super) fn insert(&mut self, name: QueueName, handle: Handle, since: Instant) {
        let Handle { socket, from } = handle;
        let number = self.connected;
        self.connected += 1;
        let reached = socket.local_addr().ok();
        let socket = Socket::Open(socket);
        let (report, exclusion) = (None, None);
        let queue = Queue { socket, from, reached, since, number, report, exclusion };
        self.queues.insert(name, queue);
    }
}

impl Queue {
    /// Whether its host has this address, and uses this one of this node.
    fn is_between(&self, addresses: Between) -> bool {
        let Between { from, reached } = addresses;
        self.from.ip().to_canonical() == from.to_canonical() && self.reached == Some(reached)
    }
}

impl Handle {
    /// Between which addresses it is, if the system tells.
    pub(super) fn between(&self) -> Option<Between> {
        let reached = self.socket.local_addr().ok()?;
        Some(Between { from: self.from.ip(), reached })
    }
}
