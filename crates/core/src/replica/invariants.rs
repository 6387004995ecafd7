//! What must hold of a replica after every step, whatever its peers, its disk or the coordinator's
//! view have said: if not, this code is wrong. It is checked where assertions are on: in the
//! simulator, in tests and under the fuzzers. The labels are those of `docs/rules.md`.

use super::Replica;
use crate::payload::Payload;

impl<P: Payload> Replica<P> {
    /// Panics if an invariant of this machine, or of one of its parts, does not hold.
    pub(super) fn check_invariants(&self) {
        self.data.check_invariants(&self.views, &self.log);
        self.views.check_invariants();
        self.check_adoption();
        self.rebuilds.check_invariants(&self.views, &self.data);
        self.log.check_invariants(self.me.id, &self.views);
        self.sessions.check_invariants(&self.views);
    }
}

#[cfg(test)]
pub(super) mod tests;
