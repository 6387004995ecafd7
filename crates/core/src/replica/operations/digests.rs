//! Digests of what a range holds, block by block, for primaries that compare replicas.
//!
//! The range is read at once. Where that fails it is read in ever smaller pieces, so that the
//! answer names just the blocks that can't be read.

use core::ops::Range;

use super::Origin;
use crate::message::{BlockDigest, Message};
use crate::payload::Payload;
use crate::range_lock::LockNumber;
use crate::replica::{
    Context, DiskAction, DiskError, DiskOutcome, DiskTicket, Replica, Unverified,
};
use crate::settings::BLOCK;

/// Into how many pieces a range is cut that could not be read at once: 1 MiB is down to its blocks
/// in two steps, so that a medium that takes its time to fail is asked three times for a bad block.
const PIECES: u64 = 16;

/// How far the digests of a range are.
#[derive(Debug)]
pub(super) struct Digesting {
    /// What is to be read, last piece first. The last one of these is being read.
    pieces: Vec<Range<u64>>,
    digests: Vec<BlockDigest>,
}

impl Digesting {
    pub fn new(offset: u64, length: u32) -> Self {
        let range = offset..offset + u64::from(length);
        Self { pieces: Vec::from([range]), digests: Vec::new() }
    }

    /// The present piece was read, or could not be.
    fn ended<P: Payload>(&mut self, outcome: &Result<DiskOutcome<P>, DiskError>) {
        let Some(piece) = self.pieces.pop() else { return };
        match outcome {
            Ok(DiskOutcome::Data(payload)) => self.digests.extend(of_blocks(payload)),
            Ok(DiskOutcome::Unverified(payload, what)) => {
                let from = self.digests.len();
                self.digests.extend(of_blocks(payload));
                mark(&mut self.digests[from..], what);
            }
            Err(_) if piece.end - piece.start > u64::from(BLOCK) => self.cut(&piece),
            Err(DiskError::Damaged) => self.digests.push(BlockDigest::DAMAGED),
            _ => self.digests.push(BlockDigest::UNREADABLE),
        }
    }

    fn cut(&mut self, piece: &Range<u64>) {
        let length = (piece.end - piece.start).div_ceil(PIECES).next_multiple_of(BLOCK.into());
        let starts: Vec<_> = (piece.start..piece.end).step_by(length as usize).collect();
        let pieces = starts.into_iter().rev().map(|start| start..(start + length).min(piece.end));
        self.pieces.extend(pieces);
    }

    fn next<P>(&self) -> Option<DiskAction<P>> {
        let piece = self.pieces.last()?;
        Some(DiskAction::Read { offset: piece.start, length: (piece.end - piece.start) as u32 })
    }
}

impl<P: Payload> Replica<P> {
    /// A read for digests has ended. Returns whether that was the last one, and all is answered.
    pub(super) fn digest_read(
        &mut self,
        cx: &mut Context<'_, P>,
        number: LockNumber,
        outcome: &Result<DiskOutcome<P>, DiskError>,
    ) -> bool {
        let is_adopting = self.adoption.is_some();
        let Some(operation) = self.operations.get_mut(&number) else { return true };
        let (Some(digesting), Origin::Primary(link, _, id)) =
            (&mut operation.digesting, operation.origin)
        else {
            return true;
        };
        digesting.ended(outcome);
        let Some(action) = digesting.next() else {
            let digests = core::mem::take(&mut digesting.digests);
            self.confirm(cx, link, Message::Digests { id, digests }, None);
            return true;
        };
        // Neither a session that has ended nor an adoption waits for all pieces.
        if self.links.opener(link).is_none() {
            return true;
        }
        if is_adopting {
            self.refuse(cx, link, Some(id.sequence));
            return true;
        }
        cx.disk(DiskTicket::Operation(number), action);
        false
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
