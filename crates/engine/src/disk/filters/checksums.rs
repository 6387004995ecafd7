//! Requests with checksums: reads are compared with them, writes make them known, and commits make
//! them durable ([`commit`]).
//!
//! A checksum is that of a whole block. So a read is widened to whole blocks, and a write of a part
//! of a block reads the block first, compares it, and writes it whole; so does zeroing a part of
//! one ([`edges`]). The core keeps other actions out of all blocks that an action touches.

mod blocks;
mod commit;
mod edges;
mod invariants;
mod pages;

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use evenkeel_core::{DiskOutcome, Extent, Payload as _, ReplicaId};
use evenkeel_format as format;

use self::blocks::{forget, sums_of};
use self::commit::Commit;
use self::edges::Edges;
use super::{AllocationMap, DataWrite, RawDisk, Request, allocation, data_of};
use crate::disk::checksums::ChecksumStore;
use crate::disk::device::{Failure, Failures, Flushes, Io, Layout, Means};
use crate::memory::Buffer;
use crate::ring::{Completion, Key};

/// See the module's documentation. `T`: what is told of a request when it has ended.
pub(in crate::disk) struct Checksums<I: Io, T> {
    below: AllocationMap<I, Then<T>>,
    /// `None`: the replica has none.
    store: Option<ChecksumStore>,
    waiting: VecDeque<Waiting<T>>,
    /// Flushes that had failed when the store was last told.
    noticed: Failures,
    counts: Counts,
}

/// How often what happened.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::disk) struct Counts {
    /// Writes to make checksums durable.
    pub(in crate::disk) writes: u64,
    /// Blocks that contradicted theirs.
    pub(in crate::disk) mismatches: u64,
}

/// What has ended.
#[derive(Debug)]
pub(in crate::disk) enum End<T> {
    /// A request.
    Asked(T, Result<DiskOutcome<Buffer>, Failure>),
    /// Something that this layer does by itself, in so many bytes from this place on: it has
    /// failed.
    Unasked { error: io::Error, place: u64, length: u64 },
}

/// What a request waits for.
#[derive(Debug)]
enum Waiting<T> {
    /// Its checksums are not in memory.
    Pages(Request, T),
    /// Another commit is under way.
    Commit(Commit<T>),
}

/// What is to be done when a request to the layers below has ended. `cover`: the whole blocks that
/// it touches.
#[derive(Debug)]
pub(in crate::disk) enum Then<T> {
    /// Nothing.
    Above(T),
    /// Whole blocks were read, of which this part is wanted.
    Read {
        then: T,
        cover: Range<u64>,
        skip: u32,
        length: u32,
    },
    /// The blocks were read of which a write changes a part. Apart, so that what every operation
    /// carries stays small.
    Widen {
        then: T,
        cover: Range<u64>,
        write: Box<DataWrite>,
    },
    /// Whole blocks were written that yield this.
    Write {
        then: T,
        cover: Range<u64>,
        sums: Vec<u32>,
    },
    /// The next block at an end of a range was read that is to be zeroed.
    ReadEdge(T, Box<Edges>),
    /// That block was written, which yields this.
    WriteEdge {
        then: T,
        edges: Box<Edges>,
        block: Range<u64>,
        sum: u32,
    },
    /// The whole blocks of a range were zeroed; those at its ends were done before.
    Zero(T, Box<Edges>),
    Commit(Commit<T>),
    /// Pages were read.
    Load(Range<u32>),
    /// Pages were written for others to have room.
    Evict(Failures),
    /// They are durable: only then they may go.
    FlushEvicted,
}

impl<I: Io, T> Checksums<I, T> {
    /// Over the map of a disk. `store`: where its checksums are kept, if it has any.
    pub(in crate::disk) fn new(
        file: I::File,
        layout: Layout,
        flushes: Flushes,
        map: Option<format::AllocationMap>,
        replica: ReplicaId,
        store: Option<ChecksumStore>,
    ) -> Self {
        let noticed = flushes.at_first();
        let below = AllocationMap::new(RawDisk::new(file, layout, flushes), map, replica);
        Self { below, store, waiting: VecDeque::new(), noticed, counts: Counts::default() }
    }

    pub(in crate::disk) const fn raw(&self) -> &RawDisk<I, allocation::Then<Then<T>>> {
        self.below.raw()
    }

    pub(in crate::disk) const fn raw_mut(&mut self) -> &mut RawDisk<I, allocation::Then<Then<T>>> {
        self.below.raw_mut()
    }

    pub(in crate::disk) fn into_file(self) -> I::File {
        self.below.into_raw().into_file()
    }

    /// Where checksums are kept, if there are any.
    pub(in crate::disk) const fn store(&self) -> Option<&ChecksumStore> {
        self.store.as_ref()
    }

    pub(in crate::disk) const fn store_mut(&mut self) -> Option<&mut ChecksumStore> {
        self.store.as_mut()
    }

    pub(in crate::disk) const fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether nothing is under way.
    pub(in crate::disk) fn is_idle(&self) -> bool {
        self.below.is_idle() && self.waiting.is_empty()
    }

    /// Whether a range is known to hold nothing.
    pub(in crate::disk) fn is_empty(&self, offset: u64, length: u64) -> bool {
        self.below.is_empty(offset, length)
    }

    /// The extents of a range; `None`: there is no map of them.
    pub(in crate::disk) fn extents(&self, offset: u64, length: u64) -> Option<Vec<Extent>> {
        self.below.extents(offset, length)
    }

    /// Begins a request, or lets it wait until its checksums are in memory.
    pub(in crate::disk) fn begin(&mut self, means: &mut Means<'_, I>, request: Request, then: T) {
        self.notice_failures();
        let Some(store) = &mut self.store else {
            return self.begin_unverified(means, request, then);
        };
        let (offset, length) = match &request {
            Request::Read { offset, length } | Request::Zero { offset, length, .. } => {
                (*offset, *length)
            }
            Request::Write(write) => (write.offset, write.payload.length()),
            _ => return self.below.begin(means, request, Then::Above(then)),
        };
        let cover = store.cover(offset, length.into());
        if store.pin(&cover) {
            return self.begin_pinned(means, request, cover, then);
        }
        self.waiting.push_back(Waiting::Pages(request, then));
        self.load(means, &cover);
    }

    /// Begins a request to a disk that keeps no checksums.
    fn begin_unverified(&mut self, means: &mut Means<'_, I>, request: Request, then: T) {
        let then = match request {
            Request::Read { offset, length } => {
                Then::Read { then, cover: offset..offset + u64::from(length), skip: 0, length }
            }
            _ => Then::Above(then),
        };
        self.below.begin(means, request, then);
    }

    /// Begins a request whose checksums are in memory.
    fn begin_pinned(
        &mut self,
        means: &mut Means<'_, I>,
        request: Request,
        cover: Range<u64>,
        then: T,
    ) {
        let covered = (cover.end - cover.start) as u32;
        let read = Request::Read { offset: cover.start, length: covered };
        let (request, then) = match request {
            Request::Read { offset, length } => {
                let skip = (offset - cover.start) as u32;
                (read, Then::Read { then, cover, skip, length })
            }
            Request::Write(write) if write.payload.length() < covered => {
                (read, Then::Widen { then, cover, write: Box::new(write) })
            }
            Request::Write(write) => {
                let mut sums = sums_of(&write.payload);
                forget(&mut sums, write.forgotten.as_deref());
                (Request::Write(write), Then::Write { then, cover, sums })
            }
            Request::Zero { offset, length, unmap } => {
                let range = offset..offset + u64::from(length);
                return self.zero(means, then, Box::new(Edges::new(range, cover, unmap)));
            }
            request => (request, Then::Above(then)),
        };
        self.below.begin(means, request, then);
    }

    /// Has the store take note of flushes that have failed meanwhile.
    fn notice_failures(&mut self) {
        let failed = self.below.raw().failures();
        if core::mem::replace(&mut self.noticed, failed) != failed
            && let Some(store) = &mut self.store
        {
            store.flush_failed();
        }
    }

    /// Takes note of an operation that has ended. Returns what has ended by it.
    pub(in crate::disk) fn completed(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        completion: Completion,
    ) -> Option<End<T>> {
        let (then, outcome) = self.below.completed(means, key, completion)?;
        self.notice_failures();
        match then {
            Then::Above(then) => Some(End::Asked(then, outcome.map_err(Failure::of))),
            Then::Read { then, cover, skip, length } => {
                let read = self.read(&cover, outcome, skip, length);
                Some(End::Asked(then, read.map_err(Failure::of)))
            }
            Then::Widen { then, cover, write } => match outcome.and_then(data_of) {
                Ok(blocks) => {
                    self.widened(means, then, cover, *write, &blocks);
                    None
                }
                Err(error) => Some(self.not_changed(then, &cover, error)),
            },
            Then::Write { then, cover, sums } => {
                let outcome = self.written(&cover, sums, outcome);
                Some(End::Asked(then, outcome.map_err(Failure::of)))
            }
            Then::ReadEdge(then, edges) => self.edge_read(means, then, edges, outcome),
            Then::WriteEdge { then, edges, block, sum } => {
                self.edge_written(means, then, edges, block, sum, outcome)
            }
            Then::Zero(then, edges) => Some(self.zeroed(then, &edges, outcome)),
            Then::Commit(commit) => self.commit_goes_on(means, commit, outcome),
            Then::Load(run) => self.loaded(means, run, outcome),
            Then::Evict(failures) => self.evicted(means, failures, outcome),
            Then::FlushEvicted => {
                self.pages_written(means, outcome.is_ok());
                outcome.err().map(|error| End::Unasked { error, place: 0, length: 0 })
            }
        }
    }
}

#[cfg(test)]
mod tests;
