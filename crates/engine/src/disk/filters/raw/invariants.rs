//! What must hold of operations on the file or device (see [`crate::disk::invariants`]).

use evenkeel_format::SUPERBLOCK_LENGTH;

use super::{Operation, RawDisk};
use crate::disk::device::Io;

impl<I: Io, T> RawDisk<I, T> {
    /// What is told of each request that is under way when it has ended.
    pub(in crate::disk::filters) fn awaited(&self) -> impl Iterator<Item = &T> {
        self.operations.iter().map(|(_, pending)| &pending.then)
    }

    /// Panics if an operation is under way of which all is done, or that would be believed although
    /// a flush fails.
    pub(in crate::disk::filters) fn check_invariants(&self) {
        let failed = self.failures();
        for (_, pending) in self.operations.iter() {
            let before = pending.operation.failures_before();
            let is_known = before.is_none_or(|before| before <= failed);
            assert!(is_known, "what is to be durable counts on flushes that have not failed yet");
            pending.operation.check_invariants();
        }
    }
}

impl Operation {
    fn check_invariants(&self) {
        match self {
            Self::Zero(zeroing) => zeroing.check_invariants(),
            Self::Metadata(writes, _) => writes.check_invariants(),
            Self::Superblock { done, .. } => {
                assert!(*done < SUPERBLOCK_LENGTH, "a superblock is under way that is written");
            }
            // What they read or write is with the device.
            Self::Read { .. } | Self::Write { .. } | Self::Flush(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
