//! Operations on a replica's file or device: continued where they were cut short, repeated where
//! they were interrupted. One that has begun is never cancelled and never forgotten. Memory that
//! the device can't take as it lies is copied to an aligned buffer first.

mod writes;
mod zero;

use std::io;
use std::ops::Range;

use evenkeel_core::DiskOutcome;
use evenkeel_format::SUPERBLOCK_LENGTH;

pub(in crate::disk) use self::writes::Writes;
use self::zero::{Unsupported, Zeroing};
use super::{DataWrite, Outcome, Request};
use crate::disk::flushes::{Failures, Flushes};
use crate::disk::io::Io;
use crate::disk::{Layout, Means, cut_short, is_of_space};
use crate::memory::Buffer;
use crate::ring::{Completion, Kept, Owner};
use crate::slab::{Key, Slab};

/// See the module's documentation. `T`: what is told of a request when it has ended.
pub(in crate::disk) struct RawDisk<I: Io, T> {
    file: I::File,
    layout: Layout,
    operations: Slab<Operation<T>>,
    unsupported: Unsupported,
    flushes: Flushes,
}

#[derive(Debug)]
struct Operation<T> {
    step: Step,
    then: T,
}

#[derive(Debug)]
enum Step {
    Read { place: u64, done: usize },
    Write { place: u64, done: usize, durable: Option<Failures> },
    Zero(Zeroing),
    Flush(Failures),
    Metadata(Box<Writes>, Failures),
    Superblock { place: u64, done: usize },
}

impl Step {
    /// How many flushes may have failed when it ends, if it makes anything durable.
    const fn failures_before(&self) -> Option<Failures> {
        match self {
            Self::Flush(failures) => Some(*failures),
            Self::Write { durable, .. } => *durable,
            Self::Metadata(writes, failures) if !writes.is_flushed_later() => Some(*failures),
            _ => None,
        }
    }
}

impl<I: Io, T> RawDisk<I, T> {
    pub(super) const fn new(file: I::File, layout: Layout, flushes: Flushes) -> Self {
        let unsupported = Unsupported::none();
        Self { file, layout, operations: Slab::new(), unsupported, flushes }
    }

    pub(in crate::disk) const fn file(&self) -> &I::File {
        &self.file
    }

    pub(super) fn into_file(self) -> I::File {
        self.file
    }

    pub(in crate::disk) const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The data have become longer.
    pub(in crate::disk) const fn set_length(&mut self, length: u64) {
        self.layout.set_length(length);
    }

    /// How many flushes have failed until now.
    pub(in crate::disk) fn failures(&self) -> Failures {
        self.flushes.failed()
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.operations.is_empty()
    }

    /// Whether superblocks or other metadata are being written.
    pub(in crate::disk) fn writes_metadata(&self) -> bool {
        let is_metadata =
            |step: &Step| matches!(step, Step::Metadata(..) | Step::Superblock { .. });
        self.operations.iter().any(|(_, operation)| is_metadata(&operation.step))
    }

    /// What a mistake would do: what was refused for want of space counts as a flush.
    #[cfg(test)]
    pub(in crate::disk) fn count_failed_flush(&mut self) {
        self.flushes.flush_failed(&io::Error::from_raw_os_error(libc::ENOSPC));
    }

    /// What a mistake would do: whatever is under way is believed.
    #[cfg(test)]
    pub(in crate::disk) fn believe_flushes(&mut self) {
        let failed = self.failures();
        for key in self.operations.keys() {
            let step = self.operations.get_mut(key).map(|operation| &mut operation.step);
            if let Some(
                Step::Flush(before)
                | Step::Metadata(_, before)
                | Step::Write { durable: Some(before), .. },
            ) = step
            {
                *before = failed;
            }
        }
    }

    pub(super) fn begin(&mut self, means: &mut Means<'_, I>, request: Request, then: T) {
        match request {
            Request::Read { offset, length } => {
                self.read(means, self.layout.on_disk(offset), length, then);
            }
            Request::ReadMetadata { place, length } => self.read(means, place, length, then),
            Request::Write(DataWrite { offset, payload, durable }) => {
                let place = self.layout.on_disk(offset);
                let payload = self.layout.aligned(means.pool, payload);
                let owner = self.keep(means, Step::Write { place, done: 0, durable }, then);
                write(means, owner, &self.file, (payload, 0, place), durable.is_some());
            }
            Request::Zero { offset, length, unmap } => {
                let place = self.layout.on_disk(offset);
                let zeroing = Zeroing::new(place, length.into(), unmap, &self.unsupported);
                let owner = self.keep(means, Step::Zero(zeroing), then);
                zeroing.begin(means, owner, &self.file);
            }
            Request::Flush(failures) | Request::Barrier(failures) => {
                let owner = self.keep(means, Step::Flush(failures), then);
                means.ring.flush(owner, &self.file);
            }
            Request::WriteMetadata(writes, failures) => {
                let (place, piece) = writes.piece(means.pool);
                let is_flushed_later = writes.is_flushed_later();
                let owner = self.keep(means, Step::Metadata(writes, failures), then);
                write(means, owner, &self.file, (piece, 0, place), !is_flushed_later);
            }
            Request::WriteSuperblock { place, bytes } => {
                let owner = self.keep(means, Step::Superblock { place, done: 0 }, then);
                means.ring.write_superblock(owner, &self.file, bytes, 0, place);
            }
        }
    }

    fn read(&mut self, means: &mut Means<'_, I>, place: u64, length: u32, then: T) {
        let memory = means.pool.take(length as usize);
        let owner = self.keep(means, Step::Read { place, done: 0 }, then);
        means.ring.read(owner, &self.file, memory, 0..length as usize, place);
    }

    fn keep(&mut self, means: &Means<'_, I>, step: Step, then: T) -> Owner {
        let job = self.operations.insert(Operation { step, then });
        Owner::Disk { replica: means.replica, job }
    }

    /// Takes note of an operation that has ended. Returns what is told of its request, if that has
    /// ended by it.
    pub(super) fn completed(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        completion: Completion,
    ) -> Option<(T, Outcome)> {
        let Completion { owner, result, kept, .. } = completion;
        let outcome = match result {
            Ok(count) => self.goes_on(means, (owner, key), kept, Some(count))?,
            Err(error) if is_transient(&error) => self.goes_on(means, (owner, key), kept, None)?,
            Err(error) => self.failed(means, (owner, key), error)?,
        };
        let Operation { step, then } = self.operations.remove(key)?;
        match step.failures_before() {
            Some(before) if outcome.is_ok() && before != self.failures() => {
                Some((then, Err(not_believed())))
            }
            _ => Some((then, outcome)),
        }
    }

    /// Goes on with an operation of which so many bytes are done; `None`: the kernel asks for
    /// another try. Returns what it has led to, if it has ended.
    fn goes_on(
        &mut self,
        means: &mut Means<'_, I>,
        (owner, key): (Owner, Key),
        kept: Kept,
        count: Option<usize>,
    ) -> Option<Outcome> {
        let file = &self.file;
        match (&mut self.operations.get_mut(key)?.step, kept) {
            (Step::Read { place, done }, Kept::Fill(memory)) => {
                let at = match advance(done, count, memory.len()) {
                    Advance::Whole => return Some(Ok(DiskOutcome::Data(memory.freeze()))),
                    Advance::CutShort => return Some(Err(cut_short())),
                    Advance::Part(at) => at,
                };
                let range: Range<usize> = at..memory.len();
                means.ring.read(owner, file, memory, range, *place + at as u64);
                None
            }
            (Step::Write { place, done, durable }, Kept::Data(payload)) => {
                match advance(done, count, payload.len()) {
                    Advance::Whole => return Some(Ok(DiskOutcome::Done)),
                    Advance::CutShort => return Some(Err(cut_short())),
                    Advance::Part(at) => {
                        write(means, owner, file, (payload, at, *place), durable.is_some());
                    }
                }
                None
            }
            (Step::Superblock { place, done }, Kept::Superblock(bytes)) => {
                match advance(done, count, SUPERBLOCK_LENGTH) {
                    Advance::Whole => return Some(Ok(DiskOutcome::Done)),
                    Advance::CutShort => return Some(Err(cut_short())),
                    Advance::Part(at) => {
                        means.ring.write_superblock(owner, file, bytes, at, *place)
                    }
                }
                None
            }
            (Step::Metadata(writes, _), Kept::Data(piece)) => {
                metadata_goes_on(means, owner, file, writes, piece, count)
            }
            (Step::Zero(zeroing), kept) => zeroing.goes_on(means, owner, file, kept, count),
            (Step::Flush(_), _) if count.is_none() => {
                means.ring.flush(owner, file);
                None
            }
            (Step::Flush(_), _) => Some(Ok(DiskOutcome::Done)),
            (step, kept) => {
                Some(Err(io::Error::other(format!("{step:?} has ended with {kept:?}"))))
            }
        }
    }

    /// An operation has failed: another way is tried, or that is what its request has led to.
    fn failed(
        &mut self,
        means: &mut Means<'_, I>,
        (owner, key): (Owner, Key),
        error: io::Error,
    ) -> Option<Outcome> {
        let step = &mut self.operations.get_mut(key)?.step;
        if let Step::Zero(zeroing) = step
            && zeroing.takes_another_way(&error, &mut self.unsupported)
        {
            zeroing.begin(means, owner, &self.file);
            return None;
        }
        let counts = match step {
            Step::Flush(_) => true,
            // A write for which there is no space is refused, before anything is flushed.
            step => step.failures_before().is_some() && !is_of_space(&error),
        };
        if counts {
            self.flushes.flush_failed(&error);
        }
        Some(Err(error))
    }
}

/// How far a transfer is.
enum Advance {
    Whole,
    /// So many bytes are done.
    Part(usize),
    /// The file or device ends before.
    CutShort,
}

/// Takes note of what a transfer of so many bytes has done; `None`: nothing, and it is to be tried
/// again.
fn advance(done: &mut usize, count: Option<usize>, length: usize) -> Advance {
    *done += count.unwrap_or(0);
    match count {
        _ if *done >= length => Advance::Whole,
        Some(0) => Advance::CutShort,
        _ => Advance::Part(*done),
    }
}

/// Writes data without their first bytes, which belong there.
fn write<I: Io>(
    means: &mut Means<'_, I>,
    owner: Owner,
    file: &I::File,
    (piece, skip, place): (Buffer, usize, u64),
    is_durable: bool,
) {
    let place = place + skip as u64;
    if is_durable {
        means.ring.write_durably(owner, file, piece, skip, place);
    } else {
        means.ring.write(owner, file, piece, skip, place);
    }
}

fn metadata_goes_on<I: Io>(
    means: &mut Means<'_, I>,
    owner: Owner,
    file: &I::File,
    writes: &mut Writes,
    piece: Buffer,
    count: Option<usize>,
) -> Option<Outcome> {
    let is_durable = !writes.is_flushed_later();
    let next = match writes.wrote(count, piece.len()) {
        Advance::CutShort => return Some(Err(cut_short())),
        Advance::Part(done) => (piece, done, writes.place()),
        Advance::Whole if writes.is_empty() => return Some(Ok(DiskOutcome::Done)),
        Advance::Whole => {
            let (place, piece) = writes.piece(means.pool);
            (piece, 0, place)
        }
    };
    write(means, owner, file, next, is_durable);
    None
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN))
}

/// Why a request is not believed whose own operations have ended well.
fn not_believed() -> io::Error {
    io::Error::other("a flush of this disk has failed: what was written before may be lost")
}

#[cfg(test)]
mod tests;
