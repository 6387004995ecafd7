//! Looking after what replicas hold: ranges are compared and repaired one at a time ([`check`]),
//! because a read found them wanting ([`bad_ranges`]) or because all are gone through ([`verify`]).
//!
//! The highest of a primary's rooms: it uses all others, and has what it compares and writes done
//! by [`super::io`]. It never answers a client.

mod bad_ranges;
mod check;
pub(super) mod verify;

use self::bad_ranges::BadRanges;
use self::check::Check;
use self::verify::{Verify, VerifyStatus};
use super::io::Io;
use crate::payload::Payload;
use crate::time::Instant;

/// What is being looked after, and what is to be.
#[derive(Debug, Default)]
pub(super) struct Scrub {
    /// The range that is being compared or rewritten.
    check: Option<Check>,
    bad_ranges: BadRanges,
    verify: Option<Verify>,
}

impl Scrub {
    /// The last verify, under way or over.
    pub fn verify_status(&self) -> Option<&VerifyStatus> {
        self.verify.as_ref().map(Verify::status)
    }

    /// How many ranges that a replica could not read were rewritten there.
    pub fn rewritten(&self) -> u64 {
        self.bad_ranges.rewritten()
    }

    /// When the next range may be begun, as far as that has been put off.
    #[inline]
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.verify.as_ref().filter(|_| self.check.is_none()).and_then(Verify::next_wakeup)
    }

    /// A view has been committed: the limit of a verify may be another one.
    pub fn follow_view(&mut self) {
        self.verify.iter_mut().for_each(Verify::reset_pace);
    }

    /// The primary is to leave: nothing more is begun.
    pub fn wind_up(&mut self, now: Instant) {
        self.stop_verify(now);
        self.bad_ranges.forget();
    }

    /// The primary has ended; what was found stays for its status.
    pub fn forget(&mut self) {
        self.bad_ranges.forget();
        self.check = None;
    }

    /// Panics if a range is compared in which others may write.
    pub fn check_invariants<P: Payload>(&self, io: &Io<P>) {
        if let Some(check) = &self.check {
            let is_kept = io.is_kept(check.number());
            assert!(is_kept, "I9: a range is compared, and others may write there");
        }
    }
}

#[cfg(test)]
mod tests;
