//! The primary's part in a rebuild: it drains ranges for the rebuilding replica, and lets it
//! become in-sync when it has everything (rules B1, B4).

use core::ops::Range;
use std::collections::BTreeSet;

use super::part::Part;
use super::rebuild_waits::{Copied, Drain};
use super::{Below, Parts};
use crate::ids::*;
use crate::message::{Message, RebuildProgress, RebuildWait};
use crate::payload::Payload;
use crate::primary::Context;
use crate::settings::REGION;
use crate::view::ReplicaState;

/// A rebuilding replica asks when its source has all of a range that it is about to copy.
#[derive(Debug)]
pub(in crate::primary::io) struct DrainAsked {
    pub link: LinkId,
    pub replica: ReplicaId,
    pub generation: Generation,
    pub token: CopyToken,
    pub range: Range<u64>,
    pub source: ReplicaId,
}

/// What becomes of a replica that asks whether writes are finished.
enum Finish {
    /// It waits still.
    Waits,
    /// It is told over this link that all is finished.
    Reported(LinkId),
    /// It waits for that no more: it has left, or says it again when it has adopted the view.
    Over,
}

impl<P: Payload> Parts<P> {
    /// A rebuilding replica is about to copy a range.
    pub fn drain(&mut self, cx: &mut Context<'_, P>, below: &Below<'_, P>, asked: DrainAsked) {
        let DrainAsked { link, replica, generation, token, range, source } = asked;
        let may_ask = below.views.state_of(replica) == Some(ReplicaState::Rebuilding)
            && below.views.state_of(source) == Some(ReplicaState::InSync)
            && generation == below.views.generation()
            && below.views.adoption().is_over();
        let Some(peer) = below.peers.get(&source).filter(|_| may_ask) else {
            return; // The replica lets go of the range by itself and asks again.
        };
        let (mirror, bit) = (peer.mirror(), peer.bit());
        let parts: BTreeSet<_> = self
            .table
            .of_mirror(mirror)
            .filter(|(_, part)| part.may_differ(bit, &range))
            .map(|(sequence, _)| sequence)
            .collect();
        if parts.is_empty() {
            let is_busy = below.requests.are_busy(cx.now);
            return cx.send(link, Message::Drained { generation, token, is_busy }, None);
        }
        self.rebuild_waits.drain(Drain { link, token, parts, source });
    }

    /// A part has been written by somebody: answers the drains that waited just for it.
    pub(super) fn drain_progressed(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &Below<'_, P>,
        sequence: Sequence,
    ) {
        if self.rebuild_waits.are_drained() {
            return; // As nearly always.
        }
        let (peers, written) = (&*below.peers, self.table.known(sequence).map(Part::written));
        let has_it = |id| {
            let peer = peers.known(id);
            peer.zip(written).is_some_and(|(peer, written)| written & peer.bit() != 0)
        };
        self.answer_drains(cx, below, sequence, has_it);
    }

    /// Answers the drains that waited just for this part, of the replicas that `has_it` says.
    pub(super) fn answer_drains(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &Below<'_, P>,
        sequence: Sequence,
        has_it: impl Fn(ReplicaId) -> bool,
    ) {
        let (generation, is_busy) = (below.views.generation(), below.requests.are_busy(cx.now));
        self.rebuild_waits.written(sequence, has_it, |drain| {
            let token = drain.token;
            cx.send(drain.link, Message::Drained { generation, token, is_busy }, None);
        });
    }

    pub fn rebuild_progress(
        &mut self,
        below: &mut Below<'_, P>,
        replica: ReplicaId,
        progress: RebuildProgress,
    ) {
        let Some(peer) = below.peers.known_mut(replica) else { return };
        peer.rebuilds(progress);
        let mirror = peer.mirror();
        if let Some(RebuildWait::SourceMedium(at)) = progress.waits_for
            && below.peers.mirror(mirror).in_sync().count_ones() > 1
        {
            // What the source can't read another one may have.
            self.findings.must_repair(mirror, at..at.saturating_add(REGION.into()));
        }
    }

    /// A replica has made durable what it has copied: what was sent by now is to be finished.
    pub fn rebuild_copied(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &Below<'_, P>,
        replica: ReplicaId,
        generation: Generation,
        number: BarrierNumber,
    ) {
        if generation == below.views.generation() {
            let through = below.stability.last_sent();
            self.rebuild_waits.copied(replica, Copied { generation, number, through });
            self.report_finished(cx, below);
        }
    }

    /// Tells those that have made a copy durable when what was sent by then is finished.
    pub fn report_finished(&mut self, cx: &mut Context<'_, P>, below: &Below<'_, P>) {
        if !self.rebuild_waits.is_any_finishing() {
            return;
        }
        let finishing = self.rebuild_waits.finishing();
        let fates: Vec<_> =
            finishing.map(|(id, copied)| (id, copied, self.finish(below, id, copied))).collect();
        let generation = below.views.generation();
        for (replica, copied, fate) in fates {
            match fate {
                Finish::Waits => continue,
                Finish::Reported(link) => {
                    let number = copied.number;
                    cx.send(link, Message::WritesFinished { generation, number }, None);
                }
                Finish::Over => {}
            }
            self.rebuild_waits.finished(replica);
        }
    }

    fn finish(&self, below: &Below<'_, P>, replica: ReplicaId, copied: Copied) -> Finish {
        let is_rebuilding = below.views.state_of(replica) == Some(ReplicaState::Rebuilding);
        let counts = is_rebuilding && copied.generation == below.views.generation();
        let peer = below.peers.get(&replica).filter(|_| counts);
        let Some((peer, link)) = peer.and_then(|peer| Some((peer, peer.ready_link()?))) else {
            return Finish::Over;
        };
        if self.finished_through(below, peer.mirror()) < copied.through {
            Finish::Waits
        } else {
            Finish::Reported(link)
        }
    }
}
