//! The lock manager's part in cluster locks ([`crate::primary`]): overlapping ones have their turn
//! in the order in which they came, and one is granted when every primary of the view yields. What
//! is kept here lasts as long as the view: each primary says anew in the next one what it wants.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use crate::ids::*;
use crate::message::Message;
use crate::range_lock::{LockMode, RangeLock};
use crate::view::View;

/// The cluster locks of all primaries of a view: one each at most.
#[derive(Debug, Default)]
pub(super) struct ClusterLocks {
    order: RangeLock<Turn>,
    last_turn: Turn,
    of: BTreeMap<PrimaryId, ClusterLock>,
}

/// The place of a cluster lock among all that this view has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Turn(u64);

/// The last cluster lock that a primary has told of.
#[derive(Debug)]
struct ClusterLock {
    number: ClusterLockNumber,
    /// The range and its place in the order; `None` if it is over.
    wanted: Option<(Range<u64>, Turn)>,
    /// Whether no earlier one overlaps it.
    has_turn: bool,
    granted_by: BTreeSet<PrimaryId>,
}

/// What follows when a primary says what it locks.
#[derive(Debug)]
pub(super) enum Learned {
    /// Nothing: it has said something newer since.
    Nothing,
    /// It says so again, perhaps because it has missed that all yield.
    Again,
    /// The primaries are to be told of the cluster locks of these.
    New(Vec<PrimaryId>),
}

impl ClusterLocks {
    /// A primary says what it locks, or that its last lock is over.
    pub fn learn(
        &mut self,
        requester: PrimaryId,
        number: ClusterLockNumber,
        range: Option<Range<u64>>,
    ) -> Learned {
        match self.of.get(&requester) {
            Some(cluster_lock) if cluster_lock.number > number => Learned::Nothing,
            Some(cluster_lock) if cluster_lock.number == number && range.is_some() => {
                Learned::Again
            }
            _ => Learned::New(self.take(requester, number, range)),
        }
    }

    /// A primary yields for a cluster lock. Returns whether that is one that has its turn.
    pub fn yields(
        &mut self,
        from: PrimaryId,
        requester: PrimaryId,
        number: ClusterLockNumber,
    ) -> bool {
        let cluster_lock = self.of.get_mut(&requester);
        let has_turn = cluster_lock.filter(|it| it.number == number && it.has_turn);
        has_turn.map(|cluster_lock| cluster_lock.granted_by.insert(from)).is_some()
    }

    /// The number of a primary's cluster lock, if all primaries of the view yield for it.
    pub fn granted(&self, requester: PrimaryId, view: &View) -> Option<ClusterLockNumber> {
        let cluster_lock = self.known(requester)?;
        let mut primaries = view.primaries.iter();
        let all_yield = primaries.all(|primary| cluster_lock.granted_by.contains(&primary.id));
        all_yield.then_some(cluster_lock.number)
    }

    /// What tells of a primary's cluster lock.
    pub fn message(&self, generation: Generation, requester: PrimaryId) -> Option<Message> {
        Some(self.known(requester)?.message(generation, requester))
    }

    /// What tells of all cluster locks.
    pub fn messages(&self, generation: Generation) -> impl Iterator<Item = Message> {
        self.of.iter().map(move |(requester, it)| it.message(generation, *requester))
    }

    /// What a primary has said of its cluster lock.
    fn known(&self, requester: PrimaryId) -> Option<&ClusterLock> {
        let cluster_lock = self.of.get(&requester);
        debug_assert!(cluster_lock.is_some(), "{requester:?} has said what it wants");
        cluster_lock
    }

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
        if let Some((_, turn)) = before.and_then(|cluster_lock| cluster_lock.wanted) {
            let mut granted = Vec::new();
            self.order.release(turn, &mut granted);
            for (requester, cluster_lock) in &mut self.of {
                if cluster_lock.wanted.as_ref().is_some_and(|(_, turn)| granted.contains(turn)) {
                    cluster_lock.has_turn = true;
                    changed.push(*requester);
                }
            }
        }
        let mut has_turn = false;
        let wanted = range.map(|range| {
            self.last_turn.0 += 1;
            has_turn = self.order.acquire(self.last_turn, range.clone(), LockMode::Exclusive);
            (range, self.last_turn)
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
                cluster_lock.wanted.as_ref().is_some_and(|(_, turn)| self.order.is_granted(*turn));
            assert!(
                cluster_lock.has_turn == is_granted,
                "I12: {requester:?} has a turn out of order"
            );
            let is_granted = cluster_lock.has_turn || cluster_lock.granted_by.is_empty();
            assert!(is_granted, "I12: others yield to {requester:?} before its turn");
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

#[cfg(test)]
mod tests;
