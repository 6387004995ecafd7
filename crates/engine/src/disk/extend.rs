//! Making room: a replica's data area becomes longer, before a view makes use of it.
//!
//! The superblock tells how long the data are and where the metadata behind them lie, so one save of
//! it moves both. The bitmaps are not moved: room is made only while no bitmap counts. What lies
//! between the volume's present end and the new one may hold old bitmaps, or anything; the control
//! plane makes it read as zeroes, and no view that reaches there is saved before that.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use evenkeel_core::{ReplicaState, View};
use evenkeel_format::{Superblock, metadata_offset};

use super::{Disk, Step};
use crate::api::EngineError;

impl Disk {
    /// Makes the data area so long, in bytes. The file or device has room for all of it. Returns
    /// what has to read as zeroes before [`Disk::room_is_ready`] may be told, in bytes of the disk;
    /// `None`: there is room already. Blocks on the disk, for two superblocks.
    ///
    /// # Errors
    /// [`EngineError::Busy`] if something is being saved: try again. If a replica lacks writes, or the
    /// disk fails: then this replica does nothing more.
    pub(crate) fn make_room(&mut self, length: u64) -> Result<Option<Range<u64>>, EngineError> {
        if length <= self.ready {
            return Ok(None);
        }
        let is_metadata = |step: &Step| matches!(step, Step::Metadata(_) | Step::Save);
        if self.saves.is_busy() || self.jobs.iter().any(|(_, job)| is_metadata(&job.step)) {
            return Err(EngineError::Busy);
        }
        let superblock = &self.saves.superblock;
        let used = superblock.view.replica_size();
        if length > superblock.data_length {
            if counts_bitmaps(superblock) {
                return Err(EngineError::Bitmaps);
            }
            self.move_metadata(length)?;
        }
        self.ready = used;
        Ok(Some(self.layout.on_disk(used)..self.layout.on_disk(length)))
    }

    /// The room reads as zeroes, durably.
    pub(crate) fn room_is_ready(&mut self, length: u64) {
        self.ready = self.ready.max(length.min(self.saves.superblock.data_length));
    }

    /// Whether a view may be saved: there is room for it.
    pub(super) fn has_room_for(&self, view: &View) -> bool {
        view.replica_size() <= self.ready
    }

    fn move_metadata(&mut self, length: u64) -> Result<(), EngineError> {
        let superblock = Superblock {
            sequence: self.saves.superblock.sequence + 1,
            data_length: length,
            metadata_offset: metadata_offset(length),
            ..self.saves.superblock.clone()
        };
        let bytes = superblock.encode().map_err(io::Error::other)?;
        let first = self.saves.write_first();
        for slot in [first, first.other()] {
            if let Err(error) = write_durably(&self.file, &bytes.0, slot.offset()) {
                // Which of the two the disk holds is unknown, and so is where bitmaps would be found.
                self.is_broken = true;
                return Err(error.into());
            }
        }
        self.saves.superblock = superblock;
        self.layout.set_length(length);
        Ok(())
    }
}

fn write_durably(file: impl AsFd, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pwrite(&file, &bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(rustix::fs::fdatasync(file)?)
}

/// Whether bitmaps on this disk tell what others lack. On a replica that is itself not in-sync nobody
/// relies on them.
fn counts_bitmaps(superblock: &Superblock) -> bool {
    let view = &superblock.view;
    let own = view.replica(superblock.replica);
    own.is_some_and(|(mirror, record)| {
        let records = &view.mirrors[mirror].replicas;
        record.state == ReplicaState::InSync && records.iter().any(|r| r.missing_since.is_some())
    })
}

#[cfg(test)]
mod tests;
