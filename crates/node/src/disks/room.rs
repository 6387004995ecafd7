//! Making room for a replica that is to become longer.

use std::fs::File;
use std::ops::Range;

use evenkeel_core::ReplicaId;
use evenkeel_engine::RoomTask;
use evenkeel_format::disk_length;
use rustix::fs::OFlags;

use super::replica_file::{length_of, open_direct};
use super::states::Hold;
use super::{Disks, Entry, device, directory, probe, system};
use crate::api::{ApiError, ErrorCode};
use crate::keyed_lock::Recall;

/// A replica's file or device that has room for more data.
#[derive(Debug)]
pub struct Room {
    file: File,
    what: String,
    recall: Recall,
}

impl Room {
    /// Does what has to be done before the next step.
    ///
    /// # Errors
    /// If the disk fails, or the replica is to be closed or deleted.
    pub fn carry_out(&self, task: &RoomTask) -> Result<(), ApiError> {
        match task {
            RoomTask::Zero(range) => self.zero(range),
            RoomTask::Carry(pages) => {
                pages.carry_out(&self.file).map_err(|e| system(&self.what, &e))
            }
        }
    }

    /// Makes this range of the disk read as zeroes, durably. Between two steps, of at most 1 GiB, it asks
    /// whether that is still wanted: all may take hours.
    ///
    /// # Errors
    /// If the disk fails, or the replica is to be closed or deleted.
    pub fn zero(&self, range: &Range<u64>) -> Result<(), ApiError> {
        for step in device::zero_steps(range) {
            self.refuse_if_recalled()?;
            let zeroed = device::zero_step(&self.file, &step);
            zeroed.map_err(|e| system(&self.what, &e))?;
            tracing::info!(done = step.end - range.start, "zeroing new room");
        }
        self.file.sync_all().map_err(|e| system(&self.what, &e))
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
    pub fn make_room(
        &self,
        replica: ReplicaId,
        length: u64,
        recall: Recall,
    ) -> Result<Room, ApiError> {
        let what = format!("there is no room for more data of replica {replica}");
        let entries = self.lock();
        let found = entries.iter().find_map(|e| e.position(replica).map(|p| (e, p)));
        let (entry, position) = found.ok_or_else(|| {
            let advice = "See `evenkeel disk list`, and the node's log";
            ApiError::new(ErrorCode::NoSuchReplica, &what, "it is not on this node", advice)
        })?;
        let file = open(entry, position, length, &what)?;
        Ok(Room { file, what, recall })
    }

    /// Notes that a replica has so many bytes of data now.
    pub fn note_length(&self, replica: ReplicaId, length: u64) {
        for entry in self.lock().iter_mut() {
            if let Some(position) = entry.position(replica)
                && let Some(superblock) = &mut entry.replicas[position].superblock
            {
                superblock.data_length = superblock.data_length.max(length);
            }
        }
    }
}

/// Opens the file or device; the file is made as long as it has to be.
fn open(entry: &Entry, position: usize, length: u64, what: &str) -> Result<File, ApiError> {
    let known = &entry.replicas[position];
    let old = known.superblock.as_ref().map_or(0, length_of);
    let wanted = disk_length(length);
    let refuse = |free: u64| {
        let why =
            format!("disk {} has {free} bytes for it and {wanted} are needed", entry.record.name);
        let advice = "Make room there, or replace the replica by one on a larger disk (`evenkeel replica replace`)";
        ApiError::new(ErrorCode::DiskTooSmall, what, why, advice)
    };
    let failed = |e: std::io::Error| system(what, &e);
    if let Some(Hold::Device { file }) = entry.state.hold() {
        let size = probe::length(file).map_err(failed)?;
        if size < wanted {
            return Err(refuse(size));
        }
        return file.try_clone().map_err(failed);
    }
    let (_, free) = directory::space(entry);
    if wanted > old && wanted - old > free {
        return Err(refuse(old.saturating_add(free)));
    }
    let file = open_direct(&known.path, OFlags::empty()).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() < wanted {
        file.set_len(wanted).and_then(|()| file.sync_all()).map_err(failed)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests;
