//! What must hold of a replica after every step, whatever its peers, its disk or the coordinator's
//! view have said: if not, this code is wrong. It is checked where assertions are on: in the
//! simulator, in tests and under the fuzzers. The labels are those of `docs/rules.md`.

use super::Replica;
use crate::payload::Payload;
use crate::view::ReplicaState;

impl<P: Payload> Replica<P> {
    /// Panics if an invariant of this machine, or of one of its parts, does not hold.
    pub(super) fn check_invariants(&self) {
        let generation = self.view.generation;
        self.operations.check_invariants(generation, &self.intents, &self.intent_work);
        assert!(
            self.operations.is_empty() || !self.is_unsaved() || self.adoption.is_under_way(),
            "I3: something is under way, and no view is adopted"
        );
        self.check_adoption();
        self.check_rebuild();
        self.check_missing();
        self.cluster_locks.check_invariants(&self.view);
    }

    /// Who is rebuilt is what the view says.
    fn check_rebuild(&self) {
        let Some(rebuild) = &self.rebuild else {
            return; // None is under way.
        };
        let state = self.state();
        assert!(state == Some(ReplicaState::Rebuilding), "B4: it rebuilds, and is {state:?}");
        rebuild.check_invariants(&self.view);
        for (token, lock, is_waited_for) in rebuild.range_locks() {
            self.operations.check_hold(token, lock, is_waited_for);
        }
        let is_paused = self.adoption.is_under_way() || self.is_unsaved();
        assert!(
            !is_paused || !rebuild.holds_anything(),
            "V2: a rebuild holds a range while a view is being adopted"
        );
    }

    /// Whoever lacks only a part has a bitmap here that says which.
    fn check_missing(&self) {
        if let Some((mirror, _)) = self.view.replica(self.config.id) {
            self.missing.check_invariants(&self.view.mirrors[mirror], self.config.id);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
