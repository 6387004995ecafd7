//! The primary's part in a rebuild: it drains ranges for the rebuilding replica, and lets it
//! become in-sync when it has everything (rules B1, B4).

use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeSet;

use crate::ids::*;
use crate::message::{Message, RebuildProgress, RebuildWait};
use crate::payload::Payload;
use crate::primary::views::edits::Edit;
use crate::primary::{Context, Primary};
use crate::settings::REGION;
use crate::time::Instant;
use crate::view::ReplicaState;

/// How long a request keeps rebuilds slow.
const BUSY_FOR: Duration = Duration::from_millis(100);

/// Ranges of one replica that are drained at once: more than it copies at once.
const MOST_DRAINS: usize = 64;

/// A rebuilding replica waits until its source has these parts.
#[derive(Debug)]
pub(in crate::primary) struct DrainWait {
    link: LinkId,
    token: CopyToken,
    parts: BTreeSet<Sequence>,
    source: ReplicaId,
}

impl<P: Payload> Primary<P> {
    #[allow(clippy::too_many_arguments)]
    pub(in crate::primary) fn drain(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        replica: ReplicaId,
        generation: Generation,
        token: CopyToken,
        range: Range<u64>,
        source: ReplicaId,
    ) {
        let may_ask = self.state_of(replica) == Some(ReplicaState::Rebuilding)
            && self.state_of(source) == Some(ReplicaState::InSync);
        let Some(peer) = self.peers.get(&source) else { return };
        if !may_ask || generation != self.generation() || !self.adoption.is_over() {
            return; // The replica lets go of the range by itself and asks again.
        }
        let (mirror, bit) = (peer.mirror, peer.bit());
        let parts: BTreeSet<_> = self
            .parts
            .iter()
            .filter(|(_, part)| part.mirror == mirror && part.may_differ(bit, &range))
            .map(|(sequence, _)| *sequence)
            .collect();
        if parts.is_empty() {
            let is_busy = self.is_busy(cx.now);
            return cx.send(link, Message::Drained { generation, token, is_busy }, None);
        }
        self.forget_oldest_drain(link);
        self.drains.push(DrainWait { link, token, parts, source });
    }

    /// Makes room for one more, if a replica has asked for more than it can hold: it has let go of the
    /// oldest.
    fn forget_oldest_drain(&mut self, link: LinkId) {
        let mut of_link = self.drains.iter().enumerate().filter(|(_, wait)| wait.link == link);
        if let Some((oldest, _)) = of_link.next()
            && of_link.count() + 1 >= MOST_DRAINS
        {
            self.drains.remove(oldest);
        }
    }

    /// A link has closed: nobody waits over it.
    pub(in crate::primary) fn forget_drains_of(&mut self, link: LinkId) {
        self.drains.retain(|wait| wait.link != link);
    }

    /// A part has been written by somebody: answers the drains that waited just for it.
    pub(in crate::primary) fn drain_progressed(
        &mut self,
        cx: &mut Context<'_, P>,
        sequence: Sequence,
    ) {
        if self.drains.is_empty() {
            return;
        }
        let (generation, is_busy) = (self.generation(), self.is_busy(cx.now));
        let Some(part) = self.parts.get(&sequence) else { return };
        for wait in &mut self.drains {
            let has_it = self.peers.get(&wait.source).is_some_and(|p| part.was_written_by(p.bit()));
            if has_it && wait.parts.remove(&sequence) && wait.parts.is_empty() {
                let token = wait.token;
                cx.send(wait.link, Message::Drained { generation, token, is_busy }, None);
            }
        }
        self.drains.retain(|wait| !wait.parts.is_empty());
    }

    /// Whether clients have asked for anything lately.
    pub(in crate::primary) fn is_busy(&self, now: Instant) -> bool {
        self.requested_at.is_some_and(|at| now.since(at) < BUSY_FOR)
    }

    pub(in crate::primary) fn rebuild_progress(
        &mut self,
        replica: ReplicaId,
        progress: RebuildProgress,
    ) {
        let Some(peer) = self.peers.get_mut(&replica) else { return };
        peer.progress = Some(progress);
        let mirror = peer.mirror;
        if let Some(RebuildWait::SourceMedium(at)) = progress.waits_for
            && self.mirrors[mirror].in_sync.count_ones() > 1
        {
            // What the source can't read another one may have.
            self.must_mend(mirror, at..at.saturating_add(REGION.into()));
        }
    }

    /// A replica has copied everything: what was sent by now is to be finished.
    pub(in crate::primary) fn rebuild_copied(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        generation: Generation,
    ) {
        if generation == self.generation() {
            let last = self.last_sequence;
            let (asked_in, through) = self.copied.entry(replica).or_insert((generation, last));
            if *asked_in != generation {
                (*asked_in, *through) = (generation, last);
            }
            self.tell_finished(cx);
        }
    }

    /// Tells those that have copied everything when what was sent by then is finished.
    pub(in crate::primary) fn tell_finished(&mut self, cx: &mut Context<'_, P>) {
        if self.copied.is_empty() {
            return;
        }
        let now = self.generation();
        for (replica, (generation, through)) in core::mem::take(&mut self.copied) {
            let Some(peer) = self.peers.get(&replica) else { continue };
            let is_rebuilding = self.state_of(replica) == Some(ReplicaState::Rebuilding);
            let Some(link) = peer.ready_link().filter(|_| is_rebuilding && generation == now)
            else {
                continue;
            };
            if self.finished_through(peer.mirror) < through {
                self.copied.insert(replica, (generation, through));
            } else {
                cx.send(link, Message::WritesFinished { generation }, None);
            }
        }
    }

    /// A replica has everything, and every primary has finished its writes.
    pub(in crate::primary) fn rebuild_done(&mut self, replica: ReplicaId, generation: Generation) {
        let is_rebuilding = self.state_of(replica) == Some(ReplicaState::Rebuilding);
        let Some(peer) = self.peers.get(&replica).filter(|peer| peer.ready) else { return };
        if let Some((incarnation, _)) = peer.life
            && is_rebuilding
            && generation == self.generation()
        {
            self.edit(Edit::Complete { replica, incarnation });
        }
    }
}
