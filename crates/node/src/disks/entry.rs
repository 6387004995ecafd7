//! One disk of this node, with the replicas on it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use evenkeel_api::types::{Disk, DiskKind, DiskState, NodeRef};
use evenkeel_core::ReplicaId;
use evenkeel_engine::counters::Kind;
use serde::{Deserialize, Serialize};

use super::errors::{LeftOut, Lines};
use super::failing::FailedLooks;
use super::known::Known;
use super::mark::DeviceIdentity;
use super::mounted::Mount;
use super::opening::Opened;
use super::presence::{Identity, LastLook};
use super::space::Sampler;
use super::states::{EntryState, Hold, Retry, Trouble};

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

/// A disk of this node.
#[derive(Debug)]
pub(super) struct Entry {
    serial: u64,
    record: Record,
    state: EntryState,
    block_size: u32,
    replicas: Vec<Known>,
    is_new: bool,
    sampler: Arc<Sampler>,
    last_look: LastLook,
    failed_looks: FailedLooks,
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

    /// As the state directory is to remember it.
    pub(super) const fn record(&self) -> &Record {
        &self.record
    }

    pub(super) fn name(&self) -> &str {
        &self.record.name
    }

    pub(super) fn path(&self) -> &Path {
        &self.record.path
    }

    pub(super) const fn kind(&self) -> DiskKind {
        self.record.kind
    }

    pub(super) const fn state(&self) -> &EntryState {
        &self.state
    }

    /// The smallest unit of direct I/O, in bytes.
    pub(super) const fn block_size(&self) -> u32 {
        self.block_size
    }

    pub(super) fn replicas(&self) -> &[Known] {
        &self.replicas
    }

    /// What is known of this replica, if it is on it.
    pub(super) fn known(&self, replica: ReplicaId) -> Option<&Known> {
        self.replicas.iter().find(|known| known.replica() == Some(replica))
    }

    /// All replicas, each of which is changed by its own functions.
    pub(super) fn replicas_mut(&mut self) -> &mut [Known] {
        &mut self.replicas
    }

    /// One more replica is made on it.
    pub(super) fn add_replica(&mut self, known: Known) {
        self.replicas.push(known);
    }

    /// A replica is not on it any more.
    pub(super) fn remove_replica(&mut self, position: usize) {
        self.replicas.remove(position);
    }

    /// Who asks it for its space.
    pub(super) const fn sampler(&self) -> &Arc<Sampler> {
        &self.sampler
    }

    /// The last look at it that was begun.
    pub(super) const fn last_look(&self) -> &LastLook {
        &self.last_look
    }

    /// This look at it is begun.
    pub(super) fn begin_look(&mut self, look: LastLook) {
        self.last_look = look;
    }

    /// What looks have found of its file system.
    pub(super) const fn failed_looks(&self) -> &FailedLooks {
        &self.failed_looks
    }

    pub(super) const fn failed_looks_mut(&mut self) -> &mut FailedLooks {
        &mut self.failed_looks
    }

    /// It was opened, and is this one.
    pub(super) fn opened(&mut self, record: Record, opened: Opened) {
        let Opened { hold, block_size, replicas } = opened;
        self.state.serve(hold);
        (self.record, self.block_size, self.replicas) = (record, block_size, replicas);
    }

    /// It could not be opened. `glimpsed`: the replicas that could be read on it all the same, if
    /// none are known.
    pub(super) fn not_opened(&mut self, trouble: &Trouble, retry: Retry, glimpsed: Vec<Known>) {
        if self.replicas.is_empty() {
            self.replicas = glimpsed;
        }
        for known in self.replicas.iter_mut().filter(|known| !known.state().is_stopped()) {
            known.wait(trouble.clone(), retry);
        }
        // It was not open.
        let _ = self.state.close(trouble.clone(), retry);
    }

    /// It begins to be opened again, if it waits for that and its time has come.
    pub(super) fn begin_opening(&mut self, now: Instant) -> bool {
        self.state.begin_opening(now)
    }

    /// The same of a device whose replica was of a stopped volume.
    pub(super) fn begin_opening_stopped(&mut self, now: Instant) {
        self.state.begin_opening_stopped(now);
    }

    /// A device was opened to be erased, and has no replica any more.
    pub(super) fn erased(&mut self, file: File) {
        self.state.serve(Hold::device(file));
    }

    /// It is closed, and tried again. Returns what was open of it.
    pub(super) fn close(&mut self, trouble: Trouble, retry: Retry) -> Option<Hold> {
        self.state.close(trouble, retry)
    }

    /// It is closed, as the volume of its replica is stopped. Returns what was open of it.
    pub(super) fn stop(&mut self) -> Option<Hold> {
        self.state.stop()
    }

    /// A device without a replica that is not at its path any more is let go, and opened anew by
    /// what it is known by.
    pub(super) fn let_go_if_empty(&mut self, now: Instant) -> Option<Hold> {
        let is_empty = self.state.is_device() && self.replicas.is_empty();
        if is_empty { self.state.close_missing(now) } else { None }
    }

    /// What is open of it is at its path, or is not: why. Returns whether it was there until now.
    pub(super) fn note_gone(&mut self, identity: Identity, why: Option<String>) -> bool {
        self.state.note_place(identity, why)
    }

    #[cfg(test)]
    pub(super) fn set_state(&mut self, state: EntryState) {
        self.state = state;
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
        self.is_to_be_saved();
    }

    /// The state directory is to have its record as it is now.
    pub(super) const fn is_to_be_saved(&mut self) {
        self.is_unsaved = true;
    }

    /// Whether the state directory does not know which disk it is, or that a mount was over.
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
        self.replicas.iter().position(|known| known.replica() == Some(replica))
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
