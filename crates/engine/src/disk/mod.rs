//! A replica's disk: carries out the core's disk actions on the ring.
//!
//! What touches data goes through the layers of [`filters`]. Beside them are the parts that know
//! what the disk says of itself: superblocks, tables of open regions, and a growth that changes
//! both. Each has its own state, and returns what is to be asked of the layers. An action that has
//! begun is answered once.

mod answers;
mod asked;
mod checksums;
pub(crate) mod device;
mod filters;
mod growth;
mod helper;
mod invariants;
mod map;
mod metadata;
#[cfg(test)]
mod simulation;
mod space;
mod superblocks;
mod tables;
#[cfg(test)]
mod trips;

use std::time::Duration;

use evenkeel_core::replica::OpenRegions;
use evenkeel_core::{
    DiskAction, DiskOutcome, DiskTicket, Extent, Incarnations, Instant, ReplicaId, View, VolumeId,
};
use evenkeel_format::{AllocationMap, Newest};

use self::answers::Answers;
pub(crate) use self::answers::Ended;
use self::asked::Asked;
pub use self::checksums::carry::Carry;
pub use self::checksums::recover::Recovered;
use self::checksums::recover::recover;
use self::checksums::{Area, ChecksumStore};
use self::device::{Access, Failure, Flushes, Io, Layout, Means};
pub use self::device::{flush, smallest_block};
use self::filters::{Checksums, DataWrite, End, Request};
use self::growth::Growth;
use self::helper::Closed;
#[cfg(test)]
pub(crate) use self::helper::Task;
pub(crate) use self::helper::{Closer, Done, Helper, Reporter};
use self::map::Questions;
pub use self::metadata::{Metadata, read_metadata};
pub(crate) use self::space::{SpaceFailure, SpaceRequest};
pub use self::space::{SpaceStep, SpaceTask};
use self::superblocks::{Saved, Superblocks};
pub use self::tables::Tables;
use crate::counters::DiskCounters;
use crate::memory::Buffer;
use crate::ring::{Completion, Key, Ring};

/// What a disk is opened with.
#[derive(Debug)]
pub(crate) struct Found<F> {
    pub(crate) file: F,
    pub(crate) layout: Layout,
    pub(crate) newest: Newest,
    pub(crate) tables: Tables,
    pub(crate) allocation: Option<AllocationMap>,
    pub(crate) recovered: Option<Recovered>,
    pub(crate) flushes: Flushes,
}

/// See the module's documentation.
pub(crate) struct Disk<I: Io = Ring> {
    /// All that reads and writes, beginning with the topmost layer.
    data: Checksums<I, Then>,
    superblocks: Superblocks,
    tables: Tables,
    questions: Questions,
    growth: Growth,
    helper: Helper,
    answers: Answers,
}

/// What is to be done when a request to the layers has ended.
#[derive(Debug)]
enum Then {
    Answer(Asked),
    /// Checksums are durable: this table is saved, which closes regions.
    Close(Asked, Box<OpenRegions>),
    /// The table of this slot is saved.
    Table(Asked, u8),
    /// A save of the superblocks goes on.
    Superblock,
}

/// What a replica's disk holds is made durable and read, and its checksums are put in order: before
/// anything relies on it. Blocks on the disk.
///
/// # Errors
/// If the disk can't be flushed or written, or it can't be read but for single sectors.
pub(crate) fn prepare(
    file: &impl Access,
    newest: &mut Newest,
) -> std::io::Result<(Metadata, Option<Recovered>)> {
    // What was found may be what a killed process had not made durable. It counts from now on, and
    // the other copy is the one that is written next.
    file.flush()?;
    superblocks::equalise(file, newest)?;
    let superblock = &newest.superblock;
    let mut metadata = metadata::read_all(file, superblock)?;
    metadata.replace_lost(file)?;
    let recovered = match superblock.has_checksums {
        true => Some(recover(file, Area::of(superblock), &metadata.open_regions)?),
        false => None,
    };
    Ok((metadata, recovered))
}

impl<I: Io> Disk<I> {
    /// A disk with what was found on it.
    pub(crate) fn open(found: Found<I::File>, helper: Helper) -> Self {
        let Found { file, layout, newest, tables, allocation, recovered, flushes } = found;
        let (area, replica) = (Area::of(&newest.superblock), newest.superblock.replica);
        let store = recovered.map(|recovered| ChecksumStore::new(area, recovered));
        let answers = Answers::new(flushes.at_first());
        Self {
            data: Checksums::new(file, layout, flushes, allocation, replica, store),
            superblocks: Superblocks::new(newest),
            tables,
            questions: Questions::none(),
            growth: Growth::default(),
            helper,
            answers,
        }
    }

    pub(crate) const fn volume(&self) -> VolumeId {
        self.superblocks.newest().volume
    }

    pub(crate) const fn replica(&self) -> ReplicaId {
        self.superblocks.newest().replica
    }

    pub(crate) fn counters(&self) -> DiskCounters {
        let filters::Counts { writes, mismatches } = self.data.counts();
        DiskCounters {
            checksum_writes: writes,
            checksum_mismatches: mismatches,
            ..self.answers.counters().clone()
        }
    }

    /// Closes the file and gives its lock up, before that is told. Nothing may be under way.
    pub(crate) fn close(self, report: Closed) {
        self.helper.close(self.data.into_file(), report);
    }

    /// Closes the file because the worker ends, whatever is under way.
    pub(crate) fn close_at_end(self) {
        self.helper.close_at_end(self.data.into_file());
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.has_nothing_under_way() && self.growth.is_idle()
    }

    /// The same, but for a growth.
    fn has_nothing_under_way(&self) -> bool {
        self.data.is_idle() && self.superblocks.is_idle() && self.questions.is_empty()
    }

    /// Whether a flush has failed of which the core has not been told: it is to be now.
    pub(crate) fn take_failed_flush(&mut self) -> bool {
        self.answers.take_failed_flush(self.data.raw().failures())
    }

    /// Begins an action. Some end at once, and some wait until there is room.
    pub(crate) fn begin(
        &mut self,
        means: &mut Means<'_, I>,
        ticket: DiskTicket,
        action: DiskAction<Buffer>,
    ) -> Option<Ended> {
        if !self.growth.is_idle() {
            self.growth.hold(means.now, ticket, action);
            return None;
        }
        self.begin_since(means, means.now, ticket, action)
    }

    /// Begins an action that was asked for at this moment.
    fn begin_since(
        &mut self,
        means: &mut Means<'_, I>,
        began: Instant,
        ticket: DiskTicket,
        action: DiskAction<Buffer>,
    ) -> Option<Ended> {
        // To a flush all matter of which the core has not been told, as it covers all that was
        // written.
        let failures = match action {
            DiskAction::Flush { .. } => self.answers.reported(),
            _ => self.data.raw().failures(),
        };
        let asked = Asked::new(ticket, &action, began, failures);
        if !self.data.raw().layout().holds(asked.offset(), asked.length()) {
            return Some(self.refuse(&asked, outside()));
        }
        if !self.superblocks.are_known() {
            return Some(self.refuse(&asked, broken()));
        }
        self.begin_asked(means, asked, action)
    }

    fn begin_asked(
        &mut self,
        means: &mut Means<'_, I>,
        asked: Asked,
        action: DiskAction<Buffer>,
    ) -> Option<Ended> {
        let failures = asked.failures();
        let request = match action {
            DiskAction::Read { offset, length } => Request::Read { offset, length },
            DiskAction::Write { offset, payload, durable, forgotten } => {
                let durable = durable.then_some(failures);
                Request::Write(DataWrite { offset, payload, durable, forgotten })
            }
            DiskAction::Zero { offset, length, .. }
                if self.data.is_empty(offset, length.into()) =>
            {
                return Some(self.answers.succeed(&asked, Duration::ZERO, DiskOutcome::Done));
            }
            DiskAction::Zero { offset, length, unmap } => Request::Zero { offset, length, unmap },
            DiskAction::Flush { with_checksums: false } => Request::Flush(failures),
            DiskAction::Flush { with_checksums: true } => {
                self.data.flush_with_checksums(means, failures, Then::Answer(asked));
                return None;
            }
            DiskAction::Map { .. } => return self.map(means, asked),
            DiskAction::SaveView(view, incarnations) => {
                return self.begin_view(means, asked, *view, incarnations);
            }
            DiskAction::SaveIntents(table) => {
                self.begin_table(means, asked, table);
                return None;
            }
            DiskAction::SaveMissing(pages) => {
                Request::WriteMetadata(Box::new(self.superblocks.bitmap_writes(pages)), failures)
            }
        };
        self.data.begin(means, request, Then::Answer(asked));
        None
    }

    /// Begins the save of a view, or lets it wait for its turn.
    fn begin_view(
        &mut self,
        means: &mut Means<'_, I>,
        asked: Asked,
        view: View,
        incarnations: Incarnations,
    ) -> Option<Ended> {
        if !self.superblocks.have_room_for(&view) {
            return Some(self.refuse(&asked, no_room()));
        }
        let refused = self.superblocks.save(asked, view, incarnations).err();
        self.next_save(means);
        refused.map(|(asked, error)| self.refuse(&asked, error))
    }

    /// Begins the save of a table. If it closes regions, their checksums become durable before.
    fn begin_table(&mut self, means: &mut Means<'_, I>, asked: Asked, table: OpenRegions) {
        if self.data.store().is_some() && self.tables.close_by(&table) {
            let failures = asked.failures();
            self.data.commit_checksums(means, failures, Then::Close(asked, Box::new(table)));
        } else {
            self.save_table(means, asked, table);
        }
    }

    fn save_table(&mut self, means: &mut Means<'_, I>, asked: Asked, table: OpenRegions) {
        let slot = table.slot;
        let request = Request::WriteMetadata(Box::new(self.tables.save(table)), asked.failures());
        self.data.begin(means, request, Then::Table(asked, slot));
    }

    /// Begins the save of a view whose turn it is.
    fn next_save(&mut self, means: &mut Means<'_, I>) {
        if let Some(request) = self.superblocks.next() {
            self.data.begin(means, request, Then::Superblock);
        }
    }

    /// Devices have a map of ours, which answers at once; without one all of it counts as
    /// allocated. Of a file the filesystem has a map.
    fn map(&mut self, means: &Means<'_, I>, asked: Asked) -> Option<Ended> {
        let (offset, length) = (asked.offset(), asked.length());
        let raw = self.data.raw();
        let extents = match self.data.extents(offset, length) {
            Some(extents) => extents,
            None if raw.layout().is_device() => vec![Extent { length, allocated: true }],
            None => {
                let start = raw.layout().on_disk(offset);
                let (replica, file) = (means.replica, raw.file().clone());
                let refused = self.questions.ask(&mut self.helper, replica, file, start, asked);
                return refused.err().map(|(asked, error)| self.refuse(&asked, error));
            }
        };
        Some(self.answers.succeed(&asked, Duration::ZERO, DiskOutcome::Extents(extents)))
    }

    /// The filesystem has told which parts of a range hold data.
    pub(crate) fn mapped(
        &mut self,
        now: Instant,
        job: Key,
        extents: std::io::Result<Vec<Extent>>,
    ) -> Option<Ended> {
        let asked = self.questions.answered(job)?;
        let result = extents.map(DiskOutcome::Extents).map_err(Failure::of);
        Some(self.answer(now, &asked, result))
    }

    /// Takes note of an operation that has ended.
    pub(crate) fn completed(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        completion: Completion,
    ) -> Option<Ended> {
        match self.data.completed(means, key, completion)? {
            End::Asked(then, result) => self.goes_on(means, then, result),
            End::Unasked { error, place, length } => {
                Some(self.answers.unasked(&error, place, length))
            }
        }
    }

    /// A request to the layers has ended: what follows?
    fn goes_on(
        &mut self,
        means: &mut Means<'_, I>,
        then: Then,
        result: Result<DiskOutcome<Buffer>, Failure>,
    ) -> Option<Ended> {
        match (then, result) {
            (Then::Close(asked, table), Ok(_)) => {
                self.save_table(means, asked, *table);
                None
            }
            (Then::Answer(asked) | Then::Close(asked, _), result) => {
                Some(self.answer(means.now, &asked, result))
            }
            (Then::Table(asked, slot), result) => {
                if result.is_ok() {
                    self.tables.saved(slot);
                }
                Some(self.answer(means.now, &asked, result))
            }
            (Then::Superblock, result) => match self.superblocks.completed(result.map(drop))? {
                Saved::Goes(request) => {
                    self.data.begin(means, request, Then::Superblock);
                    None
                }
                Saved::Ended(asked, result) => {
                    self.next_save(means);
                    Some(self.answer(means.now, &asked, result.map(|()| DiskOutcome::Done)))
                }
            },
        }
    }

    fn answer(
        &mut self,
        now: Instant,
        asked: &Asked,
        result: Result<DiskOutcome<Buffer>, Failure>,
    ) -> Ended {
        self.answers.answer(now, self.data.raw().failures(), asked, result)
    }

    fn refuse(&mut self, asked: &Asked, error: std::io::Error) -> Ended {
        self.answers.refuse(asked, error, self.data.raw().failures())
    }
}

fn outside() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is outside the replica's data")
}

fn broken() -> std::io::Error {
    std::io::Error::other("an earlier save of its superblocks failed: what they hold is unknown")
}

fn no_room() -> std::io::Error {
    std::io::Error::from_raw_os_error(libc::ENOSPC)
}
