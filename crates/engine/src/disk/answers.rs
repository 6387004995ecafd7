//! How actions end: what the core is told of each, and what is counted.

use std::io;
use std::time::Duration;

use evenkeel_core::{DiskError, DiskOutcome, DiskTicket, Instant};

use super::asked::Asked;
use super::device::{Failure, Failures, disk_error, is_of_space};
use crate::counters::{DiskCounters, Kind};
use crate::memory::Buffer;

/// An action that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None`: the disk itself asked for it.
    pub(crate) ticket: Option<DiskTicket>,
    pub(crate) outcome: Result<DiskOutcome<Buffer>, DiskError>,
    /// What failed, and why, if it did.
    pub(crate) failed: Option<(Kind, String)>,
}

/// What the core was told. `failed`, where it is asked for, are the flushes that have failed by
/// now.
#[derive(Debug)]
pub(super) struct Answers {
    /// Flushes that had failed when the core was last told.
    reported: Failures,
    counters: DiskCounters,
}

impl Answers {
    /// `reported`: flushes that had failed before the core knew the disk.
    pub(super) fn new(reported: Failures) -> Self {
        Self { reported, counters: DiskCounters::default() }
    }

    /// Flushes that had failed when the core was last told.
    pub(super) const fn reported(&self) -> Failures {
        self.reported
    }

    /// Whether a flush has failed of which the core has not been told: it is to be now.
    pub(super) fn take_failed_flush(&mut self, failed: Failures) -> bool {
        core::mem::replace(&mut self.reported, failed) != failed
    }

    pub(super) const fn counters(&self) -> &DiskCounters {
        &self.counters
    }

    /// What an action has led to that took until now.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        failed: Failures,
        asked: &Asked,
        result: Result<DiskOutcome<Buffer>, Failure>,
    ) -> Ended {
        let took = now.since(asked.began());
        match result {
            Ok(outcome) => self.succeed(asked, took, outcome),
            Err(failure) if is_failed_flush(asked, &failure, failed) => {
                self.fail(asked, took, &failure.of_a_flush(), failed)
            }
            Err(failure) => self.fail(asked, took, &failure, failed),
        }
    }

    pub(super) fn succeed(
        &mut self,
        asked: &Asked,
        took: Duration,
        outcome: DiskOutcome<Buffer>,
    ) -> Ended {
        self.counters.kinds[asked.kind() as usize].note(took, true, asked.length());
        Ended { ticket: Some(asked.ticket()), outcome: Ok(outcome), failed: None }
    }

    /// An action can't be begun.
    pub(super) fn refuse(&mut self, asked: &Asked, error: io::Error, failed: Failures) -> Ended {
        self.fail(asked, Duration::ZERO, &Failure::of(error), failed)
    }

    fn fail(
        &mut self,
        asked: &Asked,
        took: Duration,
        failure: &Failure,
        failed: Failures,
    ) -> Ended {
        if failure.is_lost() || asked.kind() == Kind::Flush {
            // By this the core learns of all flushes that have failed.
            self.reported = failed;
        }
        self.counters.kinds[asked.kind() as usize].note(took, false, 0);
        let (what, error) = (asked.kind().in_words(), failure.error());
        // Of what is in one place only it is not said where.
        let reason = match (asked.offset(), asked.length()) {
            (_, 0) => format!("{what}: {error}"),
            (offset, length) => {
                format!("{what} {length} bytes at byte {offset} of the replica: {error}")
            }
        };
        let failed = Some((asked.kind(), reason));
        Ended { ticket: Some(asked.ticket()), outcome: Err(failure.reported()), failed }
    }

    /// Checksums could not be written that nobody waits for: at this place of them.
    pub(super) fn unasked(&mut self, error: &io::Error, place: u64, length: u64) -> Ended {
        self.counters.kinds[Kind::Checksums as usize].note(Duration::ZERO, false, 0);
        let what = Kind::Checksums.in_words();
        let reason = format!("{what} ({length} bytes at byte {place} of it): {error}");
        let failed = Some((Kind::Checksums, reason));
        Ended { ticket: None, outcome: Err(disk_error(error)), failed }
    }
}

/// Whether a durable write has failed as a flush does: then one has failed since it began. If none
/// has, there was no space, or the read of a block of which it changes a part has failed.
fn is_failed_flush(asked: &Asked, failure: &Failure, failed: Failures) -> bool {
    asked.is_durable() && failed != asked.failures() && !is_of_space(failure.error())
}
