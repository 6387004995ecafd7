//! The time of day.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds since 1970-01-01 UTC.
#[must_use]
pub fn unix_seconds() -> u64 {
    since_epoch().as_secs()
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The moment that lies so long back, in seconds since 1970; `None`: before that. The same moment
/// gives the same number whenever it is asked for, as far as the clock is not set.
#[must_use]
pub fn unix_seconds_ago(age: Duration) -> Option<u64> {
    const HALF: Duration = Duration::from_millis(500);
    since_epoch().checked_sub(age).map(|moment| (moment + HALF).as_secs())
}
