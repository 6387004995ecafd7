//! What is wrong with a replica that is served: it can be read, and sessions with it go on. No
//! operation of an idle one fails, so nobody learns of it from a session.

use evenkeel_core::ReplicaId;

use super::Disks;
use super::states::READ_ONLY;

/// What is wrong with a replica that is served, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Risk {
    /// It is gone when its node's daemon ends.
    FileGone(String),
    /// Its disk can't be written to: it can be read, and leaves its mirror with the next write.
    ReadOnly(String),
    /// Both.
    FileGoneReadOnly(String),
}

impl Risk {
    /// The sentence.
    #[must_use]
    pub fn why(&self) -> &str {
        let (Self::FileGone(why) | Self::ReadOnly(why) | Self::FileGoneReadOnly(why)) = self;
        why
    }

    /// Whether its disk can't be written to.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        matches!(self, Self::ReadOnly(_) | Self::FileGoneReadOnly(_))
    }
}

impl Disks {
    /// What is wrong with a replica that this node serves. `None`: nothing, or it is not served.
    #[must_use]
    pub fn risk(&self, replica: ReplicaId) -> Option<Risk> {
        let gone = self.looks.file_gone(replica);
        let entries = self.lock();
        let (entry, known) = entries.holder(replica)?;
        let is_read_only = known.state().is_served() && entry.was_seen_read_only();
        match (gone, is_read_only) {
            (Some(why), false) => Some(Risk::FileGone(why)),
            // What nothing brings back is said first.
            (Some(why), true) => Some(Risk::FileGoneReadOnly(format!("{why}; and {READ_ONLY}"))),
            (None, true) => {
                let (disk, node) = (entry.name(), &self.listed.node().name);
                Some(Risk::ReadOnly(format!("disk {disk} of node {node}: {READ_ONLY}")))
            }
            (None, false) => None,
        }
    }
}
