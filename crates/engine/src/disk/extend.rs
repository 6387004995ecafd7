//! Making room: a replica's data area becomes longer, before a view makes use of it.
//!
//! The data would grow into the metadata behind them, so those move first. Bitmaps are not copied: room
//! is made only while none counts. Checksums are ([`super::checksums::carry`]), to where they will lie for
//! the longer data. Between two steps the control plane copies them, and makes a part of the disk read as
//! zeroes that nobody uses then. `docs/format.md` argues what a crash leaves.
//!
//! What a step itself writes takes as long as the disk does, so the disk's helper writes it. Actions that
//! began before have ended by then, and later ones wait until it is written: they would change what is
//! being written.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use evenkeel_core::settings::BLOCK;
use evenkeel_core::{DiskAction, DiskTicket, Generation, Instant, ReplicaState, View};
use evenkeel_format::{Superblock, SuperblockBytes, bitmaps_length, disk_length, metadata_offset};

use super::checksums::carry::Rest;
use super::io::{Access, Io};
use super::metadata::write_at;
use super::{Area, Disk, Ended, Means, Step};
use crate::api::{EngineError, RoomStep, RoomTask};
use crate::engine::Answer;
use crate::mailbox::Order;
use crate::slot::Slot;

/// A step of making room, and who is told what has to be done before the next one; `None`: there is room.
pub(crate) struct RoomRequest {
    /// Bytes of data that there is to be room for, on a file or device that is long enough.
    pub(crate) length: u64,
    pub(crate) step: RoomStep,
    /// A view in which this replica is an idle spare, if there is one: unless it has adopted a later one,
    /// its own view and its bitmaps are of no use to anybody.
    pub(crate) spare_in: Option<Generation>,
    pub(crate) answer: Answer<Result<Option<RoomTask>, EngineError>>,
}

/// The step that is under way, and what waits for its end.
#[derive(Debug, Default)]
pub(super) struct Room {
    step: Option<Under>,
    held: VecDeque<(Instant, DiskTicket, DiskAction<Slot>)>,
}

#[derive(Debug)]
enum Under {
    /// Actions that began before are to end first.
    Waiting(RoomRequest),
    /// The helper writes.
    Writing(Box<After>, RoomRequest),
}

/// What the helper writes, all of it durably: first what superblocks will refer to, then these.
#[derive(Debug)]
struct Changes {
    before: Option<Rest>,
    superblock: Box<SuperblockBytes>,
    places: [u64; 2],
    after: Option<Rest>,
}

/// What holds when that is durable.
#[derive(Debug)]
struct After {
    superblock: Superblock,
    checksums: Sums,
    task: Option<RoomTask>,
}

/// What becomes of the checksums.
#[derive(Debug)]
enum Sums {
    Carried(Area),
    Anew(Area),
    /// They cover so many bytes of data, at the same place.
    Extended(u64),
}

/// Why a step could not be written.
#[derive(Debug)]
pub(crate) enum RoomFailure {
    /// Nothing has changed.
    Unchanged(io::Error),
    /// What the superblocks hold is unknown.
    Unknown(io::Error),
}

impl std::fmt::Debug for RoomRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RoomRequest {{ length: {}, step: {:?} }}", self.length, self.step)
    }
}

impl Room {
    /// Whether no step is under way.
    pub(super) const fn is_idle(&self) -> bool {
        self.step.is_none()
    }

    /// Lets an action wait for the step that is under way.
    pub(super) fn hold(&mut self, now: Instant, ticket: DiskTicket, action: DiskAction<Slot>) {
        self.held.push_back((now, ticket, action));
    }
}

impl Changes {
    /// Blocks on the disk.
    fn carry_out(self, file: &impl Access) -> Result<(), RoomFailure> {
        let Self { before, superblock, places, after } = self;
        if let Some(rest) = before {
            rest.carry_out(file).map_err(RoomFailure::Unchanged)?;
        }
        for place in places {
            write_durably(file, &superblock.0, place).map_err(RoomFailure::Unknown)?;
        }
        after.map_or(Ok(()), |rest| rest.carry_out(file)).map_err(RoomFailure::Unknown)
    }
}

impl<I: Io> Disk<I> {
    /// Takes a step of making room, and answers when it is taken. It is [`EngineError::Busy`] while
    /// something is being saved: to be tried again. It fails if a replica lacks writes, or the disk fails: if
    /// that was in saving the superblocks, this replica does nothing more. Returns actions that have ended.
    pub(crate) fn make_room(
        &mut self,
        means: &mut Means<'_, I>,
        request: RoomRequest,
    ) -> Vec<Ended> {
        if let Some(answer) = self.room_at_once(&request) {
            (request.answer)(answer);
            return Vec::new();
        }
        self.room.step = Some(Under::Waiting(request));
        self.advance_room(means)
    }

    /// The answer to a step that writes nothing.
    fn room_at_once(
        &mut self,
        request: &RoomRequest,
    ) -> Option<Result<Option<RoomTask>, EngineError>> {
        let length = request.length;
        if length <= self.saves.superblock.data_length {
            return Some(Ok(None));
        }
        if !self.room.is_idle() {
            return Some(Err(EngineError::Busy));
        }
        match request.step {
            RoomStep::Plan => Some(Ok(Some(RoomTask::Zero(self.plan_room(length))))),
            RoomStep::CarryChecksums { anew } => Some(self.carry_checksums(length, anew).map(Some)),
            RoomStep::MoveMetadata | RoomStep::Use => {
                self.refuse_to_move(request.spare_in).err().map(Err)
            }
        }
    }

    /// Has the step written that waits, if nothing is under way any more. Returns actions that have ended.
    pub(crate) fn advance_room(&mut self, means: &mut Means<'_, I>) -> Vec<Ended> {
        if self.jobs.len() > 0 {
            return Vec::new();
        }
        let Some(Under::Waiting(request)) =
            self.room.step.take_if(|step| matches!(step, Under::Waiting(_)))
        else {
            return Vec::new();
        };
        let planned = match request.step {
            _ if self.is_broken => Err(super::broken().into()),
            RoomStep::Use => self.use_room(&request),
            _ => self.move_metadata(&request),
        };
        let prepared = planned.and_then(|planned| Ok((planned, self.helper.prepare()?)));
        match prepared {
            Ok(((Some(changes), after), ())) => {
                self.room.step = Some(Under::Writing(Box::new(after), request));
                let (file, replica) = (self.file.clone(), means.replica);
                self.helper.ask(move || {
                    let result = changes.carry_out(&file);
                    Order::RoomMade { replica, result }
                });
                return Vec::new();
            }
            Ok(((None, after), ())) => (request.answer)(Ok(after.task)),
            Err(error) => (request.answer)(Err(error)),
        }
        self.begin_held(means)
    }

    /// The helper has written the step, or failed to. Returns actions that have ended.
    pub(crate) fn room_made(
        &mut self,
        means: &mut Means<'_, I>,
        result: Result<(), RoomFailure>,
    ) -> Vec<Ended> {
        let Some(Under::Writing(after, request)) = self.room.step.take() else { return Vec::new() };
        let answer = match result {
            Ok(()) => Ok(self.room_changed(*after)),
            Err(RoomFailure::Unchanged(error)) => Err(error.into()),
            Err(RoomFailure::Unknown(error)) => {
                // Which of the two the disk holds is unknown, and so is where bitmaps would be found.
                self.is_broken = true;
                Err(error.into())
            }
        };
        (request.answer)(answer);
        self.begin_held(means)
    }

    fn room_changed(&mut self, after: After) -> Option<RoomTask> {
        self.layout.set_length(after.superblock.data_length);
        self.saves.superblock = after.superblock;
        if let Some(checksums) = &mut self.checksums {
            match after.checksums {
                Sums::Carried(area) => checksums.carried(area),
                Sums::Anew(area) => checksums.begin_anew(area),
                Sums::Extended(length) => checksums.extend(length),
            }
        }
        after.task
    }

    /// What waited begins, in its order.
    fn begin_held(&mut self, means: &mut Means<'_, I>) -> Vec<Ended> {
        let held = core::mem::take(&mut self.room.held);
        let begin = |(since, ticket, action)| self.begin_since(means, since, ticket, action);
        held.into_iter().filter_map(begin).collect()
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

    /// What moves the metadata. To be done then: zeroing where they may have lain, as far as data will lie
    /// there.
    fn move_metadata(
        &mut self,
        request: &RoomRequest,
    ) -> Result<(Option<Changes>, After), EngineError> {
        self.refuse_to_move(request.spare_in)?;
        let (superblock, length) = (self.saves.superblock.clone(), request.length);
        let unused = self.layout.on_disk(superblock.data_length)..self.layout.on_disk(length);
        let task = Some(RoomTask::Zero(unused));
        if is_moved(&superblock, length) {
            let checksums = Sums::Extended(superblock.data_length);
            return Ok((None, After { superblock, checksums, task }));
        }
        let moved = moved(&superblock, length);
        let area = Area::of(&moved);
        let rest = self.checksums.as_mut().and_then(|sums| sums.finish_carrying(area));
        let is_carried = rest.is_some();
        let (superblock, mut changes) = self.relaid(moved)?;
        changes.before = rest;
        if !is_carried {
            changes.after = self.checksums.as_ref().map(|checksums| checksums.beginning(area));
        }
        let checksums = if is_carried { Sums::Carried(area) } else { Sums::Anew(area) };
        Ok((Some(changes), After { superblock, checksums, task }))
    }

    /// What lets data lie where metadata have lain. The checksums stay where they are.
    fn use_room(&mut self, request: &RoomRequest) -> Result<(Option<Changes>, After), EngineError> {
        self.refuse_to_move(request.spare_in)?;
        let (superblock, length) = (self.saves.superblock.clone(), request.length);
        let data = superblock.data_length;
        if !is_moved(&superblock, length) {
            return Err(EngineError::Busy);
        }
        let (block, part) = (data / u64::from(BLOCK), data % u64::from(BLOCK));
        let metadata_offset = checksums_offset(&superblock) - bitmaps_length(length);
        let (superblock, mut changes) =
            self.relaid(Superblock { data_length: length, metadata_offset, ..superblock })?;
        if let Some(checksums) = self.checksums.as_mut().filter(|_| part != 0) {
            changes.before = Some(checksums.forget_part(block));
        }
        let after = After { superblock, checksums: Sums::Extended(length), task: None };
        Ok((Some(changes), after))
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

    /// The next superblock, and what it takes to save it.
    fn relaid(&self, superblock: Superblock) -> Result<(Superblock, Changes), EngineError> {
        let superblock = Superblock { sequence: superblock.sequence + 1, ..superblock };
        let bytes = superblock.encode().map_err(io::Error::other)?;
        let first = self.saves.write_first();
        let places = [first, first.other()].map(|slot| slot.offset());
        Ok((superblock, Changes { before: None, superblock: bytes, places, after: None }))
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

fn write_durably(file: &impl Access, bytes: &[u8], offset: u64) -> io::Result<()> {
    write_at(file, bytes, offset)?;
    file.flush()
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
