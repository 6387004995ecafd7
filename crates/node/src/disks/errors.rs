//! Errors that a disk has reported, by the replica whose request failed. Replicas beside it may be
//! well, and so may the disk again: this is for the eyes of whoever looks after it.

use evenkeel_core::ReplicaId;

use super::{Disks, Known};
use crate::clock::{unix_seconds, utc};

/// The last error that a disk has reported to a replica.
#[derive(Debug, Clone)]
pub(super) struct LastError {
    /// In seconds since 1970.
    at: u64,
    why: String,
}

impl Disks {
    /// An operation of a replica has failed, as `why` says. It is told until the replica is opened
    /// anew.
    pub fn note_error(&self, replica: ReplicaId, why: &str) {
        let mut entries = self.lock();
        let known = entries.iter_mut().find_map(|e| e.position(replica).map(|p| (e, p)));
        if let Some((entry, position)) = known {
            let error = LastError { at: unix_seconds(), why: why.to_owned() };
            entry.replicas[position].last_error = Some(error);
        }
    }
}

impl Known {
    /// What somebody should see to although the replica is served.
    pub(super) fn warning(&self) -> Option<String> {
        let error = self.last_error.as_ref().map(|LastError { at, why }| {
            let volume = self.superblock.as_ref().map_or("?", |superblock| &superblock.name);
            format!("the disk last reported an error to volume {volume} at {}: {why}", utc(*at))
        });
        let warnings: Vec<String> = error.into_iter().chain(self.other_names()).collect();
        (!warnings.is_empty()).then(|| warnings.join("; "))
    }
}

#[cfg(test)]
mod tests;
