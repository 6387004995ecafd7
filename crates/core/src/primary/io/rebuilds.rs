//! The primary's part in a rebuild: it drains ranges for the rebuilding replica, and lets it
//! become in-sync when it has everything (rules B1, B4).

use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeSet;

use super::rebuild_waits::{Copied, Drain};
use crate::ids::*;
use crate::message::{Message, RebuildProgress, RebuildWait};
use crate::payload::Payload;
use crate::primary::Context;
use crate::primary::io::{Io, Lower};
use crate::settings::REGION;
use crate::time::Instant;
use crate::view::ReplicaState;

/// How long a request keeps rebuilds slow.
const BUSY_FOR: Duration = Duration::from_millis(100);

/// A rebuilding replica asks when its source has all of a range that it is about to copy.
#[derive(Debug)]
pub(super) struct DrainAsked {
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
    Told(LinkId),
    /// It waits for that no more: it has left, or says it again when it has adopted the view.
    Over,
}

impl<P: Payload> Io<P> {
    /// A rebuilding replica is about to copy a range.
    pub(super) fn drain(&mut self, cx: &mut Context<'_, P>, lower: &Lower<'_>, asked: DrainAsked) {
        let DrainAsked { link, replica, generation, token, range, source } = asked;
        let may_ask = lower.views.state_of(replica) == Some(ReplicaState::Rebuilding)
            && lower.views.state_of(source) == Some(ReplicaState::InSync)
            && generation == lower.views.generation()
            && lower.views.adoption().is_over();
        let Some(peer) = lower.peers.get(&source).filter(|_| may_ask) else {
            return; // The replica lets go of the range by itself and asks again.
        };
        let (mirror, bit) = (peer.mirror(), peer.bit());
        let parts: BTreeSet<_> = self
            .parts
            .of_mirror(mirror)
            .filter(|(_, part)| part.may_differ(bit, &range))
            .map(|(sequence, _)| sequence)
            .collect();
        if parts.is_empty() {
            let is_busy = self.is_busy(cx.now);
            return cx.send(link, Message::Drained { generation, token, is_busy }, None);
        }
        self.rebuild_waits.drain(Drain { link, token, parts, source });
    }

    /// A part has been written by somebody: answers the drains that waited just for it.
    pub(in crate::primary::io) fn drain_progressed(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &Lower<'_>,
        sequence: Sequence,
    ) {
        if self.rebuild_waits.are_drained() {
            return; // As nearly always.
        }
        let (generation, is_busy) = (lower.views.generation(), self.is_busy(cx.now));
        let (peers, part) = (&*lower.peers, self.parts.known(sequence));
        let has_it = |id| {
            let peer = peers.known(id);
            peer.zip(part).is_some_and(|(peer, part)| part.was_written_by(peer.bit()))
        };
        self.rebuild_waits.written(sequence, has_it, |drain| {
            let token = drain.token;
            cx.send(drain.link, Message::Drained { generation, token, is_busy }, None);
        });
    }

    /// Whether clients have asked for anything lately.
    pub fn is_busy(&self, now: Instant) -> bool {
        self.requests.came_within(BUSY_FOR, now)
    }

    pub(in crate::primary::io) fn rebuild_progress(
        &mut self,
        lower: &mut Lower<'_>,
        replica: ReplicaId,
        progress: RebuildProgress,
    ) {
        let Some(peer) = lower.peers.known_mut(replica) else { return };
        peer.rebuilds(progress);
        let mirror = peer.mirror();
        if let Some(RebuildWait::SourceMedium(at)) = progress.waits_for
            && lower.peers.mirror(mirror).in_sync().count_ones() > 1
        {
            // What the source can't read another one may have.
            self.must_repair(mirror, at..at.saturating_add(REGION.into()));
        }
    }

    /// A replica has made durable what it has copied: what was sent by now is to be finished.
    pub(in crate::primary::io) fn rebuild_copied(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &Lower<'_>,
        replica: ReplicaId,
        generation: Generation,
        number: BarrierNumber,
    ) {
        if generation == lower.views.generation() {
            let through = self.writes.last();
            self.rebuild_waits.copied(replica, Copied { generation, number, through });
            self.tell_finished(cx, lower);
        }
    }

    /// Tells those that have made a copy durable when what was sent by then is finished.
    pub fn tell_finished(&mut self, cx: &mut Context<'_, P>, lower: &Lower<'_>) {
        let finishing = self.rebuild_waits.finishing();
        let fates: Vec<_> =
            finishing.map(|(id, copied)| (id, copied, self.finish(lower, id, copied))).collect();
        let generation = lower.views.generation();
        for (replica, copied, fate) in fates {
            match fate {
                Finish::Waits => continue,
                Finish::Told(link) => {
                    let number = copied.number;
                    cx.send(link, Message::WritesFinished { generation, number }, None);
                }
                Finish::Over => {}
            }
            self.rebuild_waits.finished(replica);
        }
    }

    fn finish(&self, lower: &Lower<'_>, replica: ReplicaId, copied: Copied) -> Finish {
        let is_rebuilding = lower.views.state_of(replica) == Some(ReplicaState::Rebuilding);
        let counts = is_rebuilding && copied.generation == lower.views.generation();
        let peer = lower.peers.get(&replica).filter(|_| counts);
        let Some((peer, link)) = peer.and_then(|peer| Some((peer, peer.ready_link()?))) else {
            return Finish::Over;
        };
        if self.finished_through(peer.mirror()) < copied.through {
            Finish::Waits
        } else {
            Finish::Told(link)
        }
    }
}
