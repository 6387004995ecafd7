//! What must hold of a primary's parts after every step (see [`crate::primary::invariants`]), and when one is
//! answered.

use super::{Part, PartAction};
use crate::ids::*;
use crate::payload::Payload;
use crate::primary::Primary;
use crate::view::Protocol;

impl<P: Payload> Primary<P> {
    pub(in crate::primary) fn check_parts(&self) {
        for (sequence, part) in self.parts.iter() {
            self.check_part_targets(*sequence, part);
        }
        let unfinished: usize = self.requests.values().map(|request| request.unfinished).sum();
        assert!(unfinished == self.parts.len(), "I11: {unfinished} of {}", self.parts.len());
        if self.adoption.is_over() {
            self.check_sent();
        }
    }

    fn check_part_targets(&self, sequence: Sequence, part: &Part<P>) {
        let mirror = &self.mirrors[part.mirror];
        if part.action.is_read() {
            let is_placed = part.targets != 0 || part.written != 0;
            let is_placed = is_placed || self.unplaced.contains(&sequence);
            assert!(is_placed, "I11: nobody is asked for {sequence:?}");
            assert!(part.targets.count_ones() <= 1, "I2: {sequence:?} is read twice");
        } else {
            let strangers = part.targets & !mirror.members;
            assert!(strangers == 0, "I4: {sequence:?} waits for one that is no member");
        }
        assert!(part.written & part.failed & part.targets == 0, "W1: {sequence:?} is both");
        assert!(part.answered || !part.is_acknowledged, "I4: {sequence:?} was not answered");
    }

    /// What a member has to carry out it has been sent, unless it refused that.
    fn check_sent(&self) {
        for peer in self.peers.values().filter(|peer| peer.ready_link().is_some()) {
            let bit = peer.bit();
            let of_mirror = self.parts.iter().filter(|(_, part)| part.mirror == peer.mirror());
            let mut unsent = of_mirror.filter(|(_, part)| part.waits_for(bit & !part.sent));
            let unsent = unsent.next().filter(|_| !peer.has_refused());
            assert!(
                unsent.is_none(),
                "W2: {:?} is not sent {:?}",
                peer.id(),
                unsent.map(|(s, _)| s)
            );
        }
    }

    /// A part is about to be answered with success: what that promises is so.
    pub(super) fn check_acknowledged(&self, part: &Part<P>) {
        let mirror = &self.mirrors[part.mirror];
        assert!(self.adoption.is_over(), "V2: an answer before all members have adopted the view");
        if !matches!(part.action, PartAction::Digest { .. }) {
            let unasked = mirror.members & !part.targets;
            assert!(unasked == 0, "I4: an answer without a member that was not asked");
        }
        let unwritten = part.targets & !part.written;
        if part.action.is_durable() {
            return assert!(unwritten == 0, "W4: durable, and a member has not answered");
        }
        let unwritten_by = |set| unwritten & set != 0;
        let is_early = match self.view.as_ref().map(|view| view.protocol) {
            Some(Protocol::C) | None => unwritten != 0,
            Some(Protocol::B) => unwritten & !(part.received & !mirror.local) != 0,
            Some(Protocol::A) => {
                unwritten_by(mirror.in_sync & mirror.local) || part.written & mirror.in_sync == 0
            }
        };
        assert!(!is_early, "W1: acknowledged before the members have it as the protocol says");
    }
}

#[cfg(test)]
mod tests;
