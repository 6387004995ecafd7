//! What replicas answer to parts, and what follows: the client's answer, the end of the part.

use core::ops::ControlFlow;

use super::blockwise::may_read_blockwise;
use super::disk_failures::failed_flush;
use super::invariants::check_acknowledged;
use super::part::{Part, PartAction};
use super::table::PartTable;
use super::{Below, Parts};
use crate::ids::*;
use crate::message::{BlockDigest, Failure};
use crate::operation::Extent;
use crate::payload::Payload;
use crate::policy::{ReplicaSet, acknowledged};
use crate::primary::io::requests::{RequestNumber, Requests};
use crate::primary::membership::Membership;
use crate::primary::membership::peer::Peer;
use crate::primary::{Context, EndReason, Flow};
use crate::settings::BLOCK;
use crate::view::Protocol;

const GO_ON: Flow = ControlFlow::Continue(());

impl<P: Payload> Parts<P> {
    pub fn received(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        replica: ReplicaId,
        sequence: Sequence,
    ) -> Flow {
        if let Some((part, peer)) =
            answer_for(below.peers, &mut self.table, replica, sequence, |_| true)
        {
            part.received_by(peer.bit());
            return self.check_part(cx, below, sequence);
        }
        GO_ON
    }

    pub fn done(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        replica: ReplicaId,
        sequence: Sequence,
        result: Result<(), Failure>,
    ) -> Flow {
        let fits = |part: &Part<P>| result.is_err() || !part.action().asks_for_content();
        let Some((part, peer)) = answer_for(below.peers, &mut self.table, replica, sequence, fits)
        else {
            return GO_ON; // It means nothing now, or never did.
        };
        match result {
            Ok(()) => {
                part.written_by(peer.bit());
                if part.changes_data() {
                    peer.speed().wrote(cx.now.since(part.sent_at()));
                }
                self.drain_progressed(cx, below, sequence);
            }
            Err(_) if matches!(part.action(), PartAction::Digest { .. }) => {
                let bit = peer.bit();
                part.excuse(bit);
                self.findings.digested(sequence, bit, None);
            }
            Err(failure) => {
                part.failed_by(peer.bit(), failure);
                self.part_failed(below, replica, sequence, failure);
            }
        }
        self.confirmations_changed(cx, below)?;
        self.check_part(cx, below, sequence)
    }

    fn part_failed(
        &mut self,
        below: &mut Below<'_, P>,
        replica: ReplicaId,
        sequence: Sequence,
        failure: Failure,
    ) {
        let Some(part) = self.table.known(sequence) else { return };
        let (range, is_durable) = (part.action().read_range(), part.action().is_durable());
        let is_one_block = part.is_one_block();
        if is_durable {
            failed_flush(below, replica);
        }
        match range {
            // That there is something to be repaired is known.
            Some(_) if is_one_block => {}
            Some(range) if matches!(failure, Failure::Medium | Failure::Damaged) => {
                self.read_failed(below, replica, range);
            }
            _ => self.disk_failed(below, replica, failure),
        }
    }

    /// A replica could not read a range. What another one has of it is rewritten here, which makes
    /// a disk put a good sector in the place of a bad one; a replica that fails too often leaves.
    fn read_failed(
        &mut self,
        below: &mut Below<'_, P>,
        replica: ReplicaId,
        range: core::ops::Range<u64>,
    ) {
        let Some(peer) = below.peers.known_mut(replica) else { return };
        let (mirror, bit, is_often) = (peer.mirror(), peer.bit(), peer.disk_mut().fail_read());
        if is_often || below.peers.mirror(mirror).in_sync() & !bit == 0 {
            return self.disk_failed(below, replica, Failure::Medium);
        }
        self.findings.must_repair(mirror, range);
    }

    /// A replica tells what it holds.
    pub fn digests(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        replica: ReplicaId,
        sequence: Sequence,
        digests: Vec<BlockDigest>,
    ) -> Flow {
        let fits = |part: &Part<P>| match part.action() {
            PartAction::Digest { length, .. } => digests.len() == length.div_ceil(BLOCK) as usize,
            _ => false,
        };
        if let Some((part, peer)) =
            answer_for(below.peers, &mut self.table, replica, sequence, fits)
        {
            let bit = peer.bit();
            part.written_by(bit);
            self.findings.digested(sequence, bit, Some(digests));
            self.confirmations_changed(cx, below)?;
            return self.check_part(cx, below, sequence);
        }
        GO_ON
    }

    pub fn data(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
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
        let answer = answer_for(below.peers, &mut self.table, replica, sequence, |part| {
            fits(part) && !part.was_written()
        });
        if let (Some((part, peer)), Some(payload)) = (answer, payload) {
            if is_unverified {
                part.take_unverified(peer.bit(), payload, cx.now);
            } else {
                part.written_by(peer.bit());
                below.requests.keep_data(part.request(), part.from(), payload);
            }
            self.confirmations_changed(cx, below)?;
            return self.check_part(cx, below, sequence);
        }
        GO_ON
    }

    pub fn extents(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
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
        let answer = answer_for(below.peers, &mut self.table, replica, sequence, |part| {
            fits(part) && !part.was_written()
        });
        if let Some((part, peer)) = answer {
            part.written_by(peer.bit());
            below.requests.keep_extents(part.request(), part.from(), extents);
            self.confirmations_changed(cx, below)?;
            return self.check_part(cx, below, sequence);
        }
        GO_ON
    }

    /// A replica did not run a part because it has adopted another generation. It is resent when
    /// the replica has adopted the primary's.
    pub fn part_refused(
        &mut self,
        below: &Below<'_, P>,
        replica: ReplicaId,
        sequence: Sequence,
        adopted: Generation,
    ) {
        let Some(peer) = below.peers.known(replica) else { return };
        let (mirror, bit) = (peer.mirror(), peer.bit());
        let is_surprise = !below.views.expects_refusal(replica, adopted);
        // It may be over, if others have carried it out.
        let part = self.table.get_mut(sequence).filter(|part| part.mirror() == mirror);
        if part.is_some_and(|part| part.refused_by(bit, is_surprise)) {
            self.table.await_replica(sequence);
        }
    }

    /// Answers and finishes a part, as far as what is known of it permits.
    pub(super) fn check_part(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        sequence: Sequence,
    ) -> Flow {
        let Some(part) = self.table.get(sequence) else {
            return GO_ON; // It has ended since somebody meant to look at it.
        };
        if part.is_read() {
            self.check_read(cx, below, sequence);
            return GO_ON;
        }
        if !below.views.adoption().is_over() {
            return GO_ON; // All parts are looked at when it is.
        }
        if !part.is_answered() && self.may_acknowledge(below, part) {
            if needs_lease(below, part) && !below.peers.has_lease(part.mirror(), cx.now) {
                self.await_lease(cx, sequence);
                return GO_ON;
            }
            if cfg!(debug_assertions) && part.failed_targets() == 0 {
                check_acknowledged(below.peers, below.views, part);
            }
            self.acknowledge(cx, below, sequence);
        }
        self.finish_if_over(below, sequence)
    }

    pub(super) fn check_read(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        sequence: Sequence,
    ) {
        let Some(part) = self.table.known_mut(sequence) else { return };
        if part.was_written() {
            let mirror = part.mirror();
            if !below.peers.has_lease(mirror, cx.now) {
                return self.await_lease(cx, sequence);
            }
        } else if part.failed_targets() != 0 {
            // Another replica may have it whole; if none does, the failure is the answer.
            let exhausted = below.peers.mirror(part.mirror()).in_sync() & !part.failed() == 0;
            if !exhausted || part.has_unverified() {
                part.read_elsewhere();
                return self.table.await_replica(sequence);
            }
            if may_read_blockwise(below, part) {
                return self.read_blockwise(cx, below, sequence);
            }
        } else {
            return; // It is not answered yet.
        }
        if let Some(part) = self.table.end(sequence) {
            self.renew_what_was_read(below, &part);
            let error = if part.was_written() { None } else { part.error() };
            below.requests.part_answered(cx, part.request(), error);
            below.requests.part_finished(part.request());
        }
    }

    fn may_acknowledge(&self, below: &Below<'_, P>, part: &Part<P>) -> bool {
        let mirror = below.peers.mirror(part.mirror());
        let stable = part.missing() == 0;
        if part.failed_targets() != 0 {
            // Somebody failed and has not left. If it can't leave, its failure is the answer.
            return stable && mirror.in_sync() & part.targets() & !part.failed() == 0;
        }
        // One that rebuilds counts, too: a view that this primary has not learnt of may have made
        // it the only one in-sync.
        let is_flush = matches!(part.action(), PartAction::Flush { .. });
        if is_flush && self.all_out_of_sync(below, part.mirror()) & mirror.members() != 0 {
            return false;
        }
        acknowledged(below.views.view().protocol, part.progress(mirror))
    }

    fn acknowledge(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        sequence: Sequence,
    ) {
        let Some(part) = self.table.known_mut(sequence) else { return };
        let error = part.answer();
        match part.action() {
            PartAction::Flush { .. } | PartAction::Stabilize { .. } | PartAction::Digest { .. } => {
            }
            // One that failed counts too: it may be on the disk, and be read from there.
            _ => below.stability.acknowledge(sequence),
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
            let (stability, lower) = below.stability();
            stability.stable(cx, &lower, mirror, through);
        }
        if let Some((covers, stabilizes)) = flushed {
            if below.requests.awaits_last_part(number) {
                // It covers what it covers once its last part is done.
                below.stability.flush(covers);
            }
            let (stability, lower) = below.stability();
            stability.stable(cx, &lower, mirror, stabilizes);
        }
        if error.is_some() && !is_stabilizing {
            below.views.rebuilds_lack_a_source(below.peers, mirror);
        }
        below.requests.part_answered(cx, number, error);
    }

    fn finish_if_over(&mut self, below: &mut Below<'_, P>, sequence: Sequence) -> Flow {
        let is_over = |part: &&Part<P>| part.is_answered() && part.missing() == 0;
        let Some(part) = self.table.get(sequence).filter(is_over) else {
            return GO_ON; // Its client, or a replica, is not done with it.
        };
        let in_sync = below.peers.mirror(part.mirror()).in_sync();
        if part.has_failed() && part.targets() & part.written() != 0 && part.failed_targets() != 0 {
            // Answered with an error, and one that rebuilds has it: that one leaves, or, if it
            // became in-sync meanwhile, those that failed it. Until then nobody reads there.
            return GO_ON;
        }
        if part.is_acknowledged() && part.failed() & in_sync != 0 {
            // Acknowledged when it had arrived (A, B). Who failed it since has to leave first.
            if in_sync & !self.all_out_of_sync(below, part.mirror()) == 0 {
                return ControlFlow::Break(EndReason::LostWrites);
            }
            return GO_ON;
        }
        if let Some(part) = self.table.end(sequence) {
            if part.is_acknowledged() && part.failed() != 0 {
                below.peers.remember_out_of_sync(part.mirror(), part.failed());
            }
            if part.changes_data() && part.failed_targets() != 0 {
                below.stability.hold(part.mirror(), part.held(sequence));
            }
            below.requests.part_finished(part.request());
        }
        GO_ON
    }

    /// The replicas of a mirror that have failed a write which is acknowledged.
    fn all_out_of_sync(&self, below: &Below<'_, P>, mirror: usize) -> ReplicaSet {
        self.table.out_of_sync(mirror) | below.peers.remembered_out_of_sync(mirror)
    }

    /// Looks at every part again: the view, or who has confirmed it, has changed.
    pub(super) fn check_all_parts(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
    ) -> Flow {
        let all: Vec<_> = self.table.iter().map(|(sequence, _)| sequence).collect();
        for sequence in all {
            self.check_part(cx, below, sequence)?;
        }
        GO_ON
    }

    /// Forgets the reads of a request that has been answered.
    pub fn forget_reads_of(&mut self, requests: &mut Requests<P>, number: RequestNumber) {
        let reads: Vec<_> = self
            .table
            .iter()
            .filter(|(_, part)| part.request() == number && part.is_read())
            .map(|(sequence, _)| sequence)
            .collect();
        for sequence in reads {
            self.table.end(sequence);
            requests.part_forgotten(number);
            requests.part_finished(number);
        }
    }
}

/// Whether an answer without a word from every member needs that this is a primary still.
fn needs_lease<P: Payload>(below: &Below<'_, P>, part: &Part<P>) -> bool {
    below.views.view().protocol != Protocol::C && !part.action().is_durable()
}

/// Finds the part that a replica's answer is for, and takes the answer as its confirmation. `None`
/// if nothing is asked of it there: the part is over or goes to others now, or this is its second
/// word on it. So also if the answer does not fit what was asked: it counts as none, and the
/// replica will be late.
fn answer_for<'a, P: Payload>(
    peers: &'a mut Membership,
    parts: &'a mut PartTable<P>,
    replica: ReplicaId,
    sequence: Sequence,
    fits: impl FnOnce(&Part<P>) -> bool,
) -> Option<(&'a mut Part<P>, &'a mut Peer)> {
    let (peer, part) = (peers.known_mut(replica)?, parts.get_mut(sequence)?);
    if part.mirror() != peer.mirror() || !part.awaits_answer_of(peer.bit()) {
        return None;
    }
    peer.confirm(part.sent_at());
    fits(part).then_some((part, peer))
}
