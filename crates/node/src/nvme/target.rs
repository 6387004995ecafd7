//! One subsystem with those who are connected to it: a volume that is exported, or discovery.
//!
//! The machines are in the `exports` crate; here is what their queues' connections share. Whatever
//! closes a queue shuts its socket down, and tells it, if it is one for I/O: it ends by itself
//! then, once nothing of it is under way in the volume
//! (`docs/decisions/0080-an-nvme-queue-ends-after-what-it-began.md`).

mod connecting;
mod reservations;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_api::types::NvmeHost;
use evenkeel_core::view::Reservations;
use evenkeel_core::{Generation, HostId, Instant, VolumeId};
use evenkeel_exports::nvme::admin_queue::AdminQueue;
use evenkeel_exports::nvme::authentication::Keys;
use evenkeel_exports::nvme::connection::End;
use evenkeel_exports::nvme::controller::{
    Controller, Facts, Health, Hosts, Identifiers, Kind, Limits, Namespace, Notice, Path,
    PathState, QueueName, Subject, Subsystem, Volume,
};
use evenkeel_exports::nvme::discovery::{Directory, Record, TooMany};
use evenkeel_exports::nvme::io_queue;
use tokio::sync::watch;

use super::names;
use crate::seats::Evictions;

pub use connecting::{Asked, Between, Connected, Handle, LetIn};

/// Connections of one subsystem on this node, with those that end. One for I/O has a buffer of
/// 32 KiB, and 8 KiB for a capsule, so that those of a volume take 10 MiB at most.
pub const MAX_CONNECTIONS: usize = 256;
/// FR.
const FIRMWARE: &str = env!("CARGO_PKG_VERSION");

/// See the module.
#[derive(Debug)]
pub struct Target {
    name: String,
    serial: String,
    /// `None`: discovery.
    volume: Option<VolumeId>,
    inner: Mutex<Inner>,
    /// Something has happened that admin queues may have to answer or to end for.
    changed: watch::Sender<()>,
    /// One change of reservations at a time is made, and one look-up of them at a time.
    reserving: tokio::sync::Mutex<()>,
    looking: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Inner {
    subsystem: Subsystem,
    what: What,
    queues: BTreeMap<QueueName, Queue>,
    /// How many queues have been connected.
    connected: u64,
    /// Of hosts that discovered.
    evictions: Evictions,
    /// Of a volume, as it was last.
    health: Health,
    /// Of a volume, as they were in the newest view that is known.
    reservations: KnownReservations,
    /// Of the hosts that have to prove who they are.
    keys: HostKeys,
}

/// A volume's reservations in a view.
#[derive(Debug)]
struct KnownReservations {
    /// That of the view.
    generation: Generation,
    reservations: Reservations,
}

/// The keys of hosts, by their names.
pub type HostKeys = BTreeMap<String, Arc<Keys>>;

#[derive(Debug)]
enum What {
    Volume(Shown),
    Discovery(Directory),
}

/// A volume, as it is shown.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Bytes; it may grow.
    pub size: Arc<AtomicU64>,
    /// Bytes of a logical block.
    pub block_size: u32,
    /// Bytes that are best written at once.
    pub best_write: u32,
    /// Whether writes are refused.
    pub is_read_only: bool,
}

/// Tells a queue for I/O something: [`io_queue::abort`] or [`io_queue::CLOSED`].
pub type Report = Box<dyn Fn(u64) + Send>;

/// The connection of a queue.
struct Queue {
    socket: Socket,
    from: SocketAddr,
    /// The address of this node that its host uses.
    reached: Option<SocketAddr>,
    /// Since when its host has waited for its controller.
    since: Instant,
    /// In the order in which they came.
    number: u64,
    /// Of one for I/O, once the engine has it.
    report: Option<Report>,
    /// Of one for I/O.
    exclusion: Option<Exclusion>,
}

/// Whether the host of a queue for I/O may not write.
struct Exclusion {
    host: HostId,
    is_excluded: Arc<AtomicBool>,
}

/// An admin queue, as its connection has it.
#[derive(Debug)]
pub struct Admin {
    /// The queue.
    pub queue: AdminQueue,
    /// That of its controller.
    pub controller: u16,
    /// The address of this node that its host uses.
    pub reached: IpAddr,
}

/// Whether a volume's reservations are to persist.
#[derive(Debug, Clone, Copy)]
pub struct Persisting {
    /// That of the command that asks for it.
    pub number: u64,
    /// Whether they are.
    pub is_persistent: bool,
}

/// By what a queue is closed.
enum Socket {
    Open(TcpStream),
    /// The host itself deletes the queue, which ends then.
    Deleted,
    Closed,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("from", &self.from).finish_non_exhaustive()
    }
}

/// What follows from a step of an admin queue.
#[derive(Debug, Clone)]
pub struct FollowUp {
    /// Its association is over.
    pub has_ended: bool,
    /// What was acknowledged is to be made durable: [`Target::shut_down`] tells that it is.
    pub wants_flush: bool,
    /// When its host will have been silent for too long.
    pub expires: Option<Instant>,
    /// What the volume is to be asked. [`Target::persisted`] tells what came of it.
    pub persisting: Vec<Persisting>,
}

impl Target {
    /// A volume without hosts, whose attachment follows this generation of its view.
    #[must_use]
    pub fn volume(volume: VolumeId, generation: u64, shown: Shown) -> Self {
        let identifiers = Identifiers::of_attachment(generation);
        let (name, serial) = (names::subsystem(volume), names::serial(volume));
        let limits = Limits::default();
        let subsystem =
            Subsystem::new(name.clone(), Kind::Volume, Hosts::default(), limits, identifiers);
        Self::new(name, serial, Some(volume), subsystem, What::Volume(shown))
    }

    /// The discovery subsystem, which is for each host.
    #[must_use]
    pub fn discovery() -> Self {
        let (name, serial) = (Subsystem::DISCOVERY.to_owned(), "discovery".to_owned());
        // Names are free: whoever takes a host's must not take its places, which `make_space`
        // gives.
        let limits = Limits { controllers: u16::MAX, ..Limits::default() };
        let (hosts, identifiers) = (Hosts::everyone(), Identifiers::of_discovery());
        let subsystem = Subsystem::new(name.clone(), Kind::Discovery, hosts, limits, identifiers);
        Self::new(name, serial, None, subsystem, What::Discovery(Directory::default()))
    }

    fn new(
        name: String,
        serial: String,
        volume: Option<VolumeId>,
        subsystem: Subsystem,
        what: What,
    ) -> Self {
        let (queues, keys) = (BTreeMap::new(), HostKeys::new());
        let health = Health::default();
        let evictions = Evictions::default();
        let (generation, reservations) = (Generation(0), Reservations::default());
        let reservations = KnownReservations { generation, reservations };
        let connected = 0;
        let inner =
            Inner { subsystem, what, queues, connected, evictions, health, reservations, keys };
        let (inner, changed) = (Mutex::new(inner), watch::Sender::new(()));
        let (reserving, looking) = Default::default();
        Self { name, serial, volume, inner, changed, reserving, looking }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The volume; `None`: discovery.
    #[must_use]
    pub const fn of(&self) -> Option<VolumeId> {
        self.volume
    }

    /// Tells when an admin queue has to look again.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Changes what is shared, and does what follows from it.
    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.lock();
        let result = change(&mut inner);
        inner.close();
        drop(inner);
        self.changed.send_replace(());
        result
    }

    /// Gives an admin queue what has come, and appends what is to be sent.
    ///
    /// # Errors
    /// Why its connection has to be closed once that is sent.
    pub fn step(
        &self,
        admin: &mut Admin,
        received: &[u8],
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Result<FollowUp, End> {
        let Admin { queue, controller, reached } = admin;
        let mut inner = self.lock();
        let Inner { subsystem, what, health, reservations, queues, .. } = &mut *inner;
        let volume;
        let subject = match what {
            What::Volume(shown) => {
                volume = self.as_namespace(shown, *health, &reservations.reservations);
                Subject::Volume(&volume)
            }
            What::Discovery(directory) => Subject::Discovery(directory, *reached),
        };
        let facts =
            Facts { serial: &self.serial, firmware: FIRMWARE, subsystem: &self.name, subject };
        let Some(controller) = subsystem.controller(*controller) else {
            let (wants_flush, expires, persisting) = (false, None, Vec::new());
            return Ok(FollowUp { has_ended: true, wants_flush, expires, persisting });
        };
        let received = queue.receive(received, controller, &facts, now, out);
        controller.expire(now);
        pass_aborts_on(controller, queues);
        queue.answer_kept(controller, out);
        let (has_ended, wants_flush) = (controller.has_ended(), controller.wants_flush());
        let asked = controller.take_persisting().into_iter();
        let persisting = asked.map(|(number, is_persistent)| Persisting { number, is_persistent });
        let (expires, persisting) = (controller.expires(), persisting.collect());
        inner.close();
        received.map(|()| FollowUp { has_ended, wants_flush, expires, persisting })
    }

    fn as_namespace(&self, shown: &Shown, health: Health, reservations: &Reservations) -> Volume {
        let identifier = self.volume.map_or(0, |volume| volume.0).to_be_bytes();
        let size = shown.size.load(Ordering::Relaxed);
        let Shown { block_size, best_write, is_read_only, .. } = *shown;
        // Who may change nothing may not keep others out, either.
        let has_reservations = !is_read_only;
        let namespace =
            Namespace { identifier, size, block_size, best_write, is_read_only, has_reservations };
        let path = Path { state: PathState::Optimized, changes: 0 };
        Volume { namespace, path, health, reservations_persist: reservations.is_persistent }
    }

    /// The volume as a queue for I/O has it, and its size. `None`: discovery.
    #[must_use]
    pub fn namespace(&self) -> Option<(Namespace, Arc<AtomicU64>)> {
        let inner = self.lock();
        match &inner.what {
            What::Volume(shown) => {
                let volume =
                    self.as_namespace(shown, inner.health, &inner.reservations.reservations);
                Some((volume.namespace, shown.size.clone()))
            }
            What::Discovery(_) => None,
        }
    }

    /// How the volume is, from now on.
    pub fn know_health(&self, health: Health) {
        self.lock().health = health;
    }

    /// Whether this host has to prove who it is.
    #[must_use]
    pub fn has_keys(&self, host: &str) -> bool {
        self.lock().keys.contains_key(host)
    }

    /// The host deletes a queue for I/O. It is told so on the same connection, which ends by itself
    /// then.
    pub fn disconnect(&self, name: QueueName) {
        self.change(|inner| {
            if let Some(queue) = inner.queues.get_mut(&name) {
                queue.socket = Socket::Deleted;
            }
            if let Some(controller) = inner.subsystem.controller(name.controller) {
                controller.disconnect(name.queue);
            }
        });
    }

    /// The number of a queue that is there: later ones of the same name have others.
    #[must_use]
    pub fn number(&self, name: QueueName) -> Option<u64> {
        self.lock().queues.get(&name).map(|queue| queue.number)
    }

    /// The engine has the queue for I/O of this name and number, which is told things by this. If
    /// it is gone already, nobody is.
    pub fn serves(&self, name: QueueName, number: u64, report: Report) {
        let mut inner = self.lock();
        let queue = inner.queues.get_mut(&name).filter(|queue| queue.number == number);
        if let Some(queue) = queue {
            if matches!(queue.socket, Socket::Closed) {
                report(io_queue::CLOSED);
            }
            queue.report = Some(report);
        }
    }

    /// A queue for I/O has answered a command that it was to abort.
    pub fn aborted(&self, name: QueueName, command: u16, is_aborted: bool) {
        self.change(|inner| {
            if let Some(controller) = inner.subsystem.controller(name.controller) {
                controller.aborted(name.queue, command, is_aborted);
            }
        });
    }

    /// A queue's connection is gone, and with it the last of its commands.
    pub fn gone(&self, name: QueueName) {
        let mut inner = self.lock();
        inner.queues.remove(&name);
        inner.subsystem.gone(name);
        inner.close();
        drop(inner);
        // Those who discover have nothing to do with one another.
        if self.volume.is_some() {
            self.changed.send_replace(());
        }
    }

    /// What a controller has acknowledged is durable.
    pub fn shut_down(&self, controller: u16) {
        self.change(|inner| {
            if let Some(controller) = inner.subsystem.controller(controller) {
                controller.shut_down();
            }
        });
    }

    /// From now on it is for these hosts, those with keys have to prove who they are, and it is
    /// shown like this. Others are disconnected, and so is whose keys are others now, and who could
    /// write what is read-only now, or not write what is not.
    pub fn permit(&self, hosts: &[String], keys: HostKeys, is_read_only: bool) {
        self.change(|inner| {
            let before = std::mem::replace(&mut inner.keys, keys);
            let keys = &inner.keys;
            inner.subsystem.expel(|host| before.get(host) != keys.get(host));
            if let What::Volume(shown) = &mut inner.what
                && shown.is_read_only != is_read_only
            {
                shown.is_read_only = is_read_only;
                inner.subsystem.end();
            }
            inner.subsystem.permit(Hosts::named(hosts.iter().cloned()));
        });
    }

    /// Disconnects all.
    pub fn end(&self) {
        self.change(|inner| inner.subsystem.end());
    }

    /// Tells all hosts what has happened.
    pub fn notify(&self, notice: Notice) {
        self.change(|inner| inner.subsystem.notify(notice));
    }

    /// From now on hosts discover this; those that see something new are told. Of a volume:
    /// nothing.
    ///
    /// # Errors
    /// [`TooMany`] records.
    pub fn replace(&self, records: Vec<Record>) -> Result<(), TooMany> {
        self.change(|inner| {
            let What::Discovery(directory) = &mut inner.what else { return Ok(()) };
            let sees = directory.replace(records)?;
            for controller in inner.subsystem.controllers() {
                if sees(&controller.host().name) {
                    controller.notify(Notice::Discovery);
                }
            }
            Ok(())
        })
    }

    /// Whether nobody is connected.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.lock().queues.is_empty()
    }

    /// The hosts that are connected.
    #[must_use]
    pub fn hosts(&self) -> Vec<NvmeHost> {
        let mut inner = self.lock();
        let Inner { subsystem, queues, .. } = &mut *inner;
        let of = |controller: &mut Controller| {
            let identifier = controller.identifier();
            let admin = queues.get(&QueueName { controller: identifier, queue: 0 })?;
            let io = queues.keys().filter(|it| it.controller == identifier && it.queue != 0);
            Some(NvmeHost {
                nqn: controller.host().name.clone(),
                address: admin.from.to_string(),
                controller: identifier,
                queues: io.count(),
            })
        };
        subsystem.controllers().filter_map(of).collect()
    }
}

/// Has queues abort what a controller's host wants aborted.
fn pass_aborts_on(controller: &mut Controller, queues: &BTreeMap<QueueName, Queue>) {
    for (queue, command) in controller.take_aborts() {
        let name = QueueName { controller: controller.identifier(), queue };
        match queues.get(&name).and_then(|queue| queue.report.as_ref()) {
            Some(report) => report(io_queue::abort(command)),
            // The engine does not have it yet.
            None => controller.aborted(queue, command, false),
        }
    }
}

impl Inner {
    /// Closes the queues that controllers want closed.
    fn close(&mut self) {
        for controller in self.subsystem.controllers() {
            let identifier = controller.identifier();
            for queue in controller.take_closing() {
                let name = QueueName { controller: identifier, queue };
                self.queues.get_mut(&name).map(Queue::close);
            }
        }
    }
}

impl Queue {
    /// Closes it, unless its host has it end by itself.
    fn close(&mut self) {
        if let Socket::Open(socket) = &self.socket {
            // One that is closed already is as good.
            let _ = socket.shutdown(Shutdown::Both);
            self.socket = Socket::Closed;
            // Until the engine has it nobody can be told, but once that has: see `serves`.
            self.report.iter().for_each(|report| report(io_queue::CLOSED));
        }
    }
}

#[cfg(test)]
mod tests;
