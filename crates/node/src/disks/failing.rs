//! A directory on a file system that answers with input/output errors alone, as one that was shut
//! down, is let go of: while files on it are open, it can't be unmounted, and so not be repaired.

use std::time::Instant;

use evenkeel_core::{ReplicaId, VolumeId};

use super::states::{EntryState, Hold, KnownState, Retry, Trouble};
use super::{Disks, Entry, Known};
use crate::random::random_incarnation;

/// So many looks in a row have to find an error: one of them may pass.
const LOOKS: u32 = 2;
/// What to do about a file system that fails.
pub(super) const ADVICE: &str =
    "its file system reports input/output errors: unmount it, repair it, and mount it again";

/// How many looks in a row have found that the file system fails.
#[derive(Debug, Default)]
pub(super) struct FailedLooks {
    count: u32,
    /// Somebody lets go of the disk: to close what is open on it may take longer than many looks.
    is_let_go_of: bool,
}

impl FailedLooks {
    /// One more look has found this, or the opposite.
    pub(super) fn note(&mut self, has_failed: bool) {
        self.count = if has_failed { self.count.saturating_add(1) } else { 0 };
    }
}

impl Disks {
    /// What the engine has of a disk, by its serial number, that is to be let go of.
    #[must_use]
    pub fn served_of_failing(&self, disk: u64) -> Vec<(VolumeId, ReplicaId)> {
        let entries = self.lock();
        let entry = entries.iter().find(|entry| entry.serial == disk && entry.is_failing());
        let known = entry.map(|entry| &entry.replicas[..]).unwrap_or_default();
        let open = known.iter().filter(|known| known.state.is_open());
        let superblocks = open.filter_map(|known| known.superblock.as_ref());
        superblocks.map(|superblock| (superblock.volume, superblock.replica)).collect()
    }

    /// Whoever was to let go of a disk has done so, or has failed: then the next look asks again.
    pub fn let_go_ended(&self, disk: u64) {
        let mut entries = self.lock();
        if let Some(entry) = entries.iter_mut().find(|entry| entry.serial == disk) {
            entry.failed_looks.is_let_go_of = false;
        }
    }

    /// Lets go of a disk whose replicas the engine has closed. It is opened again as soon as that
    /// succeeds.
    pub fn let_go(&self, disk: u64) {
        let mut entries = self.lock();
        let entry = entries.iter_mut().find(|entry| entry.serial == disk);
        let Some(hold) = entry.and_then(Entry::let_go_of_failing) else { return };
        self.changed.notify_one();
        drop(entries);
        // To close what is on a disk that fails may take long.
        drop(hold);
    }
}

impl Entry {
    /// Whether it is a directory that is open on a file system that fails.
    pub(super) fn is_failing(&self) -> bool {
        let is_open = matches!(
            self.state,
            EntryState::Serving(Hold::Directory { .. })
                | EntryState::Missing(Hold::Directory { .. }, _)
        );
        // A file that is being made or deleted is open, too. That ends by itself.
        let is_busy =
            |known: &Known| matches!(known.state, KnownState::Making | KnownState::Deleting);
        is_open && self.failed_looks.count >= LOOKS && !self.replicas.iter().any(is_busy)
    }

    /// Whether it fails, and nobody lets go of it yet. Who hears that has to, and to tell the end of
    /// it.
    pub(super) fn begin_let_go(&mut self) -> bool {
        let begins = self.is_failing() && !self.failed_looks.is_let_go_of;
        self.failed_looks.is_let_go_of |= begins;
        begins
    }

    fn let_go_of_failing(&mut self) -> Option<Hold> {
        if !self.is_failing() {
            return None;
        }
        let name = &self.record.name;
        tracing::error!(disk = name, "a disk is let go of: {ADVICE}");
        let trouble = Trouble::Failing(ADVICE.to_owned());
        let retry = Retry::first(Instant::now());
        for known in self.replicas.iter_mut().filter(|known| known.state.is_open()) {
            known.state = KnownState::Waiting(trouble.clone(), retry);
            known.identity = None;
        }
        self.failed_looks = FailedLooks::default();
        self.mount = random_incarnation().0;
        match std::mem::replace(&mut self.state, EntryState::Waiting(trouble, retry)) {
            EntryState::Serving(hold) | EntryState::Missing(hold, _) => Some(hold),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
