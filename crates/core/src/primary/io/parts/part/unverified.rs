//! What was read where the checksum was lost.

use super::Part;
use crate::payload::Payload;
use crate::policy::ReplicaSet;

/// What was read by replicas that could not vouch for it.
#[derive(Debug)]
pub(super) struct Unverified<P> {
    by: ReplicaSet,
    /// What the first of them has read, unless it was the answer.
    kept: Option<P>,
}

impl<P: Payload> Part<P> {
    /// A replica has read what it can't vouch for: as long as others can be asked it has failed.
    pub fn take_unverified(&mut self, bit: ReplicaSet, payload: P) {
        self.replicas.failed |= bit;
        match &mut self.unverified {
            Some(unverified) => unverified.by |= bit,
            None => self.unverified = Some(Unverified { by: bit, kept: Some(payload) }),
        }
    }

    /// Others may have changed it since: whoever has read it may be asked again.
    pub fn forget_unverified(&mut self) {
        if let Some(unverified) = self.unverified.take() {
            self.replicas.failed &= !unverified.by;
        }
    }

    /// Nobody else can be asked: the answer is what a replica has read, if any has, as if the first
    /// had answered just now, and alone.
    pub fn accept_unverified(&mut self) -> Option<P> {
        let unverified = self.unverified.as_mut()?;
        let payload = unverified.kept.take()?;
        self.replicas.failed &= !unverified.by;
        self.replicas.targets = 1 << unverified.by.trailing_zeros();
        self.replicas.written = self.replicas.targets;
        Some(payload)
    }

    /// Whether a replica has lost a checksum of what was read; if so, whether another one has
    /// vouched for it.
    pub fn is_vouched_for(&self) -> Option<bool> {
        let unverified = self.unverified.as_ref()?;
        Some(unverified.kept.is_some() && self.was_written())
    }
}
