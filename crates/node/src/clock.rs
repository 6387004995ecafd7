//! The time of day, and the clock of the core.

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

/// A moment in seconds since 1970, as in `2026-11-27 05:24:25 UTC`.
#[must_use]
pub fn utc(seconds: u64) -> String {
    formatted(seconds, "%Y-%m-%d %H:%M:%S UTC")
}

/// The same for programs, as in `2026-11-27T05:24:25Z` (RFC 3339).
#[must_use]
pub fn iso_8601(seconds: u64) -> String {
    formatted(seconds, "%Y-%m-%dT%H:%M:%SZ")
}

/// One that a calendar can't name is shown as the first second of 1970.
fn formatted(seconds: u64, format: &str) -> String {
    let at = i64::try_from(seconds).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    at.unwrap_or(jiff::Timestamp::UNIX_EPOCH).strftime(format).to_string()
}

/// The present moment on the clock that the engine gives to the core.
#[must_use]
pub fn core_now() -> evenkeel_core::Instant {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    evenkeel_core::Instant(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}
