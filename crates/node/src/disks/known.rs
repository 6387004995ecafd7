//! What is known of a replica on a disk, whether it could be opened or not.

use std::path::{Path, PathBuf};
use std::time::Instant;

use evenkeel_api::types::DiskReplica;
use evenkeel_core::{ReplicaId, VolumeId};
use evenkeel_format::Superblock;

use super::errors::LastError;
use super::presence::Identity;
use super::states::{FileNews, KnownState, Retry, Trouble};

/// See the module's documentation.
#[derive(Debug, Clone)]
pub(super) struct Known {
    path: PathBuf,
    superblock: Option<Superblock>,
    state: KnownState,
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

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// As it was read last. `None`: it could not be.
    pub(super) const fn superblock(&self) -> Option<&Superblock> {
        self.superblock.as_ref()
    }

    /// Which one it is, if its superblock could be read.
    pub(super) fn replica(&self) -> Option<ReplicaId> {
        self.superblock.as_ref().map(|superblock| superblock.replica)
    }

    /// Whose it is, if its superblock could be read.
    pub(super) fn volume(&self) -> Option<VolumeId> {
        self.superblock.as_ref().map(|superblock| superblock.volume)
    }

    pub(super) const fn state(&self) -> &KnownState {
        &self.state
    }

    /// It was made, and is this file or device.
    pub(super) fn made(&mut self, path: &Path, identity: Option<Identity>) {
        path.clone_into(&mut self.path);
        (self.state, self.identity) = (KnownState::Served, identity);
    }

    /// It waits to be opened again.
    pub(super) fn wait(&mut self, trouble: Trouble, retry: Retry) {
        self.state = KnownState::Waiting(trouble, retry);
    }

    /// The same, later than last time.
    pub(super) fn wait_again(&mut self, trouble: Trouble, now: Instant) {
        self.state.wait_again(trouble, now);
    }

    /// It is being opened again, by itself.
    pub(super) fn begin_opening(&mut self, now: Instant) {
        self.state.begin_opening(now);
    }

    /// It was opened again, or could not be: this is known of it now. Whose it is is not forgotten
    /// if that can't be read just now.
    pub(super) fn opened_again(&mut self, now_known: Self) {
        let superblock = now_known.superblock.or_else(|| self.superblock.take());
        *self = Self { superblock, ..now_known };
    }

    /// It is closed, as its volume is stopped.
    pub(super) fn stop(&mut self) {
        self.state = KnownState::Stopped(None);
    }

    /// It is being deleted. Returns what it was before.
    pub(super) const fn begin_deletion(&mut self) -> KnownState {
        std::mem::replace(&mut self.state, KnownState::Deleting)
    }

    /// It was not deleted, and is what it was before.
    pub(super) fn not_deleted(&mut self, before: KnownState) {
        self.state = before;
    }

    /// The engine does not have it yet.
    pub(super) fn note_slow(&mut self) {
        self.state = KnownState::Slow;
    }

    /// It can't be served as it is.
    pub(super) fn refuse(&mut self, why: &str) {
        self.state = KnownState::Refused(why.to_owned());
    }

    /// Why its file is gone, or that it is there. Returns what is news of that.
    pub(super) fn note_file(&mut self, gone: Option<String>) -> Option<FileNews> {
        self.state.note_file(gone)
    }

    #[cfg(test)]
    pub(super) fn set_state(&mut self, state: KnownState) -> KnownState {
        std::mem::replace(&mut self.state, state)
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

    /// Its file is closed with its disk, and waits for it. If `is_there` (its disk is at its path)
    /// and the file is not, nothing is left of it.
    pub(super) fn closed_with_disk(&mut self, trouble: Trouble, retry: Retry, is_there: bool) {
        let before = std::mem::replace(&mut self.state, KnownState::Waiting(trouble, retry));
        (self.identity, self.lost_file) = (None, before.into_gone_file().filter(|_| is_there));
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
            file_gone: self.state.gone_file().is_some(),
            warning: self.warning(),
        }
    }
}
