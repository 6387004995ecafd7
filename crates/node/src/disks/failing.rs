//! A directory on a file system that answers with input/output errors alone, as one that was shut
//! down, is let go of: while files on it are open, it can't be unmounted, and so not be repaired.
//!
//! So is one that can't be written to any more, as after an error of its disk. There a replica can
//! neither adopt a view nor open a session, and reading is all that is left: one that somebody
//! reads stays open until it is of no use.

use std::sync::Arc;
use std::time::Instant;

use evenkeel_core::{ReplicaId, VolumeId};

use super::listed::Listed;
use super::states::{EntryState, Hold, Retry, Trouble};
use super::{Entry, Known};

/// So many looks in a row have to find an error: one of them may pass.
const LOOKS: u32 = 2;
/// What to do about a file system that fails.
pub(super) const ADVICE: &str =
    "its file system reports input/output errors: unmount it, repair it, and mount it again";

/// What the last looks have found of a file system.
#[derive(Debug, Default)]
pub(super) struct FailedLooks {
    /// How many in a row have found that it fails.
    count: u32,
    /// The last one has found that it can't be written to.
    is_read_only: bool,
    /// Somebody lets go of the disk: to close what is open on it may take longer than many looks.
    is_let_go_of: bool,
}

impl FailedLooks {
    /// One more look has found this, or the opposite.
    pub(super) fn note(&mut self, has_failed: bool, is_read_only: bool) {
        self.count = if has_failed { self.count.saturating_add(1) } else { 0 };
        self.is_read_only = is_read_only;
    }
}

/// Disks that fail or are read-only, of which the engine lets go.
#[derive(Debug)]
pub struct Failing(Arc<Listed>);

impl Failing {
    pub(super) const fn new(listed: Arc<Listed>) -> Self {
        Self(listed)
    }

    /// What the engine has of a disk, by its serial number, that is to be let go of.
    #[must_use]
    pub fn served_of(&self, disk: u64) -> Vec<(VolumeId, ReplicaId)> {
        let entries = self.0.lock();
        let entry = entries.iter().find(|entry| entry.serial() == disk && entry.is_to_go());
        let known = entry.map(Entry::replicas).unwrap_or_default();
        let open = known.iter().filter(|known| known.state().is_open());
        let superblocks = open.filter_map(Known::superblock);
        superblocks.map(|superblock| (superblock.volume, superblock.replica)).collect()
    }

    /// Whether a disk that is to be let go of can be read still.
    #[must_use]
    pub fn can_be_read(&self, disk: u64) -> bool {
        self.0.lock().iter().any(|entry| entry.serial() == disk && !entry.is_failing())
    }

    /// Whoever was to let go of a disk has done so, or has failed: then the next look asks again.
    pub fn let_go_ended(&self, disk: u64) {
        let mut entries = self.0.lock();
        if let Some(entry) = entries.numbered(disk) {
            entry.failed_looks_mut().is_let_go_of = false;
        }
    }

    /// The engine has closed these replicas of a disk that fails or is read-only. If no other one
    /// is open, the disk is let go of. It, or each of them, is opened again as soon as that
    /// succeeds.
    pub fn let_go(&self, disk: u64, closed: &[ReplicaId]) {
        let mut entries = self.0.lock();
        let entry = entries.iter_mut().find(|entry| entry.serial() == disk && entry.is_to_go());
        // It was removed meanwhile, or its file system is well again.
        let Some(entry) = entry else { return };
        entry.note_closed(closed);
        let hold = entry.let_go_of_failing();
        self.0.wake();
        drop(entries);
        // To close what is on a disk that fails may take long.
        drop(hold);
    }
}

impl Entry {
    /// Whether it is a directory that is open on a file system that fails.
    pub(super) fn is_failing(&self) -> bool {
        self.failed_looks().count >= LOOKS && self.is_open_directory()
    }

    /// The same, or one that can't be written to.
    fn is_to_go(&self) -> bool {
        // One that is being opened is so soon, or waits: the next look tells.
        let is_opened = |known: &Known| known.state().is_opening();
        self.is_failing() || (self.is_read_only() && !self.replicas().iter().any(is_opened))
    }

    /// Whether it is a directory that is open on a file system that can't be written to.
    pub(super) fn is_read_only(&self) -> bool {
        self.failed_looks().is_read_only && self.is_open_directory()
    }

    /// The same, whatever is under way on it.
    pub(super) fn was_seen_read_only(&self) -> bool {
        self.failed_looks().is_read_only && self.state().is_directory()
    }

    fn is_open_directory(&self) -> bool {
        // A file that is being made or deleted is open, too. That ends by itself.
        let is_busy = |known: &Known| known.state().is_busy();
        self.state().is_directory() && !self.replicas().iter().any(is_busy)
    }

    /// Whether it fails or is read-only, and nobody lets go of it yet. Who hears that has to, and
    /// to tell the end of it.
    pub(super) fn begin_let_go(&mut self) -> bool {
        let begins = self.is_to_go() && !self.failed_looks().is_let_go_of;
        self.failed_looks_mut().is_let_go_of |= begins;
        begins
    }

    fn trouble(&self) -> Trouble {
        match self.is_failing() {
            true => Trouble::Failing(ADVICE.to_owned()),
            false => Trouble::ReadOnly,
        }
    }

    fn note_closed(&mut self, closed: &[ReplicaId]) {
        let (trouble, retry) = (self.trouble(), Retry::first(Instant::now()));
        // Of files that a disk away cannot show nobody knows that they are gone.
        let is_there = matches!(self.state(), EntryState::Serving(_));
        let is_closed = |known: &&mut Known| {
            let is_it = known.replica().is_some_and(|replica| closed.contains(&replica));
            known.state().is_open() && is_it
        };
        for known in self.replicas_mut().iter_mut().filter(is_closed) {
            known.closed_with_disk(trouble.clone(), retry, is_there);
            tracing::error!(path = %known.path().display(), "a replica is closed: {}", trouble.with_retry());
        }
    }

    fn let_go_of_failing(&mut self) -> Option<Hold> {
        let is_used = self.replicas().iter().any(|known| known.state().is_open());
        if is_used || !self.is_to_go() {
            return None;
        }
        let trouble = self.trouble();
        tracing::error!(disk = self.name(), "a disk is let go of: {}", trouble.why());
        *self.failed_looks_mut() = FailedLooks::default();
        self.mount_is_over();
        self.close(trouble, Retry::first(Instant::now()))
    }
}

#[cfg(test)]
mod tests;
