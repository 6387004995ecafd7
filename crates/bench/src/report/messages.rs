//! Words and bounds that all pages share.

use crate::result::Durable;
use crate::stats;

/// Below this difference nothing is said to be better or worse, however quiet the machine was.
pub const NOISE_FLOOR: f64 = 0.05;

/// Whether an answered flush is on every disk.
pub fn flush_durable(durable: Durable) -> &'static str {
    match durable {
        Durable::Yes => "yes",
        Durable::No => "NO",
        Durable::Unknown => "not known",
    }
}

/// What came of reading the data back.
pub fn read_back(verified: Option<bool>) -> &'static str {
    match verified {
        Some(true) => "right",
        Some(false) => "WRONG",
        None => "not checked",
    }
}

/// From which difference on two results of one row differ by more than noise.
pub fn threshold(spreads: &[f64]) -> f64 {
    // Half the distance of the extremes is how far a median of few rounds may lie off.
    stats::median(spreads)
        .unwrap_or(0.0)
        .max(spreads.iter().copied().fold(0.0, f64::max) / 2.0)
        .max(NOISE_FLOOR)
}
