//! Making room: a replica's data area becomes longer, before a view makes use of it.
//!
//! The data would grow into the metadata behind them, so those move first. Bitmaps are not copied:
//! room is made only while none counts. Checksums are ([`super::checksums::carry`]), to where they
//! will lie for the longer data. Between two steps the control plane copies them, and makes a part
//! of the disk read as zeroes that nobody uses then. `docs/format.md` argues what a crash leaves.
//!
//! What a step itself writes takes as long as the disk does, so the disk's helper writes it.
//! Actions that began before have ended by then, and later ones wait until it is written: they
//! would change what is being written.

mod plan;

use std::collections::VecDeque;
use std::io;

use evenkeel_core::{DiskAction, DiskTicket, Instant};
use evenkeel_format::{Superblock, SuperblockBytes};

use self::plan::Plan;
use super::checksums::carry::Rest;
use super::checksums::{Area, ChecksumStore};
use super::helper::Done;
use super::space::{SpaceFailure, SpaceRequest, SpaceStep, SpaceTask};
use super::{Disk, Ended};
use crate::disk::device::{Access, Io, Means, write_at};
use crate::error::EngineError;
use crate::memory::Buffer;

/// The step that is under way, and what waits for its end.
#[derive(Debug, Default)]
pub(super) struct Growth {
    phase: Phase,
    held: VecDeque<(Instant, DiskTicket, DiskAction<Buffer>)>,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    None,
    /// Actions that began before are to end first.
    Waiting(SpaceRequest),
    /// The helper writes.
    Writing(Box<After>, SpaceRequest),
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
    task: Option<SpaceTask>,
}

/// What becomes of the checksums.
#[derive(Debug)]
enum Sums {
    Carried(Area),
    Anew(Area),
    /// They cover so many bytes of data, at the same place.
    Extended(u64),
    /// The same, and that of what was the last block is forgotten.
    Renewed(u64),
}

impl Growth {
    /// Whether no step is under way.
    pub(super) const fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::None)
    }

    /// Whether the helper writes a step.
    const fn is_writing(&self) -> bool {
        matches!(self.phase, Phase::Writing(..))
    }

    /// Panics if actions wait for no step, or are under way while one is written.
    pub(super) fn check_invariants(&self, has_nothing_under_way: bool) {
        assert!(self.held.is_empty() || !self.is_idle(), "actions wait for no step of a growth");
        let is_alone = has_nothing_under_way || !self.is_writing();
        assert!(is_alone, "what a step of a growth writes may change meanwhile");
    }

    /// Whether a step waits for actions that began before it.
    pub(super) const fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting(_))
    }

    /// Lets an action wait for the step that is under way.
    pub(super) fn hold(&mut self, now: Instant, ticket: DiskTicket, action: DiskAction<Buffer>) {
        self.held.push_back((now, ticket, action));
    }

    /// The step that waits, when nothing it waits for is under way any more.
    fn take_waiting(&mut self) -> Option<SpaceRequest> {
        match core::mem::take(&mut self.phase) {
            Phase::Waiting(request) => Some(request),
            phase => {
                self.phase = phase;
                None
            }
        }
    }

    /// The step that the helper has written.
    fn take_written(&mut self) -> Option<(After, SpaceRequest)> {
        match core::mem::take(&mut self.phase) {
            Phase::Writing(after, request) => Some((*after, request)),
            phase => {
                self.phase = phase;
                None
            }
        }
    }
}

impl Changes {
    /// Blocks on the disk.
    fn carry_out(self, file: &impl Access) -> Result<(), SpaceFailure> {
        let Self { before, superblock, places, after } = self;
        if let Some(rest) = before {
            rest.carry_out(file).map_err(SpaceFailure::Unchanged)?;
        }
        for place in places {
            write_durably(file, &superblock.0, place).map_err(SpaceFailure::Unknown)?;
        }
        after.map_or(Ok(()), |rest| rest.carry_out(file)).map_err(SpaceFailure::Unknown)
    }
}

impl Sums {
    fn reach(self, store: &mut ChecksumStore) {
        match self {
            Self::Carried(area) => store.carried(area),
            Self::Anew(area) => store.begin_anew(area),
            Self::Extended(length) => store.extend(length),
            Self::Renewed(length) => {
                store.forgot_part();
                store.extend(length);
            }
        }
    }
}

impl<I: Io> Disk<I> {
    /// Takes a step of making room, and answers when it is taken. It is [`EngineError::Busy`] while
    /// something is being saved: to be tried again. It fails if a replica lacks writes, or the disk
    /// fails: if that was in saving the superblocks, this replica does nothing more. Returns
    /// actions that have ended.
    pub(crate) fn make_space(
        &mut self,
        means: &mut Means<'_, I>,
        request: SpaceRequest,
    ) -> Vec<Ended> {
        if let Some(answer) = self.room_at_once(&request) {
            (request.answer)(answer);
            return Vec::new();
        }
        self.growth.phase = Phase::Waiting(request);
        self.advance_space(means)
    }

    /// The answer to a step that writes nothing.
    fn room_at_once(
        &mut self,
        request: &SpaceRequest,
    ) -> Option<Result<Option<SpaceTask>, EngineError>> {
        if request.length <= self.superblocks.newest().data_length {
            return Some(Ok(None));
        }
        if !self.superblocks.are_known() {
            // What is free by the one may be used by the other.
            return Some(Err(super::broken().into()));
        }
        if !self.growth.is_idle() {
            return Some(Err(EngineError::Busy));
        }
        let is_saving = !self.superblocks.is_idle() || self.data.raw().writes_metadata();
        let mut plan = Plan::new(&self.superblocks, &mut self.data, request);
        match request.step {
            SpaceStep::Plan => Some(Ok(Some(plan.space()))),
            SpaceStep::CarryChecksums { anew } => Some(plan.carry_checksums(anew).map(Some)),
            SpaceStep::MoveMetadata | SpaceStep::Use if is_saving => Some(Err(EngineError::Busy)),
            SpaceStep::MoveMetadata | SpaceStep::Use => plan.refuses().map(Err),
        }
    }

    /// Whether room is to be made once nothing is under way.
    #[inline]
    pub(crate) fn waits_for_space(&self) -> bool {
        self.growth.is_waiting()
    }

    /// Has the step written that waits, if nothing is under way any more. Returns actions that have
    /// ended.
    pub(crate) fn advance_space(&mut self, means: &mut Means<'_, I>) -> Vec<Ended> {
        if !self.growth.is_waiting() || !self.has_nothing_under_way() {
            return Vec::new();
        }
        let Some(request) = self.growth.take_waiting() else { return Vec::new() };
        let planned = Plan::new(&self.superblocks, &mut self.data, &request).changes();
        let prepared = planned.and_then(|planned| Ok((planned, self.helper.prepare()?)));
        match prepared {
            Ok(((Some(changes), after), ())) => {
                self.growth.phase = Phase::Writing(Box::new(after), request);
                let (file, replica) = (self.data.raw().file().clone(), means.replica);
                self.helper.ask(move || {
                    let result = changes.carry_out(&file);
                    Done::SpaceMade { replica, result }
                });
                return Vec::new();
            }
            Ok(((None, after), ())) => (request.answer)(Ok(after.task)),
            Err(error) => (request.answer)(Err(error)),
        }
        self.begin_held(means)
    }

    /// The helper has written the step, or failed to. Returns actions that have ended.
    pub(crate) fn space_made(
        &mut self,
        means: &mut Means<'_, I>,
        result: Result<(), SpaceFailure>,
    ) -> Vec<Ended> {
        let Some((after, request)) = self.growth.take_written() else { return Vec::new() };
        let answer = match result {
            Ok(()) => Ok(self.space_changed(after)),
            Err(SpaceFailure::Unchanged(error)) => Err(error.into()),
            Err(SpaceFailure::Unknown(error)) => {
                // Which of the two the disk holds is unknown, and so is where bitmaps would be
                // found.
                self.superblocks.become_unknown();
                Err(error.into())
            }
        };
        (request.answer)(answer);
        self.begin_held(means)
    }

    fn space_changed(&mut self, after: After) -> Option<SpaceTask> {
        self.data.raw_mut().set_length(after.superblock.data_length);
        self.superblocks.replace(after.superblock);
        if let Some(store) = self.data.store_mut() {
            after.checksums.reach(store);
        }
        after.task
    }

    /// What waited begins, in its order.
    fn begin_held(&mut self, means: &mut Means<'_, I>) -> Vec<Ended> {
        let held = core::mem::take(&mut self.growth.held);
        let begin = |(since, ticket, action)| self.begin_since(means, since, ticket, action);
        held.into_iter().filter_map(begin).collect()
    }
}

fn write_durably(file: &impl Access, bytes: &[u8], offset: u64) -> io::Result<()> {
    write_at(file, bytes, offset)?;
    file.flush()
}

#[cfg(test)]
mod tests;
