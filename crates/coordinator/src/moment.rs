//! Moments: a coordinator reads no clock; its driver passes it the time.

use std::time::Duration;

/// A moment, on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Since some moment before the coordinator's start; never goes back.
    pub steady: Duration,
    /// In seconds since 1970.
    pub unix: u64,
}
