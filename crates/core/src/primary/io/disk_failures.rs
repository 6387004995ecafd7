//! Disks of replicas that fail: what is asked of them goes to others, and they leave.

use crate::ids::*;
use crate::message::Failure;
use crate::payload::Payload;
use crate::primary::Primary;
use crate::view::{Cause, ReplicaState};

impl<P: Payload> Primary<P> {
    /// A replica says by this generation that its disk failed. What it failed before it was
    /// admitted it is to copy anew.
    pub(in crate::primary) fn told_of_failure(
        &mut self,
        replica: ReplicaId,
        generation: Generation,
        failure: Failure,
    ) {
        let record = self.views.view().and_then(|view| view.replica(replica));
        let counts = record.is_some_and(|(_, record)| match record.state {
            ReplicaState::InSync => true,
            ReplicaState::Rebuilding => record.since <= generation,
            ReplicaState::Stale | ReplicaState::Faulty | ReplicaState::Spare => false,
        });
        if counts {
            self.failed_flush(replica);
            self.disk_failed(replica, failure);
        }
    }

    /// A replica's disk failed.
    pub(in crate::primary) fn disk_failed(&mut self, replica: ReplicaId, failure: Failure) {
        let cause = match failure {
            Failure::Medium | Failure::Damaged | Failure::Invalid => Cause::Medium,
            Failure::NoSpace => Cause::NoSpace,
        };
        if let Some(peer) = self.membership.known_mut(replica) {
            peer.disk_mut().fail(cause);
            let (mirror, bit) = (peer.mirror(), peer.bit());
            self.parts.take_reads_from(mirror, bit);
            self.views.wants_to_leave(replica, cause);
        }
    }

    /// A replica could not make durable what it has, or may have.
    pub(in crate::primary) fn failed_flush(&mut self, replica: ReplicaId) {
        self.membership
            .known_mut(replica)
            .into_iter()
            .for_each(|peer| peer.disk_mut().fail_flush());
    }
}
