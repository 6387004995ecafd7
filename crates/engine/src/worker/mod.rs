//! One worker: its state, and its loop.
//!
//! A turn of the loop: take all completions, run the cores until nothing is left to do, gather
//! what is to be sent, and enter the kernel once, to submit all of it and to wait. Events go
//! through a queue, so cores and front ends are never called recursively. Time is read once a turn.
//!
//! A turn takes at most [`MAX_COMPLETIONS`], so that the next node, the client and the disk begin
//! with the first of many requests while the worker still handles the last.
//!
//! The wait is bounded by the earliest wake-up that a core has named. The kernel measures that
//! wait without suspended time; after a suspension it ends late by at most its own length, and
//! then the cores see the boot-time clock, on which everything they decide rests.

mod frontend_host;
mod link;
mod mailbox;
mod orders;
mod polling;
mod replica_host;
mod status;
mod volume;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_core::primary::{PrimaryEffect, PrimaryEvent};
use evenkeel_core::replica::{ReplicaEffect, ReplicaEvent};
use evenkeel_core::{Instant, VolumeId};
use rustix::time::{ClockId, clock_gettime};

use self::frontend_host::FrontendHost;
use self::link::Link;
use self::mailbox::MailboxReceiver;
pub(crate) use self::mailbox::{Mailbox, Order, mailbox};
use self::polling::Polling;
use self::replica_host::ReplicaHost;
use self::volume::Volume;
use crate::api::{EngineConfig, EngineEvent};
use crate::counters::WorkerCounters;
use crate::disk::{Closer, Done, Helper, Teller, drive};
use crate::frontend::{FrontendAction, FrontendEvent};
use crate::memory::{Buffer, Pool};
use crate::ring::{Completion, Descriptor, Owner, Ring, SharedFile};
use crate::slab::{Key, Slab};

/// How long `stop` waits for operations under way, before their memory is given up for lost.
const MAX_STOP_TIME: Duration = Duration::from_secs(10);
/// Completions that one turn takes. Fewer cost system calls, more leave the disk idle meanwhile
/// (`docs/decisions/0042-short-turns.md`).
const MAX_COMPLETIONS: usize = 16;

/// Something that a core or a front end is to be told.
enum Work {
    Primary(Key, PrimaryEvent<Buffer>),
    Replica(Key, ReplicaEvent<Buffer>),
    Frontend(Key, FrontendEvent),
}

/// Whose queue must be handed to the kernel at the end of the turn.
enum Unsent {
    Link(Key),
    Frontend(Key, Descriptor),
}

/// Who waits for memory.
#[derive(PartialEq, Eq)]
enum Waiter {
    Frontend(Key),
    Link(Key),
}

/// Who wants to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Primary(Key),
    Replica(Key),
    Frontend(Key),
}

/// See the module's documentation.
struct Worker {
    index: usize,
    config: EngineConfig,
    ring: Ring,
    pool: Pool,
    now: Instant,
    by_id: HashMap<VolumeId, Key>,
    volumes: Slab<Volume>,
    replicas: Slab<ReplicaHost>,
    links: Slab<Link>,
    frontends: Slab<FrontendHost>,
    work: VecDeque<Work>,
    unsent: Vec<Unsent>,
    waiters: VecDeque<Waiter>,
    timers: BinaryHeap<Reverse<(Instant, Timer)>>,
    counters: WorkerCounters,
    polling: Polling,
    connects: u64,
    commands: u64,
    // Kept for their memory.
    primary_effects: Vec<PrimaryEffect<Buffer>>,
    replica_effects: Vec<ReplicaEffect<Buffer>>,
    frontend_actions: Vec<FrontendAction>,
    mailbox: MailboxReceiver,
    teller: Teller,
    closer: Closer,
    waker: SharedFile,
    /// Flushes of all drives that had failed when replicas were last told.
    failed_flushes: u64,
    stopping: bool,
}

/// A worker whose state can't be trusted must not go on, and its volumes must not hang: the
/// process ends as if it had been killed, which every peer knows how to deal with.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// Starts a worker's thread.
pub(crate) fn start(
    index: usize,
    config: EngineConfig,
    mailbox: MailboxReceiver,
) -> io::Result<JoinHandle<()>> {
    let (told, started) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
        let _guard = AbortOnPanic;
        let worker = Worker::new(index, config, mailbox);
        match worker {
            Ok(mut worker) => {
                let _ = told.send(Ok(()));
                worker.run();
            }
            Err(error) => {
                let _ = told.send(Err(error));
            }
        }
    })?;
    started.recv().unwrap_or_else(|_| Err(io::Error::other("a worker thread ended at once")))?;
    Ok(thread)
}

impl Worker {
    fn new(index: usize, config: EngineConfig, mailbox: MailboxReceiver) -> io::Result<Self> {
        let waker = SharedFile::new(mailbox.waker.try_clone()?);
        drive::wake_by(&mailbox.waker);
        let teller = mailbox.teller();
        Ok(Self {
            index,
            pool: Pool::new(config.memory_per_worker),
            polling: Polling::new(config.max_poll),
            config,
            // The thread that makes the ring is the one that uses it.
            ring: Ring::new()?,
            now: now(),
            by_id: HashMap::new(),
            volumes: Slab::new(),
            replicas: Slab::new(),
            links: Slab::new(),
            frontends: Slab::new(),
            work: VecDeque::new(),
            unsent: Vec::new(),
            waiters: VecDeque::new(),
            timers: BinaryHeap::new(),
            counters: WorkerCounters::default(),
            connects: 0,
            commands: 0,
            primary_effects: Vec::new(),
            replica_effects: Vec::new(),
            frontend_actions: Vec::new(),
            closer: Closer::start(teller.clone())?,
            teller,
            mailbox,
            waker,
            failed_flushes: drive::failures(),
            stopping: false,
        })
    }

    fn run(&mut self) {
        self.ring.read_waker(self.waker.clone());
        while !self.stopping {
            self.turn();
        }
        self.wind_up();
    }

    fn turn(&mut self) {
        self.counters.loops += 1;
        if let Err(error) = self.wait() {
            tracing::error!(worker = self.index, %error, "io_uring_enter failed; trying again");
            std::thread::sleep(Duration::from_millis(10));
        }
        for _ in 0..MAX_COMPLETIONS {
            let Some(completion) = self.ring.next_completion() else { break };
            self.counters.completions += 1;
            self.completed(completion);
        }
        self.fire_timers();
        let mut events = 0;
        loop {
            while let Some(work) = self.work.pop_front() {
                events += 1;
                self.run_one(work);
            }
            self.wake_waiters();
            if self.work.is_empty() {
                break;
            }
        }
        self.polling.handled(events);
        self.flush();
    }

    /// Submits what was queued and waits until something has completed or a timer is due: polling
    /// at first, where that pays, then asleep.
    fn wait(&mut self) -> io::Result<()> {
        let began = now();
        self.counters.note_turn(began.since(self.now));
        let due = self.timers.peek().map(|Reverse((at, _))| at.since(began));
        let bound = self.polling.bound(began);
        let bound = due.map_or(bound, |due| bound.min(due));
        self.now = began;
        // What is left of the last turn needs no waiting, but what that turn queued is submitted
        // first.
        let has_come = !self.ring.has_ready() && !bound.is_zero() && self.poll(began, bound)?;
        if !has_come {
            let rest = due.map(|due| due.saturating_sub(self.now.since(began)));
            self.ring.wait(rest)?;
            self.now = now();
        }
        self.polling.waited(self.now.since(began));
        Ok(())
    }

    /// Looks for completions until one has come, at most for so long.
    fn poll(&mut self, began: Instant, bound: Duration) -> io::Result<bool> {
        self.counters.polls += 1;
        let mut has_come = false;
        while !has_come && self.now.since(began) < bound {
            has_come = self.ring.poll()?;
            self.now = now();
        }
        self.counters.polls_in_time += u64::from(has_come);
        Ok(has_come)
    }

    fn run_one(&mut self, work: Work) {
        match work {
            Work::Primary(volume, event) => self.step_primary(volume, event),
            Work::Replica(replica, event) => self.step_replica(replica, event),
            Work::Frontend(frontend, event) => self.step_frontend(frontend, event),
        }
    }

    fn completed(&mut self, completion: Completion) {
        match completion.owner {
            Owner::Waker => self.waker_fired(),
            Owner::Disk { replica, job } => self.disk_completed(replica, job, completion),
            Owner::LinkSend { link } => self.link_sent(link, completion),
            Owner::LinkReceive { link } => self.link_received(link, completion),
            Owner::Frontend { frontend, descriptor, purpose } => {
                self.frontend_completed(frontend, descriptor, purpose, completion);
            }
            Owner::Nobody => {}
        }
    }

    fn waker_fired(&mut self) {
        self.ring.read_waker(self.waker.clone());
        let failed = drive::failures();
        if std::mem::replace(&mut self.failed_flushes, failed) != failed {
            self.tell_failed_flushes();
        }
        while let Ok(order) = self.mailbox.orders.try_recv() {
            if matches!(order, Order::Stop) {
                self.stopping = true;
            } else {
                self.obey(order);
            }
        }
    }

    /// Wakes those who wait for memory, in the order in which they began to, if some has returned.
    fn wake_waiters(&mut self) {
        if self.waiters.is_empty() || !self.pool.take_released() {
            return;
        }
        for waiter in std::mem::take(&mut self.waiters) {
            match waiter {
                Waiter::Frontend(key) => {
                    self.work.push_back(Work::Frontend(key, FrontendEvent::MemoryAvailable));
                }
                Waiter::Link(key) => self.advance_link(key),
            }
        }
    }

    fn wait_for_memory(&mut self, waiter: Waiter) {
        if !self.waiters.contains(&waiter) {
            self.counters.memory_waits += 1;
            self.waiters.push_back(waiter);
        }
    }

    /// Hands everything that was queued for sockets to the kernel, one operation for each.
    fn flush(&mut self) {
        let mut unsent = std::mem::take(&mut self.unsent);
        for queue in unsent.drain(..) {
            match queue {
                Unsent::Link(link) => self.flush_link(link),
                Unsent::Frontend(frontend, descriptor) => {
                    self.flush_frontend(frontend, descriptor);
                }
            }
        }
        self.unsent = unsent;
    }

    /// Notes when a timer wants to be woken. Wake-ups that move to later stay where they are, and
    /// are looked at again when they come: so each timer has few entries.
    fn arm(&mut self, timer: Timer) {
        // It may want no wake-up, or have gone.
        let (Some(wanted), Some(armed)) = (self.wakeup_of(timer), self.armed(timer)) else {
            return;
        };
        if armed.is_none_or(|armed| wanted < armed) {
            *armed = Some(wanted);
            self.timers.push(Reverse((wanted, timer)));
        }
    }

    fn wakeup_of(&self, timer: Timer) -> Option<Instant> {
        match timer {
            Timer::Primary(key) => self.volumes.get(key)?.primary.as_ref()?.core.next_wakeup(),
            Timer::Replica(key) => self.replicas.get(key)?.core.next_wakeup(),
            Timer::Frontend(key) => self.frontends.get(key)?.next_wakeup(),
        }
    }

    fn armed(&mut self, timer: Timer) -> Option<&mut Option<Instant>> {
        match timer {
            Timer::Primary(key) => Some(&mut self.volumes.get_mut(key)?.primary.as_mut()?.armed),
            Timer::Replica(key) => Some(&mut self.replicas.get_mut(key)?.armed),
            Timer::Frontend(key) => Some(&mut self.frontends.get_mut(key)?.armed),
        }
    }

    fn fire_timers(&mut self) {
        while let Some(Reverse((at, timer))) = self.timers.peek().copied() {
            if at > self.now {
                break;
            }
            self.timers.pop();
            let Some(armed) = self.armed(timer) else { continue };
            if *armed == Some(at) {
                *armed = None;
            }
            match self.wakeup_of(timer) {
                Some(wanted) if wanted <= self.now => self.fire(timer),
                _ => self.arm(timer),
            }
        }
    }

    fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Primary(key) => self.work.push_back(Work::Primary(key, PrimaryEvent::Tick)),
            Timer::Replica(key) => self.work.push_back(Work::Replica(key, ReplicaEvent::Tick)),
            Timer::Frontend(key) => self.wake_frontend(key),
        }
    }

    /// For what of a disk may block, and must not do so here.
    fn helper(&self) -> Helper {
        Helper::new(self.teller.clone(), self.closer.clone())
    }

    fn tell(&self, event: EngineEvent) {
        (self.config.on_event)(event);
    }

    /// Ends as a killed process would, but waits for what the kernel is doing, and for files to be
    /// closed: for a disk that hangs no longer than [`MAX_STOP_TIME`].
    fn wind_up(&mut self) {
        for key in self.frontends.keys() {
            self.retire_frontend(key);
        }
        for key in self.links.keys() {
            self.close_link(key);
        }
        self.ring.cancel(&self.waker);
        let until = now() + MAX_STOP_TIME;
        while self.ring.under_way() > 0 && now() < until {
            if self.ring.wait(Some(Duration::from_millis(100))).is_err() {
                break;
            }
            while self.ring.next_completion().is_some() {}
        }
        self.close_disks(until);
    }

    /// Closes all disks' files, elsewhere, and waits for that until this moment.
    fn close_disks(&mut self, until: Instant) {
        let mut open = 0;
        for key in self.replicas.keys() {
            if let Some(host) = self.replicas.remove(key) {
                host.disk.close_at_end();
                open += 1;
            }
        }
        while open > 0 {
            match self.mailbox.orders.recv_timeout(until.since(now())) {
                Ok(Order::Disk(Done::Closed { .. })) => open -= 1,
                // Given after the engine was stopped.
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }
}

/// The boot-time clock: it goes on while the machine is suspended.
fn now() -> Instant {
    let time = clock_gettime(ClockId::Boottime);
    Instant(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
