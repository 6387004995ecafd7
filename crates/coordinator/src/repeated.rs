//! What goes wrong again and again, as the log tells it: at first, then ever less often.

use std::time::Duration;

/// First and longest pause between two lines in the log.
const PAUSE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));

/// When one thing went wrong, and when that is told next.
#[derive(Debug, Default)]
pub struct Repeated {
    last: Option<Last>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    /// When it went wrong last.
    at: Duration,
    /// When it is told again, and how long after it was told last.
    next: Duration,
    pause: Duration,
}

impl Repeated {
    /// It has gone wrong once more. Whether that is to be logged: where it also goes well now and
    /// then that is no reason to tell it each time.
    pub fn is_news(&mut self, now: Duration) -> bool {
        let before = self.last.filter(|last| now.saturating_sub(last.at) < PAUSE.0.max(last.pause));
        let pause = match before {
            Some(before) if now < before.next => {
                self.last = Some(Last { at: now, ..before });
                return false;
            }
            Some(before) => (before.pause * 2).min(PAUSE.1),
            None => PAUSE.0,
        };
        self.last = Some(Last { at: now, next: now + pause, pause });
        true
    }
}

#[cfg(test)]
mod tests;
