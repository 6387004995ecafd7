//! One disk of this node, and what is known of each replica on it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use evenkeel_api::types::{Disk, DiskKind, DiskReplica, DiskState, NodeRef};
use evenkeel_core::ReplicaId;
use evenkeel_engine::counters::Kind;
use evenkeel_format::Superblock;
use serde::{Deserialize, Serialize};

use super::errors::{LastError, LeftOut, Lines};
use super::failing::FailedLooks;
use super::mark::DeviceIdentity;
use super::mounted::Mount;
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
    /// Which time of being in the machine, or of being mounted, it is in.
    #[serde(default)]
    pub(super) mount: Mount,
}

/// What is known of a replica on a disk, whether it could be opened or not.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) path: PathBuf,
    pub(super) superblock: Option<Superblock>,
    pub(super) state: KnownState,
    /// When it is tried again should the engine not be able to read it, if it was so already.
    next_try: Option<Retry>,
    /// Bytes that its file is to have, while it is made longer; else zero.
    reserved: u64,
    /// Which file is open, if one is and the system has told.
    identity: Option<Identity>,
    has_other_names: bool,
    lost_file: Option<String>,
    last_error: Option<LastError>,
    /// What its volume is called now, as the coordinator has told it.
    called: Option<String>,
}

/// A disk of this node.
#[derive(Debug)]
pub(super) struct Entry {
    serial: u64,
    pub(super) record: Record,
    pub(super) state: EntryState,
    pub(super) block_size: u32,
    pub(super) replicas: Vec<Known>,
    is_new: bool,
    pub(super) sampler: Arc<Sampler>,
    pub(super) last_look: LastLook,
    pub(super) failed_looks: FailedLooks,
    lines: Lines,
    is_unsaved: bool,
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
            is_unsaved: false,
        }
    }

    /// Which one it is; no other entry has ever had it.
    pub(super) const fn serial(&self) -> u64 {
        self.serial
    }

    /// Whether it is being added, and not remembered yet.
    pub(super) const fn is_new(&self) -> bool {
        self.is_new
    }

    /// It is being added: [`Self::remember`] says when that is done.
    pub(super) const fn add(&mut self) {
        self.is_new = true;
    }

    /// It is added.
    pub(super) const fn remember(&mut self) {
        self.is_new = false;
    }

    /// The number of its [`Mount`].
    pub(super) const fn mount(&self) -> u64 {
        self.record.mount.number()
    }

    /// It is let go of because its file system fails, or closed because it was pulled out: what is
    /// opened later is of another mount. The state directory is to remember that.
    pub(super) fn mount_is_over(&mut self) {
        self.record.mount.end();
        self.is_unsaved = true;
    }

    /// Whether a mount was over of which the state directory does not know.
    pub(super) const fn is_unsaved(&self) -> bool {
        self.is_unsaved
    }

    /// The state directory has this record.
    pub(super) fn note_saved(&mut self, record: &Record) {
        self.is_unsaved &= self.record != *record;
    }

    /// An operation of one of its replicas has failed. Returns whether a line of the log is to tell
    /// it; `None`: enough others do.
    pub(super) fn line(&mut self, kind: Kind, now: Instant) -> Option<LeftOut> {
        self.lines.line(kind, now)
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

    /// The engine has it.
    pub(super) fn note_served(&mut self) {
        (self.state, self.next_try) = (KnownState::Served, None);
    }

    /// The engine could not read it, and its file is closed: it is tried again.
    pub(super) fn note_trouble(&mut self, trouble: Trouble, now: Instant) {
        let retry = self.next_try.unwrap_or_else(|| Retry::first(now));
        self.state = KnownState::Waiting(trouble, retry);
    }

    /// If it can't be read now either, it is tried again then.
    pub(super) const fn try_again(&mut self, next: Retry) {
        if let KnownState::Waiting(_, at) = &mut self.state {
            *at = next;
        }
        self.next_try = Some(next);
    }

    /// An operation of it has failed.
    pub(super) fn note_error(&mut self, why: &str) {
        self.last_error = Some(LastError::now(why));
    }

    /// The last operation of it that has failed.
    pub(super) const fn last_error(&self) -> Option<&LastError> {
        self.last_error.as_ref()
    }

    /// Bytes that its file is to have, while it is made longer; else zero.
    pub(super) const fn reserved(&self) -> u64 {
        self.reserved
    }

    /// It is to take so many bytes; zero: no more than it takes.
    pub(super) const fn reserve(&mut self, bytes: u64) {
        self.reserved = bytes;
    }

    /// It has so many bytes of data now.
    pub(super) fn note_length(&mut self, length: u64) {
        if let Some(superblock) = &mut self.superblock {
            superblock.data_length = superblock.data_length.max(length);
            self.reserved = 0;
        }
    }

    /// Which file is open, if one is and the system has told.
    pub(super) const fn identity(&self) -> Option<Identity> {
        self.identity
    }

    /// This file is open.
    pub(super) const fn opened(&mut self, identity: Option<Identity>) {
        self.identity = identity;
    }

    /// Its file is closed. `lost`: why nothing is left of it.
    pub(super) fn closed(&mut self, lost: Option<String>) {
        (self.identity, self.lost_file) = (None, lost);
    }

    /// Its file was closed with its disk when it was not at its path any more: nothing is left of
    /// it. Why.
    pub(super) const fn lost_file(&self) -> Option<&String> {
        self.lost_file.as_ref()
    }

    /// Whether its file has other names.
    pub(super) const fn has_other_names(&self) -> bool {
        self.has_other_names
    }

    /// Its file has other names, or none. Returns whether it had some before.
    pub(super) const fn set_other_names(&mut self, has_others: bool) -> bool {
        std::mem::replace(&mut self.has_other_names, has_others)
    }

    /// The coordinator has told what its volume is called.
    pub(super) fn call(&mut self, name: &str) {
        self.called = Some(name.to_owned());
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
