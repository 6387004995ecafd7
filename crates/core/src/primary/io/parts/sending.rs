//! Cutting requests into parts, and sending them: to the members, and again after a reconnect.

use super::part::{MirrorTask, Part, PartAction};
use super::{Below, Parts};
use crate::ids::*;
use crate::message::OperationId;
use crate::operation::Operation;
use crate::payload::Payload;
use crate::policy::ReplicaSet;
use crate::primary::Context;
use crate::primary::io::requests::RequestNumber;
use crate::settings::{MAX_PAYLOAD, MAX_ZERO};
use crate::stripe::{self, Piece};
use crate::view::Protocol;

/// Most parts of one map request: what lies behind is left to the next request.
const MAX_MAP_PARTS: usize = 64;

impl<P: Payload> Parts<P> {
    /// Cuts a request into parts and sends them.
    pub fn dispatch(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        number: RequestNumber,
        operation: Operation<P>,
    ) {
        let Some(tasks) = self.cut(below, operation) else {
            debug_assert!(false, "{number:?} reads and writes, one after the other");
            return;
        };
        below.requests.expect_parts(number, tasks.len());
        for task in tasks {
            self.send_part(cx, below, number, task);
        }
    }

    /// What each mirror has to do for a request. `None`: that is not done at once.
    fn cut(&self, below: &Below<'_, P>, operation: Operation<P>) -> Option<Vec<MirrorTask<P>>> {
        let view = below.views.view();
        let (geometry, mirrors) = (view.geometry, view.mirrors.len());
        let pieces = |offset, length, most| stripe::pieces(geometry, mirrors, offset, length, most);
        let task =
            |piece: Piece, action| MirrorTask { mirror: piece.mirror, from: piece.from, action };
        Some(match operation {
            Operation::Read { offset, length } => pieces(offset, length.into(), MAX_PAYLOAD)
                .map(|p| task(p, PartAction::Read { offset: p.offset, length: p.length }))
                .collect(),
            Operation::Map { offset, length } => pieces(offset, length, MAX_ZERO)
                .take(MAX_MAP_PARTS)
                .map(|p| task(p, PartAction::Map { offset: p.offset, length: p.length }))
                .collect(),
            Operation::Write { offset, payload, durable } => {
                let write = |p: Piece| {
                    let payload = payload.slice(p.from as u32, p.length);
                    task(p, PartAction::Write { offset: p.offset, payload, durable })
                };
                pieces(offset, payload.length().into(), MAX_PAYLOAD).map(write).collect()
            }
            Operation::CompareAndWrite { .. } => return None,
            Operation::Zero { offset, length, unmap, durable } => {
                let zero = |mirror, (offset, length)| {
                    let action = PartAction::Zero { offset, length, unmap, durable };
                    MirrorTask { mirror, from: 0, action }
                };
                stripe::shares(geometry, mirrors, offset, length)
                    .flat_map(|(mirror, share)| split(share).map(move |piece| zero(mirror, piece)))
                    .collect()
            }
            Operation::Flush => {
                let covers = below.stability.acknowledged();
                let flush = |mirror| PartAction::Flush {
                    covers,
                    stabilizes: self.finished_through(below, mirror),
                };
                (0..mirrors)
                    .map(|mirror| MirrorTask { mirror, from: 0, action: flush(mirror) })
                    .collect()
            }
        })
    }

    pub fn send_part(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        request: RequestNumber,
        task: MirrorTask<P>,
    ) {
        let mirror = task.mirror;
        let part = Part::new(request, task, below.peers.mirror(mirror), cx.now);
        let (is_read, changes_data) = (part.is_read(), part.changes_data());
        let targets = part.targets();
        let sequence = self.add_part(below, part);
        if changes_data {
            below.stability.write_begins(mirror, sequence, cx.now);
        }
        if is_read {
            self.place_read(cx, below, sequence);
        } else {
            self.send_unsent(cx, below, sequence, targets);
        }
    }

    /// Sends a read to a replica that is not one of `avoided`.
    pub fn send_read_elsewhere(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        request: RequestNumber,
        task: MirrorTask<P>,
        avoided: ReplicaSet,
    ) {
        let peers = below.peers.mirror(task.mirror);
        let part = Part::new(request, task, peers, cx.now).not_from(avoided);
        let sequence = self.add_part(below, part);
        self.place_read(cx, below, sequence);
    }

    pub(super) fn add_part(&mut self, below: &mut Below<'_, P>, part: Part<P>) -> Sequence {
        let sequence = below.stability.send_next();
        self.table.add(sequence, part);
        sequence
    }

    /// Sends a part to those of `targets` that have an open session and have not got it there.
    pub(super) fn send_unsent(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &Below<'_, P>,
        sequence: Sequence,
        targets: ReplicaSet,
    ) {
        let generation = below.views.generation();
        let Some(part) = self.table.known_mut(sequence) else { return };
        let mirror = below.peers.mirror(part.mirror());
        let is_b = below.views.view().protocol == Protocol::B;
        for id in mirror.ids(targets & part.unsent()) {
            if let Some(peer) = below.peers.known(id)
                && let Some(link) = peer.ready_link()
            {
                part.send_to(peer.bit());
                let receipt = is_b && mirror.local() & peer.bit() == 0;
                let id = OperationId { generation, sequence };
                let (message, payload) = part.action().message(id, receipt);
                cx.send(link, message, payload);
            }
        }
    }

    /// Sends, in their order, the parts that a replica has not got in its present session.
    pub fn resend(&mut self, cx: &mut Context<'_, P>, below: &Below<'_, P>, replica: ReplicaId) {
        let Some(peer) = below.peers.known(replica) else { return };
        let (mirror, bit) = (peer.mirror(), peer.bit());
        let unsent: Vec<_> = self
            .table
            .of_mirror(mirror)
            .filter(|(_, part)| part.unsent() & bit != 0)
            .map(|(sequence, _)| sequence)
            .collect();
        for sequence in unsent {
            self.send_unsent(cx, below, sequence, bit);
        }
    }

    /// A replica's session has ended: what it has not answered was not sent. Its reads go to
    /// another one.
    pub fn session_ended(&mut self, below: &Below<'_, P>, replica: ReplicaId) {
        if let Some(peer) = below.peers.known(replica) {
            let (mirror, bit) = (peer.mirror(), peer.bit());
            self.table.of_mirror_mut(mirror).for_each(|part| part.forget_session(bit));
            self.table.take_reads_from(mirror, bit);
        }
    }

    /// A replica stays although it has restarted. What had only arrived there is gone; so may be,
    /// if its machine restarted, what it had written: it gets all that is not finished again.
    pub fn forget_incarnation(
        &mut self,
        below: &mut Below<'_, P>,
        replica: ReplicaId,
        has_rebooted: bool,
    ) {
        let Some(peer) = below.peers.known_mut(replica) else { return };
        let (mirror, bit) = (peer.mirror(), peer.bit());
        peer.disk_mut().renew(below.stability.last_write(mirror));
        for part in self.table.of_mirror_mut(mirror).filter(|part| !part.is_read()) {
            part.forget_incarnation(bit, has_rebooted);
        }
    }

    /// A replica is no member any more: nothing waits for it, once the others have adopted that.
    pub fn forget_target(&mut self, mirror: usize, bit: ReplicaSet) {
        let writes = self.table.of_mirror_mut(mirror).filter(|part| !part.is_read());
        writes.for_each(|part| part.forget_replica(bit));
    }

    /// The view has changed: parts go to its members. What was read by an older one and not told
    /// yet, because the lease was not confirmed, is read anew if others run the volume, too: they
    /// may have changed it since, and the new view's members confirm only that one.
    pub fn follow_view(&mut self, below: &mut Below<'_, P>) {
        for part in self.table.values_mut().filter(|part| !part.is_read()) {
            part.retarget(below.peers.mirror(part.mirror()));
        }
        if below.views.view().is_shared() {
            let again = |part: &Part<P>| below.requests.forget_read(part.request(), part.from());
            self.table.read_again(again);
        }
        self.rebuild_waits.forget_drains();
    }
}

/// Cuts a range into runs no longer than one message may zero.
fn split(range: core::ops::Range<u64>) -> impl Iterator<Item = (u64, u32)> {
    let mut at = range.start;
    core::iter::from_fn(move || {
        let length = (range.end - at).min(u64::from(MAX_ZERO)) as u32;
        let run = (at, length);
        at += u64::from(length);
        (length > 0).then_some(run)
    })
}
