//! What must hold of what is under way after every step (see [`crate::primary::invariants`]).

use super::Io;
use crate::payload::Payload;
use crate::primary::membership::Membership;
use crate::primary::views::Views;

impl<P: Payload> Io<P> {
    /// Panics if an invariant of what is under way does not hold.
    pub fn check_invariants(&self, peers: &Membership, views: &Views) {
        self.stability.check_invariants();
        self.requests.check_invariants();
        self.parts.check_invariants(&self.requests, peers, views);
    }

    /// Panics if somebody waits for an answer.
    pub fn check_answered(&self) {
        self.requests.check_answered();
    }
}
