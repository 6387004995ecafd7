//! What all parts of a worker use: its ring, its memory, the present moment, and what they want
//! done next.
//!
//! Events go through a queue, so cores and front ends are never called recursively. Time is read
//! once a turn.

use std::collections::VecDeque;
use std::sync::Arc;

use evenkeel_core::{Instant, PrimaryEvent, ReplicaEvent};

use super::timers::{Alarm, Timer, Timers};
use crate::api::{EngineConfig, EngineEvent};
use crate::disk::device::Means;
use crate::frontend::FrontendEvent;
use crate::memory::{Buffer, Pool};
use crate::ring::{Descriptor, Key, Ring};

/// Something that a core or a front end is to be told.
pub(super) enum Work {
    Primary(Key, PrimaryEvent<Buffer>),
    Replica(Key, ReplicaEvent<Buffer>),
    Frontend(Key, FrontendEvent),
}

/// Whose queue must be handed to the kernel at the end of the turn.
pub(super) enum Unsent {
    Link(Key),
    Frontend(Key, Descriptor),
}

/// Who waits for memory.
#[derive(PartialEq, Eq)]
pub(super) enum Waiter {
    Frontend(Key),
    Link(Key),
}

/// See the module's documentation.
pub(super) struct Context {
    ring: Ring,
    pool: Pool,
    now: Instant,
    work: VecDeque<Work>,
    unsent: Vec<Unsent>,
    waiters: VecDeque<Waiter>,
    /// Times that somebody has begun to wait for memory.
    memory_waits: u64,
    timers: Timers,
    on_event: Arc<dyn Fn(EngineEvent) + Send + Sync>,
}

impl Context {
    /// Of a worker that has this ring.
    pub(super) fn new(config: &EngineConfig, ring: Ring, now: Instant) -> Self {
        Self {
            ring,
            pool: Pool::new(config.memory_per_worker),
            now,
            work: VecDeque::new(),
            unsent: Vec::new(),
            waiters: VecDeque::new(),
            memory_waits: 0,
            timers: Timers::default(),
            on_event: config.on_event.clone(),
        }
    }

    #[inline]
    pub(super) const fn ring(&self) -> &Ring {
        &self.ring
    }

    #[inline]
    pub(super) const fn ring_mut(&mut self) -> &mut Ring {
        &mut self.ring
    }

    #[inline]
    pub(super) const fn pool(&self) -> &Pool {
        &self.pool
    }

    #[inline]
    pub(super) const fn ring_and_pool(&mut self) -> (&mut Ring, &Pool) {
        (&mut self.ring, &self.pool)
    }

    /// What the disk of this replica uses.
    #[inline]
    pub(super) const fn means(&mut self, replica: Key) -> Means<'_> {
        Means { ring: &mut self.ring, pool: &self.pool, replica, now: self.now }
    }

    /// The present moment.
    #[inline]
    pub(super) const fn now(&self) -> Instant {
        self.now
    }

    pub(super) const fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Has a core or front end told something, after all that was queued before.
    #[inline]
    pub(super) fn queue(&mut self, work: Work) {
        self.work.push_back(work);
    }

    #[inline]
    pub(super) fn next_work(&mut self) -> Option<Work> {
        self.work.pop_front()
    }

    pub(super) fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// Has a queue handed to the kernel at the end of the turn.
    #[inline]
    pub(super) fn send_at_end(&mut self, queue: Unsent) {
        self.unsent.push(queue);
    }

    /// The queues that are to be handed to the kernel: swapped with an empty list, so that the
    /// memory of both is kept.
    pub(super) fn swap_unsent(&mut self, empty: &mut Vec<Unsent>) {
        debug_assert!(empty.is_empty(), "what was taken has been sent");
        std::mem::swap(&mut self.unsent, empty);
    }

    /// Has somebody woken when memory has returned.
    pub(super) fn wait_for_memory(&mut self, waiter: Waiter) {
        if !self.waiters.contains(&waiter) {
            self.memory_waits += 1;
            self.waiters.push_back(waiter);
        }
    }

    /// Those who may try again, in the order in which they began to wait: all, if memory has
    /// returned.
    pub(super) fn take_waiters(&mut self) -> VecDeque<Waiter> {
        if self.waiters.is_empty() || !self.pool.take_released() {
            return VecDeque::new();
        }
        #[cfg(test)]
        if crate::canary::is(crate::canary::Canary::WakeOne) {
            return self.waiters.pop_front().into_iter().collect();
        }
        std::mem::take(&mut self.waiters)
    }

    /// Times that somebody has begun to wait for memory.
    pub(super) const fn memory_waits(&self) -> u64 {
        self.memory_waits
    }

    /// When the earliest timer is due.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// The next timer that is due, and the moment that was noted for it.
    pub(super) fn take_due_timer(&mut self) -> Option<(Instant, Timer)> {
        self.timers.take_due(self.now)
    }

    /// See [`Timers::arm`].
    #[inline]
    pub(super) fn arm(&mut self, timer: Timer, alarm: &mut Alarm, wanted: Option<Instant>) {
        self.timers.arm(timer, alarm, wanted);
    }

    /// See [`Timers::is_due`].
    pub(super) fn is_due(
        &mut self,
        timer: Timer,
        alarm: &mut Alarm,
        wanted: Option<Instant>,
        at: Instant,
    ) -> bool {
        self.timers.is_due(timer, alarm, wanted, at, self.now)
    }

    /// Tells the control plane.
    pub(super) fn report(&self, event: EngineEvent) {
        (self.on_event)(event);
    }
}
