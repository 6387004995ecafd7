//! Stability: writes that every member has, and has made durable, need no open region in anybody's
//! intent log. A primary sees to it that writes become stable, and tells its replicas how far that
//! is, by one number per mirror (rule W6).
//!
//! Any flush tells it: all parts that were finished when it began are durable when every member has
//! answered it. If the client sends none, the primary does, when a replica's log fills up or after
//! [`crate::Settings::stabilize_after`].

use std::collections::BTreeMap;

use crate::ids::*;
use crate::message::Message;
use crate::payload::Payload;
use crate::policy::ReplicaSet;
use crate::primary::io::part::{Part, PartAction};
use crate::primary::io::{Io, Lower};
use crate::primary::membership::peer::Peer;
use crate::primary::{Context, Stage};
use crate::time::Instant;
use core::time::Duration;

/// How often replicas are told how far writes are stable, if they do not ask: so many times in
/// [`crate::Settings::stabilize_after`].
const REPORTS_PER_PERIOD: u32 = 5;

/// How far writes are stable.
#[derive(Debug)]
pub(in crate::primary) struct Stability {
    mirrors: BTreeMap<usize, MirrorStability>,
    /// When a flush for its sake was last begun.
    flushed_at: Instant,
    /// Whether a replica's log fills up.
    is_wanted: bool,
}

#[derive(Debug, Clone, Copy)]
struct MirrorStability {
    /// All writes up to here are stable.
    through: Sequence,
    /// What the replicas were told last, and when.
    told: Sequence,
    told_at: Instant,
    /// The last write that was sent.
    last: Sequence,
    /// What must not become stable yet.
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

impl Stability {
    pub fn new(now: Instant) -> Self {
        Self { mirrors: BTreeMap::new(), flushed_at: now, is_wanted: false }
    }

    /// The last write that was sent to a mirror.
    pub fn last_write(&self, mirror: usize) -> Sequence {
        self.mirrors.get(&mirror).map_or(Sequence(0), |stability| stability.last)
    }

    fn mirror(&mut self, mirror: usize, now: Instant) -> &mut MirrorStability {
        self.mirrors.entry(mirror).or_insert(MirrorStability {
            through: Sequence(0),
            told: Sequence(0),
            told_at: now,
            last: Sequence(0),
            held: None,
        })
    }
}

impl<P: Payload> Io<P> {
    /// A part that changes data begins.
    pub(in crate::primary::io) fn write_begins(
        &mut self,
        mirror: usize,
        sequence: Sequence,
        now: Instant,
    ) {
        self.stability.mirror(mirror, now).last = sequence;
    }

    /// A write is over that some of its targets have failed: perhaps it is on their disks, perhaps
    /// not. They leave, or the others do; what they may lack is noted then, so it does not become
    /// stable before.
    pub(in crate::primary::io) fn hold_stability(&mut self, mirror: usize, held: Held) {
        if let Some(stability) = self.stability.mirrors.get_mut(&mirror) {
            let merged = stability.held.map_or(held, |other| Held {
                first: held.first.min(other.first),
                targets: held.targets | other.targets,
                failed: held.failed | other.failed,
            });
            stability.held = Some(merged).filter(Held::is_needed);
        }
    }

    /// A replica has left a mirror: before the other members adopt that, they note what it lacks.
    pub fn release_stability(&mut self, mirror: usize, left: ReplicaSet) {
        if let Some(stability) = self.stability.mirrors.get_mut(&mirror) {
            let rest = stability.held.map(|held| Held {
                targets: held.targets & !left,
                failed: held.failed & !left,
                ..held
            });
            stability.held = rest.filter(Held::is_needed);
        }
    }

    /// How far all writes to a mirror are finished: what a flush that begins now lets become
    /// stable.
    pub(in crate::primary::io) fn finished_through(&self, mirror: usize) -> Sequence {
        let unfinished = self.parts.of_mirror(mirror).find(|(_, part)| part.changes_data());
        let held = self.stability.mirrors.get(&mirror).and_then(|mirror| mirror.held);
        let held = held.map(|held| held.first);
        let first = unfinished.map(|(sequence, _)| sequence).into_iter().chain(held).min();
        first.map_or(self.writes.last(), |first| Sequence(first.0.saturating_sub(1)))
    }

    /// Every member of a mirror has answered a flush that began when all writes up to here were
    /// finished.
    pub(in crate::primary::io) fn stable(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &Lower<'_>,
        mirror: usize,
        through: Sequence,
    ) {
        let is_wanted = core::mem::take(&mut self.stability.is_wanted);
        let tell_period = Self::tell_period(cx);
        let stability = self.stability.mirror(mirror, cx.now);
        stability.through = stability.through.max(through);
        let is_time = is_wanted || cx.now.since(stability.told_at) >= tell_period;
        if is_time && stability.told < stability.through {
            self.tell_stable(cx, lower, mirror);
        }
    }

    fn tell_period(cx: &Context<'_, P>) -> Duration {
        cx.config.settings.stabilize_after / REPORTS_PER_PERIOD
    }

    fn tell_stable(&mut self, cx: &mut Context<'_, P>, lower: &Lower<'_>, mirror: usize) {
        let generation = lower.views.generation();
        let stability = self.stability.mirror(mirror, cx.now);
        let through = stability.through;
        (stability.told, stability.told_at) = (through, cx.now);
        let peers = lower.peers.mirror(mirror);
        let members = peers.ids(peers.members()).filter_map(|id| lower.peers.known(id));
        members.for_each(|peer| tell(cx, peer, generation, through));
    }

    /// A session has begun: its replica may have missed what was told.
    pub(in crate::primary::io) fn tell_stable_to(
        &self,
        cx: &mut Context<'_, P>,
        lower: &Lower<'_>,
        replica: ReplicaId,
    ) {
        if let Some(peer) = lower.peers.known(replica)
            && let Some(stability) = self.stability.mirrors.get(&peer.mirror())
            && stability.told.0 > 0
        {
            tell(cx, peer, lower.views.generation(), stability.told);
        }
    }

    /// A replica's intent log fills up.
    pub(in crate::primary::io) fn log_filling(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        replica: ReplicaId,
        generation: Generation,
    ) {
        if generation != lower.views.generation() || !lower.views.is_member(replica) {
            return; // A member says it again in this generation.
        }
        // Whoever asks may have missed what was told.
        if let Some(mirror) = lower.peers.known(replica).map(Peer::mirror) {
            self.tell_stable(cx, lower, mirror);
        }
        self.stability.is_wanted = true;
        self.flush_to_stabilize(cx, lower);
    }

    /// Lets what is not stable do so after a while, though the client does not flush.
    pub fn watch_stability(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>) {
        let (period, tell_period) = (cx.config.settings.stabilize_after, Self::tell_period(cx));
        let untold: Vec<_> = self
            .stability
            .mirrors
            .iter()
            .filter(|(_, m)| m.told < m.through && cx.now.since(m.told_at) >= tell_period)
            .map(|(mirror, _)| *mirror)
            .collect();
        for mirror in untold {
            self.tell_stable(cx, lower, mirror);
        }
        let is_unstable = self.stability.mirrors.values().any(|m| m.through < m.last);
        if is_unstable && cx.now.since(self.stability.flushed_at) >= period {
            self.flush_to_stabilize(cx, lower);
        }
    }

    /// Has all members flush what is finished. Apart from the client's flushes: those may wait for
    /// writes that wait for room in an intent log.
    fn flush_to_stabilize(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>) {
        let is_stabilizing = self.parts.values().any(Part::is_stabilizing);
        if cx.stage != Stage::Serving || is_stabilizing || !lower.views.can_send(cx.stage) {
            return; // The next tick sees whether it is still wanted.
        }
        self.stability.flushed_at = cx.now;
        let mirrors = lower.peers.mirrors().len();
        let number = self.accept_internal(cx, mirrors);
        for mirror in 0..mirrors {
            let through = self.finished_through(mirror);
            self.send_part(cx, lower, number, mirror, 0, PartAction::Stabilize { through });
        }
    }
}

fn tell<P>(cx: &mut Context<'_, P>, peer: &Peer, generation: Generation, through: Sequence) {
    // Without a session it is told when one has begun.
    if let Some(link) = peer.ready_link() {
        let last_of_earlier_incarnations = peer.disk().renewed_at();
        cx.send(link, Message::Stable { generation, through, last_of_earlier_incarnations }, None);
    }
}
