//! Which time counts, where a clock may be wrong.
//!
//! A clock that was far behind, such as one without a battery, shows a time at which this software
//! did not exist. One that was far ahead for a while looks right once it is: what was noted
//! meanwhile is then wrong, and must not count for longer than the clock was.

/// No clock that is right shows an earlier time: 2026-11-01, in seconds since 1970.
pub const EARLIEST: u64 = 1_793_491_200;

/// The time, in seconds since 1970, if the clock shows `clock`. `floor`: when something was made,
/// by a clock that may have been ahead. It counts only where the clock can't be right.
#[must_use]
pub const fn now(clock: u64, floor: u64) -> u64 {
    if clock < EARLIEST && clock < floor { floor } else { clock }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_may_be_right_counts() {
        assert_eq!(now(0, EARLIEST + 7), EARLIEST + 7);
        assert_eq!(now(EARLIEST - 1, 7), EARLIEST - 1);
        assert_eq!(now(EARLIEST, EARLIEST + 7), EARLIEST);
        assert_eq!(now(EARLIEST + 9, EARLIEST + 7), EARLIEST + 9);
    }
}
