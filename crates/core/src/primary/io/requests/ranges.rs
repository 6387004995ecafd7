//! Who has which range of the volume, and who goes on because of that.

use core::ops::Range;
use std::collections::VecDeque;

use super::table::RequestNumber;
use crate::range_lock::{LockMode, LockNumber, RangeLock};

/// The locks on ranges, and the queue of those that have what they waited for.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    locks: RangeLock,
    /// Those of the locks that are for cluster locks: at most one for each primary.
    to_yield: Vec<YieldLock>,
    ready: VecDeque<Ready>,
}

/// A lock by which this primary yields for a cluster lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct YieldLock(LockNumber);

/// Who may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ready {
    /// A request has its range, needs none, or has read what it is to compare.
    Request(RequestNumber),
    /// Nothing is under way any more in a range that is locked.
    ClusterLock(YieldLock),
}

impl YieldLock {
    /// One of this number, which no request and no other cluster lock has.
    pub const fn numbered(number: u64) -> Self {
        Self(number)
    }
}

impl Ranges {
    /// A request asks for its range.
    pub fn lock(&mut self, request: RequestNumber, range: Range<u64>, mode: LockMode) {
        if self.locks.acquire(request.0, range, mode) {
            self.go_on(request);
        }
    }

    /// A primary has locked a range: everybody else keeps out.
    pub fn lock_to_yield(&mut self, lock: YieldLock, range: Range<u64>) {
        self.to_yield.push(lock);
        if self.locks.acquire(lock.0, range, LockMode::Exclusive) {
            self.ready.push_back(Ready::ClusterLock(lock));
        }
    }

    /// Gives a request's range back; who waited for it gets it.
    pub fn unlock(&mut self, request: RequestNumber) {
        self.release(request.0);
    }

    /// A cluster lock is over.
    pub fn unlock_yielded(&mut self, lock: YieldLock) {
        self.to_yield.retain(|other| *other != lock);
        self.release(lock.0);
    }

    fn release(&mut self, lock: LockNumber) {
        let mut granted = Vec::new();
        self.locks.release(lock, &mut granted);
        self.let_go_on(granted);
    }

    /// Lets those read what a request has written that wait for it.
    pub fn let_readers_pass(&mut self, request: RequestNumber) {
        let mut granted = Vec::new();
        self.locks.downgrade(request.0, &mut granted);
        self.let_go_on(granted);
    }

    /// The edge at which a lock's number becomes whose it is.
    fn let_go_on(&mut self, granted: Vec<LockNumber>) {
        let to_yield = &self.to_yield;
        self.ready.extend(granted.into_iter().map(
            |lock| match to_yield.contains(&YieldLock(lock)) {
                true => Ready::ClusterLock(YieldLock(lock)),
                false => Ready::Request(RequestNumber(lock)),
            },
        ));
    }

    /// A request may go on.
    pub fn go_on(&mut self, request: RequestNumber) {
        self.ready.push_back(Ready::Request(request));
    }

    /// The lock manager is to be told again that this primary yields.
    pub fn restate(&mut self, lock: YieldLock) {
        self.ready.push_back(Ready::ClusterLock(lock));
    }

    /// Who goes on next.
    pub fn next(&mut self) -> Option<Ready> {
        self.ready.pop_front()
    }

    /// Takes out of the queue who is over.
    pub fn keep_ready(&mut self, is_there: impl Fn(Ready) -> bool) {
        self.ready.retain(|ready| is_there(*ready));
    }

    /// Whether a request has its range.
    pub fn are_granted_to(&self, request: RequestNumber) -> bool {
        self.locks.is_granted(request.0)
    }

    /// The primary has ended.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Panics if locks contradict each other.
    pub fn check_invariants(&self) {
        self.locks.check_invariants();
    }
}

#[cfg(test)]
mod tests;
