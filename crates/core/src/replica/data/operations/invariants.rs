//! What must hold of a replica's operations after every step (see [`crate::replica::invariants`]).

use super::{DataOperation, Intent, Operations, Origin};
use crate::ids::{CopyToken, Generation, OperationNumber};
use crate::payload::Payload;
use crate::replica::log::Log;

impl<P: Payload> Operations<P> {
    /// Panics if an operation has begun too early, or waits for nothing, in this generation and
    /// beside this intent log.
    pub fn check_invariants(&self, generation: Generation, log: &Log) {
        self.locks.check_invariants();
        for (number, operation) in self.all.iter() {
            self.check_lock(*number, operation);
            check_intent(*number, operation, log);
            if let Origin::Primary(_, _, id) = operation.origin {
                let is_noted = !operation.is_write || operation.intent != Intent::None;
                assert!(is_noted, "I5: {id:?} has no intent");
                assert!(id.generation == generation, "I3: {id:?} is under way in {generation:?}");
            }
        }
    }

    fn check_lock(&self, number: OperationNumber, operation: &DataOperation<P>) {
        let DataOperation { origin, intent, begun, .. } = operation;
        let is_granted = self.locks.is_granted(number);
        assert!(operation.is_locked == is_granted, "W2: {origin:?} does not know of its lock");
        assert!(is_granted || !begun, "I10: {origin:?} has begun without its lock");
        let is_ready = is_granted && matches!(intent, Intent::None | Intent::Open(..));
        assert!(!is_ready || operation.action.is_none(), "I11: {origin:?} waits for nothing");
    }

    /// Panics if the rebuild does not hold a range for this copy.
    pub fn check_hold(&self, token: CopyToken, lock: OperationNumber, is_locking: bool) {
        assert!(self.all.contains_key(&lock), "B1: {token:?} holds nothing");
        let is_granted = self.locks.is_granted(lock);
        assert!(is_locking || is_granted, "B1: {token:?} has no lock on its range");
    }
}

fn check_intent<P>(number: OperationNumber, operation: &DataOperation<P>, log: &Log) {
    let DataOperation { origin, begun, .. } = operation;
    match &operation.intent {
        Intent::None => {}
        Intent::Waiting(_) => {
            let waits = log.is_waiting(number);
            assert!(waits && !begun, "I5: {origin:?} does not wait for room in the log");
        }
        Intent::Opening(..) => {
            let waits = log.is_opening(number);
            assert!(waits && !begun, "I5: {origin:?} does not wait for its regions");
        }
        Intent::Open(slot, blocks) => {
            let is_open = log.stays_open(*slot, blocks);
            assert!(is_open || !begun, "I5: {origin:?} writes to a region that is not open");
        }
    }
}

#[cfg(test)]
mod tests;
