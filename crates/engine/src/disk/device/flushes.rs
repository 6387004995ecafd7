//! Flushes of the device that have failed.
//!
//! A flush that fails may drop whatever was written and is not durable yet, also what another flush
//! was to cover that is under way, or will be: and that one says that all is well. So nothing is
//! taken for durable that was written before a flush failed, whoever asked for it: this disk,
//! whoever makes room for it, or another replica on the same [`Drive`]. The core is told of each
//! failure at once. A process that is killed before would take what it knew of the loss with it.
//!
//! A durable write is a write and a flush of the drive, and its error does not say which has
//! failed: it counts as a flush.

use std::io;
use std::sync::Arc;

use super::drive::Drive;
use super::error::is_of_space;

/// How many flushes had failed at some time. Whoever has to take note of each compares it with the
/// one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Failures(u64);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Flushes {
    drive: Arc<Drive>,
    /// How many have failed of which nobody else is told.
    own: u64,
    /// How many had failed when what the disk held was made durable.
    at_first: Failures,
}

impl Flushes {
    /// Those of a disk whose contents are made durable after this.
    pub(crate) fn new(drive: Arc<Drive>) -> Self {
        let at_first = Failures(drive.failures());
        Self { drive, own: 0, at_first }
    }

    /// How many had failed when what the disk held was made durable.
    pub(in crate::disk) const fn at_first(&self) -> Failures {
        self.at_first
    }

    /// How many have failed until now.
    pub(in crate::disk) fn failed(&self) -> Failures {
        Failures(self.own + self.drive.failures())
    }

    /// A flush has failed, whoever asked for it.
    pub(in crate::disk) fn flush_failed(&mut self, error: &io::Error) {
        // For want of space to write pages of its own file to; anything else may be the drive's.
        if is_of_space(error) {
            self.own += 1;
        } else {
            self.drive.flush_failed();
        }
    }
}
