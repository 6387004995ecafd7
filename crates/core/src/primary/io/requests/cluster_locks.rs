//! Cluster range locks: how one primary has all others yield a range of a volume that several run.
//!
//! A cluster lock is asked of the replica that keeps their order
//! ([`crate::view::View::lock_manager`]). It has every primary of the view, the requester too, lock
//! the range here as a write would; when all have, the cluster lock is granted. A primary has one
//! cluster lock at a time.
//!
//! A cluster lock that was granted is honoured until its requester says that it is over, or is no
//! primary any more, whatever views come: what it has sent may be sent again by it. One that was
//! not granted when the view changes is asked for anew. Who joins others knows of no cluster lock,
//! and locks the whole volume once before it serves anything. All that is said of cluster locks
//! tells a state and not a step, so it is said again with every session and view.

use core::ops::Range;
use std::collections::{BTreeMap, VecDeque};

use super::ranges::YieldLock;
use super::table::RequestNumber;
use crate::ids::*;

/// The cluster locks of one primary, and those that it honours.
#[derive(Debug, Default)]
pub(super) struct ClusterLocks {
    /// Requests that wait until a cluster lock is asked for on their behalf.
    wanted: VecDeque<(RequestNumber, Range<u64>)>,
    own: Option<OwnClusterLock>,
    /// Of the last own cluster lock.
    number: ClusterLockNumber,
    /// Whether the lock manager has not been told of what is.
    is_unreported: bool,
    /// The cluster locks of every primary, its own too, for which it yields or is about to.
    honoured: BTreeMap<PrimaryId, Honoured>,
}

#[derive(Debug)]
struct OwnClusterLock {
    request: RequestNumber,
    range: Range<u64>,
    is_granted: bool,
}

#[derive(Debug)]
struct Honoured {
    number: ClusterLockNumber,
    lock: YieldLock,
    is_locked: bool,
}

/// What follows when the lock manager tells of a cluster lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Learned {
    /// Nothing: it is known, or a newer one is.
    Nothing,
    /// The lock manager has missed that this primary yields by this lock.
    Missed(YieldLock),
    /// It takes the place of the one for which this lock was taken, if there was one.
    New(Option<YieldLock>),
}

impl ClusterLocks {
    /// A request wants a range for itself. It is ready when the cluster lock is granted.
    pub fn want(&mut self, request: RequestNumber, range: Range<u64>) {
        self.wanted.push_back((request, range));
    }

    /// A request is over.
    pub fn end(&mut self, request: RequestNumber) {
        self.wanted.retain(|(other, _)| *other != request);
        if self.own.take_if(|own| own.request == request).is_some() {
            self.is_unreported = true;
        }
    }

    /// Whether a lock is one that is held for the sake of a cluster lock.
    pub fn are_honoured_by(&self, lock: YieldLock) -> bool {
        self.honoured.values().any(|honoured| honoured.lock == lock)
    }

    /// Whether a request has the cluster lock that it wants.
    pub fn are_granted_to(&self, request: RequestNumber) -> bool {
        self.own.as_ref().is_some_and(|own| own.request == request && own.is_granted)
    }

    /// Makes the next cluster lock that is wanted, if there is none.
    pub fn begin_next(&mut self) {
        if self.own.is_none()
            && let Some((request, range)) = self.wanted.pop_front()
        {
            self.number = self.number.next();
            self.own = Some(OwnClusterLock { request, range, is_granted: false });
            self.is_unreported = true;
        }
    }

    /// Whether there is something to tell the lock manager.
    pub fn are_unreported(&self) -> bool {
        self.is_unreported
    }

    /// What there is to tell the lock manager, who is told now: the cluster lock that is asked for,
    /// or the last one that is over.
    pub fn report(&mut self) -> (ClusterLockNumber, Option<Range<u64>>) {
        self.is_unreported = false;
        match &self.own {
            None => (self.number, None),
            Some(own) if own.is_granted => (ClusterLockNumber(self.number.0 - 1), None),
            Some(own) => (self.number, Some(own.range.clone())),
        }
    }

    /// The lock manager may have missed what was said.
    pub fn restate(&mut self) {
        self.is_unreported |= self.number > ClusterLockNumber(0);
    }

    /// The view has changed: cluster locks of those that are no primaries any more are over, and
    /// their locks are told. An own one that was not granted counts as another one, because the new
    /// lock manager may have another order.
    pub fn follow(&mut self, is_primary: impl Fn(PrimaryId) -> bool) -> Vec<YieldLock> {
        let gone = self.honoured.extract_if(.., |requester, _| !is_primary(*requester));
        let gone = gone.map(|(_, honoured)| honoured.lock).collect();
        if self.own.as_ref().is_some_and(|own| !own.is_granted) {
            self.number = self.number.next();
        }
        self.is_unreported = self.number > ClusterLockNumber(0);
        gone
    }

    /// The lock manager tells of a cluster lock, or that one is over.
    pub fn learn(
        &mut self,
        requester: PrimaryId,
        number: ClusterLockNumber,
        is_over: bool,
    ) -> Learned {
        match self.honoured.get(&requester) {
            Some(honoured) if honoured.number == number && !is_over => match honoured.is_locked {
                true => Learned::Missed(honoured.lock),
                false => Learned::Nothing,
            },
            Some(honoured) if honoured.number > number => Learned::Nothing,
            _ => Learned::New(self.honoured.remove(&requester).map(|honoured| honoured.lock)),
        }
    }

    /// This primary yields for a cluster lock when it gets this lock.
    pub fn honour(&mut self, requester: PrimaryId, number: ClusterLockNumber, lock: YieldLock) {
        self.honoured.insert(requester, Honoured { number, lock, is_locked: false });
    }

    /// A lock is granted: this primary yields. Tells for which cluster lock, unless that is over.
    pub fn yield_range(&mut self, lock: YieldLock) -> Option<(PrimaryId, ClusterLockNumber)> {
        let mut honoured = self.honoured.iter_mut();
        let (requester, cluster_lock) =
            honoured.find(|(_, cluster_lock)| cluster_lock.lock == lock)?;
        cluster_lock.is_locked = true;
        Some((*requester, cluster_lock.number))
    }

    /// All primaries yield for a cluster lock of this one: the request for which it is may go on.
    /// `None` if that cluster lock is over, or was granted before.
    pub fn granted(&mut self, number: ClusterLockNumber) -> Option<RequestNumber> {
        let is_current = number == self.number;
        let own = self.own.as_mut().filter(|own| is_current && !own.is_granted)?;
        own.is_granted = true;
        Some(own.request)
    }

    /// The primary has ended.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests;
