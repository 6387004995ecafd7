//! Which file each replica in a directory was last, remembered over restarts of the daemon.
//!
//! A copy of a replica's file, put in its place while the daemon is stopped, lists the same
//! incarnations if it was made since the replica's process last started: from its content it cannot
//! be told. But a copy is another file, and a file system says when a file was made. So that time
//! is remembered. If the file at the path was made at another one, it counts as a stale clone:
//! [`disown`] has its superblocks list an incarnation that no view names.
//!
//! Nothing is concluded where the directory itself may be a copy, as after a move to another file
//! system: then its marker file was made at another time, too. Nor is anything where the file
//! system does not say when.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use evenkeel_core::{Incarnations, ReplicaId};
use serde::{Deserialize, Serialize};

use super::directory::MARKER;
use super::{OpenReplica, replica_file};
use crate::random::random_incarnation;
use crate::state::{StateDirectory, StateError};

const FILE: &str = "files.json";

/// When a replica's file and its directory's marker file were made, since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Origin {
    file: Duration,
    marker: Duration,
}

impl Origin {
    /// `None`: the file system does not say.
    fn of(file: &Metadata, path: &Path) -> Option<Self> {
        let made = |found: &Metadata| -> Option<Duration> {
            found.created().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()
        };
        let marker = made(&fs::metadata(path.parent()?.join(MARKER)).ok()?)?;
        Some(Self { file: made(file)?, marker })
    }

    fn of_open(replica: &OpenReplica) -> Option<Self> {
        Self::of(&replica.file.metadata().ok()?, &replica.path)
    }

    /// Whether who was that is this one no more, though it lies in the same directory.
    fn is_copied_to(self, now: Self) -> bool {
        self.marker == now.marker && self.file != now.file
    }
}

/// The origin of each replica that was open in a directory.
#[derive(Debug, Default)]
pub(super) struct Origins(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    of: BTreeMap<ReplicaId, Origin>,
    /// The state directory has older ones.
    is_changed: bool,
    /// The last save has failed.
    is_failing: bool,
}

impl Origins {
    pub(super) fn load(state: &StateDirectory) -> Result<Self, StateError> {
        let texts: BTreeMap<String, Origin> = state.load(FILE)?.unwrap_or_default();
        let of = texts.into_iter().filter_map(|(id, origin)| Some((id.parse().ok()?, origin)));
        Ok(Self(Mutex::new(Remembered { of: of.collect(), ..Remembered::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a replica's file that was opened. If it is a copy, it is made one that counts
    /// for no view.
    ///
    /// # Errors
    /// If that cannot be written: then the replica is not to be served.
    pub(super) fn check(&self, replica: &mut OpenReplica) -> io::Result<()> {
        let Some(now) = Origin::of_open(replica) else { return Ok(()) };
        let id = replica.newest.superblock.replica;
        let before = self.lock().of.get(&id).copied();
        if before == Some(now) {
            return Ok(());
        }
        if before.is_some_and(|before| before.is_copied_to(now)) {
            let path = replica.path.display();
            tracing::error!(%path, "another file than the one that was in use is at this path: a copy. It counts as a stale clone of the replica: it is copied anew from the volume's other replicas, or taken as it is by `evenkeel volume assemble --force`");
            disown(replica)?;
        }
        self.insert(id, now);
        Ok(())
    }

    /// The file of a replica was made.
    pub(super) fn note(&self, made: &OpenReplica) {
        if let Some(now) = Origin::of_open(made) {
            self.insert(made.newest.superblock.replica, now);
        }
    }

    /// Whether what lies at a replica's path is known to be the file that the replica was last, or
    /// known to be another one. `None`: neither is.
    pub(super) fn judge(&self, replica: ReplicaId, found: &Metadata, path: &Path) -> Option<bool> {
        let now = Origin::of(found, path)?;
        let before = *self.lock().of.get(&replica)?;
        (before.marker == now.marker).then_some(!before.is_copied_to(now))
    }

    fn insert(&self, replica: ReplicaId, now: Origin) {
        let mut remembered = self.lock();
        remembered.of.insert(replica, now);
        remembered.is_changed = true;
    }

    /// A replica was deleted.
    pub(super) fn forget(&self, replica: ReplicaId) {
        let mut remembered = self.lock();
        remembered.is_changed |= remembered.of.remove(&replica).is_some();
    }

    /// Saves what has changed since the last time; what cannot be saved is logged once, and tried
    /// the next time. It blocks on the state directory.
    pub(super) fn save(&self, state: &StateDirectory) {
        // Nothing has changed.
        let Some(of) = self.take_changed() else { return };
        let texts: BTreeMap<String, Origin> =
            of.into_iter().map(|(id, origin)| (id.to_string(), origin)).collect();
        let saved = state.save(FILE, &texts);
        let mut remembered = self.lock();
        remembered.is_changed |= saved.is_err();
        let had_failed = std::mem::replace(&mut remembered.is_failing, saved.is_err());
        if let (Err(error), false) = (saved, had_failed) {
            tracing::warn!(%error, "cannot remember which files the replicas are: a copy in the place of one may not be noticed");
        }
    }

    fn take_changed(&self) -> Option<BTreeMap<ReplicaId, Origin>> {
        let mut remembered = self.lock();
        std::mem::take(&mut remembered.is_changed).then(|| remembered.of.clone())
    }
}

/// Has a replica list one incarnation that no view names, durably: then it is a stale clone to all.
fn disown(replica: &mut OpenReplica) -> io::Result<()> {
    let mut superblock = replica.newest.superblock.clone();
    superblock.incarnations = Incarnations::of([random_incarnation()]);
    superblock.sequence += 1;
    replica_file::write_superblocks(&replica.file, &superblock, replica.newest.write_first)?;
    replica.newest = replica_file::both(&superblock);
    Ok(())
}

#[cfg(test)]
mod tests;
