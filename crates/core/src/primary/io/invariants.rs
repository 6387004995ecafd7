//! What must hold of what is under way after every step (see [`crate::primary::invariants`]).

use super::Io;
use super::requests::RequestLock;
use crate::payload::Payload;
use crate::primary::membership::Membership;
use crate::primary::views::Views;

impl<P: Payload> Io<P> {
    /// Panics if an invariant of what is under way does not hold.
    pub fn check_invariants(&self, peers: &Membership, views: &Views) {
        for number in self.exclusions.requests() {
            let is_kept = self.requests.is_kept(number);
            assert!(is_kept, "I13: {number:?} does not keep out whom a change excludes");
        }
        self.ranges.check_invariants();
        self.writes.check_invariants();
        self.suspension.check_invariants(self.requests.waits().next().is_some());
        self.requests.check_invariants(|number, lock| match lock {
            RequestLock::None => false,
            RequestLock::Local => self.ranges.are_granted_to(number),
            RequestLock::ClusterLock => self.cluster_locks.are_granted_to(number),
        });
        self.check_parts(peers, views);
    }

    /// Panics if somebody waits for an answer.
    pub fn check_answered(&self) {
        assert!(self.requests.are_answered(), "I11: not answered");
    }
}
