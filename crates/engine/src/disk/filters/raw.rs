//! Operations on a replica's file or device: continued where they were cut short, repeated where
//! they were interrupted. One that has begun is never cancelled and never forgotten. Memory that
//! the device can't take as it lies is copied to an aligned buffer first.

mod invariants;
mod zero;

use std::io;
use std::ops::Range;

use evenkeel_core::DiskOutcome;
use evenkeel_format::{SUPERBLOCK_LENGTH, SuperblockBytes};

use self::zero::{Unsupported, Zeroing};
use super::{DataWrite, Outcome, Request};
use crate::disk::device::{
    Advance, Failures, Flushes, Io, Layout, Means, Writes, advance, cut_short, is_of_space,
};
use crate::memory::{Buffer, BufferMut};
use crate::ring::{Completion, Kept, Key, Owner, Slab, is_transient};

/// See the module's documentation. `T`: what is told of a request when it has ended.
pub(in crate::disk) struct RawDisk<I: Io, T> {
    file: I::File,
    layout: Layout,
    operations: Slab<Pending<T>>,
    unsupported: Unsupported,
    flushes: Flushes,
}

#[derive(Debug)]
struct Pending<T> {
    operation: Operation,
    then: T,
}

#[derive(Debug)]
enum Operation {
    Read { place: u64, done: usize },
    Write { place: u64, done: usize, durable: Option<Failures> },
    Zero(Zeroing),
    Flush(Failures),
    Metadata(Box<Writes>, Failures),
    Superblock { place: u64, done: usize },
}

impl Operation {
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
        let is_metadata = |operation: &Operation| {
            matches!(operation, Operation::Metadata(..) | Operation::Superblock { .. })
        };
        self.operations.iter().any(|(_, pending)| is_metadata(&pending.operation))
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
            let operation = self.operations.get_mut(key).map(|pending| &mut pending.operation);
            if let Some(
                Operation::Flush(before)
                | Operation::Metadata(_, before)
                | Operation::Write { durable: Some(before), .. },
            ) = operation
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
            Request::Write(DataWrite { offset, payload, durable, .. }) => {
                let place = self.layout.on_disk(offset);
                let payload = self.layout.aligned(means.pool, payload);
                let owner = self.keep(means, Operation::Write { place, done: 0, durable }, then);
                let piece = Piece { data: payload, done: 0, place };
                write(means, owner, &self.file, piece, durable.is_some());
            }
            Request::Zero { offset, length, unmap } => {
                let place = self.layout.on_disk(offset);
                let zeroing = Zeroing::new(place, length.into(), unmap, &self.unsupported);
                let owner = self.keep(means, Operation::Zero(zeroing), then);
                zeroing.begin(means, owner, &self.file);
            }
            Request::Flush(failures) | Request::Barrier(failures) => {
                let owner = self.keep(means, Operation::Flush(failures), then);
                means.ring.flush(owner, &self.file);
            }
            Request::WriteMetadata(writes, failures) => {
                let (place, data) = writes.piece(means.pool);
                let is_flushed_later = writes.is_flushed_later();
                let owner = self.keep(means, Operation::Metadata(writes, failures), then);
                let piece = Piece { data, done: 0, place };
                write(means, owner, &self.file, piece, !is_flushed_later);
            }
            Request::WriteSuperblock { place, bytes } => {
                let owner = self.keep(means, Operation::Superblock { place, done: 0 }, then);
                means.ring.write_superblock(owner, &self.file, bytes, 0, place);
            }
        }
    }

    fn read(&mut self, means: &mut Means<'_, I>, place: u64, length: u32, then: T) {
        let memory = means.pool.take(length as usize);
        let owner = self.keep(means, Operation::Read { place, done: 0 }, then);
        means.ring.read(owner, &self.file, memory, 0..length as usize, place);
    }

    fn keep(&mut self, means: &Means<'_, I>, operation: Operation, then: T) -> Owner {
        let job = self.operations.insert(Pending { operation, then });
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
            Ok(count) => self.goes_on(means, owner, key, kept, Some(count))?,
            Err(error) if is_transient(&error) => self.goes_on(means, owner, key, kept, None)?,
            Err(error) => self.failed(means, owner, key, error)?,
        };
        let Pending { operation, then } = self.operations.remove(key)?;
        match operation.failures_before() {
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
        owner: Owner,
        key: Key,
        kept: Kept,
        count: Option<usize>,
    ) -> Option<Outcome> {
        let file = &self.file;
        match (&mut self.operations.get_mut(key)?.operation, kept) {
            (Operation::Read { place, done }, Kept::Fill(memory)) => {
                read_goes_on(means, owner, file, *place, done, memory, count)
            }
            (Operation::Write { place, done, durable }, Kept::Data(payload)) => {
                match advance(done, count, payload.len()) {
                    Advance::Whole => return Some(Ok(DiskOutcome::Done)),
                    Advance::CutShort => return Some(Err(cut_short())),
                    Advance::Part(at) => {
                        let piece = Piece { data: payload, done: at, place: *place };
                        write(means, owner, file, piece, durable.is_some());
                    }
                }
                None
            }
            (Operation::Superblock { place, done }, Kept::Superblock(bytes)) => {
                superblock_goes_on(means, owner, file, *place, done, bytes, count)
            }
            (Operation::Metadata(writes, _), Kept::Data(piece)) => {
                metadata_goes_on(means, owner, file, writes, piece, count)
            }
            (Operation::Zero(zeroing), kept) => zeroing.goes_on(means, owner, file, kept, count),
            (Operation::Flush(_), _) if count.is_none() => {
                means.ring.flush(owner, file);
                None
            }
            (Operation::Flush(_), _) => Some(Ok(DiskOutcome::Done)),
            (operation, kept) => {
                Some(Err(io::Error::other(format!("{operation:?} has ended with {kept:?}"))))
            }
        }
    }

    /// An operation has failed: another way is tried, or that is what its request has led to.
    fn failed(
        &mut self,
        means: &mut Means<'_, I>,
        owner: Owner,
        key: Key,
        error: io::Error,
    ) -> Option<Outcome> {
        let operation = &mut self.operations.get_mut(key)?.operation;
        if let Operation::Zero(zeroing) = operation
            && zeroing.takes_another_way(&error, &mut self.unsupported)
        {
            zeroing.begin(means, owner, &self.file);
            return None;
        }
        let counts = match operation {
            Operation::Flush(_) => true,
            // A write for which there is no space is refused, before anything is flushed.
            operation => operation.failures_before().is_some() && !is_of_space(&error),
        };
        if counts {
            self.flushes.flush_failed(&error);
        }
        Some(Err(error))
    }
}

/// Data that belong at a place of the file, from its first byte on.
struct Piece {
    data: Buffer,
    /// So many bytes of them are written.
    done: usize,
    place: u64,
}

/// Writes what is not written of a piece.
fn write<I: Io>(
    means: &mut Means<'_, I>,
    owner: Owner,
    file: &I::File,
    piece: Piece,
    is_durable: bool,
) {
    let Piece { data, done, place } = piece;
    let place = place + done as u64;
    if is_durable {
        means.ring.write_durably(owner, file, data, done, place);
    } else {
        means.ring.write(owner, file, data, done, place);
    }
}

fn read_goes_on<I: Io>(
    means: &mut Means<'_, I>,
    owner: Owner,
    file: &I::File,
    place: u64,
    done: &mut usize,
    memory: BufferMut,
    count: Option<usize>,
) -> Option<Outcome> {
    match advance(done, count, memory.len()) {
        Advance::Whole => Some(Ok(DiskOutcome::Data(memory.freeze()))),
        Advance::CutShort => Some(Err(cut_short())),
        Advance::Part(at) => {
            let range: Range<usize> = at..memory.len();
            means.ring.read(owner, file, memory, range, place + at as u64);
            None
        }
    }
}

fn superblock_goes_on<I: Io>(
    means: &mut Means<'_, I>,
    owner: Owner,
    file: &I::File,
    place: u64,
    done: &mut usize,
    bytes: Box<SuperblockBytes>,
    count: Option<usize>,
) -> Option<Outcome> {
    match advance(done, count, SUPERBLOCK_LENGTH) {
        Advance::Whole => Some(Ok(DiskOutcome::Done)),
        Advance::CutShort => Some(Err(cut_short())),
        Advance::Part(at) => {
            means.ring.write_superblock(owner, file, bytes, at, place);
            None
        }
    }
}

fn metadata_goes_on<I: Io>(
    means: &mut Means<'_, I>,
    owner: Owner,
    file: &I::File,
    writes: &mut Writes,
    data: Buffer,
    count: Option<usize>,
) -> Option<Outcome> {
    let is_durable = !writes.is_flushed_later();
    let next = match writes.wrote(count, data.len()) {
        Advance::CutShort => return Some(Err(cut_short())),
        Advance::Part(done) => Piece { data, done, place: writes.place() },
        Advance::Whole if writes.is_empty() => return Some(Ok(DiskOutcome::Done)),
        Advance::Whole => {
            let (place, data) = writes.piece(means.pool);
            Piece { data, done: 0, place }
        }
    };
    write(means, owner, file, next, is_durable);
    None
}

/// Why a request is not believed whose own operations have ended well.
fn not_believed() -> io::Error {
    io::Error::other("a flush of this disk has failed: what was written before may be lost")
}

#[cfg(test)]
mod tests;
