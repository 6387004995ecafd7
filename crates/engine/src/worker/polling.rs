//! Whether a worker looks for completions for a while before it sleeps.
//!
//! To sleep and to be woken costs tens of microseconds on each node that a message passes, most of
//! all in a virtual machine, whose idle processors leave it. For a client that waits for one write
//! at a time that is the larger part of a replicated write. So a worker polls before it sleeps:
//! only while peers talk to it, only while little is under way (otherwise it is rarely idle, and
//! its processor time is what limits), only if waits have lately ended soon enough, and never for
//! longer than a bound. Between two looks it yields its processor to whoever wants it. The rule is
//! that of halt polling in Linux's KVM (Documentation/virt/kvm/halt-polling.rst).
//! `docs/decisions/0041-polling-before-sleeping.md` has the figures.

use std::time::Duration;

use evenkeel_core::Instant;

/// A peer that has said nothing for so long is not expected to say something at once.
const PEER_IS_EXPECTED: Duration = Duration::from_millis(1);
/// How many events a turn handles on average, in [`FINE`] parts, while little is under way.
const LITTLE: u32 = 3 * FINE;
const FINE: u32 = 16;
/// Credit for a wait that ended within the bound, up to [`MAX_CREDIT`]; each other wait takes one.
const CREDIT: u8 = 3;
const MAX_CREDIT: u8 = 12;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Polling {
    /// How long at most; zero: never.
    longest: Duration,
    peer_spoke: Option<Instant>,
    /// The average number of events that a turn handles, in [`FINE`] parts.
    events: u32,
    credit: u8,
}

impl Polling {
    pub(super) fn new(longest: Duration) -> Self {
        Self { longest, peer_spoke: None, events: 0, credit: 0 }
    }

    /// A peer has said something.
    pub(super) fn peer_spoke(&mut self, now: Instant) {
        self.peer_spoke = Some(now);
    }

    /// A turn has handled so many events.
    pub(super) fn handled(&mut self, events: usize) {
        let events = u32::try_from(events).unwrap_or(u32::MAX).min(1 << 16);
        self.events = (self.events * (FINE - 1) + events * FINE) / FINE;
    }

    /// How long to poll in the wait that begins now; zero if not at all.
    pub(super) fn bound(&self, now: Instant) -> Duration {
        let is_expected = self.peer_spoke.is_some_and(|spoke| now.since(spoke) <= PEER_IS_EXPECTED);
        let pays = is_expected && self.events <= LITTLE && self.credit > 0;
        if pays { self.longest } else { Duration::ZERO }
    }

    /// A wait has ended after so long, polling or asleep.
    pub(super) fn waited(&mut self, duration: Duration) {
        self.credit = match duration <= self.longest {
            true => MAX_CREDIT.min(self.credit + CREDIT),
            false => self.credit.saturating_sub(1),
        };
    }
}

#[cfg(test)]
mod tests;
