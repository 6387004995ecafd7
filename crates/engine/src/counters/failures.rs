//! Requests that were answered with an error: how many of which kind, why, and when.

use std::time::{Duration, SystemTime};

use evenkeel_core::{Instant, RequestError};

/// So long one that repeats itself is not told again.
const PAUSE: Duration = Duration::from_secs(60);

/// Requests of one kind that failed for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// `read`, `write`, `compare-and-write`, `zero`, `flush` or `map`.
    pub kind: &'static str,
    /// What they were answered with.
    pub error: RequestError,
    /// How many, since the primary began.
    pub count: u64,
    /// When the first one was answered.
    pub first: SystemTime,
    /// When the last one was.
    pub last: SystemTime,
}

/// All that failed since the volume was attached: at most one for each kind and reason, so a few
/// dozen.
#[derive(Debug, Clone, Default)]
pub struct Failures(Vec<Counted>);

#[derive(Debug, Clone)]
struct Counted {
    failure: Failure,
    /// When it was last told, and how many there were then.
    reported: (Instant, u64),
}

impl Failures {
    /// All of them, in the order in which they first came.
    pub fn iter(&self) -> impl Iterator<Item = &Failure> {
        self.0.iter().map(|counted| &counted.failure)
    }

    /// Counts one. Returns what is to be told: the first one, and after that at most one a minute.
    pub(crate) fn note(
        &mut self,
        kind: &'static str,
        error: RequestError,
        now: Instant,
    ) -> Option<Failure> {
        let last = SystemTime::now();
        let is_same = |c: &&mut Counted| c.failure.kind == kind && c.failure.error == error;
        if let Some(counted) = self.0.iter_mut().find(is_same) {
            counted.failure.count += 1;
            counted.failure.last = last;
            let is_due = now.since(counted.reported.0) >= PAUSE;
            return is_due.then(|| counted.report(now));
        }
        let failure = Failure { kind, error, count: 1, first: last, last };
        self.0.push(Counted { failure, reported: (now, 1) });
        Some(failure)
    }

    /// Those of which more have come than were told.
    pub(crate) fn unreported(&mut self, now: Instant) -> Vec<Failure> {
        let unreported =
            self.0.iter_mut().filter(|counted| counted.failure.count > counted.reported.1);
        unreported.map(|counted| counted.report(now)).collect()
    }
}

impl Counted {
    fn report(&mut self, now: Instant) -> Failure {
        self.reported = (now, self.failure.count);
        self.failure
    }
}

#[cfg(test)]
mod tests;
