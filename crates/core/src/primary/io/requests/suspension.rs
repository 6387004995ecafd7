//! What requests wait for at present, and for how long they have (invariant I11).

use crate::operation::RequestError;
use crate::primary::{PresentWait, Waiting};
use crate::time::Instant;
use core::time::Duration;

/// How often a primary that can't serve asks whether it still is one.
const ASK_PERIOD: Duration = Duration::from_secs(1);

/// Whether requests are served, and the wait of those that are not.
#[derive(Debug, Default)]
pub(super) struct Suspension {
    present: Option<Suspended>,
    /// How long requests have waited in a suspension that has ended without an answer to any of
    /// them.
    unanswered: Option<(Waiting, Wait)>,
}

/// Requests wait for something.
#[derive(Debug)]
struct Suspended {
    why: Waiting,
    wait: Wait,
    /// When the coordinator was last asked whether this is still a primary.
    asked_at: Instant,
    /// The wait is over: requests fail with this until the obstacle is gone.
    failing: Option<RequestError>,
}

/// How long requests have waited. It is one wait, however often its reason changes, or is gone for
/// too short a time to answer anybody: otherwise it has no bound.
#[derive(Debug, Clone, Copy)]
struct Wait {
    /// Since when there is its present reason.
    since: Instant,
    /// Since when it counts towards its limit: not while there was none, and anew when all requests
    /// have failed.
    counted_from: Instant,
}

/// What decides how much of a wait counts when its reason ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiters {
    /// Since when the request waits that has waited longest; `None` if no client waits.
    pub oldest: Option<Instant>,
    /// Whether the wait had a limit.
    pub has_limit: bool,
}

impl Suspension {
    /// What requests wait for, and since when.
    pub fn waiting(&self) -> Option<PresentWait> {
        self.present.as_ref().map(|suspended| PresentWait {
            why: suspended.why,
            since: suspended.wait.since,
            counted_from: suspended.wait.counted_from,
            is_over: suspended.failing.is_some(),
        })
    }

    /// What requests wait for.
    pub fn reason(&self) -> Option<Waiting> {
        self.present.as_ref().map(|suspended| suspended.why)
    }

    /// What requests fail with at present: they would have to wait for too long.
    #[inline]
    pub fn failing(&self) -> Option<RequestError> {
        self.present.as_ref().and_then(|suspended| suspended.failing)
    }

    /// How long the requests have waited, as far as it counts.
    pub fn waited(&self, now: Instant) -> Duration {
        self.present.as_ref().map_or(Duration::ZERO, |s| now.since(s.wait.counted_from))
    }

    /// Nothing is served before the attach is over.
    pub fn wait_for_start(&mut self, now: Instant) {
        let (why, wait) = (Waiting::Start, Wait { since: now, counted_from: now });
        self.present.get_or_insert(Suspended { why, wait, asked_at: now, failing: None });
    }

    /// There is an obstacle, or another one than before.
    pub fn begin(&mut self, why: Waiting, waiters: Waiters, now: Instant) {
        let before = self.present.take().filter(|s| s.why != Waiting::Start);
        let before = before.map(|s| (s.why, s.carried_on(waiters, now))).or(self.unanswered.take());
        let wait = match before {
            Some((reason, wait)) if reason == why => wait,
            // What was waited for before counts, and this has not been waited for so long.
            Some((_, wait)) => Wait { since: now, ..wait },
            None => Wait { since: now, counted_from: now },
        };
        self.present = Some(Suspended { why, wait, asked_at: now, failing: None });
    }

    /// There is no obstacle. Tells whether one has ended of which anybody was told.
    pub fn end(&mut self, waiters: Waiters, now: Instant) -> bool {
        let Some(ended) = self.present.take().filter(|s| s.why != Waiting::Start) else {
            return false;
        };
        self.unanswered = waiters.oldest.map(|_| (ended.why, ended.carried_on(waiters, now)));
        true
    }

    /// A request was answered: those that wait from now on begin a new wait.
    #[inline]
    pub fn answered(&mut self) {
        self.unanswered = None;
    }

    /// Whether to ask whether this is still a primary: perhaps nobody answers because another one
    /// has taken over.
    pub fn asks_again(&mut self, now: Instant) -> bool {
        let is_due =
            |s: &&mut Suspended| s.why != Waiting::Start && now.since(s.asked_at) >= ASK_PERIOD;
        let due = self.present.as_mut().filter(is_due);
        due.map(|suspended| suspended.asked_at = now).is_some()
    }

    /// The wait is over: requests fail from now on. Tells whether they did not before.
    pub fn fail(&mut self, error: RequestError, now: Instant) -> bool {
        let waiting = self.present.as_mut().filter(|suspended| suspended.failing.is_none());
        let begins = waiting.map(|suspended| {
            suspended.failing = Some(error);
            suspended.wait.counted_from = now;
        });
        begins.is_some()
    }

    /// Panics if a client waits although the wait is over.
    pub fn check_invariants(&self, is_awaited: bool) {
        let is_over = self.failing().is_some();
        assert!(!is_over || !is_awaited, "V6: a request waits after the stated time");
    }
}

impl Suspended {
    /// What of a wait is carried on when its reason ends. What had no limit does not count towards
    /// the next one, nor what was waited for the coordinator by nobody who waits still.
    fn carried_on(&self, waiters: Waiters, now: Instant) -> Wait {
        let counted_from = match self.why {
            _ if !waiters.has_limit => now,
            Waiting::Coordinator => self.wait.counted_from.max(waiters.oldest.unwrap_or(now)),
            Waiting::Start | Waiting::Replica(_) => self.wait.counted_from,
        };
        Wait { counted_from, ..self.wait }
    }
}

#[cfg(test)]
mod tests;
