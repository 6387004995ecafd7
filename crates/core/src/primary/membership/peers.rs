//! All replicas of the volume, and the links to them.

use super::mirror::MirrorPeers;
use super::peer::{Peer, Place, Session};
use super::{Membership, OutOfSync};
use crate::ids::*;
use crate::policy::ReplicaSet;
use crate::primary::{Context, PrimaryConfig, PrimaryEffect};
use crate::time::Instant;
use crate::view::{ReplicaRecord, View};
use std::collections::BTreeMap;

impl Membership {
    pub fn new(now: Instant) -> Self {
        let (known, links) = (BTreeMap::new(), BTreeMap::new());
        Self { known, links, mirrors: Vec::new(), speed_judged_at: now }
    }

    /// Takes over the replicas of a view: keeps what is known of those that stay.
    pub fn update(&mut self, config: &PrimaryConfig, view: &View, now: Instant) {
        self.mirrors.resize_with(view.mirrors.len(), MirrorPeers::default);
        for (mirror, (peers, record)) in self.mirrors.iter_mut().zip(&view.mirrors).enumerate() {
            peers.update(record, config.id.node);
            for record in &record.replicas {
                let (lease, pause) = (view.lease.time(), config.settings.retry_pause.first);
                if let Some(bit) = peers.bit_for(record.id) {
                    let place = Place { id: record.id, node: record.node, mirror, bit };
                    let new = || Peer::new(place, lease, pause, now);
                    self.known.entry(place.id).or_insert_with(new);
                }
            }
        }
    }

    /// The sets of a mirror's replicas.
    #[inline]
    pub fn mirror(&self, mirror: usize) -> &MirrorPeers {
        &self.mirrors[mirror]
    }

    /// Those of one mirror, for tests to break.
    #[cfg(test)]
    pub fn mirror_mut(&mut self, mirror: usize) -> &mut MirrorPeers {
        &mut self.mirrors[mirror]
    }

    /// A replica, for tests to break.
    #[cfg(test)]
    pub fn know(&mut self, peer: Peer) {
        self.known.entry(peer.id()).or_insert(peer);
    }

    /// Those of all mirrors.
    #[inline]
    pub fn mirrors(&self) -> &[MirrorPeers] {
        &self.mirrors
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

    /// Whether a session is open with a replica.
    pub fn is_open(&self, replica: ReplicaId) -> bool {
        self.known(replica).is_some_and(|peer| peer.open_link().is_some())
    }

    /// Whether the sessions with all in-sync replicas are such.
    pub fn in_sync_sessions_are(&self, such: impl Fn(Session) -> bool) -> bool {
        let is_such = |id| self.known(id).is_some_and(|peer| such(peer.session()));
        self.mirrors.iter().all(|mirror| mirror.ids(mirror.in_sync()).all(is_such))
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
        self.known.clear();
        self.links.clear();
    }

    /// A connection to a replica is wanted.
    pub fn connect<P>(&mut self, cx: &mut Context<'_, P>, replica: ReplicaId) {
        if let Some(peer) = self.known_mut(replica) {
            peer.connect();
            cx.effects.push(PrimaryEffect::Connect { replica, node: peer.node() });
        }
    }

    /// Whether every member of a mirror has confirmed this primary less than the lease ago, counted
    /// from asking: then no other primary can have had a write acknowledged. One that rebuilds
    /// counts, too: a view that this primary has not learnt of may have made it the only one
    /// in-sync.
    pub fn has_lease(&self, mirror: usize, now: Instant) -> bool {
        let peers = &self.mirrors[mirror];
        peers.ids(peers.members()).all(|id| self.known(id).is_some_and(|peer| peer.grants(now)))
    }

    /// The replicas of a mirror that have failed a write which is acknowledged, as far as that is
    /// over.
    pub fn remembered_out_of_sync(&self, mirror: usize) -> ReplicaSet {
        let is_out_of_sync = |peer: &&Peer| peer.mirror() == mirror && peer.disk().is_out_of_sync();
        self.known.values().filter(is_out_of_sync).fold(0, |set, peer| set | peer.bit())
    }

    /// These rebuilding replicas lack an acknowledged write until they have left, even if a view
    /// that is on its way makes them in-sync.
    pub fn remember_out_of_sync(&mut self, mirror: usize, replicas: ReplicaSet) {
        for peer in self.known.values_mut() {
            if peer.mirror() == mirror && replicas & peer.bit() != 0 {
                peer.disk_mut().mark_out_of_sync();
            }
        }
    }

    /// Whether a mirror can rely on this replica: it answers, and lacks nothing acknowledged.
    pub fn is_sound(&self, replica: ReplicaId, out_of_sync: OutOfSync<'_>) -> bool {
        let lacks_nothing = |peer: &Peer| {
            let out_of_sync =
                out_of_sync(peer.mirror()) | self.remembered_out_of_sync(peer.mirror());
            out_of_sync & peer.bit() == 0
        };
        self.known.get(&replica).is_some_and(|peer| peer.is_healthy() && lacks_nothing(peer))
    }

    /// Whether a mirror could go on without this in-sync replica.
    pub fn has_sound_other(
        &self,
        mirror: usize,
        replica: ReplicaId,
        out_of_sync: OutOfSync<'_>,
    ) -> bool {
        let peers = &self.mirrors[mirror];
        peers.ids(peers.in_sync()).any(|id| id != replica && self.is_sound(id, out_of_sync))
    }

    /// Whether each in-sync replica of a mirror lacks acknowledged writes, or may.
    pub fn has_lost_everywhere(&self, mirror: usize, out_of_sync: OutOfSync<'_>) -> bool {
        let out_of_sync = out_of_sync(mirror) | self.remembered_out_of_sync(mirror);
        let peers = &self.mirrors[mirror];
        let has_lost = |peer: &Peer| peer.disk().is_lost() || out_of_sync & peer.bit() != 0;
        peers.ids(peers.in_sync()).all(|id| self.known(id).is_some_and(has_lost))
    }

    /// Whether the disk of this replica has failed.
    pub fn has_failed(&self, replica: ReplicaId) -> bool {
        self.known.get(&replica).is_some_and(Peer::is_failing)
    }

    /// Whether an in-sync replica that has failed a write is to leave: until then it differs from
    /// the others, and what it differs in is known.
    pub fn somebody_fails(&self) -> bool {
        let is_failing = |id| self.known(id).is_some_and(Peer::is_failing);
        self.mirrors.iter().any(|mirror| {
            mirror.in_sync().count_ones() > 1 && mirror.ids(mirror.in_sync()).any(is_failing)
        })
    }

    /// Notes since when replicas are no members.
    pub fn note_absences(&mut self, view: &View, now: Instant) {
        for (_, record) in view.replicas() {
            if let Some(peer) = self.known_mut(record.id) {
                peer.is_member_now(record.state.takes_writes(), now);
            }
        }
    }

    /// Others have admitted replicas with which this primary has no session: they have the time to
    /// be reached from here, too. Tells whether there are such.
    pub fn expect_members(&mut self, old: &View, new: &View, now: Instant) -> bool {
        let was_member =
            |id| old.replica(id).is_some_and(|(_, record)| record.state.takes_writes());
        let is_new = |record: &ReplicaRecord| record.state.takes_writes() && !was_member(record.id);
        let mut are_down = false;
        for (_, record) in new.replicas().filter(|(_, record)| is_new(record)) {
            are_down |= self.known_mut(record.id).is_some_and(|peer| peer.expect(now));
        }
        are_down
    }

    /// The next view has this lease: nobody counts on more from now on.
    pub fn bound_leases(&mut self, view: &View) {
        self.known.values_mut().for_each(|peer| peer.bound_lease(view.lease.time()));
    }

    /// A newer view is known: what was asked for in place of it can't be committed any more.
    pub fn end_doubt_of_incarnations(&mut self) {
        self.known.values_mut().for_each(|peer| peer.incarnations_mut().end_doubt());
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

#[cfg(test)]
mod tests;
