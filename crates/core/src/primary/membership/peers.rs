//! What a primary knows of each replica.

use core::time::Duration;

use crate::ids::*;
use crate::message::{RebuildProgress, SlotBits};
use crate::policy::ReplicaSet;
use crate::time::Instant;
use crate::view::{Cause, MirrorView, ReplicaState, View};

use crate::payload::Payload;
use crate::primary::membership::lag::Speed;
use crate::primary::{PeerStatus, Phase, Primary, PrimaryStatus};

/// One replica, as its primary sees it.
#[derive(Debug)]
pub(in crate::primary) struct Peer {
    pub id: ReplicaId,
    pub node: NodeId,
    pub mirror: usize,
    /// Its place in the sets of its mirror, for as long as it belongs to the volume.
    pub slot: u32,
    pub link: PeerLink,
    pub last_session: SessionNumber,
    /// Its life and its machine's, as it said in the last session.
    pub life: Option<(Incarnation, BootId)>,
    /// Lives that views would name that this primary has asked for, newest first.
    pub doubted_lives: Vec<Incarnation>,
    /// An old copy of its disk was put back, as it said in the last session.
    pub is_old_copy: bool,
    /// What it last said of the slots of its intent log.
    pub slots: SlotBits,
    /// Which primaries of the present generation it last said that it has heard, and when that was asked.
    pub heard: Option<(u32, Instant)>,
    /// When it was asked what it last said of that in any generation. A change of the view outdates what it
    /// said, and not that it can be reached.
    pub told_at: Option<Instant>,
    /// The boot of its machine when operations could last be sent to it.
    pub relied_on_boot: Option<BootId>,
    /// The latest moment of asking for which it has confirmed the generation.
    pub confirmed: Option<Instant>,
    /// What that is worth: the shortest lease of the view that it was last known to have adopted and of all
    /// since. It honours a longer one only when it has adopted that, and a shorter one binds at once.
    pub lease: Duration,
    /// A ping that is not answered.
    pub ping: Option<(u64, Instant)>,
    /// It has refused something: it is not asked again before the coordinator has told the newest view.
    pub has_refused: bool,
    /// How often it has refused to adopt what turned out to be the newest view.
    pub refused_views: u32,
    /// It came back with a new boot and may lack acknowledged writes (W5).
    pub lost: bool,
    /// It stays although it has restarted: the last write before that. When it has settled, so has all
    /// that is open there from earlier lives.
    pub renewed_at: Option<Sequence>,
    /// It has left something unanswered for longer than the deadline.
    pub late: bool,
    /// Its disk failed to make something durable in this life: what it wrote before may be gone when its
    /// process ends, whatever a later flush says.
    pub has_failed_flush: bool,
    /// Its disk failed; it leaves as soon as another replica can go on without it.
    pub failing: Option<Cause>,
    /// It has failed an acknowledged write that the others have finished with.
    pub lacks_writes: bool,
    /// The session is with the life that the view knows, so operations may be sent.
    pub ready: bool,
    /// Since when what it does not answer counts: its session was opened, it adopted the view, or this process
    /// went on after a pause.
    pub answers_since: Instant,
    /// How many sessions were since it last answered anything.
    pub unanswered_sessions: u32,
    /// Since when there is no session.
    pub down_since: Instant,
    /// Since when it is known to be no member.
    pub absent_since: Option<Instant>,
    pub retry_at: Instant,
    pub retry_pause: Duration,
    pub progress: Option<RebuildProgress>,
    /// How long its writes take.
    pub speed: Speed,
    /// Reads that it has failed since it was last admitted.
    pub failed_reads: u32,
}

/// The connection to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::primary) enum PeerLink {
    Down,
    Connecting,
    /// A session has been asked for.
    Opening(LinkId, Instant),
    Open(LinkId),
}

impl Peer {
    pub fn bit(&self) -> ReplicaSet {
        1 << self.slot
    }

    /// The link over which operations may be sent.
    pub fn ready_link(&self) -> Option<LinkId> {
        self.open_link().filter(|_| self.ready)
    }

    pub fn open_link(&self) -> Option<LinkId> {
        match self.link {
            PeerLink::Open(link) => Some(link),
            _ => None,
        }
    }

    pub fn any_link(&self) -> Option<LinkId> {
        match self.link {
            PeerLink::Open(link) | PeerLink::Opening(link, _) => Some(link),
            PeerLink::Down | PeerLink::Connecting => None,
        }
    }

    /// Whether data can be relied upon to be there.
    pub fn is_healthy(&self) -> bool {
        self.ready_link().is_some() && !self.lost && !self.late
    }

    /// Whether its confirmation still permits to answer reads.
    pub fn grants(&self, now: Instant) -> bool {
        self.confirmed.is_some_and(|asked| now.since(asked) < self.lease)
    }

    /// Whether nothing about it needs watching more often than the lease does.
    pub fn is_quiet(&self) -> bool {
        self.ping.is_none() && matches!(self.link, PeerLink::Open(_))
    }

    pub fn become_ready(&mut self) {
        self.ready = true;
        self.lost = false;
        self.relied_on_boot = self.life.map(|(_, boot)| boot);
    }

    pub fn confirm(&mut self, asked: Instant) {
        self.confirmed = Some(self.confirmed.map_or(asked, |confirmed| confirmed.max(asked)));
        self.unanswered_sessions = 0;
    }
}

/// The replicas of one mirror as sets of slots.
#[derive(Debug, Default, Clone)]
pub(in crate::primary) struct MirrorPeers {
    /// Which replica has which slot.
    pub slots: [Option<ReplicaId>; 16],
    pub members: ReplicaSet,
    pub in_sync: ReplicaSet,
    pub local: ReplicaSet,
}

impl MirrorPeers {
    /// Takes over what a view says; slots of replicas that stay do not change.
    pub fn update(&mut self, mirror: &MirrorView, here: NodeId) {
        for slot in &mut self.slots {
            if slot.is_some_and(|id| !mirror.replicas.iter().any(|r| r.id == id)) {
                *slot = None;
            }
        }
        (self.members, self.in_sync, self.local) = (0, 0, 0);
        for record in &mirror.replicas {
            let Some(slot) = self.slot_for(record.id) else { continue };
            let bit = 1 << slot;
            self.members |= if record.state.takes_writes() { bit } else { 0 };
            self.in_sync |= if record.state == ReplicaState::InSync { bit } else { 0 };
            self.local |= if record.node == here { bit } else { 0 };
        }
    }

    /// The slot of a replica; a free one is taken if it has none yet.
    pub fn slot_for(&mut self, id: ReplicaId) -> Option<u32> {
        let position = |wanted| self.slots.iter().position(|slot| *slot == wanted);
        let slot = position(Some(id)).or_else(|| position(None))?;
        self.slots[slot] = Some(id);
        Some(slot as u32)
    }

    /// The replicas of a set, in the order of their slots.
    pub fn ids(&self, set: ReplicaSet) -> impl Iterator<Item = ReplicaId> {
        self.slots
            .iter()
            .enumerate()
            .filter(move |(slot, _)| set >> slot & 1 == 1)
            .filter_map(|(_, id)| *id)
    }
}

impl<P: Payload> Primary<P> {
    /// Takes over the replicas of a view: keeps what is known of those that stay.
    pub(in crate::primary) fn update_peers(&mut self, now: Instant) {
        let Some(view) = &self.view else { return };
        self.mirrors.resize_with(view.mirrors.len(), MirrorPeers::default);
        for (mirror, (peers, record)) in self.mirrors.iter_mut().zip(&view.mirrors).enumerate() {
            peers.update(record, self.config.id.node);
            for record in &record.replicas {
                let Some(slot) = peers.slot_for(record.id) else { continue };
                self.peers.entry(record.id).or_insert_with(|| Peer {
                    id: record.id,
                    node: record.node,
                    mirror,
                    slot,
                    link: PeerLink::Down,
                    last_session: SessionNumber(0),
                    life: None,
                    doubted_lives: Vec::new(),
                    is_old_copy: false,
                    slots: SlotBits::default(),
                    heard: None,
                    told_at: None,
                    relied_on_boot: None,
                    confirmed: None,
                    lease: view.lease.time(),
                    ping: None,
                    has_refused: false,
                    refused_views: 0,
                    lost: false,
                    renewed_at: None,
                    late: false,
                    has_failed_flush: false,
                    failing: None,
                    lacks_writes: false,
                    ready: false,
                    answers_since: now,
                    unanswered_sessions: 0,
                    down_since: now,
                    absent_since: None,
                    retry_at: now,
                    retry_pause: self.config.settings.retry_pause.0,
                    progress: None,
                    speed: Speed::default(),
                    failed_reads: 0,
                });
            }
        }
    }

    pub(in crate::primary) fn state_of(&self, replica: ReplicaId) -> Option<ReplicaState> {
        self.view.as_ref()?.replica(replica).map(|(_, record)| record.state)
    }

    /// The view that it works by, if it has one.
    #[must_use]
    pub fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// The primary's state.
    #[must_use]
    pub fn status(&self, now: Instant) -> PrimaryStatus {
        let ids = self.view.iter().flat_map(|view| view.replicas().map(|(_, record)| record.id));
        PrimaryStatus {
            view: self.view.clone(),
            serving: matches!(self.phase, Phase::Serving) && !self.exclusions.are_joining(),
            waiting: self.suspension.waiting(),
            replicas: ids.filter_map(|id| self.peer_status(id, now)).collect(),
            requests: self.requests.values().filter(|r| r.client.is_some()).count(),
            unflushed: self.acknowledged > self.flushed,
            verify: self.verify.as_ref().map(|verify| verify.status().clone()),
            rewritten: self.rewritten,
        }
    }

    /// The replicas that are rebuilt now, and how far each has come as far as it has told.
    pub fn rebuilds(&self) -> Vec<(ReplicaId, RebuildProgress)> {
        let progress = |peer: &Peer| {
            let is_rebuilding = self.state_of(peer.id) == Some(ReplicaState::Rebuilding);
            Some((peer.id, peer.progress.filter(|_| is_rebuilding)?))
        };
        self.peers.values().filter_map(progress).collect()
    }

    fn peer_status(&self, replica: ReplicaId, now: Instant) -> Option<PeerStatus> {
        let peer = self.peers.get(&replica)?;
        let unanswered =
            || self.parts.values().filter(|p| p.mirror == peer.mirror && p.waits_for(peer.bit()));
        let is_rebuilding = self.state_of(replica) == Some(ReplicaState::Rebuilding);
        let is_awaited = self.state_of(replica) == Some(ReplicaState::Stale)
            && matches!((&self.phase, peer.link), (Phase::Serving, PeerLink::Down));
        Some(PeerStatus {
            replica,
            leaving: self.leaving(replica),
            connected: peer.ready_link().is_some(),
            outstanding: unanswered().count(),
            oldest: unanswered().map(|part| now.since(part.sent_at)).max(),
            retry_in: is_awaited.then(|| peer.retry_at.since(now)),
            rebuild: peer.progress.filter(|_| is_rebuilding),
            failed_reads: peer.failed_reads,
        })
    }
}
