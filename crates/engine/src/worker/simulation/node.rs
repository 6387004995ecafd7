//! A node: its workers, each with a ring of which the world decides what ends next, and its drives.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_core::{Instant, NodeId};

use crate::Engine;
use crate::api::{EngineConfig, EngineEvent};
use crate::disk::device::{Drive, Listeners};
use crate::disk::{Helper, Reporter, Task};
use crate::ring::{Owner, Ring};
use crate::seeds::Random;
use crate::worker::{Worker, mailbox};

/// What the engine tells, until the world looks.
#[derive(Debug)]
pub(super) struct Inbox<T>(Arc<Mutex<VecDeque<T>>>);

impl<T> Clone for Inbox<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Inbox<T> {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    pub(super) fn put(&self, told: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(told);
    }

    pub(super) fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Bytes that workers, clients and links may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    pub(super) worker: usize,
    pub(super) volume: usize,
    pub(super) link: usize,
}

/// See the module's documentation.
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) engine: Engine,
    pub(super) workers: Vec<Bench>,
    pub(super) drives: Vec<Arc<Drive>>,
    pub(super) events: Inbox<EngineEvent>,
}

impl Node {
    pub(super) fn new(
        id: NodeId,
        workers: usize,
        drives: usize,
        memory: Memory,
        now: Instant,
    ) -> Self {
        let (events, listeners) = (Inbox::new(), Arc::new(Listeners::default()));
        let told = events.clone();
        let config = EngineConfig {
            workers,
            memory_per_worker: memory.worker,
            memory_per_volume: memory.volume,
            memory_per_link: memory.link,
            max_poll: Duration::ZERO,
            ..EngineConfig::new(move |event| told.put(event))
        };
        let mut mailboxes = Vec::new();
        let benches = (0..workers).map(|index| {
            let (mailbox, receiver) = mailbox().expect("an eventfd");
            mailboxes.push(mailbox);
            let (sender, tasks) = channel();
            let (reporter, helper) = (receiver.reporter(), Helper::with_tasks(sender));
            let listeners = listeners.clone();
            let worker = Worker::new(index, &config, receiver, helper, listeners, now);
            Bench::new(worker.expect("a ring"), tasks, reporter)
        });
        let benches = benches.collect();
        let drives = (0..drives).map(|_| Arc::new(Drive::new(listeners.clone()))).collect();
        Self { id, engine: Engine::of(mailboxes), workers: benches, drives, events }
    }
}

/// One worker.
pub(super) struct Bench {
    pub(super) worker: Worker,
    tasks: Receiver<Task>,
    reporter: Reporter,
    /// What a disk's helper is to do.
    waiting: VecDeque<Task>,
    /// Operations that the world has ended since the last turn.
    ended: usize,
}

impl Bench {
    fn new(mut worker: Worker, tasks: Receiver<Task>, reporter: Reporter) -> Self {
        worker.cx.ring_mut().hold_all();
        worker.begin();
        Self { worker, tasks, reporter, waiting: VecDeque::new(), ended: 0 }
    }

    pub(super) fn ring(&self) -> &Ring {
        self.worker.cx.ring()
    }

    /// Which operations may end now. A turn takes only so many.
    pub(super) fn can_end(&self) -> Vec<usize> {
        if self.ended < super::super::MAX_COMPLETIONS { self.ring().can_end() } else { Vec::new() }
    }

    /// The operation at this place ends; with this error, if there is one.
    pub(super) fn end(&mut self, place: usize, error: Option<i32>) -> Owner {
        let owner = self.ring().held()[place];
        self.ended += 1;
        match error {
            Some(error) => self.worker.cx.ring_mut().fail_held(place, error),
            None => self.worker.cx.ring_mut().end_held(place),
        }
        owner
    }

    /// Takes a turn. Returns whether it has looked at the mailbox.
    pub(super) fn turn(&mut self, now: Instant) -> bool {
        self.ended = 0;
        let is_awake = !self.ring().held().contains(&Owner::Waker);
        self.collect();
        self.worker.cx.set_now(now);
        self.worker.handle();
        is_awake && self.ring().held().contains(&Owner::Waker)
    }

    /// Takes what has ended meanwhile of what waited for a peer.
    pub(super) fn collect(&mut self) {
        if self.ring().given() > 0 {
            self.worker.cx.ring_mut().collect();
        }
    }

    /// Whether something has ended, or is due, that no turn has handled.
    pub(super) fn has_to_do(&self, now: Instant) -> bool {
        self.ring().has_ready() || self.next_timer().is_some_and(|at| at <= now)
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.worker.cx.next_timer()
    }

    /// The process is killed: what disks were to do is done or not.
    pub(super) fn die(&mut self, random: &mut Random) {
        let held = self.ring().held();
        for place in (0..held.len()).rev() {
            if matches!(held[place], Owner::Disk { .. }) && random.chance(500) {
                self.worker.cx.ring_mut().end_held(place);
            }
        }
        self.worker.machines.end(&mut self.worker.cx);
        self.collect();
    }

    /// Tasks of disks' helpers that nobody has carried out.
    pub(super) fn tasks(&mut self) -> usize {
        self.waiting.extend(self.tasks.try_iter());
        self.waiting.len()
    }

    /// Carries out the oldest of them.
    pub(super) fn carry_out(&mut self) {
        if self.tasks() > 0
            && let Some(task) = self.waiting.pop_front()
        {
            (self.reporter)(task());
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.worker.cx.ring_mut().forget_held();
    }
}
