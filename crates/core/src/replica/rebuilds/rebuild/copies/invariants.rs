//! What must hold of a rebuild after every step (see [`crate::replica::invariants`]).

use super::super::{Phase, Rebuild, Source};
use super::{Copy, CopyPhase};
use crate::ids::*;
use crate::view::{ReplicaState, View};

impl Rebuild {
    /// Whether it holds any range but for what is being written there.
    pub(in crate::replica::rebuilds) fn holds_anything(&self) -> bool {
        self.copies.values().any(|copy| !copy.is_let_go)
    }

    /// The lock on the range of each copy, and whether it is waited for.
    pub(in crate::replica::rebuilds) fn range_locks(
        &self,
    ) -> impl Iterator<Item = (CopyToken, OperationNumber, bool)> {
        let is_locking = |copy: &Copy| matches!(copy.phase, CopyPhase::Locking);
        self.copies.iter().map(move |(token, copy)| (*token, copy.lock, is_locking(copy)))
    }

    /// Forgets that the range of a run is held, for tests to break. Returns the run, and the link
    /// over which its source was asked.
    #[cfg(test)]
    pub(in crate::replica::rebuilds) fn forget_hold(&mut self) -> (CopyToken, LinkId) {
        self.copies.clear();
        let token = *self.runs.keys().next().expect("a run is copied");
        (token, self.source.link().expect("a source is asked"))
    }

    /// What holds of it alone, by this view.
    pub(in crate::replica::rebuilds) fn check_invariants(&self, view: &View) {
        if let Source::Connecting(id) | Source::Opening(id, ..) | Source::Open(id, _) = self.source
        {
            let state = view.replica(id).map(|(_, record)| record.state);
            assert!(state == Some(ReplicaState::InSync), "B2: {id:?} is its source, and {state:?}");
        }
        if self.phase.has_copied() {
            let is_over = self.out_of_sync.is_empty() && self.copies.is_empty();
            assert!(is_over, "B4: it has copied everything, and something is lacking");
        }
        if self.phase == Phase::Complete {
            assert!(self.unflushed.is_empty(), "B4: it is complete, and not all is durable");
        }
        for (token, copy) in &self.copies {
            self.check_copy(*token, copy);
            let mut others = self.copies.range(CopyToken(token.0 + 1)..);
            let is_apart = others.all(|(_, other)| !other.touches(&copy.blocks));
            assert!(is_apart, "B1: two copies of one range");
        }
    }

    fn check_copy(&self, token: CopyToken, copy: &Copy) {
        let runs = || self.runs.values().filter(|run| run.region == token);
        let writing = runs().filter(|run| run.is_writing).count();
        assert!(copy.writing == writing, "B1: {} runs are written of {}", writing, copy.writing);
        let is_copying = matches!(copy.phase, CopyPhase::Copying);
        assert!(is_copying || runs().next().is_none(), "B1: a run is copied before the drain");
        assert!(!copy.is_let_go || copy.writing > 0, "B1: a range is held for nothing");
        let is_served = copy.is_let_go || !is_copying || runs().next().is_some();
        assert!(is_served, "I11: a range is held, and nothing is copied there");
    }
}

#[cfg(test)]
mod tests;
