//! The lock manager's part in cluster locks ([`crate::primary`]): overlapping ones have their turn
//! in the order in which they came, and one is granted when every primary of the view yields. What
//! is kept here lasts as long as the view: each primary says anew in the next one what it wants.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use super::{Context, Replica};
use crate::ids::*;
use crate::message::Message;
use crate::payload::Payload;
use crate::range_lock::{LockMode, LockNumber, RangeLock};
use crate::view::View;

/// The cluster locks of all primaries of a view: one each at most.
#[derive(Debug, Default)]
pub(super) struct ClusterLocks {
    order: RangeLock,
    last_lock: LockNumber,
    of: BTreeMap<PrimaryId, ClusterLock>,
}

/// The last cluster lock that a primary has told of.
#[derive(Debug)]
struct ClusterLock {
    number: ClusterLockNumber,
    /// The range and its place in the order; `None` if it is over.
    wanted: Option<(Range<u64>, LockNumber)>,
    /// Whether no earlier one overlaps it.
    has_turn: bool,
    granted_by: BTreeSet<PrimaryId>,
}

impl ClusterLocks {
    /// Takes in what a primary says of its cluster locks. Returns those of whom the primaries are
    /// to hear.
    fn take(
        &mut self,
        requester: PrimaryId,
        number: ClusterLockNumber,
        range: Option<Range<u64>>,
    ) -> Vec<PrimaryId> {
        let mut changed = vec![requester];
        let before = self.of.remove(&requester);
        if let Some((_, lock)) = before.and_then(|cluster_lock| cluster_lock.wanted) {
            let mut granted = Vec::new();
            self.order.release(lock, &mut granted);
            for (requester, cluster_lock) in &mut self.of {
                if cluster_lock.wanted.as_ref().is_some_and(|(_, lock)| granted.contains(lock)) {
                    cluster_lock.has_turn = true;
                    changed.push(*requester);
                }
            }
        }
        let mut has_turn = false;
        let wanted = range.map(|range| {
            self.last_lock += 1;
            has_turn = self.order.acquire(self.last_lock, range.clone(), LockMode::Exclusive);
            (range, self.last_lock)
        });
        let cluster_lock = ClusterLock { number, wanted, has_turn, granted_by: BTreeSet::new() };
        self.of.insert(requester, cluster_lock);
        changed
    }
}

impl ClusterLocks {
    /// Panics if the cluster locks of two primaries that overlap have their turn at once (I12).
    pub fn check_invariants(&self, view: &View) {
        self.order.check_invariants();
        for (requester, cluster_lock) in &self.of {
            assert!(
                view.has_primary(*requester),
                "I12: {requester:?} wants a lock, and is no primary"
            );
            let is_granted =
                cluster_lock.wanted.as_ref().is_some_and(|(_, l)| self.order.is_granted(*l));
            assert!(
                cluster_lock.has_turn == is_granted,
                "I12: {requester:?} has a turn out of order"
            );
            let is_granted = cluster_lock.has_turn || cluster_lock.granted_by.is_empty();
            assert!(is_granted, "I12: others stand aside for {requester:?} before its turn");
        }
    }
}

impl ClusterLock {
    /// What the primaries are to do about it: yield, or no more for those before.
    fn state(&self) -> (ClusterLockNumber, Option<Range<u64>>) {
        match &self.wanted {
            None => (self.number, None),
            Some((range, _)) if self.has_turn => (self.number, Some(range.clone())),
            Some(_) => (ClusterLockNumber(self.number.0.saturating_sub(1)), None),
        }
    }

    /// What says so.
    fn message(&self, generation: Generation, requester: PrimaryId) -> Message {
        let (number, range) = self.state();
        Message::ClusterLock { generation, requester, number, range }
    }
}

impl<P: Payload> Replica<P> {
    /// A primary says what it locks.
    pub(super) fn cluster_lock_asked(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        generation: Generation,
        (requester, number): (PrimaryId, ClusterLockNumber),
        range: Option<Range<u64>>,
    ) {
        if self.links.primary_of(link) != Some(requester) {
            return self.drop_link(cx, link);
        }
        if !self.is_current(generation) || !self.view.has_primary(requester) {
            return self.refuse(cx, link, None);
        }
        match self.cluster_locks.of.get(&requester) {
            Some(cluster_lock) if cluster_lock.number > number => {}
            Some(cluster_lock) if cluster_lock.number == number && range.is_some() => {
                self.grant_if_all_yield(cx, requester);
            }
            _ => {
                for changed in self.cluster_locks.take(requester, number, range) {
                    self.tell_cluster_lock(cx, changed);
                }
            }
        }
    }

    /// A primary yields for a cluster lock.
    pub(super) fn yields(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        generation: Generation,
        (requester, number): (PrimaryId, ClusterLockNumber),
    ) {
        let Some(from) = self.links.primary_of(link).filter(|_| self.is_current(generation)) else {
            return; // In another view it is said again, and who is no primary yields nothing.
        };
        let cluster_lock = self.cluster_locks.of.get_mut(&requester);
        if let Some(cluster_lock) = cluster_lock
            .filter(|cluster_lock| cluster_lock.number == number && cluster_lock.has_turn)
        {
            cluster_lock.granted_by.insert(from);
            self.grant_if_all_yield(cx, requester);
        }
    }

    fn grant_if_all_yield(&mut self, cx: &mut Context<'_, P>, requester: PrimaryId) {
        let Some(cluster_lock) = self.cluster_locks.of.get(&requester) else {
            debug_assert!(false, "{requester:?} has said what it wants");
            return;
        };
        let mut primaries = self.view.primaries.iter();
        if !primaries.all(|primary| cluster_lock.granted_by.contains(&primary.id)) {
            return;
        }
        let (generation, number) = (self.view.generation, cluster_lock.number);
        let link = self.links.open_primaries().find(|(_, primary)| *primary == requester);
        if let Some((link, _)) = link {
            cx.send(link, Message::Granted { generation, requester, number }, None);
        }
    }

    /// Tells all primaries of a cluster lock.
    fn tell_cluster_lock(&self, cx: &mut Context<'_, P>, requester: PrimaryId) {
        let Some(cluster_lock) = self.cluster_locks.of.get(&requester) else {
            debug_assert!(false, "{requester:?} has said what it wants");
            return;
        };
        for (link, primary) in self.links.open_primaries() {
            if self.view.has_primary(primary) {
                cx.send(link, cluster_lock.message(self.view.generation, requester), None);
            }
        }
    }

    /// A session with a primary begins, or it knows of the view: tells it of all cluster locks.
    pub(super) fn tell_cluster_locks_to(&self, cx: &mut Context<'_, P>, link: LinkId) {
        if !self.links.primary_of(link).is_some_and(|primary| self.view.has_primary(primary)) {
            return;
        }
        for (requester, cluster_lock) in &self.cluster_locks.of {
            cx.send(link, cluster_lock.message(self.view.generation, *requester), None);
        }
    }
}
