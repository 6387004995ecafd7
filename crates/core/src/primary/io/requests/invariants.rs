//! What must hold of a primary's requests after every step (see [`crate::primary::invariants`]).

use super::{Request, RequestLock, RequestNumber};
use crate::payload::Payload;
use crate::primary::Primary;

impl<P: Payload> Primary<P> {
    pub(in crate::primary) fn check_requests(&self) {
        for (number, request) in self.requests.iter() {
            self.check_request(*number, request);
        }
    }

    fn check_request(&self, number: RequestNumber, request: &Request<P>) {
        let Request { unanswered, unfinished, .. } = request;
        assert!(unanswered <= unfinished, "I4: {number:?} was answered before its parts");
        let has_begun = *unfinished > 0 && request.operation.is_none();
        match request.lock {
            RequestLock::None => {}
            RequestLock::Local => {
                let is_granted = self.ranges.are_granted_to(number);
                assert!(is_granted || !has_begun, "I10: {number:?} has no lock on its range");
            }
            RequestLock::ClusterLock => {
                let is_granted = self.cluster_locks.are_granted_to(number);
                assert!(is_granted || !has_begun, "I12: {number:?} has no lock of its range");
            }
        }
        let is_kept = request.is_kept || request.operation.is_some();
        let is_due = *unfinished > 0 || is_kept || request.comparison.is_some();
        assert!(is_due, "I11: {number:?} waits for nothing");
    }
}

#[cfg(test)]
mod tests;
