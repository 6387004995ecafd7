//! Disks of replicas that fail: what is asked of them goes to others, and they leave.

use crate::ids::*;
use crate::message::Failure;
use crate::payload::Payload;
use crate::primary::io::{Io, Lower};
use crate::view::{Cause, ReplicaState};

impl<P: Payload> Io<P> {
    /// A replica says by this generation that its disk failed. What it failed before it was
    /// admitted it is to copy anew.
    pub(in crate::primary::io) fn told_of_failure(
        &mut self,
        lower: &mut Lower<'_>,
        replica: ReplicaId,
        generation: Generation,
        failure: Failure,
    ) {
        let record = lower.views.view().and_then(|view| view.replica(replica));
        let counts = record.is_some_and(|(_, record)| match record.state {
            ReplicaState::InSync => true,
            ReplicaState::Rebuilding => record.since <= generation,
            ReplicaState::Stale | ReplicaState::Faulty | ReplicaState::Spare => false,
        });
        if counts {
            self.failed_flush(lower, replica);
            self.disk_failed(lower, replica, failure);
        }
    }

    /// A replica's disk failed.
    pub(in crate::primary::io) fn disk_failed(
        &mut self,
        lower: &mut Lower<'_>,
        replica: ReplicaId,
        failure: Failure,
    ) {
        let cause = match failure {
            Failure::Medium | Failure::Damaged | Failure::Invalid => Cause::Medium,
            Failure::NoSpace => Cause::NoSpace,
        };
        if let Some(peer) = lower.peers.known_mut(replica) {
            peer.disk_mut().fail(cause);
            let (mirror, bit) = (peer.mirror(), peer.bit());
            self.parts.take_reads_from(mirror, bit);
            lower.views.wants_to_leave(replica, cause);
        }
    }

    /// A replica could not make durable what it has, or may have.
    pub(in crate::primary::io) fn failed_flush(
        &mut self,
        lower: &mut Lower<'_>,
        replica: ReplicaId,
    ) {
        lower.peers.known_mut(replica).into_iter().for_each(|peer| peer.disk_mut().fail_flush());
    }
}
