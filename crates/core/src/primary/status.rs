//! The replicas that a view names, and what a primary tells of them.

use super::membership::OutOfSync;
use super::membership::peer::{Peer, Session};
use super::views::Grounds;
use super::{Informed, PeerStatus, Phase, Primary, PrimaryConfig, PrimaryStatus, State};
use crate::ids::*;
use crate::message::RebuildProgress;
use crate::payload::Payload;
use crate::time::Instant;
use crate::view::{ReplicaState, View};

impl PrimaryStatus {
    /// That of a primary without a view: it has done nothing.
    pub(super) const fn without_view() -> Self {
        Self {
            view: None,
            serving: false,
            waiting: None,
            is_said_to_be_excluded: false,
            replicas: Vec::new(),
            requests: 0,
            unflushed: false,
            verify: None,
            rewritten: 0,
        }
    }
}

impl<P: Payload> Primary<P> {
    /// The view that it works by, if it has one.
    #[must_use]
    pub fn view(&self) -> Option<&View> {
        match &self.state {
            State::Informed(informed) => Some(informed.views.view()),
            State::Unread(_) | State::Over => None,
        }
    }

    /// The primary's state.
    #[must_use]
    pub fn status(&self, now: Instant) -> PrimaryStatus {
        match &self.state {
            State::Unread(unread) => unread.status(),
            State::Informed(informed) => informed.status(&self.config, now),
            State::Over => PrimaryStatus::without_view(),
        }
    }

    /// The replicas that are rebuilt now, and how far each has come as far as it has told.
    pub fn rebuilds(&self) -> Vec<(ReplicaId, RebuildProgress)> {
        match &self.state {
            State::Informed(informed) => informed.rebuilds(),
            State::Unread(_) | State::Over => Vec::new(),
        }
    }
}

impl<P: Payload> Informed<P> {
    fn status(&self, config: &PrimaryConfig, now: Instant) -> PrimaryStatus {
        let ids = self.views.view().replicas().map(|(_, record)| record.id);
        PrimaryStatus {
            view: Some(self.views.view().clone()),
            serving: matches!(self.phase, Phase::Serving) && !self.io.is_joining(),
            waiting: self.io.waiting(),
            is_said_to_be_excluded: self.views.is_said_to_be_excluded(),
            replicas: ids.filter_map(|id| self.peer_status(config, id, now)).collect(),
            requests: self.io.waits(),
            unflushed: self.io.is_unflushed(),
            verify: self.scrub.verify_status().cloned(),
            rewritten: self.scrub.rewritten(),
        }
    }

    fn rebuilds(&self) -> Vec<(ReplicaId, RebuildProgress)> {
        let progress = |peer: &Peer| {
            let is_rebuilding = self.views.state_of(peer.id()) == Some(ReplicaState::Rebuilding);
            Some((peer.id(), peer.progress().filter(|_| is_rebuilding)?))
        };
        self.membership.values().filter_map(progress).collect()
    }

    fn peer_status(
        &self,
        config: &PrimaryConfig,
        replica: ReplicaId,
        now: Instant,
    ) -> Option<PeerStatus> {
        let peer = self.membership.get(&replica)?;
        let (outstanding, oldest) = self.io.unanswered_by(peer.mirror(), peer.bit(), now);
        let is_rebuilding = self.views.state_of(replica) == Some(ReplicaState::Rebuilding);
        let is_awaited = self.views.state_of(replica) == Some(ReplicaState::Stale)
            && matches!((&self.phase, peer.session()), (Phase::Serving, Session::Down));
        let out_of_sync: OutOfSync<'_> = &|mirror| self.io.out_of_sync(mirror);
        let grounds = Grounds { me: config.id, peers: &self.membership, out_of_sync };
        Some(PeerStatus {
            replica,
            leaving: self.views.leaving(grounds, replica),
            connected: peer.is_ready(),
            may_be_out_of_sync: peer.disk().is_lost() && peer.open_link().is_some(),
            outstanding,
            oldest,
            retry_in: is_awaited.then(|| peer.retry_at().since(now)),
            left_again: peer.stays_away_after(now).filter(|_| is_awaited),
            rebuild: peer.progress().filter(|_| is_rebuilding),
            failed_reads: peer.disk().failed_reads(),
        })
    }
}
