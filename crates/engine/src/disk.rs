//! A replica's disk: carries out the core's disk actions on the ring.
//!
//! An action that has begun is never cancelled and never forgotten; short reads and writes are
//! continued. Memory that the disk can't take as it lies is copied to an aligned slot first.

mod allocation;
mod checked;
mod checksums;
pub(crate) mod drive;
mod extend;
mod flushes;
mod helper;
mod io;
mod layout;
mod map;
mod metadata;
mod parts;
mod save;
#[cfg(test)]
mod simulation;
mod zero;

use std::time::Duration;

use evenkeel_core::{
    DiskAction, DiskError, DiskOutcome, DiskTicket, Instant, Payload, ReplicaId, VolumeId,
};
use evenkeel_format::{AllocationMap, Newest};

use self::allocation::Allocation;
use self::checked::Checked;
pub use self::checksums::carry::Carry;
pub use self::checksums::recover::Recovered;
use self::checksums::recover::recover;
use self::checksums::{Area, Checksums};
use self::extend::Room;
pub(crate) use self::extend::{RoomFailure, RoomRequest};
pub(crate) use self::flushes::Flushes;
pub(crate) use self::helper::{Closer, Helper};
pub(crate) use self::io::Access;
use self::io::Io;
pub use self::io::flush;
pub(crate) use self::layout::Layout;
pub use self::layout::smallest_block;
use self::metadata::Writes;
pub use self::metadata::{Metadata, Tables, read_metadata};
use self::save::Saves;
use self::zero::Zeroing;
use crate::api::EngineError;
use crate::counters::{DiskCounters, Kind};
use crate::engine::Answer;
use crate::pool::Pool;
use crate::ring::{Completion, Kept, Owner, Ring};
use crate::slab::{Key, Slab};
use crate::slot::Slot;

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
    pub(crate) outcome: Result<DiskOutcome<Slot>, DiskError>,
    /// For the log, if it failed.
    pub(crate) reason: Option<String>,
}

/// See the module's documentation.
pub(crate) struct Disk<I: Io = Ring> {
    file: I::File,
    layout: Layout,
    jobs: Slab<Job>,
    saves: Saves,
    flushes: Flushes,
    helper: Helper,
    room: Room,
    tables: Tables,
    allocation: Option<Allocation>,
    checksums: Option<Checksums>,
    /// What the disk holds is unknown: it does nothing more.
    is_broken: bool,
    /// Whether the file or device has turned out not to know how to punch holes or zero ranges.
    without: zero::Unsupported,
    pub(crate) counters: DiskCounters,
}

#[derive(Debug)]
struct Job {
    /// `None`: nobody waits for it.
    ticket: Option<DiskTicket>,
    kind: Kind,
    offset: u64,
    length: u64,
    began: Instant,
    step: Step,
    checked: Checked,
    /// See [`Flushes::before`].
    failures_before: u64,
}

#[derive(Debug)]
enum Step {
    /// So many bytes have been read.
    Read(usize),
    /// So many bytes have been written.
    Write(usize),
    Flush,
    Zero(Zeroing),
    Save,
    Metadata(Writes),
    /// The helper looks for what is allocated.
    Map,
}

/// What a completed operation leads to.
enum Progress {
    /// Another operation has been begun.
    More,
    Done(DiskOutcome<Slot>),
    Failed(std::io::Error),
}

/// What a replica's disk holds is made durable and read, and its checksums are put in order: before anything
/// relies on it. Blocks on the disk.
///
/// # Errors
/// If the disk can't be flushed or written, or it can't be read but for single sectors.
pub(crate) fn prepare(
    file: &impl Access,
    newest: &mut Newest,
) -> std::io::Result<(Metadata, Option<Recovered>)> {
    // What was found may be what a killed process had not made durable. It counts from now on, and the
    // other copy is the one that is written next.
    file.flush()?;
    save::equalise(file, newest)?;
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
        let checksums =
            recovered.map(|recovered| Checksums::new(Area::of(&newest.superblock), recovered));
        Self {
            file,
            layout,
            jobs: Slab::new(),
            saves: Saves::new(newest),
            flushes,
            helper,
            room: Room::default(),
            tables,
            allocation: allocation.map(Allocation::new),
            checksums,
            is_broken: false,
            without: zero::Unsupported::default(),
            counters: DiskCounters::default(),
        }
    }

    pub(crate) fn volume(&self) -> VolumeId {
        self.saves.superblock.volume
    }

    pub(crate) fn replica(&self) -> ReplicaId {
        self.saves.superblock.replica
    }

    /// Closes the file and gives its lock up, before the answer. Nothing may be under way.
    pub(crate) fn close(self, answer: Answer<Result<(), EngineError>>) {
        self.helper.close(self.file, Ok(()), answer);
    }

    /// Closes the file because the worker ends, whatever is under way.
    pub(crate) fn close_at_end(self) {
        self.helper.close_at_end(self.file);
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.len() == 0 && self.room.is_idle()
    }

    /// Begins an action. Some end at once, and some wait until there is room.
    pub(crate) fn begin(
        &mut self,
        means: &mut Means<'_, I>,
        ticket: DiskTicket,
        action: DiskAction<Slot>,
    ) -> Option<Ended> {
        if !self.room.is_idle() {
            self.room.hold(means.now, ticket, action);
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
        action: DiskAction<Slot>,
    ) -> Option<Ended> {
        self.notice_failures();
        let (kind, offset, length, step) = describe(&action);
        let (ticket, checked) = (Some(ticket), Checked::No);
        let failures_before = self.flushes.before(kind);
        let job = Job { ticket, kind, offset, length, began, step, checked, failures_before };
        if !self.layout.holds(offset, length) {
            return self.fail(&job, Duration::ZERO, outside());
        }
        if self.is_broken {
            return self.fail(&job, Duration::ZERO, broken());
        }
        match action {
            DiskAction::Map { offset, length } => self.map(means, job, offset, length.into()),
            DiskAction::SaveView(view, _) if !self.has_room_for(&view) => {
                self.fail(&job, Duration::ZERO, no_room())
            }
            DiskAction::SaveView(view, lives) => {
                let key = self.jobs.insert(job);
                let refused = self.save(means, key, *view, lives)?;
                let job = self.jobs.remove(key)?;
                self.fail(&job, Duration::ZERO, refused)
            }
            DiskAction::SaveMissing(pages) => {
                let writes = self.page_writes(pages);
                self.begin_metadata(means, job, writes)
            }
            DiskAction::Zero { .. } if self.is_empty(offset, length) => {
                self.succeed(&job, Duration::ZERO, DiskOutcome::Done)
            }
            action => {
                let key = self.jobs.insert(job);
                self.begin_checked(means, key, action);
                None
            }
        }
    }

    /// Whether a range is known to hold nothing.
    fn is_empty(&self, offset: u64, length: u64) -> bool {
        self.allocation.as_ref().is_some_and(|allocation| allocation.is_empty(offset, length))
    }

    fn begin_metadata(
        &mut self,
        means: &mut Means<'_, I>,
        job: Job,
        writes: Writes,
    ) -> Option<Ended> {
        let key = self.jobs.insert(Job { step: Step::Metadata(writes), ..job });
        self.write_metadata(means, key);
        None
    }

    fn submit(&mut self, means: &mut Means<'_, I>, key: Key, action: DiskAction<Slot>) {
        let owner = Owner::Disk { replica: means.replica, job: key };
        match action {
            DiskAction::Read { offset, length } => {
                let length = length as usize;
                let memory = means.pool.take(length);
                let offset = self.layout.on_disk(offset);
                means.ring.read(owner, &self.file, memory, 0..length, offset);
            }
            DiskAction::Write { offset, payload } => {
                let payload = self.layout.aligned(means.pool, payload);
                means.ring.write(owner, &self.file, payload, 0, self.layout.on_disk(offset));
            }
            DiskAction::Zero { .. } => self.zero(means, key),
            DiskAction::Flush { .. } => means.ring.flush(owner, &self.file),
            // Begun elsewhere.
            DiskAction::Map { .. }
            | DiskAction::SaveView(..)
            | DiskAction::SaveIntents(_)
            | DiskAction::SaveMissing(_) => {}
        }
    }

    /// Takes note of an operation that has ended.
    pub(crate) fn completed(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        completion: Completion,
    ) -> Option<Ended> {
        let progress = match self.advance(means, key, completion)? {
            Progress::Done(_) if !self.is_believed(self.jobs.get(key)?) => {
                Progress::Failed(flushes::not_believed())
            }
            Progress::Done(outcome) => self.ended_well(means, key, outcome),
            progress => progress,
        };
        if matches!(progress, Progress::More) {
            return None;
        }
        let mut job = self.jobs.remove(key)?;
        let took = means.now.since(job.began);
        match progress {
            Progress::Failed(error) => {
                let is_lost = matches!(&job.checked, Checked::Commit(c) if c.is_flushing());
                if is_lost || job.kind == Kind::Flush {
                    self.flushes.report();
                }
                self.failed_in_map(means, key);
                self.failed_in_checksums(means, &mut job);
                let outcome = Err(if is_lost { DiskError::Lost } else { disk_error(&error) });
                let ended = self.fail(&job, took, error)?;
                Some(Ended { outcome, ..ended })
            }
            Progress::Done(outcome) => self.succeed(&job, took, outcome),
            Progress::More => None,
        }
    }

    /// An operation has ended well: what follows for its job?
    fn ended_well(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        outcome: DiskOutcome<Slot>,
    ) -> Progress {
        let outcome = match self.prepared(means, key, outcome) {
            Progress::Done(outcome) => outcome,
            progress => return progress,
        };
        match self.ended_in_map(means, key, outcome) {
            Progress::Done(outcome) => self.ended_in_checksums(means, key, outcome),
            progress => progress,
        }
    }

    fn advance(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        completion: Completion,
    ) -> Option<Progress> {
        let job = self.jobs.get_mut(key)?;
        // `None`: the kernel asks for another try.
        let count = match completion.result {
            Ok(count) => Some(count),
            Err(error) if is_transient(&error) => None,
            Err(error) if matches!(job.step, Step::Save) => {
                if self.saves.is_flushing() {
                    self.flush_failed(&error);
                }
                return Some(self.save_failed(means, error));
            }
            Err(error) if matches!(job.step, Step::Zero(_)) => {
                return Some(self.zero_failed(means, key, error));
            }
            Err(error) => {
                let is_of_space = matches!(disk_error(&error), DiskError::NoSpace);
                match &job.step {
                    Step::Flush => self.flush_failed(&error),
                    // A write for which there is no space is refused, before anything is flushed.
                    step if flushes::counts_on_flushes(step) && !is_of_space => {
                        self.flush_failed(&error);
                    }
                    _ => {}
                }
                return Some(Progress::Failed(error));
            }
        };
        match (&mut job.step, completion.kept) {
            (Step::Read(_) | Step::Write(_), kept) => {
                Some(self.transfer_goes_on(means, key, kept, count))
            }
            (Step::Flush, _) if count.is_none() => {
                means.ring.flush(completion.owner, &self.file);
                Some(Progress::More)
            }
            (Step::Flush, _) => Some(Progress::Done(DiskOutcome::Done)),
            (Step::Zero(_), kept) => Some(self.zero_goes_on(means, key, kept, count)),
            // Not the ring's.
            (Step::Map, _) => None,
            (Step::Save, _) => Some(self.save_goes_on(means, count)),
            (Step::Metadata(_), kept) => Some(self.metadata_goes_on(means, key, kept, count)),
        }
    }

    /// Continues a read or write that was cut short.
    fn transfer_goes_on(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        kept: Kept,
        count: Option<usize>,
    ) -> Progress {
        let owner = Owner::Disk { replica: means.replica, job: key };
        let Some(job) = self.jobs.get_mut(key) else { return Progress::More };
        let (Step::Read(done) | Step::Write(done)) = &mut job.step else { return Progress::More };
        *done += count.unwrap_or(0);
        let (done, offset) = (*done, self.layout.on_disk(job.offset + *done as u64));
        match kept {
            Kept::Fill(memory) if done == memory.len() => {
                return Progress::Done(DiskOutcome::Data(memory.freeze()));
            }
            Kept::Data(payload) if done == payload.len() => {
                return Progress::Done(DiskOutcome::Done);
            }
            _ if count == Some(0) => return Progress::Failed(cut_short()),
            Kept::Fill(memory) => {
                let range = done..memory.len();
                means.ring.read(owner, &self.file, memory, range, offset);
            }
            Kept::Data(payload) => means.ring.write(owner, &self.file, payload, done, offset),
            _ => {}
        }
        Progress::More
    }

    fn succeed(&mut self, job: &Job, took: Duration, outcome: DiskOutcome<Slot>) -> Option<Ended> {
        self.counters.kinds[job.kind as usize].note(took, true, job.length);
        Some(Ended { ticket: Some(job.ticket?), outcome: Ok(outcome), reason: None })
    }

    fn fail(&mut self, job: &Job, took: Duration, error: std::io::Error) -> Option<Ended> {
        self.counters.kinds[job.kind as usize].note(took, false, 0);
        let reason = format!(
            "{:?} of {} bytes at byte {} of the replica: {error}",
            job.kind, job.length, job.offset
        );
        Some(Ended { ticket: job.ticket, outcome: Err(disk_error(&error)), reason: Some(reason) })
    }
}

fn describe(action: &DiskAction<Slot>) -> (Kind, u64, u64, Step) {
    match action {
        DiskAction::Read { offset, length } => {
            (Kind::Read, *offset, u64::from(*length), Step::Read(0))
        }
        DiskAction::Write { offset, payload } => {
            (Kind::Write, *offset, u64::from(payload.length()), Step::Write(0))
        }
        DiskAction::Zero { offset, length, unmap } => {
            (Kind::Zero, *offset, u64::from(*length), Step::Zero(Zeroing::new(*unmap)))
        }
        DiskAction::Flush { .. } => (Kind::Flush, 0, 0, Step::Flush),
        DiskAction::Map { offset, length } => (Kind::Map, *offset, u64::from(*length), Step::Map),
        DiskAction::SaveView(..) => (Kind::SaveView, 0, 0, Step::Save),
        // What is to be written is put in its place when it is known.
        DiskAction::SaveIntents(_) => (Kind::SaveIntents, 0, 0, Step::Save),
        DiskAction::SaveMissing(_) => (Kind::SaveMissing, 0, 0, Step::Save),
    }
}

fn disk_error(error: &std::io::Error) -> DiskError {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => DiskError::NoSpace,
        None if error.kind() == std::io::ErrorKind::InvalidData => DiskError::Damaged,
        _ => DiskError::Medium,
    }
}

fn is_transient(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN))
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
