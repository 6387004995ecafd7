//! Errors that a disk has reported, by the replica whose request failed. Replicas beside it may be
//! well, and so may the disk again: this is for the eyes of whoever looks after it.

use std::fmt;
use std::time::{Duration, Instant};

use evenkeel_engine::counters::Kind;

use super::Known;
use crate::clock::{unix_seconds, utc};

/// How often at most a line about one kind of errors of a disk is written: one that is full, or
/// read-only, fails many times a second until somebody sees to it.
const PERIOD: Duration = Duration::from_secs(60);

/// The last error that a disk has reported to a replica.
#[derive(Debug, Clone)]
pub(super) struct LastError {
    /// In seconds since 1970.
    at: u64,
    why: String,
}

impl LastError {
    /// One that was reported just now.
    pub(super) fn now(why: &str) -> Self {
        Self { at: unix_seconds(), why: why.to_owned() }
    }
}

/// The lines about errors of one disk, by kind: when the last one was written, and how many were
/// left out since.
#[derive(Debug, Default)]
pub(super) struct Lines(Vec<(Kind, Instant, u64)>);

/// How many lines were left out before one that is written: the end of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut(u64);

impl LeftOut {
    pub(super) const NONE: Self = Self(0);
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            count => write!(f, " ({count} lines about such errors of this disk were left out)"),
        }
    }
}

impl Lines {
    /// Whether a line is written now. `None`: it is left out, and counted.
    pub(super) fn line(&mut self, kind: Kind, now: Instant) -> Option<LeftOut> {
        let Some((_, at, left_out)) = self.0.iter_mut().find(|(of, ..)| *of == kind) else {
            self.0.push((kind, now, 0));
            return Some(LeftOut::NONE);
        };
        if now.saturating_duration_since(*at) < PERIOD {
            *left_out += 1;
            return None;
        }
        *at = now;
        Some(LeftOut(std::mem::take(left_out)))
    }
}

impl Known {
    /// What somebody should see to although the replica is served.
    pub(super) fn warning(&self) -> Option<String> {
        let error = self.last_error().map(|LastError { at, why }| {
            let volume = self.volume_name();
            format!("the disk last reported an error to volume {volume} at {}: {why}", utc(*at))
        });
        let warnings: Vec<String> = error.into_iter().chain(self.other_names()).collect();
        (!warnings.is_empty()).then(|| warnings.join("; "))
    }
}

#[cfg(test)]
mod tests;
