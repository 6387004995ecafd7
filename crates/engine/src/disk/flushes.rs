//! Flushes of the device that have failed.
//!
//! A flush that fails may drop whatever was written and is not durable yet, also what another flush was to
//! cover that is under way, or will be: and that one says that all is well. So nothing is taken for durable
//! that was written before a flush failed, whoever asked for it: this disk, whoever makes room for it, or
//! another replica on the same [`Drive`]. The core is told of each failure at once. A process that is killed
//! before would take what it knew of the loss with it.
//!
//! A durable write is a write and a flush of the drive, and its error does not say which has failed: it counts
//! as a flush.

use std::io;
use std::sync::Arc;

use super::drive::{Drive, is_of_one_file};
use super::io::Io;
use super::{Disk, Job, Step};
use crate::counters::Kind;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Flushes {
    drive: Arc<Drive>,
    /// How many have failed of which nobody else is told.
    own: u64,
    /// How many have failed that the checksums know of.
    noticed: u64,
    /// How many the core knows of.
    reported: u64,
}

impl Flushes {
    /// Those of a disk whose contents are made durable after this.
    pub(crate) fn new(drive: Arc<Drive>) -> Self {
        let failures = drive.failures();
        Self { drive, own: 0, noticed: failures, reported: failures }
    }

    /// How many have failed.
    fn failed(&self) -> u64 {
        self.own + self.drive.failures()
    }

    /// How many failures a job may count on having been before it: with more at its end it has failed. For a
    /// flush of the core all matter that it does not know of, because it covers all that was written.
    pub(super) fn before(&self, kind: Kind) -> u64 {
        if matches!(kind, Kind::Flush) { self.reported } else { self.failed() }
    }

    /// Whether none has failed since a job began.
    pub(super) fn are_sound_since(&self, before: u64) -> bool {
        self.failed() == before
    }

    /// The core learns of all that have failed. Whether there are any that it did not know of.
    pub(super) fn report(&mut self) -> bool {
        let failed = self.failed();
        std::mem::replace(&mut self.reported, failed) != failed
    }
}

impl<I: Io> Disk<I> {
    /// A flush of the device has failed, whoever asked for it.
    pub(super) fn flush_failed(&mut self, error: &io::Error) {
        if is_of_one_file(error) {
            self.flushes.own += 1;
        } else {
            self.flushes.drive.flush_failed();
        }
        self.notice_failures();
    }

    /// Has the checksums take note of flushes that have failed meanwhile.
    pub(super) fn notice_failures(&mut self) {
        let failed = self.flushes.failed();
        if std::mem::replace(&mut self.flushes.noticed, failed) != failed
            && let Some(checksums) = &mut self.checksums
        {
            checksums.flush_failed();
        }
    }

    /// What a mistake would do: whatever is under way is believed.
    #[cfg(test)]
    pub(super) fn believe_flushes(&mut self) {
        let failed = self.flushes.failed();
        for key in self.jobs.keys() {
            self.jobs.get_mut(key).into_iter().for_each(|job| job.failures_before = failed);
        }
    }

    /// Whether a flush has failed of which the core has not been told: it is to be now.
    pub(crate) fn take_failed_flush(&mut self) -> bool {
        self.flushes.report()
    }

    /// Whether what a job has made durable is durable.
    pub(super) fn is_believed(&self, job: &Job) -> bool {
        !counts_on_flushes(&job.step) || self.flushes.are_sound_since(job.failures_before)
    }
}

/// Whether this step makes something durable.
pub(super) const fn counts_on_flushes(step: &Step) -> bool {
    match step {
        Step::Flush | Step::Save => true,
        Step::Metadata(writes) => !writes.is_flushed_later(),
        Step::Read(_) | Step::Write(_) | Step::Zero(_) | Step::Map => false,
    }
}

/// Why a job is not believed whose own operations have ended well.
pub(super) fn not_believed() -> io::Error {
    io::Error::other("a flush of this disk has failed: what was written before may be lost")
}
