//! Making room: a replica's data area becomes longer, before a view makes use of it.
//!
//! The data would grow into the metadata behind them, so those move first. Bitmaps are not copied: room
//! is made only while none counts. Checksums are ([`super::checksums::carry`]), to where they will lie for
//! the longer data. Between two steps the control plane copies them, and makes a part of the disk read as
//! zeroes that nobody uses then. `docs/format.md` argues what a crash leaves.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use evenkeel_core::settings::BLOCK;
use evenkeel_core::{Generation, ReplicaState, View};
use evenkeel_format::{Superblock, bitmaps_length, disk_length, metadata_offset};

use super::metadata::write_at;
use super::{Area, Disk, Step};
use crate::api::{EngineError, RoomStep, RoomTask};

impl Disk {
    /// Makes room for so many bytes of data, on a file or device that is long enough. Returns what has
    /// to be done before the next step; `None`: there is room. Blocks on the disk, for two superblocks and
    /// some checksums at most. `spare_in` is a view in which this replica is an idle spare, if there is
    /// one: unless it has adopted a later one, its own view and its bitmaps are of no use to anybody.
    ///
    /// # Errors
    /// [`EngineError::Busy`] if something is being saved: try again. If a replica lacks writes, or the
    /// disk fails: if that was in saving the superblocks, this replica does nothing more.
    pub(crate) fn make_room(
        &mut self,
        length: u64,
        step: RoomStep,
        spare_in: Option<Generation>,
    ) -> Result<Option<RoomTask>, EngineError> {
        if length <= self.saves.superblock.data_length {
            return Ok(None);
        }
        match step {
            RoomStep::Plan => Ok(Some(RoomTask::Zero(self.plan_room(length)))),
            RoomStep::CarryChecksums { anew } => self.carry_checksums(length, anew).map(Some),
            RoomStep::MoveMetadata => {
                self.refuse_to_move(spare_in)?;
                self.move_metadata(length).map(|unused| Some(RoomTask::Zero(unused)))
            }
            RoomStep::Use => {
                self.refuse_to_move(spare_in)?;
                self.use_room(length).map(|()| None)
            }
        }
    }

    /// What lies behind the metadata where they are, up to their new end.
    fn plan_room(&mut self, length: u64) -> Range<u64> {
        if let Some(checksums) = &mut self.checksums {
            checksums.stop_carrying();
        }
        let end = metadata_end(&self.saves.superblock);
        let is_moved = is_moved(&self.saves.superblock, length);
        end..if is_moved { end } else { disk_length(length).max(end) }
    }

    /// Has checksums copied to where they will lie, unless that place overlaps with where they are.
    fn carry_checksums(&mut self, length: u64, anew: bool) -> Result<RoomTask, EngineError> {
        let superblock = &self.saves.superblock;
        let (moved, end) = (moved(superblock, length), metadata_end(superblock));
        let is_apart = Area::of(&moved).start() >= end;
        match &mut self.checksums {
            Some(checksums) if is_apart && !is_moved(superblock, length) => checksums
                .carry(Area::of(&moved), anew)
                .map(RoomTask::Carry)
                .ok_or(EngineError::Busy),
            _ => Ok(RoomTask::Zero(end..end)),
        }
    }

    /// Moves the metadata. Returns where they may have lain, as far as data will lie there.
    fn move_metadata(&mut self, length: u64) -> Result<Range<u64>, EngineError> {
        let superblock = self.saves.superblock.clone();
        let data = superblock.data_length;
        if !is_moved(&superblock, length) {
            let moved = moved(&superblock, length);
            let area = Area::of(&moved);
            let checksums = self.checksums.as_mut();
            let carried =
                checksums.map(|sums| sums.finish_carrying(&self.file, area)).transpose()?;
            self.save_layout(moved)?;
            if let Some(checksums) = &mut self.checksums {
                if carried == Some(true) {
                    checksums.carried(area);
                } else if let Err(error) = checksums.begin_anew(&self.file, area) {
                    self.is_broken = true;
                    return Err(error.into());
                }
            }
        }
        Ok(self.layout.on_disk(data)..self.layout.on_disk(length))
    }

    /// Lets data lie where metadata have lain. The checksums stay where they are.
    fn use_room(&mut self, length: u64) -> Result<(), EngineError> {
        let superblock = self.saves.superblock.clone();
        let data = superblock.data_length;
        if !is_moved(&superblock, length) {
            return Err(EngineError::Busy);
        }
        let (block, part) = (data / u64::from(BLOCK), data % u64::from(BLOCK));
        if let Some(checksums) = self.checksums.as_mut().filter(|_| part != 0) {
            if self.jobs.iter().any(|(_, job)| job.offset + job.length > data - part) {
                return Err(EngineError::Busy);
            }
            checksums.forget_part(&self.file, block)?;
        }
        let metadata_offset = checksums_offset(&superblock) - bitmaps_length(length);
        self.save_layout(Superblock { data_length: length, metadata_offset, ..superblock })?;
        self.layout.set_length(length);
        if let Some(checksums) = &mut self.checksums {
            checksums.extend(length);
        }
        Ok(())
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
        self.saves.superblock = superblock;
        Ok(())
    }
}

/// Where checksums lie: behind the bitmaps.
const fn checksums_offset(superblock: &Superblock) -> u64 {
    superblock.metadata_offset + bitmaps_length(superblock.data_length)
}

/// Whether the metadata leave room for so many bytes of data, and for their bitmaps before the checksums.
const fn is_moved(superblock: &Superblock, length: u64) -> bool {
    checksums_offset(superblock) >= metadata_offset(length) + bitmaps_length(length)
}

/// With the metadata moved so that this holds: the checksums lie where they will lie when the data have
/// become longer, and the bitmaps, as short as they are, before them.
fn moved(superblock: &Superblock, length: u64) -> Superblock {
    let checksums = metadata_offset(length) + bitmaps_length(length);
    let metadata_offset = checksums - bitmaps_length(superblock.data_length);
    Superblock { metadata_offset, ..superblock.clone() }
}

/// Where the metadata end, with what is kept free behind them.
const fn metadata_end(superblock: &Superblock) -> u64 {
    let length = superblock.data_length;
    superblock.metadata_offset + disk_length(length) - metadata_offset(length)
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
