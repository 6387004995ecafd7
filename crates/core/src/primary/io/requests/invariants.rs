//! What must hold of requests and of what they have and wait for (see
//! [`crate::primary::invariants`]).

use super::Requests;
use super::table::RequestLock;
use crate::payload::Payload;

impl<P: Payload> Requests<P> {
    /// Panics if an invariant of requests does not hold.
    pub fn check_invariants(&self) {
        for number in self.exclusions.requests() {
            let is_kept = self.table.is_kept(number);
            assert!(is_kept, "I13: {number:?} does not keep out whom a change excludes");
        }
        for path in &self.draining {
            assert!(self.table.came_over(*path), "I11: {path:?} is drained, and nobody is told");
        }
        self.ranges.check_invariants();
        self.suspension.check_invariants(self.table.waits().next().is_some());
        self.table.check_invariants(|number, lock| match lock {
            RequestLock::None => false,
            RequestLock::Local => self.ranges.are_granted_to(number),
            RequestLock::ClusterLock => self.cluster_locks.are_granted_to(number),
        });
    }

    /// Panics if somebody waits for an answer.
    pub fn check_answered(&self) {
        assert!(self.table.are_answered(), "I11: not answered");
    }

    /// Parts of all requests that some replica has not carried out yet.
    pub fn unfinished_parts(&self) -> usize {
        self.table.unfinished_parts()
    }
}

#[cfg(test)]
mod tests;
