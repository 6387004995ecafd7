//! One disk of this node, and what is known of each replica on it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use evenkeel_api::types::{Disk, DiskKind, DiskReplica, DiskState, NodeRef};
use evenkeel_core::ReplicaId;
use evenkeel_format::Superblock;
use serde::{Deserialize, Serialize};

use super::errors::{LastError, Lines};
use super::failing::FailedLooks;
use super::mark::DeviceIdentity;
use super::presence::{Identity, LastLook};
use super::space::Sampler;
use super::states::{EntryState, KnownState, Retry, Trouble};

/// A disk as the state directory remembers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) kind: DiskKind,
    /// What its marker file says, of a directory, so that no other one is taken for it. `None`: it
    /// was added by software that made none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) marker: Option<String>,
    /// Which one it is, of a block device. `None`: it was added by software that did not mark it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) device: Option<DeviceIdentity>,
}

/// What is known of a replica on a disk, whether it could be opened or not.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) path: PathBuf,
    pub(super) superblock: Option<Superblock>,
    pub(super) state: KnownState,
    /// When it is tried again should the engine not be able to read it, if it was so already.
    pub(super) next_try: Option<Retry>,
    /// Bytes that its file is to have, while it is made longer; else zero.
    pub(super) reserved: u64,
    /// Which file is open, if one is and the system has told.
    pub(super) identity: Option<Identity>,
    /// That file has other names.
    pub(super) has_other_names: bool,
    /// Its file was closed with its disk when it was not at its path any more: nothing is left of
    /// it. Why.
    pub(super) lost_file: Option<String>,
    pub(super) last_error: Option<LastError>,
    /// What its volume is called now, as the coordinator has told it.
    pub(super) called: Option<String>,
}

/// A disk of this node.
#[derive(Debug)]
pub(super) struct Entry {
    /// Which one it is; no other entry has ever had it.
    pub(super) serial: u64,
    pub(super) record: Record,
    pub(super) state: EntryState,
    pub(super) block_size: u32,
    pub(super) replicas: Vec<Known>,
    /// It is being added, and not remembered yet.
    pub(super) is_new: bool,
    pub(super) sampler: Arc<Sampler>,
    pub(super) last_look: LastLook,
    pub(super) failed_looks: FailedLooks,
    pub(super) lines: Lines,
    /// A random number, drawn whenever the disk is let go of because its file system fails; before
    /// that 0.
    pub(super) mount: u64,
}

impl Entry {
    /// A disk that is about to be opened.
    pub(super) fn opening(record: Record, trouble: Trouble) -> Self {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let state = EntryState::Opening(trouble, Retry::at_once(Instant::now()));
        Self {
            serial,
            record,
            state,
            block_size: 4096,
            replicas: Vec::new(),
            is_new: false,
            sampler: Arc::default(),
            last_look: LastLook::default(),
            failed_looks: FailedLooks::default(),
            lines: Lines::default(),
            mount: 0,
        }
    }

    /// Which of its replicas it is.
    pub(super) fn position(&self, replica: ReplicaId) -> Option<usize> {
        let is = |known: &Known| known.superblock.as_ref().is_some_and(|s| s.replica == replica);
        self.replicas.iter().position(is)
    }

    /// For people, but for its space. `node`: this one.
    pub(super) fn describe(&self, node: &NodeRef) -> Disk {
        let (state, problem) = match (self.state.described(), self.hangs()) {
            ((DiskState::Serving, _), Some(why)) => (DiskState::Failing, Some(why)),
            (described, _) => described,
        };
        Disk {
            name: self.record.name.clone(),
            node: node.clone(),
            path: self.record.path.display().to_string(),
            kind: self.record.kind,
            size: 0,
            free: 0,
            available: None,
            block_size: self.block_size,
            replicas: self.replicas.iter().map(Known::describe).collect(),
            state,
            problem,
        }
    }
}

impl Known {
    /// One whose file is at this path, of which nothing else is known yet.
    pub(super) fn new(path: &Path, superblock: Option<Superblock>, state: KnownState) -> Self {
        Self {
            path: path.to_owned(),
            superblock,
            state,
            next_try: None,
            reserved: 0,
            identity: None,
            has_other_names: false,
            lost_file: None,
            last_error: None,
            called: None,
        }
    }

    /// The name of its volume as far as the coordinator has told, else that which the volume had
    /// when the replica was made; `?` if that can't be read.
    pub(super) fn volume_name(&self) -> &str {
        let made_as = || self.superblock.as_ref().map_or("?", |superblock| &superblock.name);
        self.called.as_deref().unwrap_or_else(made_as)
    }

    /// For people, but for its space.
    pub(super) fn describe(&self) -> DiskReplica {
        let superblock = self.superblock.as_ref();
        DiskReplica {
            id: superblock.map(|s| s.replica.to_string()),
            volume_id: superblock.map(|s| s.volume.to_string()),
            volume: superblock.map(|_| self.volume_name().to_owned()),
            mirror: superblock.map(|s| s.mirror as usize),
            size: superblock.map(|s| s.data_length),
            unallocated: None,
            path: self.path.display().to_string(),
            problem: self.state.problem(),
            file_gone: matches!(self.state, KnownState::FileGone(_)),
            warning: self.warning(),
        }
    }
}
