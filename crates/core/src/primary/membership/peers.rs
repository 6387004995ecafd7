//! All replicas of the volume, the links to them, and the sets in which each mirror counts them.

use std::collections::BTreeMap;

use super::peer::{Peer, Place};
use crate::ids::*;
use crate::policy::ReplicaSet;
use crate::time::Instant;
use crate::view::{MirrorView, ReplicaState};

/// The replicas of the volume, and the links to them.
#[derive(Debug, Default)]
pub(in crate::primary) struct Peers {
    known: BTreeMap<ReplicaId, Peer>,
    /// Whose each link is.
    links: BTreeMap<LinkId, ReplicaId>,
}

impl Peers {
    /// A view names a replica: it is known from now on, if it was not.
    pub fn know(&mut self, place: Place, new: impl FnOnce(Place) -> Peer) {
        self.known.entry(place.id).or_insert_with(|| new(place));
    }

    #[inline]
    pub fn get(&self, replica: &ReplicaId) -> Option<&Peer> {
        self.known.get(replica)
    }

    #[inline]
    pub fn get_mut(&mut self, replica: &ReplicaId) -> Option<&mut Peer> {
        self.known.get_mut(replica)
    }

    /// A replica that a view names by which the primary works, or over whose link something came.
    #[inline]
    pub fn known(&self, replica: ReplicaId) -> Option<&Peer> {
        let peer = self.known.get(&replica);
        debug_assert!(peer.is_some(), "{replica:?} is not of the volume");
        peer
    }

    /// The same, to be changed.
    #[inline]
    pub fn known_mut(&mut self, replica: ReplicaId) -> Option<&mut Peer> {
        let peer = self.known.get_mut(&replica);
        debug_assert!(peer.is_some(), "{replica:?} is not of the volume");
        peer
    }

    pub fn ids(&self) -> impl Iterator<Item = ReplicaId> {
        self.known.keys().copied()
    }

    #[inline]
    pub fn values(&self) -> impl Iterator<Item = &Peer> {
        self.known.values()
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.known.values_mut()
    }

    /// The slots of intent logs in which some replica says that regions are open, a bit each.
    pub fn open_slots(&self) -> u32 {
        self.values().fold(0, |open, peer| open | peer.slots().open)
    }

    /// Whose link this is.
    #[inline]
    pub fn at(&self, link: LinkId) -> Option<ReplicaId> {
        self.links.get(&link).copied()
    }

    /// A connection to a replica is there. `None` if none was wanted.
    pub fn link_up(
        &mut self,
        replica: ReplicaId,
        link: LinkId,
        now: Instant,
    ) -> Option<SessionNumber> {
        let session = self.known.get_mut(&replica)?.link_up(link, now)?;
        self.links.insert(link, replica);
        Some(session)
    }

    /// A link has ended: whose it was. `None` if it was closed from here before.
    pub fn link_ended(&mut self, link: LinkId) -> Option<&mut Peer> {
        self.known.get_mut(&self.links.remove(&link)?)
    }

    /// Closes the link to a replica. Tells which one that was.
    pub fn close(&mut self, replica: ReplicaId) -> Option<LinkId> {
        let link = self.known.get_mut(&replica)?.close()?;
        self.links.remove(&link);
        Some(link)
    }

    /// Closes all links, to connect anew at once.
    pub fn close_all(&mut self, now: Instant) -> Vec<LinkId> {
        let mut closed = Vec::new();
        for peer in self.known.values_mut() {
            if let Some(link) = peer.close() {
                self.links.remove(&link);
                peer.retry_now(now);
                closed.push(link);
            }
        }
        closed
    }

    /// Forgets replicas that do not belong to the volume any more. Tells of each, with its link.
    pub fn forget_removed(
        &mut self,
        is_there: impl Fn(ReplicaId) -> bool,
        mut forgotten: impl FnMut(&Peer, Option<LinkId>),
    ) {
        for (_, peer) in self.known.extract_if(.., |id, _| !is_there(*id)) {
            let link = peer.any_link();
            if let Some(link) = link {
                self.links.remove(&link);
            }
            forgotten(&peer, link);
        }
    }

    /// The primary has ended: no link is its own any more.
    pub fn take_links(&mut self) -> impl Iterator<Item = LinkId> {
        core::mem::take(&mut self.links).into_keys()
    }

    /// The primary has ended.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Panics if links and replicas do not belong together.
    pub fn check_invariants(&self) {
        let is_linked =
            |(link, id): (&LinkId, &_)| self.known.get(id).and_then(Peer::any_link) == Some(*link);
        let are_linked = self.links.iter().all(is_linked);
        assert!(are_linked, "W2: a link to a replica that has another one");
        let links = self.values().filter_map(|peer| Some((peer.id(), peer.any_link()?)));
        for (id, link) in links {
            assert!(self.at(link) == Some(id), "W2: what comes from {id:?} is not known as its");
        }
    }
}

/// The replicas of one mirror as sets of slots.
#[derive(Debug, Default, Clone)]
pub(in crate::primary) struct MirrorPeers {
    /// Which replica has which slot.
    slots: [Option<ReplicaId>; 16],
    members: ReplicaSet,
    in_sync: ReplicaSet,
    /// Those on the primary's node.
    local: ReplicaSet,
}

impl MirrorPeers {
    /// Who takes writes by the view.
    #[inline]
    pub fn members(&self) -> ReplicaSet {
        self.members
    }

    #[inline]
    pub fn in_sync(&self) -> ReplicaSet {
        self.in_sync
    }

    /// Those on the primary's node.
    #[inline]
    pub fn local(&self) -> ReplicaSet {
        self.local
    }

    /// Takes over what a view says; slots of replicas that stay do not change.
    pub fn update(&mut self, mirror: &MirrorView, here: NodeId) {
        for slot in &mut self.slots {
            if slot.is_some_and(|id| !mirror.replicas.iter().any(|r| r.id == id)) {
                *slot = None;
            }
        }
        (self.members, self.in_sync, self.local) = (0, 0, 0);
        for record in &mirror.replicas {
            let bit = self.slot_for(record.id).map_or(0, |slot| 1 << slot);
            self.members |= if record.state.takes_writes() { bit } else { 0 };
            self.in_sync |= if record.state == ReplicaState::InSync { bit } else { 0 };
            self.local |= if record.node == here { bit } else { 0 };
        }
    }

    /// The slot of a replica; a free one is taken if it has none yet. There is one: no valid view
    /// has more replicas in a mirror than there are slots.
    pub fn slot_for(&mut self, id: ReplicaId) -> Option<u32> {
        let position = |wanted| self.slots.iter().position(|slot| *slot == wanted);
        let slot = position(Some(id)).or_else(|| position(None));
        debug_assert!(slot.is_some(), "{id:?} is one too many");
        let slot = slot?;
        self.slots[slot] = Some(id);
        Some(slot as u32)
    }

    /// Panics if these are not the sets of a view's mirror.
    pub fn check_invariants(&self, mirror: &MirrorView, here: NodeId) {
        let mut expected = self.clone();
        expected.update(mirror, here);
        let sets = |peers: &Self| (peers.members, peers.in_sync, peers.local);
        assert!(sets(self) == sets(&expected), "I4: the members are not those of the view");
        assert!(self.in_sync & !self.members == 0, "I4: who is in-sync is a member");
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

#[cfg(test)]
mod tests;
