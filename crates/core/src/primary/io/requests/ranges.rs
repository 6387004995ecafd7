//! Who has which range of the volume, and who goes on because of that.

use core::cmp::Ordering;
use core::ops::Range;
use std::collections::VecDeque;

use super::table::RequestNumber;
use crate::range_lock::{LockMode, RangeLock};

/// The locks on ranges, and the queue of those that have what they waited for.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    locks: RangeLock<Holder>,
    ready: VecDeque<Holder>,
}

/// A lock by which this primary yields for a cluster lock. Its number is of the same row as
/// requests', and no request's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct YieldLock(u64);

/// Who holds a range, or waits for it; and, in the queue, who may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// A request. It may go on: it has its range, needs none, or has read what it is to compare.
    Request(RequestNumber),
    /// All primaries but one, which has locked the range. This one may go on: nothing of it is
    /// under way there any more.
    ClusterLock(YieldLock),
}

impl Holder {
    const fn number(self) -> u64 {
        match self {
            Self::Request(request) => request.0,
            Self::ClusterLock(lock) => lock.0,
        }
    }
}

/// The order in which they came.
impl Ord for Holder {
    fn cmp(&self, other: &Self) -> Ordering {
        self.number().cmp(&other.number())
    }
}

impl PartialOrd for Holder {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
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
        if self.locks.acquire(Holder::Request(request), range, mode) {
            self.go_on(request);
        }
    }

    /// A primary has locked a range: everybody else keeps out.
    pub fn lock_to_yield(&mut self, lock: YieldLock, range: Range<u64>) {
        let holder = Holder::ClusterLock(lock);
        if self.locks.acquire(holder, range, LockMode::Exclusive) {
            self.ready.push_back(holder);
        }
    }

    /// Gives a request's range back; who waited for it gets it.
    pub fn unlock(&mut self, request: RequestNumber) {
        self.release(Holder::Request(request));
    }

    /// A cluster lock is over.
    pub fn unlock_yielded(&mut self, lock: YieldLock) {
        self.release(Holder::ClusterLock(lock));
    }

    fn release(&mut self, holder: Holder) {
        let mut granted = Vec::new();
        self.locks.release(holder, &mut granted);
        self.ready.extend(granted);
    }

    /// Lets those read what a request has written that wait for it.
    pub fn let_readers_pass(&mut self, request: RequestNumber) {
        let mut granted = Vec::new();
        self.locks.downgrade(Holder::Request(request), &mut granted);
        self.ready.extend(granted);
    }

    /// A request may go on.
    pub fn go_on(&mut self, request: RequestNumber) {
        self.ready.push_back(Holder::Request(request));
    }

    /// The lock manager is to be told again that this primary yields.
    pub fn restate(&mut self, lock: YieldLock) {
        self.ready.push_back(Holder::ClusterLock(lock));
    }

    /// Who goes on next.
    pub fn next(&mut self) -> Option<Holder> {
        self.ready.pop_front()
    }

    /// Takes out of the queue who is over.
    pub fn keep_ready(&mut self, is_there: impl Fn(Holder) -> bool) {
        self.ready.retain(|ready| is_there(*ready));
    }

    /// Whether a request has its range.
    pub fn are_granted_to(&self, request: RequestNumber) -> bool {
        self.locks.is_granted(Holder::Request(request))
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
