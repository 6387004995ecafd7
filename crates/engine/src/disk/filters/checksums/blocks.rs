//! Whole blocks that were read or written: compared, and known.

use std::io;
use std::ops::Range;

use evenkeel_core::message::PayloadBlocks;
use evenkeel_core::replica::Unverified;
use evenkeel_core::settings::BLOCK;
use evenkeel_core::{DiskOutcome, Payload as _};
use evenkeel_format::{block_checksum, stored_checksum};

use super::{Checksums, End, Then};
use crate::disk::checksums::Unknown;
use crate::disk::device::{Failure, Io, Means};
use crate::disk::filters::{DataWrite, Outcome, Request, data_of};
use crate::memory::Buffer;

impl<I: Io, T> Checksums<I, T> {
    /// Whole blocks were read, for a request that has their pages pinned: they are compared. Of
    /// them this part is wanted: from this byte on, and so long.
    pub(super) fn read(
        &mut self,
        cover: &Range<u64>,
        outcome: Outcome,
        skip: u32,
        length: u32,
    ) -> Outcome {
        let blocks = outcome.and_then(data_of);
        let Some(store) = &mut self.store else {
            return Ok(DiskOutcome::Unverified(blocks?, Unverified::All));
        };
        store.unpin(cover);
        let blocks = blocks?;
        match store.check(cover.start, &blocks) {
            Ok(unknown) => Ok(read_of(blocks.slice(skip, length), unknown)),
            Err(block) => {
                self.counts.mismatches += 1;
                Err(mismatch(block * u64::from(BLOCK)))
            }
        }
    }

    /// The blocks of which a write changes a part were read: it writes all of them.
    pub(super) fn widened(
        &mut self,
        means: &mut Means<'_, I>,
        then: T,
        cover: Range<u64>,
        DataWrite { offset, payload, durable, forgotten }: DataWrite,
        blocks: &Buffer,
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
            if !is_whole {
                *new = self.sum_with_kept(at, old, *new);
            }
        }
        forget(&mut sums, forgotten.as_deref());
        let request =
            Request::Write(DataWrite { offset: start, payload, durable, forgotten: None });
        self.below.begin(means, request, Then::Write { then, cover, sums });
    }

    /// The checksum to be stored for a block that yields `sum` and keeps a part of what it held. If
    /// that was damaged it stays known to be, and a read repairs it; if nothing vouched for it
    /// nothing does now.
    pub(super) fn sum_with_kept(&mut self, offset: u64, held: &[u8], sum: u32) -> u32 {
        match self.store.as_ref().map(|store| store.check(offset, held)) {
            Some(Err(_)) => {
                self.counts.mismatches += 1;
                stored_checksum(!sum)
            }
            Some(Ok(unknown)) if !unknown.forgotten.is_empty() => 0,
            _ => sum,
        }
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

/// What is stored of blocks for which nothing vouches: no checksum.
pub(super) fn forget(sums: &mut [u32], forgotten: Option<&PayloadBlocks>) {
    // Most writes vouch for all of theirs.
    let Some(blocks) = forgotten else { return };
    let bits = blocks.iter().flat_map(|word| (0..u64::BITS).map(move |bit| word >> bit & 1 == 1));
    for (sum, _) in sums.iter_mut().zip(bits).filter(|(_, is_forgotten)| *is_forgotten) {
        *sum = 0;
    }
}

/// What the blocks of a payload that begins with one yield. Of a single block it is known from the
/// wire.
pub(super) fn sums_of(payload: &Buffer) -> Vec<u32> {
    if payload.length() == BLOCK {
        return vec![stored_checksum(payload.checksum())];
    }
    payload.chunks(BLOCK as usize).map(block_checksum).collect()
}

/// What a read of blocks that fit, or are not known, has brought.
fn read_of(data: Buffer, unknown: Unknown) -> DiskOutcome<Buffer> {
    let Unknown { empty, forgotten } = unknown;
    if empty.is_empty() && forgotten.is_empty() {
        return DiskOutcome::Data(data);
    }
    DiskOutcome::Unverified(data, Unverified::Blocks { empty, forgotten })
}

fn mismatch(offset: u64) -> io::Error {
    let text =
        format!("the block at byte {offset} does not yield its checksum: the disk has damaged it");
    io::Error::new(io::ErrorKind::InvalidData, text)
}
