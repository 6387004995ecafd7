//! What replicas answer to parts, and what follows: the client's answer, the end of the part.

use core::ops::ControlFlow;

use super::under_way::Parts;
use crate::ids::*;
use crate::message::{BlockDigest, Failure};
use crate::operation::Extent;
use crate::payload::Payload;
use crate::policy::{ReplicaSet, acknowledged};
use crate::primary::io::part::{Part, PartAction};
use crate::primary::io::requests::RequestNumber;
use crate::primary::io::{Io, Lower};
use crate::primary::membership::Membership;
use crate::primary::membership::peer::Peer;
use crate::primary::{Context, EndReason, Flow};
use crate::settings::BLOCK;
use crate::view::Protocol;

const GO_ON: Flow = ControlFlow::Continue(());

impl<P: Payload> Io<P> {
    pub(in crate::primary::io) fn received(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        replica: ReplicaId,
        sequence: Sequence,
    ) -> Flow {
        if let Some((part, peer)) =
            answer_for(lower.peers, &mut self.parts, (replica, sequence), |_| true)
        {
            part.received_by(peer.bit());
            return self.check_part(cx, lower, sequence);
        }
        GO_ON
    }

    pub(in crate::primary::io) fn done(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        replica: ReplicaId,
        sequence: Sequence,
        result: Result<(), Failure>,
    ) -> Flow {
        let fits = |part: &Part<P>| result.is_err() || !part.action().asks_for_content();
        let Some((part, peer)) =
            answer_for(lower.peers, &mut self.parts, (replica, sequence), fits)
        else {
            return GO_ON; // It means nothing now, or never did.
        };
        match result {
            Ok(()) => {
                part.written_by(peer.bit());
                if part.changes_data() {
                    peer.speed().wrote(cx.now.since(part.sent_at()));
                }
                self.drain_progressed(cx, lower, sequence);
            }
            Err(_) if matches!(part.action(), PartAction::Digest { .. }) => {
                let bit = peer.bit();
                part.excuse(bit);
                self.digested(sequence, bit, None);
            }
            Err(failure) => {
                part.failed_by(peer.bit(), failure);
                self.part_failed(lower, replica, sequence, failure);
            }
        }
        self.confirmations_changed(cx, lower)?;
        self.check_part(cx, lower, sequence)
    }

    fn part_failed(
        &mut self,
        lower: &mut Lower<'_>,
        replica: ReplicaId,
        sequence: Sequence,
        failure: Failure,
    ) {
        let Some(part) = self.parts.known(sequence) else { return };
        let (range, is_durable) = (part.action().read_range(), part.action().is_durable());
        let is_one_block = part.is_one_block();
        if is_durable {
            self.failed_flush(lower, replica);
        }
        match range {
            // That there is something to be repaired is known.
            Some(_) if is_one_block => {}
            Some(range) if matches!(failure, Failure::Medium | Failure::Damaged) => {
                self.read_failed(lower, replica, range);
            }
            _ => self.disk_failed(lower, replica, failure),
        }
    }

    /// A replica could not read a range. What another one has of it is rewritten here, which makes
    /// a disk put a good sector in the place of a bad one; a replica that fails too often leaves.
    fn read_failed(
        &mut self,
        lower: &mut Lower<'_>,
        replica: ReplicaId,
        range: core::ops::Range<u64>,
    ) {
        let Some(peer) = lower.peers.known_mut(replica) else { return };
        let (mirror, bit, is_often) = (peer.mirror(), peer.bit(), peer.disk_mut().fail_read());
        if is_often || lower.peers.mirror(mirror).in_sync() & !bit == 0 {
            return self.disk_failed(lower, replica, Failure::Medium);
        }
        self.must_repair(mirror, range);
    }

    /// A replica tells what it holds.
    pub(in crate::primary::io) fn digests(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        replica: ReplicaId,
        sequence: Sequence,
        digests: Vec<BlockDigest>,
    ) -> Flow {
        let fits = |part: &Part<P>| match part.action() {
            PartAction::Digest { length, .. } => digests.len() == length.div_ceil(BLOCK) as usize,
            _ => false,
        };
        if let Some((part, peer)) =
            answer_for(lower.peers, &mut self.parts, (replica, sequence), fits)
        {
            let bit = peer.bit();
            part.written_by(bit);
            self.digested(sequence, bit, Some(digests));
            self.confirmations_changed(cx, lower)?;
            return self.check_part(cx, lower, sequence);
        }
        GO_ON
    }

    pub(in crate::primary::io) fn data(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        replica: ReplicaId,
        sequence: Sequence,
        payload: Option<P>,
        is_unverified: bool,
    ) -> Flow {
        let length = payload.as_ref().map(P::length);
        let fits = |part: &Part<P>| match part.action() {
            PartAction::Read { length: wanted, .. } => length == Some(*wanted),
            _ => false,
        };
        let answer = answer_for(lower.peers, &mut self.parts, (replica, sequence), |part| {
            fits(part) && !part.was_written()
        });
        if let (Some((part, peer)), Some(payload)) = (answer, payload) {
            if is_unverified {
                part.take_unverified(peer.bit(), payload);
            } else {
                part.written_by(peer.bit());
                self.requests.keep_data(part, payload);
            }
            self.confirmations_changed(cx, lower)?;
            return self.check_part(cx, lower, sequence);
        }
        GO_ON
    }

    pub(in crate::primary::io) fn extents(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        replica: ReplicaId,
        sequence: Sequence,
        extents: Vec<Extent>,
    ) -> Flow {
        let mut lengths = extents.iter().map(|extent| extent.length);
        let covered = lengths.try_fold(0u64, u64::checked_add);
        let fits = |part: &Part<P>| match part.action() {
            PartAction::Map { length, .. } => {
                covered.is_some_and(|covered| (1..=u64::from(*length)).contains(&covered))
            }
            _ => false,
        };
        let answer = answer_for(lower.peers, &mut self.parts, (replica, sequence), |part| {
            fits(part) && !part.was_written()
        });
        if let Some((part, peer)) = answer {
            part.written_by(peer.bit());
            self.requests.keep_extents(part, extents);
            self.confirmations_changed(cx, lower)?;
            return self.check_part(cx, lower, sequence);
        }
        GO_ON
    }

    /// A replica did not run a part because it has adopted another generation. It is resent when
    /// the replica has adopted the primary's.
    pub fn part_refused(&mut self, lower: &Lower<'_>, replica: ReplicaId, sequence: Sequence) {
        let Some(peer) = lower.peers.known(replica) else { return };
        let (mirror, bit) = (peer.mirror(), peer.bit());
        // It may be over, if others have carried it out.
        let part = self.parts.get_mut(sequence).filter(|part| part.mirror() == mirror);
        if part.is_some_and(|part| part.refused_by(bit)) {
            self.parts.await_replica(sequence);
        }
    }

    /// Answers and finishes a part, as far as what is known of it permits.
    pub(in crate::primary::io) fn check_part(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        sequence: Sequence,
    ) -> Flow {
        let Some(part) = self.parts.get(sequence) else {
            return GO_ON; // It has ended since somebody meant to look at it.
        };
        if part.is_read() {
            self.check_read(cx, lower, sequence);
            return GO_ON;
        }
        if !lower.views.adoption().is_over() {
            return GO_ON; // All parts are looked at when it is.
        }
        if !part.is_answered() && self.may_acknowledge(lower, part) {
            if self.needs_lease(lower, part) && !lower.peers.has_lease(part.mirror(), cx.now) {
                self.await_lease(cx, sequence);
                return GO_ON;
            }
            if cfg!(debug_assertions) && part.failed_targets() == 0 {
                self.check_acknowledged(lower.peers, lower.views, part);
            }
            self.acknowledge(cx, lower, sequence);
        }
        self.finish_if_over(lower, sequence)
    }

    pub(super) fn check_read(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        sequence: Sequence,
    ) {
        let Some(part) = self.parts.known_mut(sequence) else { return };
        if part.was_written() {
            let mirror = part.mirror();
            if !lower.peers.has_lease(mirror, cx.now) {
                return self.await_lease(cx, sequence);
            }
        } else if part.failed_targets() != 0 {
            // Another replica may have it whole; if none does, the failure is the answer.
            let exhausted = lower.peers.mirror(part.mirror()).in_sync() & !part.failed() == 0;
            if !exhausted {
                part.read_elsewhere();
                return self.parts.await_replica(sequence);
            }
            if self.accept_unverified(sequence) {
                return self.check_read(cx, lower, sequence);
            }
            if self.parts.get(sequence).is_some_and(|part| self.may_read_blockwise(lower, part)) {
                return self.read_blockwise(cx, lower, sequence);
            }
        } else {
            return; // It is not answered yet.
        }
        if let Some(part) = self.parts.end(sequence) {
            self.renew_what_was_read(&part);
            let error = if part.was_written() { None } else { part.error() };
            self.part_answered(cx, part.request(), error);
            self.part_finished(part.request());
        }
    }

    fn may_acknowledge(&self, lower: &Lower<'_>, part: &Part<P>) -> bool {
        let Some(view) = lower.views.known_view() else { return false };
        let mirror = lower.peers.mirror(part.mirror());
        let stable = part.missing() == 0;
        if part.failed_targets() != 0 {
            // Somebody failed and has not left. If it can't leave, its failure is the answer.
            return stable && mirror.in_sync() & part.targets() & !part.failed() == 0;
        }
        // One that rebuilds counts, too: a view that this primary has not learnt of may have made
        // it the only one in-sync.
        let is_flush = matches!(part.action(), PartAction::Flush { .. });
        if is_flush && self.all_lacking(lower, part.mirror()) & mirror.members() != 0 {
            return false;
        }
        acknowledged(view.protocol, part.progress(mirror))
    }

    fn needs_lease(&self, lower: &Lower<'_>, part: &Part<P>) -> bool {
        let is_c = lower.views.view().is_none_or(|view| view.protocol == Protocol::C);
        !is_c && !part.action().is_durable()
    }

    fn acknowledge(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>, sequence: Sequence) {
        let Some(part) = self.parts.known_mut(sequence) else { return };
        let error = part.answer();
        match part.action() {
            PartAction::Flush { .. } | PartAction::Stabilize { .. } | PartAction::Digest { .. } => {
            }
            // One that failed counts too: it may be on the disk, and be read from there.
            _ => self.writes.acknowledge(sequence),
        }
        let (number, mirror, is_stabilizing) =
            (part.request(), part.mirror(), part.is_stabilizing());
        let flushed = match *part.action() {
            PartAction::Flush { covers, stabilizes } if error.is_none() => {
                Some((covers, stabilizes))
            }
            _ => None,
        };
        if let PartAction::Stabilize { through } = *part.action()
            && error.is_none()
        {
            self.stable(cx, lower, mirror, through);
        }
        if let Some((covers, stabilizes)) = flushed {
            self.flush_part_done(number, covers);
            self.stable(cx, lower, mirror, stabilizes);
        }
        if error.is_some() && !is_stabilizing {
            lower.views.rebuilds_lack_a_source(lower.peers, mirror);
        }
        self.part_answered(cx, number, error);
    }

    /// A flush covers what it covers once its last part is done.
    fn flush_part_done(&mut self, number: RequestNumber, covers: Sequence) {
        if self.requests.awaits_last_part(number) {
            self.writes.flush(covers);
        }
    }

    fn finish_if_over(&mut self, lower: &mut Lower<'_>, sequence: Sequence) -> Flow {
        let is_over = |part: &&Part<P>| part.is_answered() && part.missing() == 0;
        let Some(part) = self.parts.get(sequence).filter(is_over) else {
            return GO_ON; // Its client, or a replica, is not done with it.
        };
        let in_sync = lower.peers.mirror(part.mirror()).in_sync();
        if part.has_failed() && part.targets() & part.written() != 0 && part.failed_targets() != 0 {
            // Answered with an error, and one that rebuilds has it: that one leaves, or, if it
            // became in-sync meanwhile, those that failed it. Until then nobody reads there.
            return GO_ON;
        }
        if part.is_acknowledged() && part.failed() & in_sync != 0 {
            // Acknowledged when it had arrived (A, B). Who failed it since has to leave first.
            if in_sync & !self.all_lacking(lower, part.mirror()) == 0 {
                return ControlFlow::Break(EndReason::LostWrites);
            }
            return GO_ON;
        }
        if let Some(part) = self.parts.end(sequence) {
            if part.is_acknowledged() && part.failed() != 0 {
                lower.peers.remember_lack(part.mirror(), part.failed());
            }
            if part.changes_data() && part.failed_targets() != 0 {
                self.hold_stability(part.mirror(), part.held(sequence));
            }
            self.part_finished(part.request());
        }
        GO_ON
    }

    /// The replicas of a mirror that have failed a write which is acknowledged.
    fn all_lacking(&self, lower: &Lower<'_>, mirror: usize) -> ReplicaSet {
        self.parts.lacking(mirror) | lower.peers.remembered_to_lack(mirror)
    }

    /// Looks at every part again: the view, or who has confirmed it, has changed.
    pub(in crate::primary::io) fn check_all_parts(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
    ) -> Flow {
        let all: Vec<_> = self.parts.iter().map(|(sequence, _)| sequence).collect();
        for sequence in all {
            self.check_part(cx, lower, sequence)?;
        }
        GO_ON
    }

    /// Forgets the reads of a request that has been answered.
    pub(in crate::primary::io) fn forget_reads_of(&mut self, number: RequestNumber) {
        let reads: Vec<_> = self
            .parts
            .iter()
            .filter(|(_, part)| part.request() == number && part.is_read())
            .map(|(sequence, _)| sequence)
            .collect();
        for sequence in reads {
            self.parts.end(sequence);
            self.requests.part_forgotten(number);
            self.part_finished(number);
        }
    }
}

/// Finds the part that a replica's answer is for, and takes the answer as its confirmation. `None`
/// if nothing is asked of it there: the part is over or goes to others now, or this is its second
/// word on it. So also if the answer does not fit what was asked: it counts as none, and the
/// replica will be late.
fn answer_for<'a, P: Payload>(
    peers: &'a mut Membership,
    parts: &'a mut Parts<P>,
    (replica, sequence): (ReplicaId, Sequence),
    fits: impl FnOnce(&Part<P>) -> bool,
) -> Option<(&'a mut Part<P>, &'a mut Peer)> {
    let (peer, part) = (peers.known_mut(replica)?, parts.get_mut(sequence)?);
    if part.mirror() != peer.mirror() || !part.awaits_answer_of(peer.bit()) {
        return None;
    }
    peer.confirm(part.sent_at());
    fits(part).then_some((part, peer))
}
