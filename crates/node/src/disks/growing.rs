//! Making room for a replica that is to become longer.

use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;

use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::ReplicaId;
use evenkeel_engine::SpaceTask;
use evenkeel_format::disk_length;
use rustix::fs::OFlags;

use super::presence::Identity;
use super::replica_file::length_of;
use super::space::Question;
use super::{Disks, REPLACE, device, system};
use crate::files::own_file;
use crate::keyed_lock::Recall;

/// A replica's file or device that has room for more data.
#[derive(Debug)]
pub struct GrowingFile {
    file: File,
    what: String,
    recall: Recall,
}

impl GrowingFile {
    /// Does what has to be done before the next step.
    ///
    /// # Errors
    /// If the disk fails, or the replica is to be closed or deleted.
    pub fn carry_out(&self, task: &SpaceTask) -> Result<(), ApiError> {
        match task {
            SpaceTask::Zero(range) => self.zero(range),
            SpaceTask::Carry(pages) => {
                pages.carry_out(&self.file).map_err(|e| system(&self.what, &e))
            }
        }
    }

    /// Makes this range of the disk read as zeroes, durably. Between two steps, of at most 1 GiB,
    /// it asks whether that is still wanted: all may take hours.
    ///
    /// # Errors
    /// If the disk fails, or the replica is to be closed or deleted.
    pub fn zero(&self, range: &Range<u64>) -> Result<(), ApiError> {
        let length = (range.end - range.start).max(1);
        for step in device::zero_steps(range) {
            self.refuse_if_recalled()?;
            // A share of 1 fits.
            self.recall.report(((step.start - range.start).saturating_mul(100) / length) as u8);
            let zeroed = device::zero_step(&self.file, &step);
            zeroed.map_err(|e| system(&self.what, &e))?;
            tracing::info!(done = step.end - range.start, "zeroing new room");
        }
        evenkeel_engine::flush(&self.file).map_err(|e| system(&self.what, &e))
    }

    /// Whoever makes room lets go of the replica as soon as somebody else is to have it.
    ///
    /// # Errors
    /// If the replica is to be closed or deleted.
    pub fn refuse_if_recalled(&self) -> Result<(), ApiError> {
        if !self.recall.is_asked() {
            return Ok(());
        }
        let why = "the replica is being closed or deleted";
        let advice = "See `evenkeel volume status`; if the volume is there still, try again";
        Err(ApiError::new(ErrorCode::WrongState, &self.what, why, advice))
    }
}

impl Disks {
    /// Makes room on a replica's disk for so many bytes of data. Nothing that the replica uses is
    /// touched. The caller holds the replica's lock; `recall` tells when another one is to have it.
    ///
    /// # Errors
    /// If the replica is not here, there is no room, or the disk fails.
    pub fn make_space(
        &self,
        replica: ReplicaId,
        length: u64,
        recall: Recall,
    ) -> Result<GrowingFile, ApiError> {
        let disk = self.disk_of(replica).unwrap_or_else(|| "?".into());
        let what = format!("there is no room for more data of the replica on disk {disk}");
        let site = self.reserve_space(replica, disk_length(length), &what)?;
        // Without the lock: it blocks on the disk.
        match site.open(&what) {
            Ok(file) => Ok(GrowingFile { file, what, recall }),
            Err(error) => {
                self.in_engine.change_known(replica, |known| known.reserve(0));
                Err(error)
            }
        }
    }

    /// Takes the room, so that nobody else takes it meanwhile.
    fn reserve_space(
        &self,
        replica: ReplicaId,
        wanted: u64,
        what: &str,
    ) -> Result<LongerReplica, ApiError> {
        let mut entries = self.lock();
        let found = entries.holder_mut(replica);
        let (entry, position) = found.ok_or_else(|| {
            let advice = "See `evenkeel disk list`, and the node's log";
            ApiError::new(ErrorCode::NoSuchReplica, what, "it is not on this node", advice)
        })?;
        let space = Question::of(entry).ok_or_else(|| {
            let problem = entry.state().described().1.unwrap_or_default();
            ApiError::new(ErrorCode::System, what, problem, "See `evenkeel disk list`")
        })?;
        let disk = entry.name().to_owned();
        let known = &mut entry.replicas_mut()[position];
        known.reserve(wanted);
        let old = known.superblock().map_or(0, length_of);
        let (path, identity) = (known.path().to_owned(), known.identity());
        Ok(LongerReplica { disk, path, identity, old, wanted, space })
    }
}

/// A replica that is to become longer.
struct LongerReplica {
    disk: String,
    path: PathBuf,
    /// Which file the engine has open.
    identity: Option<Identity>,
    /// Bytes that it takes on its disk, and is to take.
    old: u64,
    wanted: u64,
    space: Question,
}

impl LongerReplica {
    /// Opens the file or device; the file is made as long as it has to be.
    fn open(self, what: &str) -> Result<File, ApiError> {
        let space = self.space.answer();
        let failed = |e: std::io::Error| system(what, &e);
        if let Question::Device(file, _) = self.space {
            return match space.size < self.wanted {
                true => Err(too_small(&self.disk, space.size, self.wanted, what)),
                false => Ok(file),
            };
        }
        if self.wanted.saturating_sub(self.old) > space.free {
            let free = self.old.saturating_add(space.free);
            return Err(too_small(&self.disk, free, self.wanted, what));
        }
        let file = own_file::open(&self.path, OFlags::DIRECT).map_err(|e| failed(e.into()))?;
        if self.identity.is_some_and(|identity| Identity::of_open(&file) != Some(identity)) {
            let path = self.path.display();
            let why = format!("another file is at {path}: the replica's was deleted or moved");
            let advice = format!(
                "Move that very file back, never a copy of it; else take another disk: {REPLACE}"
            );
            return Err(ApiError::new(ErrorCode::ReplicaUnusable, what, why, advice));
        }
        if file.metadata().map_err(failed)?.len() < self.wanted {
            file.set_len(self.wanted).map_err(failed)?;
            evenkeel_engine::flush(&file).map_err(failed)?;
        }
        Ok(file)
    }
}

fn too_small(disk: &str, free: u64, wanted: u64, what: &str) -> ApiError {
    let [wanted, free] = evenkeel_api::sizes::compared(wanted, free);
    let why = format!("disk {disk} has {free} for it, and {wanted} are needed");
    let advice = format!("Make room there, or take another disk: {REPLACE}");
    ApiError::new(ErrorCode::DiskTooSmall, what, why, advice)
}

#[cfg(test)]
mod tests;
