//! Flushes of the device that have failed.
//!
//! A flush that fails may drop whatever was written and is not durable yet, also what another flush was to
//! cover that is under way, or will be: and that one says that all is well. So nothing is taken for durable
//! that was written before a flush failed, and the core is told of each failure by a flush of its own.

use std::io;

use super::io::Io;
use super::{Disk, Job, Step};
use crate::counters::Kind;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    /// How many have failed.
    failed: u64,
    /// How many of them the core knows of.
    reported: u64,
}

impl Flushes {
    /// How many failures a job may count on having been before it: with more at its end it has failed. For a
    /// flush of the core all matter that it does not know of, because it covers all that was written.
    pub(super) const fn before(&self, kind: Kind) -> u64 {
        if matches!(kind, Kind::Flush) { self.reported } else { self.failed }
    }

    /// Whether none has failed since a job began.
    pub(super) const fn are_sound_since(&self, before: u64) -> bool {
        self.failed == before
    }

    /// The core learns of all that have failed.
    pub(super) const fn report(&mut self) {
        self.reported = self.failed;
    }
}

impl<I: Io> Disk<I> {
    /// A flush of the device has failed, whoever asked for it.
    pub(super) fn flush_failed(&mut self) {
        self.flushes.failed += 1;
        if let Some(checksums) = &mut self.checksums {
            checksums.flush_failed();
        }
    }

    /// Whether what a job has made durable is durable.
    pub(super) fn is_believed(&self, job: &Job) -> bool {
        let counts_on_flushes = match &job.step {
            Step::Flush | Step::Save => true,
            Step::Metadata(writes) => !writes.is_flushed_later(),
            Step::Read(_) | Step::Write(_) | Step::Zero(_) | Step::Map => false,
        };
        !counts_on_flushes || self.flushes.are_sound_since(job.failures_before)
    }
}

/// Why a job is not believed whose own operations have ended well.
pub(super) fn not_believed() -> io::Error {
    io::Error::other("a flush of this disk has failed: what was written before may be lost")
}
