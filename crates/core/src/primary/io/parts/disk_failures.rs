//! Disks of replicas that fail: what is asked of them goes to others, and they leave.

use super::{Below, Parts};
use crate::ids::*;
use crate::message::Failure;
use crate::payload::Payload;
use crate::view::{Cause, ReplicaState};

impl<P: Payload> Parts<P> {
    /// A replica says by this generation that its disk failed. What it failed before it was
    /// admitted it is to copy anew.
    pub fn reported_of_failure(
        &mut self,
        below: &mut Below<'_, P>,
        replica: ReplicaId,
        generation: Generation,
        failure: Failure,
    ) {
        let record = below.views.view().replica(replica);
        let counts = record.is_some_and(|(_, record)| match record.state {
            ReplicaState::InSync => true,
            ReplicaState::Rebuilding => record.since <= generation,
            ReplicaState::Stale | ReplicaState::Faulty | ReplicaState::Spare => false,
        });
        if counts {
            failed_flush(below, replica);
            self.disk_failed(below, replica, failure);
        }
    }

    /// A replica's disk failed.
    pub(super) fn disk_failed(
        &mut self,
        below: &mut Below<'_, P>,
        replica: ReplicaId,
        failure: Failure,
    ) {
        let cause = match failure {
            Failure::Medium | Failure::Damaged | Failure::Invalid => Cause::Medium,
            Failure::NoSpace => Cause::NoSpace,
        };
        if let Some(peer) = below.peers.known_mut(replica) {
            peer.disk_mut().fail(cause);
            let (mirror, bit) = (peer.mirror(), peer.bit());
            self.table.take_reads_from(mirror, bit);
            below.views.wants_to_leave(replica, cause);
        }
    }
}

/// A replica could not make durable what it has, or may have.
pub(super) fn failed_flush<P>(below: &mut Below<'_, P>, replica: ReplicaId) {
    below.peers.known_mut(replica).into_iter().for_each(|peer| peer.disk_mut().fail_flush());
}
