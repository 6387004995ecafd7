//! Who has still to adopt the view by which a primary works, and how long that may take (rule V2).

use core::time::Duration;
use std::collections::BTreeSet;

use crate::ids::*;
use crate::time::Instant;

/// The adoption of the present view.
#[derive(Debug)]
pub(in crate::primary) struct Adoption {
    /// Replicas that have not adopted it yet. Until there are none, nothing new is sent and no
    /// write is acknowledged.
    awaited: BTreeSet<ReplicaId>,
    /// When it began.
    since: Instant,
    /// How long replicas may have to wait for another primary's lease before they adopt the view:
    /// by the longest lease of the views that they may still have adopted.
    fencing: Duration,
    /// Whether this is the first view of this primary, or none between was adopted by all.
    is_takeover: bool,
    /// The only primary of the view that the first one of this primary replaced.
    follows: Option<PrimaryId>,
}

impl Adoption {
    /// There is no view yet.
    pub fn new(now: Instant) -> Self {
        Self {
            awaited: BTreeSet::new(),
            since: now,
            fencing: Duration::ZERO,
            is_takeover: false,
            follows: None,
        }
    }

    /// Whether nobody has to adopt the view any more.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.awaited.is_empty()
    }

    /// Whether this replica has to adopt the view.
    #[inline]
    pub fn awaits(&self, replica: ReplicaId) -> bool {
        self.awaited.contains(&replica)
    }

    /// All that have to adopt it.
    pub fn awaited(&self) -> &BTreeSet<ReplicaId> {
        &self.awaited
    }

    /// When they were first asked.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// How long they may take: until an answer is due, and the lease of another primary is over.
    pub fn deadline(&self, answer: Duration) -> Duration {
        answer + self.fencing
    }

    /// Whether no view of this primary was adopted by all yet.
    pub fn is_takeover(&self) -> bool {
        self.is_takeover
    }

    /// The only primary of the view that the first one of this primary replaced. `None` if there
    /// was not exactly one.
    pub fn follows(&self) -> Option<PrimaryId> {
        self.follows
    }

    /// These confirm the first view of an epoch, before anybody is primary by it.
    pub fn confirm_by(&mut self, replicas: impl Iterator<Item = ReplicaId>) {
        self.awaited = replicas.collect();
    }

    /// The view that comes next is the first one of this primary.
    pub fn take_over(&mut self, follows: Option<PrimaryId>) {
        (self.is_takeover, self.follows) = (true, follows);
    }

    /// The next view is committed, and so long other primaries may have been granted what they rely
    /// upon; `None` if there are none.
    pub fn fence(&mut self, granted: Option<Duration>) {
        // Members may not even have adopted the view before.
        let older = if self.is_over() { Duration::ZERO } else { self.fencing };
        self.fencing = granted.map_or(older, |granted| older.max(granted));
    }

    /// These have to adopt the next view.
    pub fn begin(&mut self, members: impl Iterator<Item = ReplicaId>, now: Instant) {
        self.awaited = members.collect();
        self.since = now;
    }

    /// A replica has adopted the view. Tells whether it had to.
    pub fn adopted(&mut self, replica: ReplicaId) -> bool {
        self.awaited.remove(&replica)
    }

    /// All have adopted it. Tells whether that ends the takeover.
    pub fn end_takeover(&mut self) -> bool {
        core::mem::take(&mut self.is_takeover)
    }

    /// The primary has ended: it waits for nobody.
    pub fn forget(&mut self) {
        self.awaited.clear();
    }

    /// Panics if it waits for a replica that takes no part.
    pub fn check_invariants(&self, is_member: impl Fn(ReplicaId) -> bool) {
        let are_members = self.awaited.iter().all(|id| is_member(*id));
        assert!(are_members, "V2: it waits for the adoption by one that is no member");
    }
}

#[cfg(test)]
mod tests;
