//! What a primary says of cluster locks, and what it is told of them ([`super::cluster_locks`]).

use core::ops::Range;

use super::Requests;
use super::cluster_locks::Learned;
use super::ranges::YieldLock;
use super::table::RequestNumber;
use crate::ids::*;
use crate::message::Message;
use crate::payload::Payload;
use crate::primary::io::Lower;
use crate::primary::membership::peer::Peer;
use crate::primary::{Context, Note, Stage};

impl<P: Payload> Requests<P> {
    /// Asks for the next cluster lock, and tells the lock manager what it does not know.
    pub fn advance_cluster_locks(&mut self, cx: &mut Context<'_, P>, lower: &Lower<'_>) {
        self.cluster_locks.begin_next();
        if !self.cluster_locks.are_unreported() {
            return;
        }
        let lock_manager = lock_manager(lower)
            .filter(|lock_manager| !lower.views.adoption().awaits(lock_manager.id()));
        if let Some(link) = lock_manager.and_then(Peer::ready_link) {
            let (generation, requester) = (lower.views.generation(), cx.config.id);
            let (number, range) = self.cluster_locks.report();
            cx.send(link, Message::ClusterLock { generation, requester, number, range }, None);
        }
    }

    /// A session with a replica goes on, or it has adopted the view: a lock manager may have missed
    /// what was said.
    pub fn restate_cluster_lock(&mut self, lower: &Lower<'_>, replica: ReplicaId) {
        if lock_manager(lower).is_some_and(|lock_manager| lock_manager.id() == replica) {
            self.cluster_locks.restate();
        }
    }

    /// The view has changed: cluster locks of those that are no primaries any more are over.
    pub fn cluster_locks_follow(&mut self, lower: &Lower<'_>) {
        let view = lower.views.view();
        let over = self.cluster_locks.follow(|id| view.has_primary(id));
        over.into_iter().for_each(|lock| self.ranges.unlock_yielded(lock));
    }

    /// The lock manager tells of a cluster lock: locks its range, or unlocks that of one that is
    /// over.
    pub fn cluster_lock_reported(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &Lower<'_>,
        generation: Generation,
        requester: PrimaryId,
        number: ClusterLockNumber,
        range: Option<Range<u64>>,
    ) {
        let is_primary = lower.views.view().has_primary(requester);
        if generation != lower.views.generation() || !is_primary {
            return; // It is said again when the lock manager knows that the view is known here.
        }
        let over = match self.cluster_locks.learn(requester, number, range.is_none()) {
            Learned::Nothing => return,
            Learned::Missed(lock) => return self.ranges.restate(lock),
            Learned::New(over) => over,
        };
        over.into_iter().for_each(|lock| self.ranges.unlock_yielded(lock));
        if let Some(range) = range {
            let lock = YieldLock::numbered(cx.next_number());
            self.ranges.lock_to_yield(lock, range);
            self.cluster_locks.honour(requester, number, lock);
        }
    }

    /// Tells the lock manager that nothing is under way in a locked range, unless the cluster lock
    /// is over.
    pub(super) fn yield_range(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &Lower<'_>,
        lock: YieldLock,
    ) {
        let generation = lower.views.generation();
        let aside = self.cluster_locks.yield_range(lock);
        let link = lock_manager(lower).and_then(Peer::ready_link);
        if let (Some((requester, number)), Some(link)) = (aside, link) {
            cx.send(link, Message::Granted { generation, requester, number }, None);
        }
    }

    /// All primaries yield for a cluster lock of this one: the request for which it is may go on.
    pub fn cluster_lock_granted(
        &mut self,
        cx: &Context<'_, P>,
        lower: &Lower<'_>,
        generation: Generation,
        requester: PrimaryId,
        number: ClusterLockNumber,
    ) {
        if generation == lower.views.generation()
            && requester == cx.config.id
            && let Some(request) = self.cluster_locks.granted(number)
        {
            self.ranges.go_on(request);
        }
    }

    /// Nobody has anything under way that this primary, which has just joined, does not know of.
    pub(super) fn joined(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &Lower<'_>,
        number: RequestNumber,
    ) {
        self.end_kept(number);
        if cx.stage == Stage::Serving {
            cx.note(Note::Serving {
                view: lower.views.generation(),
                follows: lower.views.adoption().follows(),
            });
            self.accept_early(cx, lower);
        }
    }
}

/// The replica that keeps the order of cluster locks.
fn lock_manager<'a>(lower: &'a Lower<'_>) -> Option<&'a Peer> {
    lower.peers.known(lower.views.view().lock_manager()?)
}
