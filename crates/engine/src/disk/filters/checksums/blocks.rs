//! Whole blocks that were read or written: compared, and known.

use std::io;
use std::ops::Range;

use evenkeel_core::Payload as _;
use evenkeel_core::settings::BLOCK;
use evenkeel_format::{block_checksum, stored_checksum};

use super::{Checksums, End, Then};
use crate::disk::filters::{Outcome, Request, data_of};
use crate::disk::io::Io;
use crate::disk::{Failure, Means};
use crate::slot::Slot;

impl<I: Io, T> Checksums<I, T> {
    /// Whole blocks were read, for a request that has their pages pinned: they are compared.
    pub(super) fn read(&mut self, cover: &Range<u64>, outcome: Outcome) -> io::Result<Slot> {
        let blocks = outcome.and_then(data_of);
        let Some(store) = &mut self.store else { return blocks };
        store.unpin(cover);
        let blocks = blocks?;
        let Err(block) = store.check(cover.start, &blocks) else { return Ok(blocks) };
        self.counts.mismatches += 1;
        Err(mismatch(block * u64::from(BLOCK)))
    }

    /// The blocks of which a write changes a part were read: it writes all of them.
    pub(super) fn widened(
        &mut self,
        means: &mut Means<'_, I>,
        then: T,
        cover: Range<u64>,
        (payload, offset): (Slot, u64),
        blocks: &Slot,
    ) {
        let start = cover.start;
        let skip = (offset - start) as usize;
        let end = skip + payload.len();
        let mut whole = means.pool.take(blocks.len());
        whole.copy_from_slice(blocks);
        whole[skip..end].copy_from_slice(&payload);
        let payload = whole.freeze();
        let mut sums = sums_of(&payload);
        let block = BLOCK as usize;
        for (n, (old, new)) in blocks.chunks(block).zip(&mut sums).enumerate() {
            let is_whole = skip <= n * block && end >= n * block + old.len();
            let at = start + (n * block) as u64;
            if !is_whole && self.is_damaged(at, old) {
                // What is kept of it is wrong, and stays known to be: a read repairs it.
                *new = stored_checksum(!*new);
            }
        }
        let request = Request::Write { offset: start, payload };
        self.below.begin(means, request, Then::Write { then, cover, sums });
    }

    /// Whether a block contradicts its checksum.
    pub(super) fn is_damaged(&mut self, offset: u64, block: &[u8]) -> bool {
        let store = self.store.as_mut();
        let is_damaged = store.is_some_and(|store| store.check(offset, block).is_err());
        self.counts.mismatches += u64::from(is_damaged);
        is_damaged
    }

    /// Whole blocks were written, or a part of them, for a request that has their pages pinned.
    pub(super) fn written(
        &mut self,
        cover: &Range<u64>,
        sums: Vec<u32>,
        outcome: Outcome,
    ) -> Outcome {
        if let Some(store) = &mut self.store {
            match outcome {
                Ok(_) => store.record(cover.start, sums.into_iter()),
                Err(_) => store.forget(cover),
            }
            store.unpin(cover);
        }
        outcome
    }

    /// A request has failed before it changed anything.
    pub(super) fn not_changed(&mut self, then: T, cover: &Range<u64>, error: io::Error) -> End<T> {
        if let Some(store) = &mut self.store {
            store.unpin(cover);
        }
        End::Asked(then, Err(Failure::of(error)))
    }
}

/// What the blocks of a payload that begins with one yield. Of a single block it is known from the wire.
pub(super) fn sums_of(payload: &Slot) -> Vec<u32> {
    if payload.length() == BLOCK {
        return vec![stored_checksum(payload.checksum())];
    }
    payload.chunks(BLOCK as usize).map(block_checksum).collect()
}

fn mismatch(offset: u64) -> io::Error {
    let text =
        format!("the block at byte {offset} does not yield its checksum: the disk has damaged it");
    io::Error::new(io::ErrorKind::InvalidData, text)
}
