//! The incarnations of replicas that views name, and those that answer.

use super::Views;
use super::edits::Edit;
use crate::ids::*;
use crate::incarnations::Incarnations;
use crate::primary::membership::Membership;
use crate::view::View;

impl Views {
    /// The incarnation that the view names, then those that this primary has asked for without an
    /// answer.
    pub fn named_incarnations(&self, peers: &Membership, replica: ReplicaId) -> Incarnations {
        let record = self.view.replica(replica);
        let named = record.map_or(Incarnation(0), |(_, record)| record.incarnation);
        let peer = peers.get(&replica);
        let doubted = peer.into_iter().flat_map(|peer| peer.incarnations().doubted());
        Incarnations::of([named].into_iter().chain(doubted.copied()))
    }

    /// Whether a stale clone of a replica's disk was put back, and no view has admitted that
    /// incarnation since.
    pub fn is_stale_clone(&self, peers: &Membership, replica: ReplicaId) -> bool {
        let named = self.named_incarnations(peers, replica).newest();
        let peer = peers.get(&replica);
        peer.is_some_and(|peer| peer.incarnations().is_stale_clone_unless(named))
    }

    /// A stale replica may return. It keeps what it has, unless a stale clone of its disk was put
    /// back.
    pub fn admit(&mut self, peers: &Membership, replica: ReplicaId, incarnation: Incarnation) {
        let is_known = !self.is_stale_clone(peers, replica);
        self.edit(Edit::Admit { replica, incarnation, is_known });
    }

    /// Notes which incarnations a view would name that is about to be asked for: it may be
    /// committed, and this primary not learn of it.
    pub(super) fn doubt_incarnations(&self, peers: &mut Membership, proposed: &View) {
        for (_, record) in proposed.replicas() {
            let named = self.named_incarnations(peers, record.id);
            let is_known = named.0.contains(&record.incarnation);
            if let Some(peer) = peers.get_mut(&record.id).filter(|_| !is_known) {
                peer.incarnations_mut().doubt(record.incarnation);
            }
        }
    }
}
