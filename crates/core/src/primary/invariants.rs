//! What must hold of a primary after every step, whatever replicas, clients or the coordinator have said: if
//! not, this code is wrong. It is checked where assertions are on: in the simulator, in tests and under the
//! fuzzers. The labels are those of `docs/rules.md`.

use super::membership::peers::{MirrorPeers, Peer};
use super::{Phase, Primary};
use crate::payload::Payload;
use crate::time::Instant;
use crate::view::View;

impl<P: Payload> Primary<P> {
    /// Panics if an invariant of this machine, or of one of its parts, does not hold.
    pub(super) fn check_invariants(&self, now: Instant) {
        if matches!(self.phase, Phase::Ended) {
            return assert!(self.requests.is_empty() && self.early.is_empty(), "I11: not answered");
        }
        self.ranges.check_invariants();
        self.check_waits(now);
        self.check_requests();
        self.check_parts();
        // Until it serves it knows of replicas by older views, and waits for confirmations of others.
        if let (Phase::Serving | Phase::Detaching(_), Some(view)) = (&self.phase, &self.view) {
            self.calls.check_invariants(now, view.generation);
            self.check_mirrors(view);
            self.peers.values().for_each(|peer| self.check_peer(view, peer));
        }
        let is_linked = |(link, id)| self.peers.get(id).is_some_and(|p| p.any_link() == Some(link));
        let mut links = self.links.iter().map(|(link, id)| (*link, id));
        assert!(links.all(is_linked), "W2: a link to a replica that has another one");
    }

    /// No wait is without a moment at which it is looked at again, or goes on when it has to end.
    fn check_waits(&self, now: Instant) {
        let longest = (self.lease().time() / 4).max(self.config.settings.reconnect_grace);
        let is_awake = self.tick_at <= now + longest;
        assert!(matches!(self.phase, Phase::Idle) || is_awake, "I11: nothing wakes it up");
        let is_awaited = self.requests.values().any(|request| request.client.is_some());
        self.suspension.check_invariants(is_awaited);
    }

    /// The sets by which answers are counted are those of the view.
    fn check_mirrors(&self, view: &View) {
        assert!(self.mirrors.len() == view.mirrors.len(), "I4: mirrors are not those of the view");
        for (peers, record) in self.mirrors.iter().zip(&view.mirrors) {
            let MirrorPeers { members, in_sync, local, .. } = peers;
            let mut expected = peers.clone();
            expected.update(record, self.config.id.node);
            let is_same = (*members, *in_sync, *local)
                == (expected.members, expected.in_sync, expected.local);
            assert!(is_same, "I4: the members are not those of the view");
            assert!(in_sync & !members == 0, "I4: who is in-sync is a member");
        }
        self.adoption.check_invariants(|id| self.is_member(id));
    }

    fn check_peer(&self, view: &View, peer: &Peer) {
        let Some((mirror, record)) = view.replica(peer.id) else {
            panic!("I4: {:?} is not of the volume", peer.id);
        };
        assert!(mirror == peer.mirror, "I4: {:?} is of another mirror", peer.id);
        if let Some(link) = peer.any_link() {
            let is_known = self.links.get(&link) == Some(&peer.id);
            assert!(is_known, "W2: what comes from {:?} is not known as its", peer.id);
        }
        if peer.ready {
            let life = peer.life.map(|(incarnation, _)| incarnation);
            let is_known = record.state.takes_writes() && life == Some(record.incarnation);
            assert!(is_known, "W3: {:?} is sent what another life of it is meant for", peer.id);
            assert!(peer.open_link().is_some(), "W2: {:?} has no session", peer.id);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
