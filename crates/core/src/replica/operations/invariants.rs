//! What must hold of a replica's operations after every step (see [`super::super::invariants`]).

use super::{DataOperation, Intent, Origin};
use crate::payload::Payload;
use crate::range_lock::LockNumber;
use crate::replica::Replica;

impl<P: Payload> Replica<P> {
    pub(in crate::replica) fn check_operations(&self) {
        for (number, operation) in self.operations.iter() {
            self.check_operation(*number, operation);
        }
        assert!(
            self.operations.is_empty() || !self.is_unsaved() || self.adoption.is_some(),
            "I3: something is under way, and no view is adopted"
        );
    }

    fn check_operation(&self, number: LockNumber, operation: &DataOperation<P>) {
        let DataOperation { origin, intent, begun, .. } = operation;
        let is_granted = self.locks.is_granted(number);
        assert!(operation.is_locked == is_granted, "W2: {origin:?} does not know of its lock");
        assert!(is_granted || !begun, "I10: {origin:?} has begun without its lock");
        match intent {
            Intent::None => {}
            Intent::Waiting(_) => {
                let waits = self.intent_work.is_waiting(number);
                assert!(waits && !begun, "I5: {origin:?} does not wait for room in the log");
            }
            Intent::Opening(..) => {
                let waits = self.intent_work.is_opening(number);
                assert!(waits && !begun, "I5: {origin:?} does not wait for its regions");
            }
            Intent::Open(slot, blocks) => {
                let is_open = self.intents.stays_open(*slot, blocks);
                assert!(is_open || !begun, "I5: {origin:?} writes to a region that is not open");
            }
        }
        let is_ready = is_granted && matches!(intent, Intent::None | Intent::Open(..));
        assert!(!is_ready || operation.action.is_none(), "I11: {origin:?} waits for nothing");
        if let Origin::Primary(_, _, id) = origin {
            let is_write = operation.is_write;
            assert!(!is_write || *intent != Intent::None, "I5: {id:?} has no intent");
            let generation = self.view.generation;
            assert!(id.generation == generation, "I3: {id:?} is under way in {generation:?}");
        }
    }
}

#[cfg(test)]
mod tests;
