//! Lines that wait to be written, by a thread of its own.
//!
//! Whoever reads a log may stop for good: a journal that hangs, a pipe that nobody empties. So
//! whoever logs puts its line here and goes on. There is a bound; what does not fit any more is
//! lost, and counted.

use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most bytes that wait. So much again may be on its way out.
const MAX_BYTES: usize = 1 << 20;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Queue {
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: Vec<u8>,
    /// How many those are.
    count: u64,
    /// Of all that were ever taken in: how many are, and how many have been written or could not
    /// be.
    taken_in: u64,
    done: u64,
    lost: u64,
    /// Of the lost ones: those that have been told of.
    reported: u64,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a line in, if there is room for it. Never waits.
    pub(super) fn push(&self, line: &[u8]) {
        let mut lines = self.lock();
        if lines.waiting.len() + line.len() > MAX_BYTES {
            lines.lost += 1;
            return;
        }
        lines.waiting.extend_from_slice(line);
        lines.count += 1;
        lines.taken_in += 1;
        drop(lines);
        self.changed.notify_all();
    }

    /// Lines that were lost since the start.
    pub(super) fn lost(&self) -> u64 {
        self.lock().lost
    }

    /// Writes what comes, for good. `report` is given the number of lines that were lost, as soon
    /// as some were and others could be written after that.
    pub(super) fn write_to(&self, mut out: impl Write, report: impl Fn(u64)) {
        loop {
            let mut lines = self.lock();
            while lines.count == 0 {
                lines = self.changed.wait(lines).unwrap_or_else(PoisonError::into_inner);
            }
            let (bytes, count) = (std::mem::take(&mut lines.waiting), lines.count);
            lines.count = 0;
            drop(lines);
            let written = out.write_all(&bytes).and_then(|()| out.flush());
            let mut lines = self.lock();
            lines.done += count;
            let lost = match written {
                Ok(()) => {
                    let (lost, reported) = (lines.lost, lines.reported);
                    lines.reported = lost;
                    lost - reported
                }
                // Nobody can be told.
                Err(_) => {
                    lines.lost += count;
                    0
                }
            };
            drop(lines);
            self.changed.notify_all();
            if lost > 0 {
                report(lost);
            }
        }
    }

    /// Waits until all that has been taken in is written, at most for so long.
    pub(super) fn flush(&self, patience: Duration) {
        let lines = self.lock();
        let end = lines.taken_in;
        let is_under_way = |lines: &mut Lines| lines.done < end;
        drop(self.changed.wait_timeout_while(lines, patience, is_under_way));
    }
}

#[cfg(test)]
mod tests;
