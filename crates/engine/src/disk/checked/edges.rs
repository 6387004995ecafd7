//! Zeroing a range that begins or ends inside a block.
//!
//! Such a block is known by the checksum of all of it. So it is treated as a write of a part is: read,
//! compared, and written whole. A request has at most two of them, one at each end; they come first, then
//! the whole blocks between them are zeroed at once.

use std::ops::Range;

use evenkeel_core::settings::BLOCK;
use evenkeel_core::{DiskAction, DiskOutcome};
use evenkeel_format::{block_checksum, stored_checksum};

use super::Checked;
use crate::disk::io::Io;
use crate::disk::{Disk, Means, Progress, Step, Zeroing};
use crate::slab::Key;
use crate::slot::Slot;

/// A range that is being zeroed.
#[derive(Debug)]
pub(in crate::disk) struct Edges {
    /// All that is to read as zeroes.
    range: Range<u64>,
    /// The whole blocks that the range touches.
    pub(super) cover: Range<u64>,
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

    /// The blocks of which nothing is kept.
    fn whole(&self) -> Range<u64> {
        let block = u64::from(BLOCK);
        let start = self.range.start.next_multiple_of(block);
        let is_last = self.range.end == self.cover.end;
        let end = if is_last { self.range.end } else { self.range.end / block * block };
        start..end.max(start)
    }
}

impl<I: Io> Disk<I> {
    /// Goes on with the next block at an end, or with what lies between.
    pub(super) fn zero_checked(&mut self, means: &mut Means<'_, I>, key: Key, edges: Edges) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        if let Some(block) = edges.blocks.last() {
            let (offset, length) = (block.start, block.end - block.start);
            (job.offset, job.length, job.step) = (offset, length, Step::Read(0));
            job.checked = Checked::ReadEdge(edges);
            let length = length as u32;
            return self.submit(means, key, DiskAction::Read { offset, length });
        }
        let (whole, unmap) = (edges.whole(), edges.unmap);
        let (offset, length) = (whole.start, whole.end - whole.start);
        (job.offset, job.length, job.step) = (offset, length, Step::Zero(Zeroing::new(unmap)));
        job.checked = Checked::Zero(edges);
        let action = DiskAction::Zero { offset, length: length as u32, unmap };
        self.begin_in_map(means, key, action);
    }

    /// A block at an end was read: it is compared, and written without the part that is to go.
    pub(super) fn edge_read(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        mut edges: Edges,
        old: &Slot,
    ) -> Progress {
        let (Some(job), Some(checksums), Some(block)) =
            (self.jobs.get_mut(key), &mut self.checksums, edges.blocks.pop())
        else {
            return Progress::More;
        };
        let is_damaged = checksums.check(block.start, old).is_err();
        self.counters.checksum_mismatches += u64::from(is_damaged);
        let from = edges.range.start.max(block.start) - block.start;
        let to = edges.range.end.min(block.end) - block.start;
        let mut new = means.pool.take(old.len());
        new.copy_from_slice(old);
        new[from as usize..to as usize].fill(0);
        if new[..] == old[..] {
            // Empty space stays empty, and what is known of the block stays known.
            return self.edge_done(means, key, edges);
        }
        let right = block_checksum(&new);
        // What is kept of a damaged block is wrong, and stays known to be: a read mends it.
        let sum = if is_damaged { stored_checksum(!right) } else { right };
        (job.step, job.checked) = (Step::Write(0), Checked::WriteEdge(edges, sum));
        let action = DiskAction::Write { offset: block.start, payload: new.freeze() };
        self.begin_in_map(means, key, action);
        Progress::More
    }

    /// A block at an end is as it is to be. With the last part of the range the action has ended.
    pub(super) fn edge_done(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        edges: Edges,
    ) -> Progress {
        if !edges.blocks.is_empty() || !edges.whole().is_empty() {
            self.zero_checked(means, key, edges);
            return Progress::More;
        }
        self.zero_ended(key, &edges);
        Progress::Done(DiskOutcome::Done)
    }

    /// All of the range reads as zeroes.
    pub(super) fn zero_ended(&mut self, key: Key, edges: &Edges) {
        if let Some(checksums) = &mut self.checksums {
            checksums.zeroed(&edges.whole());
            checksums.unpin(&edges.cover);
        }
        if let Some(job) = self.jobs.get_mut(key) {
            let range = &edges.range;
            (job.offset, job.length) = (range.start, range.end - range.start);
        }
    }
}
