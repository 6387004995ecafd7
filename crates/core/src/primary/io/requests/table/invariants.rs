//! What must hold of requests after every step (see [`crate::primary::invariants`]).

use super::{Request, RequestLock, RequestNumber, RequestStep, RequestTable};
use crate::operation::RequestError;
use crate::payload::Payload;

impl<P: Payload> RequestTable<P> {
    /// Panics if a request contradicts itself, or who has which range. `has_lock`: whether it has
    /// this lock.
    pub fn check_invariants(&self, has_lock: impl Fn(RequestNumber, RequestLock) -> bool) {
        for (number, request) in self.under_way.iter() {
            request.check_invariants(*number, |lock| has_lock(*number, lock));
        }
    }

    /// Parts of all requests that some replica has not carried out yet.
    pub fn unfinished_parts(&self) -> usize {
        self.under_way.values().map(|request| request.unfinished).sum()
    }
}

impl<P> Request<P> {
    fn check_invariants(&self, number: RequestNumber, has_lock: impl Fn(RequestLock) -> bool) {
        let Self { unanswered, unfinished, .. } = self;
        assert!(unanswered <= unfinished, "I4: {number:?} was answered before its parts");
        let is_cancelled = self.error == Some(RequestError::Cancelled);
        assert!(!is_cancelled, "I14: {number:?} was cancelled, and is still under way");
        let has_begun = *unfinished > 0 && !matches!(self.next, RequestStep::Send(_));
        match self.lock {
            RequestLock::None => {}
            RequestLock::Local => {
                let is_granted = !has_begun || has_lock(self.lock);
                assert!(is_granted, "I10: {number:?} has no lock on its range");
            }
            RequestLock::ClusterLock => {
                let is_granted = !has_begun || has_lock(self.lock);
                assert!(is_granted, "I12: {number:?} has no lock of its range");
            }
        }
        assert!(!self.is_over(), "I11: {number:?} waits for nothing");
        let has_ended = self.client.is_some() && self.error.is_some() && *unanswered == 0;
        assert!(!has_ended || self.next.is_comparison(), "I11: {number:?} has failed in silence");
    }
}

#[cfg(test)]
mod tests;
