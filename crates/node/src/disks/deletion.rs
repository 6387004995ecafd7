//! Deleting a replica: its space is given back.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use evenkeel_api::types::DiskKind;
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::{ReplicaId, VolumeId};

use super::origins::Origins;
use super::presence::{Identity, is_nothing};
use super::states::{EntryState, Hold, KnownState};
use super::{Disks, Entry, device, directory, replica_file, system};

/// What is deleted, and how the replica was before.
struct Deletion {
    target: Target,
    before: KnownState,
    volume: Option<VolumeId>,
}

enum Target {
    /// A file in a directory, and which one it was when it was opened, if it was.
    File(PathBuf, ReplicaId, Option<Identity>),
    /// Nothing: its file is gone, and what is at its path is not known to be it.
    Gone,
    /// A device that is open.
    Device(File),
    /// A device that is closed, as its volume is stopped.
    Closed(PathBuf, ReplicaId),
}

impl Target {
    /// Returns the device if it was opened for that.
    fn delete(self, origins: &Origins) -> io::Result<Option<File>> {
        match self {
            Self::File(path, replica, identity) => {
                delete_file(&path, replica, identity, origins).map(|()| None)
            }
            Self::Gone => Ok(None),
            Self::Device(file) => replica_file::erase(&file).map(|()| None),
            Self::Closed(path, replica) => device::erase_closed(&path, replica).map(Some),
        }
    }
}

/// Removes the file of a replica, if that is what lies at its path. Something else, which somebody
/// put there when the replica's file was gone, is left alone.
fn delete_file(
    path: &Path,
    replica: ReplicaId,
    identity: Option<Identity>,
    origins: &Origins,
) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(e) if is_nothing(&e) => return directory::sync(path),
        found => found?,
    };
    let is_same = identity.map(|identity| identity == Identity::of(&found));
    let is_it = found.is_file()
        && match (is_same, origins.judge(replica, &found, path)) {
            // An inode's number may have been given anew.
            (Some(false), _) | (_, Some(false)) => false,
            (Some(true), _) | (_, Some(true)) => true,
            (None, None) => replica_file::read_newest(path).is_some_and(|s| s.replica == replica),
        };
    if is_it {
        return directory::delete(path);
    }
    tracing::warn!(path = %path.display(), %replica, "another file than the replica's is at its path: it is left alone; the replica's own is gone");
    Ok(())
}

impl Disks {
    /// Gives the space of a replica back. The engine has closed it before, and the caller holds its
    /// lock. Deleting one that is not there is no error.
    ///
    /// # Errors
    /// If it is being made or deleted, or the disk fails.
    pub fn delete_replica(&self, replica: ReplicaId) -> Result<bool, ApiError> {
        let what = format!("cannot delete replica {replica}");
        let Some(deletion) = self.begin_deletion(replica, &what)? else { return Ok(false) };
        // Without the lock: a file of terabytes takes long, and others want to know of their disks.
        let deleted = deletion.target.delete(&self.origins);
        self.end_deletion(replica, deletion.before, deleted).map_err(|e| system(&what, &e))?;
        self.origins.forget(replica);
        if let Some(volume) = deletion.volume {
            self.forget_stopped(volume);
        }
        Ok(true)
    }

    /// Refuses to delete a replica that is still being made.
    ///
    /// # Errors
    /// If it is.
    pub fn refuse_unfinished(&self, replica: ReplicaId) -> Result<(), ApiError> {
        let entries = self.lock();
        let mut found = entries.iter().filter_map(|entry| entry.known(replica));
        match found.any(|known| *known.state() == KnownState::Making) {
            true => Err(being_made(&format!("cannot delete replica {replica}"))),
            false => Ok(()),
        }
    }

    fn begin_deletion(&self, replica: ReplicaId, what: &str) -> Result<Option<Deletion>, ApiError> {
        let mut entries = self.lock();
        let found = entries.holder_mut(replica);
        let Some((entry, position)) = found else { return Ok(None) };
        match entry.replicas()[position].state() {
            KnownState::Making => return Err(being_made(what)),
            KnownState::Deleting => {
                let why = "that is under way already; its disk may be slow, or hang";
                let advice = "See `evenkeel disk list` of its node";
                return Err(ApiError::new(ErrorCode::WrongState, what, why, advice));
            }
            KnownState::Opening(..) => {
                let advice = "Try again; see `evenkeel disk list` of its node";
                let why = "it is being opened; its disk may be slow, or hang";
                return Err(ApiError::new(ErrorCode::WrongState, what, why, advice));
            }
            _ => {}
        }
        let target = target(entry, position, replica).map_err(|e| system(what, &e))?;
        let known = &mut entry.replicas_mut()[position];
        let before = known.begin_deletion();
        Ok(Some(Deletion { target, before, volume: known.volume() }))
    }

    fn end_deletion(
        &self,
        replica: ReplicaId,
        before: KnownState,
        deleted: io::Result<Option<File>>,
    ) -> io::Result<()> {
        let mut entries = self.lock();
        let found = entries.holder_mut(replica);
        // It is not there if its disk was opened anew meanwhile, and then has no such replica any
        // more.
        if let Some((entry, position)) = found {
            match &deleted {
                Ok(_) => entry.remove_replica(position),
                Err(_) => entry.replicas_mut()[position].not_deleted(before),
            }
            if let Ok(Some(file)) = deleted {
                entry.erased(file);
                return Ok(());
            }
        }
        deleted.map(drop)
    }
}

fn target(entry: &Entry, position: usize, replica: ReplicaId) -> io::Result<Target> {
    match (entry.state(), entry.kind()) {
        (EntryState::Serving(Hold::Device { file, .. }), _) => file.try_clone().map(Target::Device),
        (_, DiskKind::Directory) => {
            let known = &entry.replicas()[position];
            Ok(match known.state() {
                KnownState::FileGone(_) => Target::Gone,
                _ => Target::File(known.path().to_owned(), replica, known.identity()),
            })
        }
        (EntryState::Stopped, DiskKind::Device) => {
            Ok(Target::Closed(entry.path().to_owned(), replica))
        }
        (_, DiskKind::Device) => {
            Err(io::Error::other(entry.state().described().1.unwrap_or_default()))
        }
    }
}

fn being_made(what: &str) -> ApiError {
    let advice = "It is deleted by itself when it is finished, if no volume has it then";
    ApiError::new(ErrorCode::WrongState, what, "it is still being made", advice)
}

#[cfg(test)]
mod tests;
