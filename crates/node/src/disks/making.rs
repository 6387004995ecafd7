//! Making a replica on a disk: its room is taken first, so that nobody else takes it meanwhile.

use std::fs::File;
use std::path::PathBuf;

use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::ReplicaId;
use evenkeel_format::Superblock;

use super::mark::DeviceIdentity;
use super::presence::Identity;
use super::space::Question;
use super::states::{Hold, KnownState};
use super::{Disks, Known, OpenReplica, device, directory, replica_file, system};

/// What a new replica is made of.
#[derive(Debug, Clone)]
pub struct NewReplica {
    /// The first superblock; its sequence is 1.
    pub superblock: Superblock,
    /// Make it even if the disk has not the space for all of its data (directories only).
    pub thin: bool,
}

/// Where a new replica is made.
pub(super) struct Site {
    pub(super) path: PathBuf,
    pub(super) block_size: u32,
    device: Option<File>,
    /// Which device that has to be.
    identity: Option<DeviceIdentity>,
}

impl Disks {
    /// Makes a replica on a disk: it reads as zeroes everywhere, and is durable, when this
    /// returns.
    ///
    /// # Errors
    /// If there is no such disk, or no room on it, or it fails.
    pub fn create_replica(&self, disk: &str, new: &NewReplica) -> Result<OpenReplica, ApiError> {
        let what = format!("cannot make a replica of {} on disk {disk}", new.superblock.name);
        let site = self.reserve(disk, new, &what)?;
        let directory = site.device.is_none().then(|| site.path.clone());
        // Without the lock: zeroing a device takes long, and others want to know of the disks.
        let made = match site.device {
            Some(file) => device::create(file, site.path, site.block_size, new),
            None => directory::create(&site.path, site.block_size, new)
                .inspect(|made| self.origins.note(made)),
        };
        let made = made.map_err(|e| match (e.kind(), directory) {
            (std::io::ErrorKind::StorageFull, Some(path)) => {
                let needed = replica_file::length_of(&new.superblock);
                let growing = directory::growing(needed, directory::available(&path).ok());
                let (why, advice) = (
                    format!("the disk is full: {growing}"),
                    "Make room on it, or choose another disk",
                );
                ApiError::new(ErrorCode::NoSpace, &what, why, advice)
            }
            _ => system(&what, &e),
        });
        self.finish(new.superblock.replica, made, &what)
    }

    /// A replica was made, or could not be.
    pub(super) fn finish(
        &self,
        replica: ReplicaId,
        mut made: Result<OpenReplica, ApiError>,
        what: &str,
    ) -> Result<OpenReplica, ApiError> {
        let identity = made.as_ref().ok().and_then(|made| Identity::of_open(&made.file));
        let mut entries = self.lock();
        let found = entries.holder_mut(replica);
        let found = found.filter(|(e, p)| *e.replicas()[*p].state() == KnownState::Making);
        match (found, &mut made) {
            (Some((entry, position)), Ok(opened)) => {
                entry.replicas_mut()[position].made(&opened.path, identity);
                opened.mount = entry.mount();
            }
            (Some((entry, position)), Err(_)) => entry.remove_replica(position),
            (None, Ok(opened)) => {
                // Else it would be served, and be in no list.
                drop(entries);
                let erased = opened.erase();
                let gone = "its disk was taken away while it was made";
                let why = match erased {
                    Ok(()) => gone.to_owned(),
                    Err(e) => format!("{gone}; what was made of it stays there: {e}"),
                };
                let advice = "See `evenkeel disk list`; choose another disk";
                return Err(ApiError::new(ErrorCode::System, what, why, advice));
            }
            (None, Err(_)) => {}
        }
        made
    }

    /// Takes the room for a new replica, so that nobody else takes it while it is made.
    pub(super) fn reserve(
        &self,
        disk: &str,
        new: &NewReplica,
        what: &str,
    ) -> Result<Site, ApiError> {
        // What lies there may be another directory by now.
        self.looks.look_at(disk);
        let (site, question) = self.begin_making(disk, new, what)?;
        // Without the lock: it blocks on the disk.
        let space = question.answer();
        let checked = match &site.device {
            Some(file) => device::refuse_used(&site.path, file, site.identity.as_ref(), what)
                .and_then(|()| device::check_space(&space, new, what)),
            None => directory::check_space(&space, new, what),
        };
        if let Err(error) = checked {
            let mut entries = self.lock();
            if let Some((entry, position)) = entries.holder_mut(new.superblock.replica) {
                entry.remove_replica(position);
            }
            return Err(error);
        }
        Ok(site)
    }

    /// Notes a new replica. Whoever asks after this for the room there is does not get this one's.
    fn begin_making(
        &self,
        disk: &str,
        new: &NewReplica,
        what: &str,
    ) -> Result<(Site, Question), ApiError> {
        let mut entries = self.lock();
        if entries.iter().any(|entry| entry.position(new.superblock.replica).is_some()) {
            let why = "the replica is on this node already";
            let advice = "See `evenkeel volume status`: it was asked for twice";
            return Err(ApiError::new(ErrorCode::WrongState, what, why, advice));
        }
        let index = entries.find(disk, what)?;
        let entry = &mut entries[index];
        let device = match entry.state().hold() {
            None => {
                let problem = entry.state().described().1.unwrap_or_default();
                let advice = "See `evenkeel disk list`: repair the disk, or choose another one";
                return Err(ApiError::new(ErrorCode::System, what, problem, advice));
            }
            Some(Hold::Device { file, .. }) => {
                device::refuse_second(entry, what)?;
                Some(file.try_clone().map_err(|e| system(what, &e))?)
            }
            Some(Hold::Directory { .. }) => None,
        };
        let question = Question::of(entry).ok_or_else(|| {
            let advice = "Raise the limit of open files of the daemon";
            ApiError::new(ErrorCode::System, what, "too many files are open", advice)
        })?;
        let (path, identity) = (entry.path().to_owned(), entry.record().device.clone());
        let superblock = Some(new.superblock.clone());
        entry.add_replica(Known::new(&path, superblock, KnownState::Making));
        let site = Site { path, block_size: entry.block_size(), device, identity };
        Ok((site, question))
    }
}
