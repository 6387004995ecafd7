//! Digests of what a range holds, block by block, for primaries that compare replicas.
//!
//! The range is read at once. Where that fails it is read in ever smaller pieces, so that the
//! answer names just the blocks that can't be read.

use core::ops::Range;

use crate::message::BlockDigest;
use crate::payload::Payload;
use crate::replica::{DiskAction, DiskError, DiskOutcome, Unverified};
use crate::settings::BLOCK;

/// Into how many pieces a range is cut that could not be read at once: 1 MiB is down to its blocks
/// in two steps, so that a medium that takes its time to fail is asked three times for a bad block.
const PIECES: u64 = 16;

/// How far the digests of a range are.
#[derive(Debug)]
pub(super) struct Digesting {
    /// What is being read.
    piece: Range<u64>,
    /// What is to be read later, last piece first.
    later: Vec<Range<u64>>,
    digests: Vec<BlockDigest>,
}

impl Digesting {
    /// All of the range is being read.
    pub fn new(offset: u64, length: u32) -> Self {
        let piece = offset..offset + u64::from(length);
        Self { piece, later: Vec::new(), digests: Vec::new() }
    }

    /// The present piece was read, or could not be. Returns how the next one is.
    pub fn ended<P: Payload>(
        &mut self,
        outcome: &Result<DiskOutcome<P>, DiskError>,
    ) -> Option<DiskAction<P>> {
        match outcome {
            Ok(DiskOutcome::Data(payload)) => self.digests.extend(of_blocks(payload)),
            Ok(DiskOutcome::Unverified(payload, what)) => {
                let from = self.digests.len();
                self.digests.extend(of_blocks(payload));
                mark(&mut self.digests[from..], what);
            }
            Err(_) if self.piece.end - self.piece.start > u64::from(BLOCK) => self.cut(),
            Err(DiskError::Damaged) => self.digests.push(BlockDigest::DAMAGED),
            _ => self.digests.push(BlockDigest::UNREADABLE),
        }
        self.piece = self.later.pop()?;
        let length = (self.piece.end - self.piece.start) as u32;
        Some(DiskAction::Read { offset: self.piece.start, length })
    }

    /// The digests of all pieces.
    pub fn take(&mut self) -> Vec<BlockDigest> {
        core::mem::take(&mut self.digests)
    }

    fn cut(&mut self) {
        let Range { start, end } = self.piece;
        let length = (end - start).div_ceil(PIECES).next_multiple_of(BLOCK.into());
        let starts: Vec<_> = (start..end).step_by(length as usize).collect();
        let pieces = starts.into_iter().rev().map(|start| start..(start + length).min(end));
        self.later.extend(pieces);
    }
}

/// A digest of each block.
fn of_blocks<P: Payload>(payload: &P) -> impl Iterator<Item = BlockDigest> {
    let blocks = (0..payload.length()).step_by(BLOCK as usize);
    blocks.map(|from| {
        BlockDigest::of_content(payload.digest(from, BLOCK.min(payload.length() - from)))
    })
}

/// Says of these digests for which blocks no checksum vouches.
fn mark(digests: &mut [BlockDigest], what: &Unverified) {
    let (empty, forgotten) = match what {
        Unverified::All => {
            return digests.iter_mut().for_each(|digest| *digest = digest.unverified());
        }
        Unverified::Blocks { empty, forgotten } => (empty, forgotten),
    };
    for block in empty {
        if let Some(digest) = digests.get_mut(*block as usize) {
            *digest = digest.unverified();
        }
    }
    for block in forgotten {
        if let Some(digest) = digests.get_mut(*block as usize) {
            *digest = digest.forgotten();
        }
    }
}
