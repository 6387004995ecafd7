//! An aimed fault: the volume is detached while a primary that does not serve yet has a swap under
//! way, and attached again at once on the same node. Such a primary ends without waiting for the
//! coordinator, whose answer comes while the next primary has calls under way.

use evenkeel_core::CoordinatorCall;
use evenkeel_core::primary::Command;

use super::{Cluster, Event};
use crate::coordinator::Question;
use crate::marks::Mark;
use crate::queue::Time;
use crate::sabotage::Sabotage;

/// Of 1,000 first swaps of primaries, during how many the volume is attached again.
const REATTACHED: u64 = 600;
/// How much later such a swap arrives at most, in the mean times that the coordinator takes.
const LATE: u64 = 8;

impl Cluster {
    /// A primary has asked the coordinator: perhaps that is when it is detached. How much later
    /// than otherwise the question arrives then: while the next primary reads the view, or asks for
    /// one of its own.
    pub(super) fn may_reattach(&mut self, primary: usize, question: &Question) -> Time {
        let is_first = matches!(question, Question::Swap(_)) && !self.primaries[primary].served;
        if !self.faulty || !self.profile.reattaches || !is_first || !self.aim.chance(REATTACHED) {
            return 0;
        }
        self.queue.push(self.now, Event::Reattach { primary });
        self.aim.below(self.profile.coordinator * LATE)
    }

    pub(super) fn reattach(&mut self, primary: usize) {
        let slot = &self.primaries[primary];
        if !slot.alive || slot.served {
            return;
        }
        let (node, identity) = (slot.node, slot.id.node);
        self.command(primary, Command::Detach);
        let is_possible = self.nodes[node].up && self.coordinator.is_usable();
        if is_possible && !self.operators.is_held && !self.is_taken(node) {
            self.marks.reach(Mark::Reattached);
            self.attach_as(node, identity);
        }
    }

    /// Who is told an answer of the coordinator: the primary that has asked. With a canary, if that
    /// has ended, the next one on its node that waits for a call of the same number.
    pub(super) fn who_is_answered(&self, primary: usize, call: CoordinatorCall) -> usize {
        let asked = &self.primaries[primary];
        if asked.alive || self.sabotage != Some(Sabotage::AnswerNext) {
            return primary;
        }
        let waits = |slot: &usize| {
            let slot = &self.primaries[*slot];
            slot.node == asked.node && slot.calls.contains(&call)
        };
        self.living_primaries().find(waits).unwrap_or(primary)
    }
}
