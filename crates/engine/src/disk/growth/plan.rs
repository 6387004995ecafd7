//! What a step of making room takes.

use std::io;

use evenkeel_core::ReplicaState;
use evenkeel_core::settings::BLOCK;
use evenkeel_format::{Superblock, bitmaps_length, disk_length, metadata_offset};

use super::{After, Changes, Sums};
use crate::disk::checksums::{Area, ChecksumStore};
use crate::disk::device::Io;
use crate::disk::filters::Checksums;
use crate::disk::space::{SpaceRequest, SpaceStep, SpaceTask};
use crate::disk::superblocks::Superblocks;
use crate::error::EngineError;

/// What a step of making room changes, by what the disk is now.
pub(super) struct Plan<'a> {
    superblock: &'a Superblock,
    /// Where the superblocks lie, in the order in which they are to be written.
    places: [u64; 2],
    /// Where the data begin on the disk.
    start: u64,
    store: Option<&'a mut ChecksumStore>,
    request: &'a SpaceRequest,
}

/// What is to be written, if anything, and what holds then.
type Planned = Result<(Option<Changes>, After), EngineError>;

impl<'a> Plan<'a> {
    pub(super) fn new<I: Io, T>(
        superblocks: &'a Superblocks,
        data: &'a mut Checksums<I, T>,
        request: &'a SpaceRequest,
    ) -> Self {
        let (superblock, places) = (superblocks.newest(), superblocks.places());
        let start = data.raw().layout().on_disk(0);
        Self { superblock, places, start, store: data.store_mut(), request }
    }

    /// What has to read as zeroes: what lies behind the metadata where they are, up to their new
    /// end.
    pub(super) fn space(&mut self) -> SpaceTask {
        if let Some(store) = &mut self.store {
            store.stop_carrying();
        }
        let (length, end) = (self.request.length, metadata_end(self.superblock));
        let is_moved = is_moved(self.superblock, length);
        SpaceTask::Zero(end..if is_moved { end } else { disk_length(length).max(end) })
    }

    /// Has checksums copied to where they will lie, unless that place overlaps with where they are.
    pub(super) fn carry_checksums(&mut self, anew: bool) -> Result<SpaceTask, EngineError> {
        let (superblock, length) = (self.superblock, self.request.length);
        let (moved, end) = (moved(superblock, length), metadata_end(superblock));
        let is_apart = Area::of(&moved).start() >= end;
        match &mut self.store {
            Some(store) if is_apart && !is_moved(superblock, length) => {
                store.carry(Area::of(&moved), anew).map(SpaceTask::Carry).ok_or(EngineError::Busy)
            }
            _ => Ok(SpaceTask::Zero(end..end)),
        }
    }

    /// Why the metadata must not move, or data lie where they were.
    pub(super) fn refuses(&self) -> Option<EngineError> {
        let spare_in = self.request.spare_in;
        let is_spare = spare_in.is_some_and(|view| self.superblock.view.generation < view);
        (!is_spare && counts_bitmaps(self.superblock)).then_some(EngineError::Bitmaps)
    }

    pub(super) fn changes(mut self) -> Planned {
        match self.refuses() {
            Some(refused) => Err(refused),
            None if self.request.step == SpaceStep::Use => self.use_room(),
            None => self.move_metadata(),
        }
    }

    /// What moves the metadata. To be done then: zeroing where they may have lain, as far as data
    /// will lie there.
    fn move_metadata(&mut self) -> Planned {
        let (superblock, length) = (self.superblock, self.request.length);
        let data = superblock.data_length;
        let task = Some(SpaceTask::Zero(self.start + data..self.start + length));
        if is_moved(superblock, length) {
            let (superblock, checksums) = (superblock.clone(), Sums::Extended(data));
            return Ok((None, After { superblock, checksums, task }));
        }
        let moved = moved(superblock, length);
        let area = Area::of(&moved);
        let rest = self.store.as_mut().and_then(|store| store.finish_carrying(area));
        let is_carried = rest.is_some();
        let (superblock, mut changes) = self.relaid(moved)?;
        changes.before = rest;
        if !is_carried {
            changes.after = self.store.as_ref().map(|store| store.beginning(area));
        }
        let checksums = if is_carried { Sums::Carried(area) } else { Sums::Anew(area) };
        Ok((Some(changes), After { superblock, checksums, task }))
    }

    /// What lets data lie where metadata have lain. The checksums stay where they are.
    fn use_room(&mut self) -> Planned {
        let (superblock, length) = (self.superblock, self.request.length);
        let data = superblock.data_length;
        if !is_moved(superblock, length) {
            return Err(EngineError::Busy);
        }
        let (block, part) = (data / u64::from(BLOCK), data % u64::from(BLOCK));
        let metadata_offset = checksums_offset(superblock) - bitmaps_length(length);
        let longer = Superblock { data_length: length, metadata_offset, ..superblock.clone() };
        let (superblock, mut changes) = self.relaid(longer)?;
        let mut checksums = Sums::Extended(length);
        if let Some(store) = self.store.as_mut().filter(|_| part != 0) {
            changes.before = Some(store.forget_part(block));
            checksums = Sums::Renewed(length);
        }
        Ok((Some(changes), After { superblock, checksums, task: None }))
    }

    /// The next superblock, and what it takes to save it.
    fn relaid(&self, superblock: Superblock) -> Result<(Superblock, Changes), EngineError> {
        let superblock = Superblock { sequence: superblock.sequence + 1, ..superblock };
        let bytes = superblock.encode().map_err(io::Error::other)?;
        let changes = Changes { before: None, superblock: bytes, places: self.places, after: None };
        Ok((superblock, changes))
    }
}

/// Where checksums lie: behind the bitmaps.
const fn checksums_offset(superblock: &Superblock) -> u64 {
    superblock.metadata_offset + bitmaps_length(superblock.data_length)
}

/// Whether the metadata leave room for so many bytes of data, and for their bitmaps before the
/// checksums.
const fn is_moved(superblock: &Superblock, length: u64) -> bool {
    checksums_offset(superblock) >= metadata_offset(length) + bitmaps_length(length)
}

/// With the metadata moved so that this holds: the checksums lie where they will lie when the data
/// have become longer, and the bitmaps, as short as they are, before them.
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

/// Whether bitmaps on this disk tell what others lack. On a replica that is itself not in-sync
/// nobody relies on them.
fn counts_bitmaps(superblock: &Superblock) -> bool {
    let view = &superblock.view;
    let own = view.replica(superblock.replica);
    own.is_some_and(|(mirror, record)| {
        let records = &view.mirrors[mirror].replicas;
        record.state == ReplicaState::InSync && records.iter().any(|r| r.missing_since.is_some())
    })
}
