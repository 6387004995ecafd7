//! How fast a rebuild or a verify goes: clients first.
//!
//! While no client asks for anything, several regions are copied at once. While one does, one
//! region at a time is copied, with pauses in between, so that the rebuild keeps a share of what it
//! could do and the clients' requests the rest. The volume's limit is kept in either case.

use core::time::Duration;

use crate::time::Instant;
use crate::view::RebuildLimit;

/// How long clients count as busy after a primary has said so.
const BUSY_FOR: Duration = Duration::from_millis(250);
/// A pause is never longer, however long a copy took.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// When the next region may begin.
#[derive(Debug)]
pub struct Pace {
    begin_at: Option<Instant>,
    busy_until: Instant,
}

impl Pace {
    pub fn new(now: Instant) -> Self {
        Self { begin_at: None, busy_until: now }
    }

    /// A primary says whether clients ask for anything.
    pub fn clients_are(&mut self, now: Instant, is_busy: bool) {
        if is_busy {
            self.busy_until = now + BUSY_FOR;
        }
    }

    /// Whether a client has asked for anything lately.
    pub fn is_busy(&self, now: Instant) -> bool {
        now < self.busy_until
    }

    /// How many regions may be copied at once.
    pub fn max_copies(&self, now: Instant, when_idle: usize) -> usize {
        if self.is_busy(now) { 1 } else { when_idle }
    }

    /// Whether another region may begin now.
    pub fn may_begin(&self, now: Instant) -> bool {
        self.begin_at.is_none_or(|at| now >= at)
    }

    /// The limit may be another one now: whatever was put off may begin.
    pub fn reset(&mut self) {
        self.begin_at = None;
    }

    /// Forgets a moment that has come.
    pub fn advance(&mut self, now: Instant) {
        self.begin_at.take_if(|at| *at <= now);
    }

    /// A region of so many lacking bytes begins.
    pub fn began(&mut self, now: Instant, bytes: u64, limit: RebuildLimit) {
        if let RebuildLimit::BytesPerSecond(rate) = limit {
            let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
            let nanoseconds = u64::try_from(nanoseconds).unwrap_or(u64::MAX);
            self.put_off(self.begin_at.unwrap_or(now).max(now) + Duration::from_nanos(nanoseconds));
        }
    }

    /// A region is over that was held for so long. `share`: percent of the time that a rebuild
    /// takes while clients are busy.
    pub fn ended(&mut self, now: Instant, held: Duration, share: u32) {
        if self.is_busy(now) {
            let share = share.clamp(1, 100);
            let pause = (held * (100 - share) / share).min(MAX_PAUSE);
            self.put_off(now + pause);
        }
    }

    fn put_off(&mut self, until: Instant) {
        self.begin_at = self.begin_at.max(Some(until));
    }

    /// When the next region may begin, as far as that has been put off.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.begin_at
    }
}
