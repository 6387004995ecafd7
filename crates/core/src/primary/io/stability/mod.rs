//! How far writes are acknowledged, flushed and stable. The lowest of the rooms of [`super::Io`]:
//! it uses none of the others, and is told by them which writes are not finished.
//!
//! Stability: writes that every member has, and has made durable, need no open region in anybody's
//! intent log. A primary sees to it that writes become stable, and tells its replicas how far that
//! is, by one number per mirror (rule W6).
//!
//! Any flush tells it: all parts that were finished when it began are durable when every member has
//! answered it. If the client sends none, the primary does ([`super::parts`]), when a replica's log
//! fills up or after [`crate::Settings::stabilize_after`].

mod writes;

use std::collections::BTreeMap;

use self::writes::Writes;
use crate::ids::*;
use crate::message::Message;
use crate::policy::ReplicaSet;
use crate::primary::Context;
use crate::primary::io::Lower;
use crate::primary::membership::peer::Peer;
use crate::time::Instant;
use core::time::Duration;

/// How often replicas are told how far writes are stable, if they do not ask: so many times in
/// [`crate::Settings::stabilize_after`].
const REPORTS_PER_PERIOD: u32 = 5;

/// How far writes are stable.
#[derive(Debug)]
pub(in crate::primary::io) struct Stability {
    mirrors: BTreeMap<usize, MirrorStability>,
    /// When a flush for its sake was last begun.
    flushed_at: Instant,
    /// Whether a replica's log fills up.
    is_wanted: bool,
    writes: Writes,
}

#[derive(Debug, Clone, Copy)]
struct MirrorStability {
    /// All writes up to here are stable.
    through: Sequence,
    /// What the replicas were told last, and when.
    reported: Sequence,
    reported_at: Instant,
    /// The last write that was sent.
    last: Sequence,
    /// What must not become stable yet.
    held: Option<Held>,
}

/// Writes that some members have failed and that are over.
#[derive(Debug, Clone, Copy)]
pub(in crate::primary::io) struct Held {
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
        let (mirrors, writes) = (BTreeMap::new(), Writes::default());
        Self { mirrors, flushed_at: now, is_wanted: false, writes }
    }

    /// The number of the next operation, which is sent now.
    #[inline]
    pub fn send_next(&mut self) -> Sequence {
        self.writes.send_next()
    }

    /// The number that the next operation will have.
    pub fn upcoming(&self) -> Sequence {
        self.writes.upcoming()
    }

    /// The operation that was sent last.
    pub fn last_sent(&self) -> Sequence {
        self.writes.last()
    }

    /// What a flush covers that begins now.
    #[inline]
    pub fn acknowledged(&self) -> Sequence {
        self.writes.acknowledged()
    }

    /// Whether writes were acknowledged that no flush covers yet.
    pub fn is_unflushed(&self) -> bool {
        self.writes.are_unflushed()
    }

    /// A write was acknowledged, or has failed and may be seen.
    #[inline]
    pub fn acknowledge(&mut self, write: Sequence) {
        self.writes.acknowledge(write);
    }

    /// A flush has finished that covers all up to here.
    pub fn flush(&mut self, covered: Sequence) {
        self.writes.flush(covered);
    }

    /// A primary that has gone may have acknowledged what no flush covers: losing it counts.
    pub fn inherit(&mut self) {
        self.writes.inherit();
    }

    /// The last write that was sent to a mirror.
    pub fn last_write(&self, mirror: usize) -> Sequence {
        self.mirrors.get(&mirror).map_or(Sequence(0), |stability| stability.last)
    }

    fn mirror(&mut self, mirror: usize, now: Instant) -> &mut MirrorStability {
        self.mirrors.entry(mirror).or_insert(MirrorStability {
            through: Sequence(0),
            reported: Sequence(0),
            reported_at: now,
            last: Sequence(0),
            held: None,
        })
    }

    /// A part that changes data begins.
    pub fn write_begins(&mut self, mirror: usize, sequence: Sequence, now: Instant) {
        self.mirror(mirror, now).last = sequence;
    }

    /// A write is over that some of its targets have failed: perhaps it is on their disks, perhaps
    /// not. They leave, or the others do; what they may lack is noted then, so it does not become
    /// stable before.
    pub fn hold(&mut self, mirror: usize, held: Held) {
        if let Some(stability) = self.mirrors.get_mut(&mirror) {
            let merged = stability.held.map_or(held, |other| Held {
                first: held.first.min(other.first),
                targets: held.targets | other.targets,
                failed: held.failed | other.failed,
            });
            stability.held = Some(merged).filter(Held::is_needed);
        }
    }

    /// A replica has left a mirror: before the other members adopt that, they note what it lacks.
    pub fn release(&mut self, mirror: usize, left: ReplicaSet) {
        if let Some(stability) = self.mirrors.get_mut(&mirror) {
            let rest = stability.held.map(|held| Held {
                targets: held.targets & !left,
                failed: held.failed & !left,
                ..held
            });
            stability.held = rest.filter(Held::is_needed);
        }
    }

    /// How far all writes to a mirror are finished: what a flush that begins now lets become
    /// stable. `unfinished`: the first write that is not.
    pub fn finished_through(&self, mirror: usize, unfinished: Option<Sequence>) -> Sequence {
        let held = self.mirrors.get(&mirror).and_then(|mirror| mirror.held);
        let held = held.map(|held| held.first);
        let first = unfinished.into_iter().chain(held).min();
        first.map_or(self.writes.last(), |first| Sequence(first.0.saturating_sub(1)))
    }

    /// Every member of a mirror has answered a flush that began when all writes up to here were
    /// finished.
    pub fn stable<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &Lower<'_>,
        mirror: usize,
        through: Sequence,
    ) {
        let is_wanted = core::mem::take(&mut self.is_wanted);
        let report_period = Self::report_period(cx);
        let stability = self.mirror(mirror, cx.now);
        stability.through = stability.through.max(through);
        let is_time = is_wanted || cx.now.since(stability.reported_at) >= report_period;
        if is_time && stability.reported < stability.through {
            self.report_stable(cx, lower, mirror);
        }
    }

    fn report_period<P>(cx: &Context<'_, P>) -> Duration {
        cx.config.settings.stabilize_after / REPORTS_PER_PERIOD
    }

    fn report_stable<P>(&mut self, cx: &mut Context<'_, P>, lower: &Lower<'_>, mirror: usize) {
        let generation = lower.views.generation();
        let stability = self.mirror(mirror, cx.now);
        let through = stability.through;
        (stability.reported, stability.reported_at) = (through, cx.now);
        let peers = lower.peers.mirror(mirror);
        let members = peers.ids(peers.members()).filter_map(|id| lower.peers.known(id));
        members.for_each(|peer| report(cx, peer, generation, through));
    }

    /// A session has begun: its replica may have missed what was told.
    pub fn report_to<P>(&self, cx: &mut Context<'_, P>, lower: &Lower<'_>, replica: ReplicaId) {
        if let Some(peer) = lower.peers.known(replica)
            && let Some(stability) = self.mirrors.get(&peer.mirror())
            && stability.reported.0 > 0
        {
            report(cx, peer, lower.views.generation(), stability.reported);
        }
    }

    /// A replica's intent log fills up.
    pub fn log_fills_up<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &Lower<'_>,
        replica: ReplicaId,
    ) {
        // Whoever asks may have missed what was told.
        if let Some(mirror) = lower.peers.known(replica).map(Peer::mirror) {
            self.report_stable(cx, lower, mirror);
        }
        self.is_wanted = true;
    }

    /// Tells replicas how far writes are stable that were not told for a while.
    pub fn report_overdue<P>(&mut self, cx: &mut Context<'_, P>, lower: &Lower<'_>) {
        let report_period = Self::report_period(cx);
        let unreported: Vec<_> = self
            .mirrors
            .iter()
            .filter(|(_, m)| m.reported < m.through && cx.now.since(m.reported_at) >= report_period)
            .map(|(mirror, _)| *mirror)
            .collect();
        for mirror in unreported {
            self.report_stable(cx, lower, mirror);
        }
    }

    /// Whether writes have waited for long enough for a flush by which they become stable.
    pub fn is_flush_due<P>(&self, cx: &Context<'_, P>) -> bool {
        let is_unstable = self.mirrors.values().any(|m| m.through < m.last);
        let waited = cx.now.since(self.flushed_at);
        is_unstable && waited >= cx.config.settings.stabilize_after
    }

    /// A flush for the sake of stability begins.
    pub fn flush_begins(&mut self, now: Instant) {
        self.flushed_at = now;
    }

    /// Panics if something is acknowledged that was not sent, or flushed that was not acknowledged.
    pub fn check_invariants(&self) {
        self.writes.check_invariants();
    }
}

fn report<P>(cx: &mut Context<'_, P>, peer: &Peer, generation: Generation, through: Sequence) {
    // Without a session it is told when one has begun.
    if let Some(link) = peer.ready_link() {
        let last_of_earlier_incarnations = peer.disk().renewed_at();
        cx.send(link, Message::Stable { generation, through, last_of_earlier_incarnations }, None);
    }
}
