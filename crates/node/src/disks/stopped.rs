//! Replicas of stopped volumes: closed, and not opened again until their volume is assembled.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use evenkeel_core::{ReplicaId, VolumeId};
use evenkeel_format::Superblock;

use super::again::{Probe, Target};
use super::states::{EntryState, KnownState, Retry, Trouble};
use super::{Disks, Entry, Known, OpenReplica};
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

/// The volumes whose replicas are kept closed, as the state directory remembers them.
#[derive(Debug)]
pub(super) struct Stopped {
    state: Arc<StateDirectory>,
    volumes: Mutex<BTreeSet<VolumeId>>,
    /// Held while they are changed, so that what is newer is saved later. Only by threads that may
    /// block.
    saving: Mutex<()>,
}

impl Stopped {
    /// Those that were stopped when the last daemon ended.
    ///
    /// # Errors
    /// If the state directory cannot be read.
    pub(super) fn load(state: Arc<StateDirectory>) -> Result<Self, StateError> {
        let texts: Vec<String> = state.load(FILE)?.unwrap_or_default();
        let volumes = texts.iter().filter_map(|text| text.parse().ok()).collect();
        Ok(Self { state, volumes: Mutex::new(volumes), saving: Mutex::default() })
    }

    fn holds(&self, volume: VolumeId) -> bool {
        self.volumes().contains(&volume)
    }

    /// Changes which volumes are stopped, and remembers it, if `change` says that it has changed
    /// anything. Returns whether it has.
    fn change(
        &self,
        change: impl FnOnce(&mut BTreeSet<VolumeId>) -> bool,
    ) -> Result<bool, StateError> {
        let _alone = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let mut volumes = self.volumes().clone();
        if !change(&mut volumes) {
            return Ok(false);
        }
        let texts: Vec<String> = volumes.iter().map(ToString::to_string).collect();
        self.state.save(FILE, &texts)?;
        *self.volumes() = volumes;
        Ok(true)
    }

    fn volumes(&self) -> MutexGuard<'_, BTreeSet<VolumeId>> {
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disks {
    /// Of replicas that were just opened, closes those of stopped volumes.
    pub(super) fn keep_closed(&self, opened: &mut Vec<OpenReplica>) {
        let is_wanted = |replica: &mut OpenReplica| {
            let superblock = &replica.newest.superblock;
            let is_stopped = self.is_stopped(superblock.volume);
            if is_stopped {
                self.close_replica(superblock.replica);
            }
            !is_stopped
        };
        opened.retain_mut(is_wanted);
    }

    /// Whether this node keeps the replicas of a volume closed.
    #[must_use]
    pub fn is_stopped(&self, volume: VolumeId) -> bool {
        self.stopped.holds(volume)
    }

    /// Whether a replica was closed because its volume is stopped.
    #[must_use]
    pub fn is_closed(&self, replica: ReplicaId) -> bool {
        self.state_of(replica).is_some_and(|state| state.is_stopped())
    }

    /// Remembers that the replicas of a volume are kept closed from now on, also after a restart.
    /// Those that are open are closed by [`Disks::close_replica`].
    ///
    /// # Errors
    /// If that cannot be remembered; no replica is to be closed then.
    pub fn stop(&self, volume: VolumeId) -> Result<(), StateError> {
        self.stopped.change(|stopped| stopped.insert(volume)).map(drop)
    }

    /// Closes a replica of a stopped volume, which the engine has closed before. If the volume was
    /// assembled meanwhile it is opened again by itself.
    pub fn close_replica(&self, replica: ReplicaId) {
        let mut entries = self.lock();
        let found = entries.holder_mut(replica);
        // It was deleted meanwhile, or its disk was removed.
        let Some((entry, position)) = found else { return };
        let known = &mut entry.replicas_mut()[position];
        if known.state().is_busy() {
            return;
        }
        let is_stopped = known.volume().is_some_and(|volume| self.is_stopped(volume));
        let (trouble, retry) = (Trouble::just_assembled(), Retry::at_once(Instant::now()));
        match is_stopped {
            true => known.stop(),
            false => known.wait(trouble.clone(), retry),
        }
        // The device itself is closed. If it is not here that is so already.
        let is_device = entry.state().is_device();
        if is_device && entry.state().missing().is_some() {
            // Its power was cut, whatever the kernel shows.
            entry.mount_is_over();
        }
        let closed = match (is_device, is_stopped) {
            (false, _) => None,
            (true, true) => entry.stop(),
            (true, false) => entry.close(trouble, retry),
        };
        if !is_stopped {
            self.listed.wake();
        }
        drop(entries);
        // To close a device may take long.
        drop(closed);
        self.remember_mounts();
    }

    /// A volume of which no replica is here any more need not be remembered. If that cannot be
    /// saved it is remembered for nothing.
    pub(super) fn forget_stopped(&self, volume: VolumeId) {
        let is_of_it = |known: &Known| known.volume() == Some(volume);
        if self.lock().iter().any(|entry| entry.replicas().iter().any(is_of_it)) {
            return;
        }
        if let Err(error) = self.stopped.change(|stopped| stopped.remove(&volume)) {
            tracing::warn!(%volume, %error, "a stopped volume of which nothing is here stays remembered");
        }
    }

    /// Does not keep the replicas of a volume closed any more. Returns what is to be opened by
    /// [`Disks::open_again`]; what cannot be is tried again by itself. Of a volume that is not
    /// stopped there is nothing to do.
    ///
    /// # Errors
    /// If that cannot be remembered; they stay closed then.
    pub fn reopen(&self, volume: VolumeId) -> Result<Vec<Probe>, StateError> {
        if !self.stopped.change(|stopped| stopped.remove(&volume))? {
            return Ok(Vec::new());
        }
        let mut probes = Vec::new();
        for entry in self.lock().iter_mut() {
            for position in 0..entry.replicas().len() {
                let known = &entry.replicas()[position];
                if known.volume() == Some(volume) && known.state().is_stopped() {
                    probes.extend(entry.reopen(position));
                }
            }
        }
        self.listed.wake();
        Ok(probes)
    }

    /// The file or device of a replica of this node, and where its data begin there, in bytes.
    #[must_use]
    pub fn place_of(&self, replica: ReplicaId) -> Option<(PathBuf, u64)> {
        let entries = self.lock();
        let (_, known) = entries.holder(replica)?;
        Some((known.path().to_owned(), known.superblock()?.data_offset))
    }

    /// Where all replicas of this node lie, but for those being made; also such as cannot be
    /// served.
    #[must_use]
    pub fn places(&self) -> Vec<ReplicaPlace> {
        self.places_of(|_| true)
    }

    /// The same of replicas whose superblock was so when it was read, and of those that have none
    /// that could be read.
    #[must_use]
    pub fn places_of(&self, is_wanted: impl Fn(&Superblock) -> bool) -> Vec<ReplicaPlace> {
        let entries = self.lock();
        let is_sought = |known: &Known| {
            *known.state() != KnownState::Making && known.superblock().is_none_or(&is_wanted)
        };
        let mut places = Vec::new();
        for entry in entries.iter() {
            for known in entry.replicas().iter().filter(|known| is_sought(known)) {
                let (disk, path) = (entry.name().to_owned(), known.path().to_owned());
                places.push(ReplicaPlace { disk, path });
            }
        }
        places
    }
}

impl Entry {
    /// Begins to open a replica of a volume that was stopped. `None`: it is opened with its disk,
    /// or later.
    fn reopen(&mut self, position: usize) -> Option<Probe> {
        let now = Instant::now();
        let retry = Retry::at_once(now);
        let (trouble, probe) = match self.state() {
            // The device is open with its replica only.
            EntryState::Stopped => {
                self.begin_opening_stopped(now);
                let target = Target::Disk(self.record().clone());
                let probe = Probe { serial: self.serial(), target };
                (Trouble::just_assembled(), Some(probe))
            }
            EntryState::Waiting(trouble, _)
            | EntryState::Opening(trouble, _)
            | EntryState::Missing(_, trouble) => (trouble.clone(), None),
            EntryState::Serving(_) => {
                self.replicas_mut()[position].wait(Trouble::just_assembled(), retry);
                return self.begin_replica(position);
            }
        };
        self.replicas_mut()[position].wait(trouble, retry);
        probe
    }
}
