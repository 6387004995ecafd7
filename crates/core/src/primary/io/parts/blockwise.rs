//! Reading block by block what no replica could read as a whole: each may have another block
//! damaged.

use crate::ids::*;
use crate::payload::Payload;
use crate::primary::io::part::{Part, PartAction};
use crate::primary::{Context, Primary};
use crate::settings::BLOCK;

impl<P: Payload> Primary<P> {
    /// Whether a read that all have failed may yet be answered block by block. That of a check is
    /// not: which replica has its blocks whole is known.
    pub(super) fn may_read_blockwise(&self, part: &Part<P>) -> bool {
        let has_others = self.mirrors[part.mirror()].in_sync().count_ones() > 1;
        part.reads_several_blocks() && has_others && !self.is_check(part.request())
    }

    /// Puts a read of each block in the place of one that failed.
    pub(super) fn read_blockwise(&mut self, cx: &mut Context<'_, P>, sequence: Sequence) {
        let Some(part) = self.parts.remove(&sequence) else { return };
        let PartAction::Read { offset, length } = *part.action() else { return };
        let (end, mut at) = (offset + u64::from(length), offset);
        let mut pieces = Vec::new();
        while at < end {
            let next = (at + 1).next_multiple_of(BLOCK.into()).min(end);
            pieces.push((at, (next - at) as u32));
            at = next;
        }
        self.requests.expect_pieces(part.request(), pieces.len());
        for (at, length) in pieces {
            let action = PartAction::Read { offset: at, length };
            let from = part.from() + (at - offset);
            let mirror = (part.mirror(), &self.mirrors[part.mirror()]);
            let piece = Part::new(part.request(), mirror, from, action, cx.now).of_one_block();
            let sequence = self.add_part(piece);
            self.place_read(cx, sequence);
        }
    }
}
