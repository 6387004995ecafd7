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

mod context;
mod frontends;
mod links;
mod machines;
mod mailbox;
mod polling;
mod replicas;
#[cfg(test)]
mod simulation;
mod timers;
mod volumes;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_core::Instant;
use rustix::time::{ClockId, clock_gettime};

use self::context::Context;
use self::machines::{Machines, Received};
use self::mailbox::MailboxReceiver;
pub(crate) use self::mailbox::{Mailbox, Order, mailbox};
use self::polling::Polling;
use crate::api::{EngineConfig, WorkerStatus};
use crate::counters::WorkerCounters;
use crate::disk::device::Listeners;
use crate::disk::{Closer, Done, Helper};
use crate::ring::{Completion, Owner, Ring, SharedFile};

/// How long `stop` waits for operations under way, before their memory is given up for lost.
const MAX_STOP_TIME: Duration = Duration::from_secs(10);
/// Completions that one turn takes. Fewer cost system calls, more leave the disk idle meanwhile
/// (`docs/decisions/0042-short-turns.md`).
const MAX_COMPLETIONS: usize = 16;

/// See the module's documentation.
struct Worker {
    index: usize,
    cx: Context,
    machines: Machines,
    mailbox: MailboxReceiver,
    /// The mailbox's, which the ring reads.
    waker: SharedFile,
    polling: Polling,
    counters: WorkerCounters,
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
    let (reported, started) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
        let _guard = AbortOnPanic;
        let reporter = mailbox.reporter();
        let worker = Closer::start(reporter.clone()).and_then(|closer| {
            let (helper, listeners) = (Helper::new(reporter, closer), Listeners::of_process());
            Worker::new(index, &config, mailbox, helper, listeners, now())
        });
        match worker {
            Ok(mut worker) => {
                let _ = reported.send(Ok(()));
                worker.run();
            }
            Err(error) => {
                let _ = reported.send(Err(error));
            }
        }
    })?;
    started.recv().unwrap_or_else(|_| Err(io::Error::other("a worker thread ended at once")))?;
    Ok(thread)
}

impl Worker {
    /// One that has not begun. The disks of its replicas begin with such a helper, and on drives
    /// whose failed flushes these are told.
    fn new(
        index: usize,
        config: &EngineConfig,
        mailbox: MailboxReceiver,
        helper: Helper,
        listeners: Arc<Listeners>,
        now: Instant,
    ) -> io::Result<Self> {
        let waker = SharedFile::new(mailbox.waker().try_clone()?);
        listeners.wake_by(mailbox.waker());
        Ok(Self {
            index,
            // The thread that makes the ring is the one that uses it.
            cx: Context::new(config, Ring::new()?, now),
            machines: Machines::new(config, helper, listeners),
            mailbox,
            waker,
            polling: Polling::new(config.max_poll),
            counters: WorkerCounters::default(),
            stopping: false,
        })
    }

    fn run(&mut self) {
        self.begin();
        while !self.stopping {
            self.turn();
        }
        self.wind_up();
    }

    /// Hears orders from now on.
    fn begin(&mut self) {
        self.cx.ring_mut().read_waker(self.waker.clone());
    }

    fn turn(&mut self) {
        self.counters.loops += 1;
        if let Err(error) = self.wait() {
            tracing::error!(worker = self.index, %error, "io_uring_enter failed; trying again");
            std::thread::sleep(Duration::from_millis(10));
        }
        self.handle();
    }

    /// Handles what has completed and what is due, and begins what follows.
    #[inline]
    fn handle(&mut self) {
        for _ in 0..MAX_COMPLETIONS {
            let Some(completion) = self.cx.ring_mut().next_completion() else { break };
            self.counters.completions += 1;
            self.completed(completion);
        }
        while let Some((at, timer)) = self.cx.take_due_timer() {
            self.machines.timer_came(&mut self.cx, timer, at);
        }
        let mut events = 0;
        loop {
            while let Some(work) = self.cx.next_work() {
                events += 1;
                self.machines.run(&mut self.cx, work);
            }
            self.machines.wake_waiters(&mut self.cx);
            if !self.cx.has_work() {
                break;
            }
        }
        self.polling.handled(events);
        self.machines.flush(&mut self.cx);
    }

    /// Submits what was queued and waits until something has completed or a timer is due: polling
    /// at first, where that pays, then asleep.
    fn wait(&mut self) -> io::Result<()> {
        let began = now();
        self.counters.note_turn(began.since(self.cx.now()));
        let due = self.cx.next_timer().map(|at| at.since(began));
        let bound = self.polling.bound(began);
        let bound = due.map_or(bound, |due| bound.min(due));
        self.cx.set_now(began);
        // What is left of the last turn needs no waiting, but what that turn queued is submitted
        // first.
        let has_come =
            !self.cx.ring().has_ready() && !bound.is_zero() && self.poll(began, bound)?;
        if !has_come {
            let rest = due.map(|due| due.saturating_sub(self.cx.now().since(began)));
            self.cx.ring_mut().wait(rest)?;
            self.cx.set_now(now());
        }
        self.polling.waited(self.cx.now().since(began));
        Ok(())
    }

    /// Looks for completions until one has come, at most for so long.
    fn poll(&mut self, began: Instant, bound: Duration) -> io::Result<bool> {
        self.counters.polls += 1;
        let mut has_come = false;
        while !has_come && self.cx.now().since(began) < bound {
            has_come = self.cx.ring_mut().poll()?;
            self.cx.set_now(now());
        }
        self.counters.polls_in_time += u64::from(has_come);
        Ok(has_come)
    }

    fn completed(&mut self, completion: Completion) {
        if completion.owner == Owner::Waker {
            self.waker_fired();
        } else if self.machines.completed(&mut self.cx, completion) == Received::Peer {
            self.polling.peer_spoke(self.cx.now());
        }
    }

    fn waker_fired(&mut self) {
        self.cx.ring_mut().read_waker(self.waker.clone());
        self.machines.look_for_failed_flushes(&mut self.cx);
        while let Some(order) = self.mailbox.take() {
            match order {
                Order::Stop => self.stopping = true,
                Order::Survey { answer } => answer(self.status()),
                order => self.machines.obey(&mut self.cx, order),
            }
        }
    }

    fn status(&self) -> WorkerStatus {
        WorkerStatus {
            worker: self.index,
            counters: WorkerCounters {
                system_calls: self.cx.ring().system_calls(),
                memory_waits: self.cx.memory_waits(),
                ..self.counters
            },
            memory: self.cx.pool().in_use(),
            volumes: self.machines.statuses(&self.cx),
        }
    }

    /// Ends as a killed process would, but waits for what the kernel is doing, and for files to be
    /// closed: for a disk that hangs no longer than [`MAX_STOP_TIME`].
    fn wind_up(&mut self) {
        self.machines.end(&mut self.cx);
        self.cx.ring_mut().cancel(&self.waker);
        let until = now() + MAX_STOP_TIME;
        while self.cx.ring().under_way() > 0 && now() < until {
            if self.cx.ring_mut().wait(Some(Duration::from_millis(100))).is_err() {
                break;
            }
            while self.cx.ring_mut().next_completion().is_some() {}
        }
        self.close_disks(until);
    }

    /// Closes all disks' files, elsewhere, and waits for that until this moment.
    fn close_disks(&mut self, until: Instant) {
        let mut open = self.machines.close_disks();
        while open > 0 {
            match self.mailbox.wait(until.since(now())) {
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
