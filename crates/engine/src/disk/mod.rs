//! A replica's disk: carries out the core's disk actions on the ring.
//!
//! What touches data goes through the layers of [`filters`]. Beside them are the parts that know
//! what the disk says of itself: superblocks, tables of open regions, and a growth that changes
//! both. Each has its own state, and returns what is to be asked of the layers. An action that has
//! begun is answered once.

mod checksums;
pub(crate) mod drive;
mod filters;
mod flushes;
mod growth;
mod helper;
mod io;
mod layout;
mod map;
mod metadata;
mod parts;
mod room;
#[cfg(test)]
mod simulation;
mod superblocks;
mod tables;

use std::time::Duration;

use evenkeel_core::replica::OpenRegions;
use evenkeel_core::{
    DiskAction, DiskError, DiskOutcome, DiskTicket, Extent, Instant, Payload as _, ReplicaId,
    VolumeId,
};
use evenkeel_format::{AllocationMap, Newest};

pub use self::checksums::carry::Carry;
pub use self::checksums::recover::Recovered;
use self::checksums::recover::recover;
use self::checksums::{Area, ChecksumStore};
use self::filters::{Checksums, DataWrite, End, Request};
use self::flushes::Failures;
pub(crate) use self::flushes::Flushes;
use self::growth::Growth;
use self::helper::Closed;
pub(crate) use self::helper::{Closer, Done, Helper, Teller};
pub(crate) use self::io::Access;
use self::io::Io;
pub use self::io::flush;
pub(crate) use self::layout::Layout;
pub use self::layout::smallest_block;
use self::map::Questions;
pub use self::metadata::{Metadata, read_metadata};
pub(crate) use self::room::{RoomFailure, RoomRequest};
pub use self::room::{RoomStep, RoomTask};
use self::superblocks::{Saved, Superblocks};
pub use self::tables::Tables;
use crate::counters::{DiskCounters, Kind};
use crate::memory::{Buffer, Pool};
use crate::ring::{Completion, Ring};
use crate::slab::Key;

/// What an action needs from the worker.
pub(crate) struct Means<'a, I = Ring> {
    pub(crate) ring: &'a mut I,
    pub(crate) pool: &'a Pool,
    /// By which completions find their way back.
    pub(crate) replica: Key,
    pub(crate) now: Instant,
}

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

/// An action that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None`: the disk itself asked for it.
    pub(crate) ticket: Option<DiskTicket>,
    pub(crate) outcome: Result<DiskOutcome<Buffer>, DiskError>,
    /// What failed, and why, if it did.
    pub(crate) failed: Option<(Kind, String)>,
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
    /// Flushes that had failed when the core was last told.
    reported: Failures,
    counters: DiskCounters,
}

/// An action that was begun.
#[derive(Debug)]
struct Asked {
    ticket: DiskTicket,
    kind: Kind,
    offset: u64,
    length: u64,
    began: Instant,
    /// Whether it is a write that is to be durable when it ends.
    is_durable: bool,
    /// Flushes that may have failed when it ends.
    failures: Failures,
}

impl Asked {
    const fn length(&self) -> u64 {
        self.length
    }

    const fn failures(&self) -> Failures {
        self.failures
    }
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

/// Why something has failed.
#[derive(Debug)]
struct Failure {
    error: std::io::Error,
    /// Whether it was a flush, which may have lost what was written before.
    is_lost: bool,
}

impl Failure {
    const fn of(error: std::io::Error) -> Self {
        Self { error, is_lost: false }
    }

    fn of_a_flush(self) -> Self {
        Self { is_lost: true, ..self }
    }

    fn told(&self) -> DiskError {
        if self.is_lost { DiskError::Lost } else { disk_error(&self.error) }
    }
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
        let reported = flushes.at_first();
        Self {
            data: Checksums::new((file, layout, flushes), (allocation, replica), store),
            superblocks: Superblocks::new(newest),
            tables,
            questions: Questions::none(),
            growth: Growth::default(),
            helper,
            reported,
            counters: DiskCounters::default(),
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
            ..self.counters.clone()
        }
    }

    /// Closes the file and gives its lock up, before that is told. Nothing may be under way.
    pub(crate) fn close(self, tell: Closed) {
        self.helper.close(self.data.into_file(), tell);
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
        let failed = self.data.raw().failures();
        core::mem::replace(&mut self.reported, failed) != failed
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
        let (kind, offset, length) = describe(&action);
        // To a flush all matter of which the core has not been told, as it covers all that was
        // written.
        let is_flush = matches!(kind, Kind::Flush);
        let failures = if is_flush { self.reported } else { self.data.raw().failures() };
        let is_durable = matches!(action, DiskAction::Write { durable: true, .. });
        let asked = Asked { ticket, kind, offset, length, began, is_durable, failures };
        if !self.data.raw().layout().holds(offset, length) {
            return Some(self.fail_at_once(asked, outside()));
        }
        if !self.superblocks.are_known() {
            return Some(self.fail_at_once(asked, broken()));
        }
        self.begin_asked(means, asked, action)
    }

    fn begin_asked(
        &mut self,
        means: &mut Means<'_, I>,
        asked: Asked,
        action: DiskAction<Buffer>,
    ) -> Option<Ended> {
        let failures = asked.failures;
        let request = match action {
            DiskAction::Read { offset, length } => Request::Read { offset, length },
            DiskAction::Write { offset, payload, durable } => {
                let durable = durable.then_some(failures);
                Request::Write(DataWrite { offset, payload, durable })
            }
            DiskAction::Zero { offset, length, .. }
                if self.data.is_empty(offset, length.into()) =>
            {
                return Some(self.succeed(asked, Duration::ZERO, DiskOutcome::Done));
            }
            DiskAction::Zero { offset, length, unmap } => Request::Zero { offset, length, unmap },
            DiskAction::Flush { with_checksums: false } => Request::Flush(failures),
            DiskAction::Flush { with_checksums: true } => {
                self.data.flush_with_checksums(means, failures, Then::Answer(asked));
                return None;
            }
            DiskAction::Map { .. } => return self.map(means, asked),
            DiskAction::SaveView(view, _) if !self.superblocks.have_room_for(&view) => {
                return Some(self.fail_at_once(asked, no_room()));
            }
            DiskAction::SaveView(view, incarnations) => {
                let refused = self.superblocks.save(asked, *view, incarnations).err();
                self.next_save(means);
                return refused.map(|(asked, error)| self.fail_at_once(asked, error));
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

    /// Begins the save of a table. If it closes regions, their checksums become durable before.
    fn begin_table(&mut self, means: &mut Means<'_, I>, asked: Asked, table: OpenRegions) {
        if self.data.store().is_some() && self.tables.close_by(&table) {
            let failures = asked.failures;
            self.data.commit_checksums(means, failures, Then::Close(asked, Box::new(table)));
        } else {
            self.save_table(means, asked, table);
        }
    }

    fn save_table(&mut self, means: &mut Means<'_, I>, asked: Asked, table: OpenRegions) {
        let slot = table.slot;
        let request = Request::WriteMetadata(Box::new(self.tables.save(table)), asked.failures);
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
        let Asked { offset, length, .. } = asked;
        let raw = self.data.raw();
        let extents = match self.data.extents(offset, length) {
            Some(extents) => extents,
            None if raw.layout().is_device => vec![Extent { length, allocated: true }],
            None => {
                let start = raw.layout().on_disk(offset);
                let file = (means.replica, raw.file().clone());
                let refused = self.questions.ask(&mut self.helper, file, (start, asked)).err();
                return refused.map(|(asked, error)| self.fail_at_once(asked, error));
            }
        };
        Some(self.succeed(asked, Duration::ZERO, DiskOutcome::Extents(extents)))
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
        Some(self.answer(now, asked, result))
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
                self.counters.kinds[Kind::Checksums as usize].note(Duration::ZERO, false, 0);
                let what = Kind::Checksums.in_words();
                let reason = format!("{what} ({length} bytes at byte {place} of it): {error}");
                let outcome = Err(disk_error(&error));
                Some(Ended { ticket: None, outcome, failed: Some((Kind::Checksums, reason)) })
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
                Some(self.answer(means.now, asked, result))
            }
            (Then::Table(asked, slot), result) => {
                if result.is_ok() {
                    self.tables.saved(slot);
                }
                Some(self.answer(means.now, asked, result))
            }
            (Then::Superblock, result) => match self.superblocks.completed(result.map(drop))? {
                Saved::Goes(request) => {
                    self.data.begin(means, request, Then::Superblock);
                    None
                }
                Saved::Ended(asked, result) => {
                    self.next_save(means);
                    Some(self.answer(means.now, asked, result.map(|()| DiskOutcome::Done)))
                }
            },
        }
    }

    fn answer(
        &mut self,
        now: Instant,
        asked: Asked,
        result: Result<DiskOutcome<Buffer>, Failure>,
    ) -> Ended {
        let took = now.since(asked.began);
        match result {
            Ok(outcome) => self.succeed(asked, took, outcome),
            Err(failure) if self.is_failed_flush(&asked, &failure) => {
                self.fail(asked, took, &failure.of_a_flush())
            }
            Err(failure) => self.fail(asked, took, &failure),
        }
    }

    /// Whether a durable write has failed as a flush does: then one has failed since it began. If
    /// none has, there was no space, or the read of a block of which it changes a part has failed.
    fn is_failed_flush(&self, asked: &Asked, failure: &Failure) -> bool {
        let has_failed = self.data.raw().failures() != asked.failures;
        asked.is_durable && has_failed && !is_of_space(&failure.error)
    }

    fn succeed(&mut self, asked: Asked, took: Duration, outcome: DiskOutcome<Buffer>) -> Ended {
        self.counters.kinds[asked.kind as usize].note(took, true, asked.length);
        Ended { ticket: Some(asked.ticket), outcome: Ok(outcome), failed: None }
    }

    fn fail_at_once(&mut self, asked: Asked, error: std::io::Error) -> Ended {
        self.fail(asked, Duration::ZERO, &Failure::of(error))
    }

    fn fail(&mut self, asked: Asked, took: Duration, failure: &Failure) -> Ended {
        let Asked { ticket, kind, offset, length, .. } = asked;
        if failure.is_lost || kind == Kind::Flush {
            // By this the core learns of all flushes that have failed.
            self.reported = self.data.raw().failures();
        }
        self.counters.kinds[kind as usize].note(took, false, 0);
        let (what, error) = (kind.in_words(), &failure.error);
        // Of what is in one place only it is not said where.
        let reason = match length {
            0 => format!("{what}: {error}"),
            _ => format!("{what} {length} bytes at byte {offset} of the replica: {error}"),
        };
        Ended { ticket: Some(ticket), outcome: Err(failure.told()), failed: Some((kind, reason)) }
    }
}

fn describe(action: &DiskAction<Buffer>) -> (Kind, u64, u64) {
    match action {
        DiskAction::Read { offset, length } => (Kind::Read, *offset, u64::from(*length)),
        DiskAction::Write { offset, payload, .. } => {
            (Kind::Write, *offset, u64::from(payload.length()))
        }
        DiskAction::Zero { offset, length, .. } => (Kind::Zero, *offset, u64::from(*length)),
        DiskAction::Flush { .. } => (Kind::Flush, 0, 0),
        DiskAction::Map { offset, length } => (Kind::Map, *offset, u64::from(*length)),
        DiskAction::SaveView(..) => (Kind::SaveView, 0, 0),
        DiskAction::SaveIntents(_) => (Kind::SaveIntents, 0, 0),
        DiskAction::SaveMissing(_) => (Kind::SaveMissing, 0, 0),
    }
}

fn disk_error(error: &std::io::Error) -> DiskError {
    match error.raw_os_error() {
        _ if is_of_space(error) => DiskError::NoSpace,
        None if error.kind() == std::io::ErrorKind::InvalidData => DiskError::Damaged,
        _ => DiskError::Medium,
    }
}

fn is_of_space(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG))
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

fn cut_short() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the file or device ends before")
}
