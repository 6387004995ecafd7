//! What must hold of a part after every step, and when it is answered. The labels are those of
//! `docs/rules.md`.

use super::{Part, PartAction};
use crate::ids::*;
use crate::payload::Payload;
use crate::primary::membership::mirror::MirrorPeers;
use crate::view::Protocol;

impl<P: Payload> Part<P> {
    /// Panics if the part contradicts itself, or its mirror.
    pub fn check_invariants(
        &self,
        sequence: Sequence,
        mirror: &MirrorPeers,
        is_unplaced: impl FnOnce() -> bool,
    ) {
        let targets = self.targets();
        if self.is_read() {
            let is_placed = targets != 0 || self.was_written() || is_unplaced();
            assert!(is_placed, "I11: nobody is asked for {sequence:?}");
            assert!(targets.count_ones() <= 1, "I2: {sequence:?} is read twice");
            assert!(!self.is_answered(), "I2: {sequence:?} was answered and is still read");
        } else {
            let strangers = targets & !mirror.members();
            assert!(strangers == 0, "I4: {sequence:?} waits for one that is no member");
        }
        let both = self.written() & self.failed_targets();
        assert!(both == 0, "W1: {sequence:?} is written and has failed");
    }

    /// The part is about to be answered with success: panics if what that promises is not so.
    pub fn check_acknowledged(&self, mirror: &MirrorPeers, protocol: Protocol) {
        let (targets, written) = (self.targets(), self.written());
        if !matches!(self.action, PartAction::Digest { .. }) {
            let unasked = mirror.members() & !targets;
            assert!(unasked == 0, "I4: an answer without a member that was not asked");
        }
        let unwritten = targets & !written;
        if self.action.is_durable() {
            return assert!(unwritten == 0, "W4: durable, and a member has not answered");
        }
        let received = self.replicas.received;
        let is_early = match protocol {
            Protocol::C => unwritten != 0,
            Protocol::B => unwritten & !(received & !mirror.local()) != 0,
            Protocol::A => {
                unwritten & mirror.in_sync() & mirror.local() != 0
                    || written & mirror.in_sync() == 0
            }
        };
        assert!(!is_early, "W1: acknowledged before the members have it as the protocol says");
    }
}

#[cfg(test)]
mod tests;
