//! Making room: a replica's data area becomes longer, before a view makes use of it.
//!
//! The data would grow into the metadata behind them, so those move first. Bitmaps are not copied: room
//! is made only while none counts. Between two steps the control plane makes a part of the disk read
//! as zeroes that nobody uses then. `docs/format.md` argues what a crash leaves.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use evenkeel_core::{Generation, ReplicaState, View};
use evenkeel_format::{Superblock, disk_length, metadata_offset};

use super::metadata::write_at;
use super::{Area, Disk, Step};
use crate::api::{EngineError, RoomStep};

impl Disk {
    /// Makes room for so many bytes of data, on a file or device that is long enough. Returns what has
    /// to read as zeroes before the next step; `None`: there is room. Blocks on the disk, for two
    /// superblocks at most. `spare_in` is a view in which this replica is an idle spare, if there is
    /// one: unless it has adopted a later one, its own view and its bitmaps are of no use to anybody.
    ///
    /// # Errors
    /// [`EngineError::Busy`] if something is being saved: try again. If a replica lacks writes, or the
    /// disk fails: then this replica does nothing more.
    pub(crate) fn make_room(
        &mut self,
        length: u64,
        step: RoomStep,
        spare_in: Option<Generation>,
    ) -> Result<Option<Range<u64>>, EngineError> {
        let superblock = &self.saves.superblock;
        if length <= superblock.data_length {
            return Ok(None);
        }
        let (moved, data) = (metadata_offset(length), superblock.data_length);
        if step == RoomStep::Plan {
            let end = superblock.metadata_offset + disk_length(data) - metadata_offset(data);
            let is_moved = superblock.metadata_offset >= moved;
            return Ok(Some(end..if is_moved { end } else { disk_length(length).max(end) }));
        }
        self.refuse_to_move(spare_in)?;
        let superblock = self.saves.superblock.clone();
        if step == RoomStep::MoveMetadata {
            if superblock.metadata_offset < moved {
                self.save_layout(Superblock { metadata_offset: moved, ..superblock })?;
            }
            return Ok(Some(self.layout.on_disk(data)..self.layout.on_disk(length)));
        }
        if superblock.metadata_offset < moved {
            return Err(EngineError::Busy);
        }
        self.save_layout(Superblock { data_length: length, ..superblock })?;
        self.layout.set_length(length);
        Ok(None)
    }

    /// Whether a view may be saved: there is room for it.
    pub(super) fn has_room_for(&self, view: &View) -> bool {
        view.replica_size() <= self.saves.superblock.data_length
    }

    fn refuse_to_move(&self, spare_in: Option<Generation>) -> Result<(), EngineError> {
        let is_metadata = |step: &Step| matches!(step, Step::Metadata(_) | Step::Save);
        if self.saves.is_busy() || self.jobs.iter().any(|(_, job)| is_metadata(&job.step)) {
            return Err(EngineError::Busy);
        }
        let superblock = &self.saves.superblock;
        let is_spare = spare_in.is_some_and(|view| superblock.view.generation < view);
        if !is_spare && counts_bitmaps(superblock) {
            return Err(EngineError::Bitmaps);
        }
        Ok(())
    }

    fn save_layout(&mut self, superblock: Superblock) -> Result<(), EngineError> {
        let superblock = Superblock { sequence: superblock.sequence + 1, ..superblock };
        let bytes = superblock.encode().map_err(io::Error::other)?;
        let first = self.saves.write_first();
        for slot in [first, first.other()] {
            if let Err(error) = write_durably(&self.file, &bytes.0, slot.offset()) {
                // Which of the two the disk holds is unknown, and so is where bitmaps would be found.
                self.is_broken = true;
                return Err(error.into());
            }
        }
        if let Some(checksums) = &mut self.checksums {
            checksums.moved(Area::of(&superblock));
        }
        self.saves.superblock = superblock;
        Ok(())
    }
}

fn write_durably(file: impl AsFd, bytes: &[u8], offset: u64) -> io::Result<()> {
    write_at(&file, bytes, offset)?;
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
