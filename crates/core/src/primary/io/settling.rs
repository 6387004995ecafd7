//! Settling: writes that every member has, and has made durable, need no open region in anybody's
//! intent log. A primary sees to it that writes settle, and tells its replicas how far that is, by
//! one number per mirror (rule W6).
//!
//! Any flush tells it: all parts that were finished when it began are durable when every member has
//! answered it. If the client sends none, the primary does, when a replica's log fills up or after
//! [`crate::Settings::settle_after`].

use std::collections::BTreeMap;

use crate::ids::*;
use crate::message::Message;
use crate::payload::Payload;
use crate::policy::ReplicaSet;
use crate::primary::io::part::{Part, PartAction};
use crate::primary::membership::peer::Peer;
use crate::primary::{Context, Phase, Primary};
use crate::time::Instant;
use core::time::Duration;

/// How often replicas are told how far writes have settled, if they do not ask: so many times in
/// [`crate::Settings::settle_after`].
const TOLD_PER_SETTLING: u32 = 5;

/// How far writes have settled.
#[derive(Debug)]
pub(in crate::primary) struct Settling {
    mirrors: BTreeMap<usize, MirrorSettling>,
    /// When a flush for its sake was last begun.
    flushed_at: Instant,
    /// Whether a replica's log fills up.
    is_wanted: bool,
}

#[derive(Debug, Clone, Copy)]
struct MirrorSettling {
    /// All writes up to here have settled.
    through: Sequence,
    /// What the replicas were told last, and when.
    told: Sequence,
    told_at: Instant,
    /// The last write that was sent.
    last: Sequence,
    /// What must not settle yet.
    held: Option<Held>,
}

/// Writes that some members have failed and that are over.
#[derive(Debug, Clone, Copy)]
pub(in crate::primary) struct Held {
    /// The first of them.
    pub first: Sequence,
    /// The members to which they were sent.
    pub targets: ReplicaSet,
    /// Those of them that failed one.
    pub failed: ReplicaSet,
}

impl Held {
    /// Whether two members may still differ.
    fn is_needed(&self) -> bool {
        self.failed != 0 && self.targets.count_ones() > 1
    }
}

impl Settling {
    pub fn new(now: Instant) -> Self {
        Self { mirrors: BTreeMap::new(), flushed_at: now, is_wanted: false }
    }

    fn mirror(&mut self, mirror: usize, now: Instant) -> &mut MirrorSettling {
        self.mirrors.entry(mirror).or_insert(MirrorSettling {
            through: Sequence(0),
            told: Sequence(0),
            told_at: now,
            last: Sequence(0),
            held: None,
        })
    }
}

impl<P: Payload> Primary<P> {
    /// A part that changes data begins.
    pub(in crate::primary) fn write_begins(
        &mut self,
        mirror: usize,
        sequence: Sequence,
        now: Instant,
    ) {
        self.settling.mirror(mirror, now).last = sequence;
    }

    /// A write is over that some of its targets have failed: perhaps it is on their disks, perhaps not.
    /// They leave, or the others do; what they may lack is noted then, so it does not settle before.
    pub(in crate::primary) fn hold_settling(&mut self, mirror: usize, held: Held) {
        if let Some(settling) = self.settling.mirrors.get_mut(&mirror) {
            let merged = settling.held.map_or(held, |other| Held {
                first: held.first.min(other.first),
                targets: held.targets | other.targets,
                failed: held.failed | other.failed,
            });
            settling.held = Some(merged).filter(Held::is_needed);
        }
    }

    /// A replica has left a mirror: before the other members adopt that, they note what it lacks.
    pub(in crate::primary) fn release_settling(&mut self, mirror: usize, left: ReplicaSet) {
        if let Some(settling) = self.settling.mirrors.get_mut(&mirror) {
            let rest = settling.held.map(|held| Held {
                targets: held.targets & !left,
                failed: held.failed & !left,
                ..held
            });
            settling.held = rest.filter(Held::is_needed);
        }
    }

    /// How far all writes to a mirror are finished: what a flush that begins now lets settle.
    pub(in crate::primary) fn finished_through(&self, mirror: usize) -> Sequence {
        let is_unfinished = |part: &Part<P>| part.mirror() == mirror && part.changes_data();
        let unfinished = self.parts.iter().find(|(_, part)| is_unfinished(part));
        let held = self.settling.mirrors.get(&mirror).and_then(|mirror| mirror.held);
        let held = held.map(|held| held.first);
        let first = unfinished.map(|(sequence, _)| *sequence).into_iter().chain(held).min();
        first.map_or(self.writes.last(), |first| Sequence(first.0.saturating_sub(1)))
    }

    /// Every member of a mirror has answered a flush that began when all writes up to here were
    /// finished.
    pub(in crate::primary) fn settled(
        &mut self,
        cx: &mut Context<'_, P>,
        mirror: usize,
        through: Sequence,
    ) {
        let is_wanted = core::mem::take(&mut self.settling.is_wanted);
        let tell_period = self.tell_period();
        let settling = self.settling.mirror(mirror, cx.now);
        settling.through = settling.through.max(through);
        let is_time = is_wanted || cx.now.since(settling.told_at) >= tell_period;
        if is_time && settling.told < settling.through {
            self.tell_settled(cx, mirror);
        }
    }

    fn tell_period(&self) -> Duration {
        self.config.settings.settle_after / TOLD_PER_SETTLING
    }

    fn tell_settled(&mut self, cx: &mut Context<'_, P>, mirror: usize) {
        let generation = self.generation();
        let settling = self.settling.mirror(mirror, cx.now);
        let through = settling.through;
        (settling.told, settling.told_at) = (through, cx.now);
        let peers = &self.mirrors[mirror];
        let members = peers.ids(peers.members()).filter_map(|id| self.peers.get(&id));
        members.for_each(|peer| tell(cx, peer, generation, through));
    }

    /// A session has begun: its replica may have missed what was told.
    pub(in crate::primary) fn tell_settled_to(&self, cx: &mut Context<'_, P>, replica: ReplicaId) {
        let Some(peer) = self.peers.get(&replica) else { return };
        let settling = self.settling.mirrors.get(&peer.mirror());
        if let Some(settling) = settling.filter(|settling| settling.told.0 > 0) {
            tell(cx, peer, self.generation(), settling.told);
        }
    }

    /// The last write that was sent to a mirror.
    pub(in crate::primary) fn last_write(&self, mirror: usize) -> Sequence {
        self.settling.mirrors.get(&mirror).map_or(Sequence(0), |settling| settling.last)
    }

    /// A replica's intent log fills up.
    pub(in crate::primary) fn log_filling(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        generation: Generation,
    ) {
        if generation != self.generation() || !self.is_member(replica) {
            return;
        }
        // Whoever asks may have missed what was told.
        if let Some(mirror) = self.peers.get(&replica).map(Peer::mirror) {
            self.tell_settled(cx, mirror);
        }
        self.settling.is_wanted = true;
        self.flush_to_settle(cx);
    }

    /// Lets what has not settled do so after a while, though the client does not flush.
    pub(in crate::primary) fn watch_settling(&mut self, cx: &mut Context<'_, P>) {
        let (period, tell_period) = (self.config.settings.settle_after, self.tell_period());
        let untold: Vec<_> = self
            .settling
            .mirrors
            .iter()
            .filter(|(_, m)| m.told < m.through && cx.now.since(m.told_at) >= tell_period)
            .map(|(mirror, _)| *mirror)
            .collect();
        for mirror in untold {
            self.tell_settled(cx, mirror);
        }
        let is_unsettled = self.settling.mirrors.values().any(|m| m.through < m.last);
        if is_unsettled && cx.now.since(self.settling.flushed_at) >= period {
            self.flush_to_settle(cx);
        }
    }

    /// Has all members flush what is finished. Apart from the client's flushes: those may wait for
    /// writes that wait for room in an intent log.
    fn flush_to_settle(&mut self, cx: &mut Context<'_, P>) {
        let is_settling = self.parts.values().any(Part::is_settling);
        if !matches!(self.phase, Phase::Serving) || is_settling || !self.can_send() {
            return;
        }
        self.settling.flushed_at = cx.now;
        let mirrors = self.mirrors.len();
        let number = self.accept_internal(mirrors);
        for mirror in 0..mirrors {
            let through = self.finished_through(mirror);
            self.send_part(cx, number, mirror, 0, PartAction::Settle { through });
        }
    }
}

fn tell<P>(cx: &mut Context<'_, P>, peer: &Peer, generation: Generation, through: Sequence) {
    let Some(link) = peer.ready_link() else { return };
    let last_of_earlier_incarnations = peer.disk().renewed_at();
    cx.send(link, Message::Settled { generation, through, last_of_earlier_incarnations }, None);
}
