//! Replicas of stopped volumes: closed, and not opened again until their volume is assembled.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

use evenkeel_core::{ReplicaId, VolumeId};
use evenkeel_format::Superblock;

use super::states::{EntryState, KnownState, Retry};
use super::{Disks, Known, OpenReplica, device, directory};
use crate::api::types::DiskKind;
use crate::api::{ApiError, ErrorCode};
use crate::state::{StateDirectory, StateError};

const FILE: &str = "stopped.json";

/// Where a replica lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaPlace {
    /// The disk's name.
    pub disk: String,
    /// The file or device.
    pub path: PathBuf,
}

/// The volumes that were stopped when the last daemon ended.
pub(super) fn load(state: &StateDirectory) -> Result<Vec<VolumeId>, StateError> {
    let texts: Vec<String> = state.load(FILE)?.unwrap_or_default();
    Ok(texts.iter().filter_map(|text| text.parse().ok()).collect())
}

impl Disks {
    fn stopped(&self) -> MutexGuard<'_, BTreeSet<VolumeId>> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, stopped: &BTreeSet<VolumeId>) -> Result<(), StateError> {
        let texts: Vec<String> = stopped.iter().map(ToString::to_string).collect();
        self.state.save(FILE, &texts)
    }

    /// Of replicas that were just opened, closes those of stopped volumes.
    pub(super) fn keep_closed(&self, opened: &mut Vec<OpenReplica>) -> Result<(), ApiError> {
        let volumes: BTreeSet<VolumeId> = opened
            .iter()
            .map(|replica| replica.newest.superblock.volume)
            .filter(|volume| self.is_stopped(*volume))
            .collect();
        opened.retain(|replica| !volumes.contains(&replica.newest.superblock.volume));
        for volume in volumes {
            self.close(volume).map_err(|e| {
                let what = "the replica of a stopped volume cannot be kept closed";
                let advice = "Repair the state directory's file system";
                ApiError::new(ErrorCode::System, what, e.to_string(), advice)
            })?;
        }
        Ok(())
    }

    /// Whether this node keeps the replicas of a volume closed.
    #[must_use]
    pub fn is_stopped(&self, volume: VolumeId) -> bool {
        self.stopped().contains(&volume)
    }

    /// Keeps the replicas of a volume closed from now on, also after a restart. The engine has
    /// closed them before.
    ///
    /// # Errors
    /// If that cannot be remembered; they are closed all the same.
    pub fn close(&self, volume: VolumeId) -> Result<(), StateError> {
        for entry in self.lock().iter_mut() {
            let is_device = entry.record.kind == DiskKind::Device;
            let of_it = |known: &&mut super::Known| {
                known.superblock.as_ref().is_some_and(|s| s.volume == volume)
            };
            for known in entry.replicas.iter_mut().filter(of_it) {
                known.state = KnownState::Stopped;
                // The device itself is closed. If it is not here that is so already.
                if is_device && entry.state.hold().is_some() {
                    entry.state = EntryState::Stopped;
                }
            }
        }
        let mut stopped = self.stopped();
        stopped.insert(volume);
        self.remember(&stopped)
    }

    /// Opens the replicas of a stopped volume again. Of one that is not stopped there is nothing to
    /// do.
    ///
    /// # Errors
    /// If that cannot be remembered; they stay closed then.
    pub fn reopen(&self, volume: VolumeId) -> Result<Vec<OpenReplica>, StateError> {
        let mut stopped = self.stopped();
        if !stopped.contains(&volume) {
            return Ok(Vec::new());
        }
        let rest: BTreeSet<VolumeId> = stopped.iter().copied().filter(|v| *v != volume).collect();
        self.remember(&rest)?;
        *stopped = rest;
        drop(stopped);
        let mut opened = Vec::new();
        for entry in self.lock().iter_mut() {
            for position in 0..entry.replicas.len() {
                let known = &entry.replicas[position];
                if known.superblock.as_ref().is_none_or(|s| s.volume != volume) {
                    continue;
                }
                match entry.record.kind {
                    DiskKind::Directory => {
                        let path = known.path.clone();
                        let again = directory::open_replica(&path, entry.block_size, &mut opened);
                        entry.replicas[position] = again;
                    }
                    DiskKind::Device => reopen_device(entry, &mut opened),
                }
            }
        }
        self.changed.notify_one();
        Ok(opened)
    }

    /// The file or device of a replica of this node, and where its data begin there, in bytes.
    #[must_use]
    pub fn place_of(&self, replica: ReplicaId) -> Option<(PathBuf, u64)> {
        let entries = self.lock();
        let known = entries.iter().find_map(|e| e.position(replica).map(|p| &e.replicas[p]))?;
        Some((known.path.clone(), known.superblock.as_ref()?.data_offset))
    }

    /// Where all replicas of this node lie, but for those being made; also such as cannot be
    /// served.
    #[must_use]
    pub fn places(&self) -> Vec<ReplicaPlace> {
        self.places_of(|_| true)
    }

    /// The same of replicas whose superblock was so when it was read, and of those that have none that
    /// could be read.
    #[must_use]
    pub fn places_of(&self, is_wanted: impl Fn(&Superblock) -> bool) -> Vec<ReplicaPlace> {
        let entries = self.lock();
        let is_sought = |known: &Known| {
            known.state != KnownState::Making && known.superblock.as_ref().is_none_or(&is_wanted)
        };
        let mut places = Vec::new();
        for entry in entries.iter() {
            for known in entry.replicas.iter().filter(|known| is_sought(known)) {
                let (disk, path) = (entry.record.name.clone(), known.path.clone());
                places.push(ReplicaPlace { disk, path });
            }
        }
        places
    }
}

fn reopen_device(entry: &mut super::Entry, opened: &mut Vec<OpenReplica>) {
    // The hold is given up before it is taken anew.
    entry.state = EntryState::Stopped;
    match device::open(&entry.record.path, opened) {
        Ok((hold, block_size, replicas)) => {
            (entry.state, entry.block_size) = (EntryState::Serving(hold), block_size);
            entry.replicas = replicas;
        }
        Err(trouble) => {
            let retry = Retry::first(Instant::now());
            for known in &mut entry.replicas {
                known.state = KnownState::Waiting(trouble.clone(), retry);
            }
            entry.state = EntryState::Waiting(trouble, retry);
        }
    }
}
