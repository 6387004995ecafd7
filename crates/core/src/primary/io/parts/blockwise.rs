//! Reading block by block what no replica could read as a whole: each may have another block
//! damaged.

use super::part::{MirrorTask, Part, PartAction};
use super::{Below, Parts};
use crate::ids::*;
use crate::payload::Payload;
use crate::primary::Context;
use crate::settings::BLOCK;

/// Whether a read that all have failed may yet be answered block by block. That of a check is not:
/// which replica has its blocks whole is known.
pub(super) fn may_read_blockwise<P: Payload>(below: &Below<'_, P>, part: &Part<P>) -> bool {
    let has_others = below.peers.mirror(part.mirror()).in_sync().count_ones() > 1;
    part.reads_several_blocks() && has_others && !below.requests.is_kept(part.request())
}

impl<P: Payload> Parts<P> {
    /// Puts a read of each block in the place of one that failed.
    pub(super) fn read_blockwise(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        sequence: Sequence,
    ) {
        let read = self.table.end(sequence);
        let Some((part, range)) =
            read.and_then(|read| read.action().read_range().map(|range| (read, range)))
        else {
            debug_assert!(false, "{sequence:?} is a read that has failed");
            return;
        };
        // Which blocks are unknown where is not known, and a piece may be read where it is known.
        self.renew_what_was_read(below, &part);
        let (end, mut at) = (range.end, range.start);
        let mut pieces = Vec::new();
        while at < end {
            let next = (at + 1).next_multiple_of(BLOCK.into()).min(end);
            pieces.push((at, (next - at) as u32));
            at = next;
        }
        below.requests.expect_pieces(part.request(), pieces.len());
        for (at, length) in pieces {
            let action = PartAction::Read { offset: at, length };
            let (mirror, from) = (part.mirror(), part.from() + (at - range.start));
            let task = MirrorTask { mirror, from, action };
            let peers = below.peers.mirror(mirror);
            let piece = Part::new(part.request(), task, peers, cx.now);
            let deadline = cx.config.settings.deadline;
            let piece = piece.continues_search_of(&part, cx.now, deadline);
            // Of what nobody had failed to read nothing is known to be repaired.
            let piece = if part.error().is_some() { piece.of_one_block() } else { piece };
            let sequence = self.add_part(below, piece);
            self.place_read(cx, below, sequence);
        }
    }
}
