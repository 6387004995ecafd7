//! When those who run on a worker want to be woken.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use evenkeel_core::Instant;

use crate::ring::Key;

/// Who wants to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Primary(Key),
    Replica(Key),
    Frontend(Key),
}

/// The wake-up that was noted last for one [`Timer`]. Its owner keeps it.
#[derive(Debug, Default)]
pub(super) struct Alarm(Option<Instant>);

/// All wake-ups that were noted. One that moves to later stays where it is, and is looked at again
/// when it comes: so each timer has few entries.
#[derive(Debug, Default)]
pub(super) struct Timers {
    noted: BinaryHeap<Reverse<(Instant, Timer)>>,
}

impl Timers {
    /// The earliest wake-up.
    pub(super) fn next(&self) -> Option<Instant> {
        self.noted.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the earliest wake-up, if its moment has come.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<(Instant, Timer)> {
        if self.next()? > now {
            return None;
        }
        self.noted.pop().map(|Reverse(due)| due)
    }

    /// Notes when a timer wants to be woken, if it does.
    pub(super) fn arm(&mut self, timer: Timer, alarm: &mut Alarm, wanted: Option<Instant>) {
        // A wake-up that was noted before and is not wanted any more passes by: `is_due` looks.
        let Some(wanted) = wanted else { return };
        if alarm.0.is_none_or(|noted| wanted < noted) {
            alarm.0 = Some(wanted);
            self.noted.push(Reverse((wanted, timer)));
        }
    }

    /// A wake-up of this timer has come, noted for `at`: whether it is still wanted now. If it is
    /// wanted later, that is noted.
    pub(super) fn is_due(
        &mut self,
        timer: Timer,
        alarm: &mut Alarm,
        wanted: Option<Instant>,
        at: Instant,
        now: Instant,
    ) -> bool {
        if alarm.0 == Some(at) {
            alarm.0 = None;
        }
        let is_due = wanted.is_some_and(|wanted| wanted <= now);
        if !is_due {
            self.arm(timer, alarm, wanted);
        }
        is_due
    }
}

#[cfg(test)]
mod tests;
