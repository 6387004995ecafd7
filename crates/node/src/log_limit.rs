//! Log lines that others cause, as often as they like: who connects and is turned away.
//!
//! Of each source one line is written in ten seconds, and the next one says how many were left out.
//! So whoever reconnects a hundred times a second fills no disk and hides no other line.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::seats::Source;

/// How often at most a line about one source is written.
const PERIOD: Duration = Duration::from_secs(10);
/// Sources about which lines are written in one period. Those beyond are only counted.
const MAX_SOURCES: usize = 64;

/// Which lines are written, at times that the caller says.
#[derive(Debug, Default)]
struct Limit {
    reported: HashMap<Source, Reported>,
    /// Lines about sources that are not in the table, left out since the last one that was written.
    of_others: u64,
}

#[derive(Debug)]
struct Reported {
    at: Instant,
    /// Lines that were left out since then.
    left_out: u64,
}

/// How many lines were left out before one that is written: the end of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    of_source: u64,
    of_others: u64,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.of_source > 0 {
            write!(f, " ({} lines about this source were left out)", self.of_source)?;
        }
        if self.of_others > 0 {
            write!(f, " ({} lines about other sources were left out)", self.of_others)?;
        }
        Ok(())
    }
}

impl Limit {
    /// Whether a line about a source is written now. `None`: it is left out, and counted.
    fn line(&mut self, source: Source, now: Instant) -> Option<LeftOut> {
        let is_over = |reported: &Reported| now.saturating_duration_since(reported.at) >= PERIOD;
        if let Some(reported) = self.reported.get_mut(&source) {
            if !is_over(reported) {
                reported.left_out += 1;
                return None;
            }
        } else if self.reported.len() >= MAX_SOURCES {
            let oldest = self.reported.iter().min_by_key(|(_, reported)| reported.at);
            let Some(oldest) = oldest.filter(|(_, reported)| is_over(reported)).map(|(of, _)| *of)
            else {
                self.of_others += 1;
                return None;
            };
            self.of_others += self.reported.remove(&oldest).map_or(0, |reported| reported.left_out);
        }
        let before = self.reported.insert(source, Reported { at: now, left_out: 0 });
        let of_source = before.map_or(0, |reported| reported.left_out);
        Some(LeftOut { of_source, of_others: std::mem::take(&mut self.of_others) })
    }
}

/// Which lines are written, now.
#[derive(Debug, Default)]
pub struct LogLimit(Mutex<Limit>);

impl LogLimit {
    /// Whether a line about a source is written now. `None`: it is left out, and counted.
    pub fn line(&self, source: Source) -> Option<LeftOut> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).line(source, Instant::now())
    }
}

#[cfg(test)]
mod tests;
