//! Zeroing a range that begins or ends inside a block.
//!
//! Such a block is known by the checksum of all of it. So it is treated as a write of a part is:
//! read, compared, and written whole. A request has at most two of them, one at each end; they come
//! first, then the whole blocks between them are zeroed at once.

use std::io;
use std::ops::Range;

use evenkeel_core::DiskOutcome;
use evenkeel_core::settings::BLOCK;
use evenkeel_format::block_checksum;

use super::{Checksums, End, Then};
use crate::disk::device::{Io, Means};
use crate::disk::filters::{DataWrite, Outcome, Request, data_of};

/// A range that is being zeroed.
#[derive(Debug)]
pub(in crate::disk) struct Edges {
    /// All that is to read as zeroes.
    range: Range<u64>,
    /// The whole blocks that the range touches.
    cover: Range<u64>,
    unmap: bool,
    /// Blocks of which a part is kept and that are not rewritten yet, the first one last.
    blocks: Vec<Range<u64>>,
}

impl Edges {
    pub(super) fn new(range: Range<u64>, cover: Range<u64>, unmap: bool) -> Self {
        let block = u64::from(BLOCK);
        let mut blocks = Vec::new();
        if range.end < cover.end {
            blocks.push((cover.end - 1) / block * block..cover.end);
        }
        if range.start > cover.start {
            blocks.push(cover.start..(cover.start + block).min(cover.end));
        }
        blocks.dedup();
        Self { range, cover, unmap, blocks }
    }

    /// The whole blocks that the range touches.
    pub(super) const fn cover(&self) -> &Range<u64> {
        &self.cover
    }

    /// The blocks of which nothing is kept.
    fn whole(&self) -> Range<u64> {
        let block = u64::from(BLOCK);
        let start = self.range.start.next_multiple_of(block);
        let is_last = self.range.end == self.cover.end;
        let end = if is_last { self.range.end } else { self.range.end / block * block };
        start..end.max(start)
    }
}

impl<I: Io, T> Checksums<I, T> {
    /// Goes on with the next block at an end, or with what lies between.
    pub(super) fn zero(&mut self, means: &mut Means<'_, I>, then: T, edges: Box<Edges>) {
        if let Some(block) = edges.blocks.last() {
            let (offset, length) = (block.start, (block.end - block.start) as u32);
            let request = Request::Read { offset, length };
            return self.below.begin(means, request, Then::ReadEdge(then, edges));
        }
        let (whole, unmap) = (edges.whole(), edges.unmap);
        let (offset, length) = (whole.start, (whole.end - whole.start) as u32);
        let request = Request::Zero { offset, length, unmap };
        self.below.begin(means, request, Then::Zero(then, edges));
    }

    /// A block at an end was read: it is compared, and written without the part that is to go.
    pub(super) fn edge_read(
        &mut self,
        means: &mut Means<'_, I>,
        then: T,
        mut edges: Box<Edges>,
        outcome: Outcome,
    ) -> Option<End<T>> {
        let (old, block) = match (outcome.and_then(data_of), edges.blocks.pop()) {
            (Ok(old), Some(block)) => (old, block),
            (Err(error), _) => return Some(self.not_changed(then, &edges.cover, error)),
            (Ok(_), None) => return self.edge_done(means, then, edges),
        };
        let from = edges.range.start.max(block.start) - block.start;
        let to = edges.range.end.min(block.end) - block.start;
        let mut new = means.pool.take(old.len());
        new.copy_from_slice(&old);
        new[from as usize..to as usize].fill(0);
        if new[..] == old[..] {
            // Empty space stays empty, and what is known of the block stays known.
            return self.edge_done(means, then, edges);
        }
        let sum = self.sum_with_kept(block.start, &old, block_checksum(&new));
        let payload = new.freeze();
        let write = DataWrite { offset: block.start, payload, durable: None, forgotten: None };
        let request = Request::Write(write);
        self.below.begin(means, request, Then::WriteEdge { then, edges, block, sum });
        None
    }

    pub(super) fn edge_written(
        &mut self,
        means: &mut Means<'_, I>,
        then: T,
        edges: Box<Edges>,
        block: Range<u64>,
        sum: u32,
        outcome: Outcome,
    ) -> Option<End<T>> {
        match outcome {
            Ok(_) => {
                if let Some(store) = &mut self.store {
                    store.record(block.start, [sum].into_iter());
                }
                self.edge_done(means, then, edges)
            }
            Err(error) => Some(self.zeroing_failed(then, &edges, &block, error)),
        }
    }

    /// A block at an end is as it is to be. With the last part of the range the request has ended.
    fn edge_done(
        &mut self,
        means: &mut Means<'_, I>,
        then: T,
        edges: Box<Edges>,
    ) -> Option<End<T>> {
        if edges.blocks.is_empty() && edges.whole().is_empty() {
            return Some(self.zeroed(then, &edges, Ok(DiskOutcome::Done)));
        }
        self.zero(means, then, edges);
        None
    }

    /// All of the range reads as zeroes, or its last part has failed.
    pub(super) fn zeroed(&mut self, then: T, edges: &Edges, outcome: Outcome) -> End<T> {
        if let Err(error) = outcome {
            return self.zeroing_failed(then, edges, &edges.whole(), error);
        }
        if let Some(store) = &mut self.store {
            store.zeroed(&edges.whole());
            store.unpin(&edges.cover);
        }
        End::Asked(then, Ok(DiskOutcome::Done))
    }

    /// These blocks may be as they were, or zeroes, or a part of both.
    fn zeroing_failed(
        &mut self,
        then: T,
        edges: &Edges,
        blocks: &Range<u64>,
        error: io::Error,
    ) -> End<T> {
        if let Some(store) = &mut self.store {
            store.forget(blocks);
        }
        self.not_changed(then, &edges.cover, error)
    }
}
