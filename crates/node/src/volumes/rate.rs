//! How quickly a rebuild progresses, and how long it still takes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use evenkeel_core::RebuildLimit;
use evenkeel_core::settings::REGION;

/// Over how long the rate is taken.
const WINDOW: Duration = Duration::from_secs(10);
/// The least distance of two samples.
const STEP: Duration = Duration::from_millis(500);
/// What is known of a rate after less than this says nothing.
const SOON: Duration = Duration::from_secs(1);
/// A limited rebuild begins a region and then pauses, so a measured rate may be this many bytes
/// off.
const GRAIN: f64 = 2.0 * REGION as f64;

/// Samples of a rebuild's progress.
#[derive(Debug)]
pub(in crate::volumes) struct Rate {
    samples: VecDeque<(Instant, u64)>,
    limit: RebuildLimit,
}

/// What is expected of a rebuild.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Forecast {
    /// Bytes a second, over the last ten seconds or so; `None` until it has been measured for a
    /// second.
    pub rate: Option<u64>,
    /// Seconds until it is done; `None` while that cannot be said.
    pub eta_seconds: Option<u64>,
}

impl Default for Rate {
    fn default() -> Self {
        Self { samples: VecDeque::new(), limit: RebuildLimit::None }
    }
}

impl Rate {
    /// Notes how many bytes of `total` are done now, and tells what to expect. A total of 0 is not
    /// known yet.
    pub(super) fn note(
        &mut self,
        now: Instant,
        done: u64,
        total: u64,
        limit: RebuildLimit,
    ) -> Forecast {
        if self.limit != limit {
            // It goes at another pace from now on.
            self.samples.clear();
            self.limit = limit;
        }
        self.sample(now, done);
        let Some(&(since, from)) = self.samples.front() else {
            return Forecast { rate: None, eta_seconds: None };
        };
        let time = now.duration_since(since);
        let seconds = time.as_secs_f64();
        let is_measured = time >= SOON;
        let rate = if seconds < 0.1 { 0.0 } else { (done - from) as f64 / seconds };
        let speed = match limit {
            RebuildLimit::Paused => None,
            RebuildLimit::None => is_measured.then_some(rate),
            RebuildLimit::BytesPerSecond(limit) => {
                let limit = limit as f64;
                let keeps_to_it = rate > limit || (limit - rate) * seconds <= GRAIN;
                Some(if keeps_to_it { limit } else { rate })
            }
        };
        let left = total.saturating_sub(done) as f64;
        let eta_seconds = match speed {
            _ if total == 0 => None,
            _ if left == 0.0 => Some(0),
            Some(speed) if speed >= 1.0 => Some((left / speed).ceil() as u64),
            _ => None,
        };
        Forecast { rate: is_measured.then_some(rate as u64), eta_seconds }
    }

    /// Notes how many bytes are done, so that the rate is known when somebody asks.
    pub(super) fn sample(&mut self, now: Instant, done: u64) {
        // A rebuild that began anew, or has not begun.
        if done == 0 || self.samples.back().is_some_and(|(_, last)| *last > done) {
            self.samples.clear();
        }
        // Until the first byte is copied it connects, learns and counts: that is no measure of its
        // pace.
        if done > 0 && self.samples.back().is_none_or(|(at, _)| now.duration_since(*at) >= STEP) {
            self.samples.push_back((now, done));
        }
        while self.samples.len() > 2 && now.duration_since(self.samples[1].0) >= WINDOW {
            self.samples.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
