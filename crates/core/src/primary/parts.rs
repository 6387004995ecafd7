//! Parts: what one request asks of one mirror. Sent to the members, resent after a reconnect,
//! acknowledged by the protocol's rule, finished when every member has carried them out.

use super::requests::RequestNumber;
use super::{Context, EndReason, Primary};
use crate::ids::*;
use crate::message::{Failure, Message, OperationId};
use crate::operation::{Extent, Operation, RequestError};
use crate::payload::Payload;
use crate::policy::{ReplicaSet, WriteProgress, acknowledged};
use crate::settings::{LONGEST_PAYLOAD, LONGEST_ZERO};
use crate::stripe;
use crate::time::Instant;
use crate::view::{Cause, Protocol};

/// Most parts of one map request: what lies behind is left to the next request.
const MOST_MAP_PARTS: usize = 64;

/// What one request asks of one mirror.
#[derive(Debug)]
pub(super) struct Part<P> {
    pub request: RequestNumber,
    pub mirror: usize,
    /// Where in the request it begins.
    from: u64,
    action: PartAction<P>,
    /// Who has to carry it out: the members when it was sent, less those that left since. Of a
    /// read, the one replica that was asked.
    targets: ReplicaSet,
    /// Whether it was ever sent to anybody.
    begun: bool,
    /// To whom it was sent in their present session.
    sent: ReplicaSet,
    received: ReplicaSet,
    written: ReplicaSet,
    failed: ReplicaSet,
    failure: Option<Failure>,
    /// When it was sent first, or when its read was placed.
    pub sent_at: Instant,
    /// Whether its request has been told.
    answered: bool,
    /// Whether its request was told that it succeeded.
    is_acknowledged: bool,
}

#[derive(Debug, Clone)]
enum PartAction<P> {
    Write { offset: u64, payload: P, durable: bool },
    Zero { offset: u64, length: u32, unmap: bool, durable: bool },
    Read { offset: u64, length: u32 },
    Map { offset: u64, length: u32 },
    Flush { covers: Sequence },
}

impl<P: Payload> PartAction<P> {
    fn message(&self, id: OperationId, receipt: bool) -> (Message, Option<P>) {
        match self.clone() {
            Self::Write { offset, payload, durable } => {
                let length = payload.length();
                (Message::Write { id, offset, length, durable, receipt }, Some(payload))
            }
            Self::Zero { offset, length, unmap, durable } => {
                (Message::Zero { id, offset, length, unmap, durable, receipt }, None)
            }
            Self::Read { offset, length } => (Message::Read { id, offset, length }, None),
            Self::Map { offset, length } => (Message::Map { id, offset, length }, None),
            Self::Flush { covers } => (Message::Flush { id, covers }, None),
        }
    }

    fn is_read(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Map { .. })
    }

    fn is_durable(&self) -> bool {
        match self {
            Self::Write { durable, .. } | Self::Zero { durable, .. } => *durable,
            Self::Flush { .. } => true,
            Self::Read { .. } | Self::Map { .. } => false,
        }
    }

    /// The range that it changes.
    fn written_range(&self) -> Option<core::ops::Range<u64>> {
        match self {
            Self::Write { offset, payload, .. } => {
                Some(*offset..*offset + u64::from(payload.length()))
            }
            Self::Zero { offset, length, .. } => Some(*offset..*offset + u64::from(*length)),
            Self::Read { .. } | Self::Map { .. } | Self::Flush { .. } => None,
        }
    }
}

impl<P: Payload> Part<P> {
    /// Whether this replica has still to answer.
    pub fn waits_for(&self, bit: ReplicaSet) -> bool {
        self.missing() & bit != 0
    }

    /// Whether this replica has written it.
    pub fn was_written_by(&self, bit: ReplicaSet) -> bool {
        self.written & bit != 0
    }

    fn missing(&self) -> ReplicaSet {
        self.targets & !self.written & !self.failed
    }

    /// Whether it changes bytes of this range that this replica has not written.
    pub fn may_differ(&self, bit: ReplicaSet, range: &core::ops::Range<u64>) -> bool {
        self.written & bit == 0
            && self.targets & bit != 0
            && self
                .action
                .written_range()
                .is_some_and(|own| own.start < range.end && range.start < own.end)
    }
}

impl<P: Payload> Primary<P> {
    /// Cuts a request into parts and sends them.
    pub(super) fn dispatch(
        &mut self,
        cx: &mut Context<'_, P>,
        number: RequestNumber,
        operation: Operation<P>,
    ) {
        let Some(view) = &self.view else { return };
        let (geometry, mirrors) = (view.geometry, view.mirrors.len());
        let covers = self.acknowledged;
        let pieces = |offset, length, most| stripe::pieces(geometry, mirrors, offset, length, most);
        let parts: Vec<(usize, u64, PartAction<P>)> = match operation {
            Operation::Read { offset, length } => pieces(offset, length.into(), LONGEST_PAYLOAD)
                .map(|p| {
                    (p.mirror, p.from, PartAction::Read { offset: p.offset, length: p.length })
                })
                .collect(),
            Operation::Map { offset, length } => pieces(offset, length, LONGEST_ZERO)
                .take(MOST_MAP_PARTS)
                .map(|p| (p.mirror, p.from, PartAction::Map { offset: p.offset, length: p.length }))
                .collect(),
            Operation::Write { offset, payload, durable } => {
                pieces(offset, payload.length().into(), LONGEST_PAYLOAD)
                    .map(|p| {
                        let payload = payload.slice(p.from as u32, p.length);
                        let action = PartAction::Write { offset: p.offset, payload, durable };
                        (p.mirror, p.from, action)
                    })
                    .collect()
            }
            Operation::Zero { offset, length, unmap, durable } => {
                stripe::shares(geometry, mirrors, offset, length)
                    .flat_map(|(mirror, share)| {
                        split(share).map(move |(offset, length)| {
                            (mirror, 0, PartAction::Zero { offset, length, unmap, durable })
                        })
                    })
                    .collect()
            }
            Operation::Flush => {
                (0..mirrors).map(|mirror| (mirror, 0, PartAction::Flush { covers })).collect()
            }
        };
        if let Some(request) = self.requests.get_mut(&number) {
            request.unanswered = parts.len();
            request.unfinished = parts.len();
        }
        for (mirror, from, action) in parts {
            self.send_part(cx, number, mirror, from, action);
        }
    }

    fn send_part(
        &mut self,
        cx: &mut Context<'_, P>,
        request: RequestNumber,
        mirror: usize,
        from: u64,
        action: PartAction<P>,
    ) {
        self.last_sequence = self.last_sequence.next();
        let sequence = self.last_sequence;
        let is_read = action.is_read();
        let targets = if is_read { 0 } else { self.mirrors[mirror].members };
        let part = Part {
            request,
            mirror,
            from,
            action,
            targets,
            begun: false,
            sent: 0,
            received: 0,
            written: 0,
            failed: 0,
            failure: None,
            sent_at: cx.now,
            answered: false,
            is_acknowledged: false,
        };
        self.parts.insert(sequence, part);
        if is_read {
            self.place_read(cx, sequence);
        } else {
            self.send_unsent(cx, sequence, targets);
        }
    }

    /// Sends a part to those of `targets` that have an open session and have not got it there.
    fn send_unsent(&mut self, cx: &mut Context<'_, P>, sequence: Sequence, targets: ReplicaSet) {
        let generation = self.generation();
        let Some(part) = self.parts.get_mut(&sequence) else { return };
        let mirror = &self.mirrors[part.mirror];
        let is_b = self.view.as_ref().is_some_and(|view| view.protocol == Protocol::B);
        for id in mirror.ids(targets & part.missing() & !part.sent) {
            let Some(peer) = self.peers.get(&id) else { continue };
            if let Some(link) = peer.ready_link() {
                part.begun = true;
                part.sent |= peer.bit();
                let receipt = is_b && mirror.local & peer.bit() == 0;
                let id = OperationId { generation, sequence };
                let (message, payload) = part.action.message(id, receipt);
                cx.send(link, message, payload);
            }
        }
    }

    /// Sends, in their order, the parts that a replica has not got in its present session.
    pub(super) fn resend(&mut self, cx: &mut Context<'_, P>, replica: ReplicaId) {
        let Some(peer) = self.peers.get(&replica) else { return };
        let (mirror, bit) = (peer.mirror, peer.bit());
        let unsent: Vec<_> = self
            .parts
            .iter()
            .filter(|(_, part)| {
                part.mirror == mirror && part.waits_for(bit) && part.sent & bit == 0
            })
            .map(|(sequence, _)| *sequence)
            .collect();
        for sequence in unsent {
            self.send_unsent(cx, sequence, bit);
        }
    }

    /// A replica's session has ended: what it has not answered was not sent. Its reads go to
    /// another one.
    pub(super) fn session_ended(&mut self, replica: ReplicaId) {
        let Some(peer) = self.peers.get(&replica) else { return };
        let (mirror, bit) = (peer.mirror, peer.bit());
        for part in self.parts.values_mut().filter(|part| part.mirror == mirror) {
            part.sent &= !bit;
        }
        self.take_reads_from(mirror, bit);
    }

    /// Reads and maps that a replica has not answered go to another one.
    pub(super) fn take_reads_from(&mut self, mirror: usize, bit: ReplicaSet) {
        for (sequence, part) in self.parts.iter_mut().filter(|(_, part)| part.mirror == mirror) {
            if part.action.is_read()
                && part.targets == bit
                && part.written == 0
                && part.failed & bit == 0
            {
                part.targets = 0;
                part.sent = 0;
                self.unplaced.push_back(*sequence);
            }
        }
    }

    /// A replica stays although it has restarted. What had only arrived there is gone; so may be,
    /// if its machine restarted, what it had written: it gets all that is not finished again.
    pub(super) fn forget_life(&mut self, replica: ReplicaId, has_rebooted: bool) {
        let Some(peer) = self.peers.get(&replica) else { return };
        let (mirror, bit) = (peer.mirror, peer.bit());
        let parts = self.parts.values_mut().filter(|part| part.mirror == mirror);
        for part in parts.filter(|part| !part.action.is_read()) {
            part.received &= !bit;
            if has_rebooted {
                part.written &= !bit;
            }
        }
    }

    /// A replica is no member any more: nothing waits for it, once the others have adopted that.
    pub(super) fn forget_target(&mut self, mirror: usize, bit: ReplicaSet) {
        for part in self.parts.values_mut().filter(|part| part.mirror == mirror) {
            if !part.action.is_read() {
                part.targets &= !bit;
            }
        }
    }

    /// The view has changed: what was sent to nobody yet goes to its members.
    pub(super) fn retarget_parts(&mut self) {
        let waiting = self.parts.values_mut().filter(|part| !part.begun && !part.action.is_read());
        for part in waiting {
            part.targets = self.mirrors[part.mirror].members;
        }
    }

    /// Chooses replicas for reads that have none.
    pub(super) fn place_reads(&mut self, cx: &mut Context<'_, P>) {
        if !self.can_send() {
            return;
        }
        for _ in 0..self.unplaced.len() {
            if let Some(sequence) = self.unplaced.pop_front() {
                self.place_read(cx, sequence);
            }
        }
    }

    fn place_read(&mut self, cx: &mut Context<'_, P>, sequence: Sequence) {
        let Some(part) = self.parts.get(&sequence) else { return };
        let mirror = &self.mirrors[part.mirror];
        // One that failed a write lacks it; it is read only if there is no other one to drop it for.
        let is_last = mirror.in_sync.count_ones() == 1;
        let is_usable = |id: &ReplicaId| {
            let peer = self.peers.get(id);
            peer.is_some_and(|peer| peer.is_healthy() && (is_last || peer.failing.is_none()))
        };
        let choose = |set: ReplicaSet| {
            let usable: Vec<_> = mirror.ids(set & !part.failed).filter(is_usable).collect();
            (!usable.is_empty()).then(|| usable[sequence.0 as usize % usable.len()])
        };
        let chosen = choose(mirror.in_sync & mirror.local).or_else(|| choose(mirror.in_sync));
        let bit = chosen.and_then(|id| self.peers.get(&id)).map_or(0, |peer| peer.bit());
        let exhausted = mirror.in_sync & !part.failed == 0;
        let Some(part) = self.parts.get_mut(&sequence) else { return };
        if bit == 0 && exhausted {
            // Those that could have read it have left since: the failure is the answer.
            let (number, error) = (part.request, part.failure.map(request_error));
            self.parts.remove(&sequence);
            self.part_answered(cx, number, error);
            return self.part_finished(number);
        }
        if bit == 0 {
            return self.unplaced.push_back(sequence);
        }
        part.targets = bit;
        part.sent = 0;
        part.sent_at = cx.now;
        self.send_unsent(cx, sequence, bit);
    }

    /// Finds the part that a replica's answer is for, and takes the answer as its confirmation.
    fn answer_for(
        &mut self,
        replica: ReplicaId,
        sequence: Sequence,
    ) -> Option<(&mut Part<P>, ReplicaSet)> {
        let peer = self.peers.get_mut(&replica)?;
        let part = self.parts.get_mut(&sequence)?;
        let bit = peer.bit();
        let expected = part.mirror == peer.mirror && part.sent & part.targets & bit != 0;
        if !expected {
            return None;
        }
        peer.confirm(part.sent_at);
        Some((part, bit))
    }

    pub(super) fn received(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        sequence: Sequence,
    ) {
        if let Some((part, bit)) = self.answer_for(replica, sequence) {
            part.received |= bit;
            self.check_part(cx, sequence);
        }
    }

    pub(super) fn done(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        sequence: Sequence,
        result: Result<(), Failure>,
    ) {
        let Some((part, bit)) = self.answer_for(replica, sequence) else { return };
        match result {
            Ok(()) if part.action.is_read() => return,
            Ok(()) => part.written |= bit,
            Err(failure) => {
                part.failed |= bit;
                part.failure = Some(failure);
                self.disk_failed(replica, failure);
            }
        }
        if result.is_ok() {
            self.drain_progressed(cx, sequence);
        }
        self.confirmations_changed(cx);
        self.check_part(cx, sequence);
    }

    pub(super) fn data(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        sequence: Sequence,
        payload: Option<P>,
    ) {
        let Some((part, bit)) = self.answer_for(replica, sequence) else { return };
        let PartAction::Read { length, .. } = part.action else { return };
        let Some(payload) = payload.filter(|p| p.length() == length) else { return };
        if part.answered || part.written != 0 {
            return;
        }
        part.written |= bit;
        let (number, from) = (part.request, part.from as u32);
        if let Some(request) = self.requests.get_mut(&number) {
            request.data.push((from, payload));
        }
        self.confirmations_changed(cx);
        self.check_part(cx, sequence);
    }

    pub(super) fn extents(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        sequence: Sequence,
        extents: Vec<Extent>,
    ) {
        let Some((part, bit)) = self.answer_for(replica, sequence) else { return };
        let PartAction::Map { length, .. } = part.action else { return };
        let covered: u64 = extents.iter().map(|extent| extent.length).sum();
        if part.written != 0 || covered == 0 || covered > u64::from(length) {
            return;
        }
        part.written |= bit;
        let (number, from) = (part.request, part.from);
        if let Some(request) = self.requests.get_mut(&number) {
            request.extents.push((from, extents));
        }
        self.confirmations_changed(cx);
        self.check_part(cx, sequence);
    }

    /// A replica did not run a part because it has adopted another generation. It is resent when
    /// the replica has adopted the primary's.
    pub(super) fn part_refused(&mut self, replica: ReplicaId, sequence: Sequence) {
        let Some(peer) = self.peers.get(&replica) else { return };
        let (mirror, bit) = (peer.mirror, peer.bit());
        let Some(part) = self.parts.get_mut(&sequence).filter(|p| p.mirror == mirror) else {
            return;
        };
        part.sent &= !bit;
        if part.action.is_read() && part.written == 0 && part.targets == bit {
            part.targets = 0;
            self.unplaced.push_back(sequence);
        }
    }

    /// Answers and finishes a part, as far as what is known of it permits.
    pub(super) fn check_part(&mut self, cx: &mut Context<'_, P>, sequence: Sequence) {
        let Some(part) = self.parts.get(&sequence) else { return };
        if part.action.is_read() {
            return self.check_read(cx, sequence);
        }
        if !self.unadopted.is_empty() {
            return;
        }
        if !part.answered && self.may_acknowledge(part) {
            if self.needs_lease(part) && !self.has_lease(part.mirror, cx.now) {
                return self.await_lease(cx, sequence);
            }
            self.acknowledge(cx, sequence);
        }
        self.finish_if_over(cx, sequence);
    }

    fn check_read(&mut self, cx: &mut Context<'_, P>, sequence: Sequence) {
        let Some(part) = self.parts.get_mut(&sequence) else { return };
        if part.written != 0 {
            let mirror = part.mirror;
            if !self.has_lease(mirror, cx.now) {
                return self.await_lease(cx, sequence);
            }
        } else if part.failed & part.targets != 0 {
            // Another replica may have it whole; if none does, the failure is the answer.
            let exhausted = self.mirrors[part.mirror].in_sync & !part.failed == 0;
            if !exhausted {
                part.targets = 0;
                return self.unplaced.push_back(sequence);
            }
        } else {
            return;
        }
        let Some(part) = self.parts.remove(&sequence) else { return };
        let error = if part.written != 0 { None } else { part.failure.map(request_error) };
        self.part_answered(cx, part.request, error);
        self.part_finished(part.request);
    }

    fn may_acknowledge(&self, part: &Part<P>) -> bool {
        let Some(view) = &self.view else { return false };
        let mirror = &self.mirrors[part.mirror];
        let settled = part.missing() == 0;
        if part.failed & part.targets != 0 {
            // Somebody failed and has not left. If it can't leave, its failure is the answer.
            return settled && mirror.in_sync & part.targets & !part.failed == 0;
        }
        let progress = WriteProgress {
            members: part.targets,
            in_sync: part.targets & mirror.in_sync,
            local: mirror.local,
            received: part.received,
            written: part.written,
            durable: part.action.is_durable(),
        };
        acknowledged(view.protocol, progress)
    }

    fn needs_lease(&self, part: &Part<P>) -> bool {
        let is_c = self.view.as_ref().is_none_or(|view| view.protocol == Protocol::C);
        !is_c && !part.action.is_durable()
    }

    fn acknowledge(&mut self, cx: &mut Context<'_, P>, sequence: Sequence) {
        let Some(part) = self.parts.get_mut(&sequence) else { return };
        part.answered = true;
        let failed = part.failed & part.targets != 0;
        let error = part.failure.filter(|_| failed).map(request_error);
        part.is_acknowledged = error.is_none();
        match part.action {
            PartAction::Flush { .. } => {}
            _ if error.is_none() => self.acknowledged = self.acknowledged.max(sequence),
            _ => {}
        }
        let (number, mirror) = (part.request, part.mirror);
        let covers = match part.action {
            PartAction::Flush { covers } if error.is_none() => Some(covers),
            _ => None,
        };
        if let Some(covers) = covers {
            self.flush_part_done(number, covers);
        }
        if error.is_some() {
            self.rebuilds_lack_a_source(mirror);
        }
        self.part_answered(cx, number, error);
    }

    /// A flush covers what it covers once its last part is done.
    fn flush_part_done(&mut self, number: RequestNumber, covers: Sequence) {
        let is_last = self
            .requests
            .get(&number)
            .is_some_and(|request| request.unanswered == 1 && request.error.is_none());
        if is_last {
            self.flushed = self.flushed.max(covers);
        }
    }

    /// The last in-sync replica of a mirror failed a write that rebuilding ones may have: they
    /// begin anew, so that they do not keep what their source lacks.
    pub(super) fn rebuilds_lack_a_source(&mut self, mirror: usize) {
        let peers = &self.mirrors[mirror];
        let rebuilding: Vec<_> = peers.ids(peers.members & !peers.in_sync).collect();
        for id in rebuilding {
            self.wants_to_leave(id, Cause::SourceFailed);
        }
    }

    fn finish_if_over(&mut self, cx: &mut Context<'_, P>, sequence: Sequence) {
        let is_over =
            self.parts.get(&sequence).is_some_and(|part| part.answered && part.missing() == 0);
        if is_over && let Some(part) = self.parts.remove(&sequence) {
            let in_sync = self.mirrors[part.mirror].in_sync;
            if part.is_acknowledged && in_sync & !part.failed == 0 {
                // Acknowledged when it had arrived (A, B), and then nobody could write it.
                return self.end(cx, EndReason::LostWrites);
            }
            self.part_finished(part.request);
        }
    }

    /// Looks at every part again: the view, or who has confirmed it, has changed.
    pub(super) fn check_all_parts(&mut self, cx: &mut Context<'_, P>) {
        let all: Vec<_> = self.parts.keys().copied().collect();
        for sequence in all {
            self.check_part(cx, sequence);
        }
    }

    /// Forgets the reads of a request that has been answered.
    pub(super) fn forget_reads_of(&mut self, number: RequestNumber) {
        let reads: Vec<_> = self
            .parts
            .iter()
            .filter(|(_, part)| part.request == number && part.action.is_read())
            .map(|(sequence, _)| *sequence)
            .collect();
        for sequence in reads {
            self.parts.remove(&sequence);
            if let Some(request) = self.requests.get_mut(&number) {
                request.unanswered -= 1;
            }
            self.part_finished(number);
        }
    }
}

/// Cuts a range into runs no longer than one message may zero.
fn split(range: core::ops::Range<u64>) -> impl Iterator<Item = (u64, u32)> {
    let mut at = range.start;
    core::iter::from_fn(move || {
        let length = (range.end - at).min(u64::from(LONGEST_ZERO)) as u32;
        let run = (at, length);
        at += u64::from(length);
        (length > 0).then_some(run)
    })
}

fn request_error(failure: Failure) -> RequestError {
    match failure {
        Failure::Medium | Failure::Invalid => RequestError::Medium,
        Failure::NoSpace => RequestError::NoSpace,
    }
}
