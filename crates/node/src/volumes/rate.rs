//! How quickly a rebuild progresses.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Over how long the rate is taken.
const WINDOW: Duration = Duration::from_secs(10);
/// The least distance of two samples.
const STEP: Duration = Duration::from_millis(500);

/// Samples of a rebuild's progress.
#[derive(Debug, Default)]
pub(super) struct Rate {
    samples: VecDeque<(Instant, u64)>,
}

impl Rate {
    /// Notes how many bytes are done now, and tells bytes a second.
    pub(super) fn note(&mut self, now: Instant, done: u64) -> u64 {
        // A rebuild that began anew.
        if self.samples.back().is_some_and(|(_, last)| *last > done) {
            self.samples.clear();
        }
        if self.samples.back().is_none_or(|(at, _)| now.duration_since(*at) >= STEP) {
            self.samples.push_back((now, done));
        }
        while self.samples.len() > 2 && now.duration_since(self.samples[1].0) >= WINDOW {
            self.samples.pop_front();
        }
        let Some(&(since, from)) = self.samples.front() else { return 0 };
        let seconds = now.duration_since(since).as_secs_f64();
        if seconds < 0.1 { 0 } else { ((done - from) as f64 / seconds) as u64 }
    }
}

#[cfg(test)]
mod tests;
