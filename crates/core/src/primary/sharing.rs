//! Several primaries of one volume: how one joins those that run it, and how the others find out that one
//! has died (rules V4, V5).
//!
//! Each has a slot of the intent logs, by which it can be told what its writes may have left undone.
//! Joining is one committed view that names one more primary and changes nothing else; the replicas hear
//! of it as of any view, the others when a replica refuses them. Who leaves by a detach has had all its
//! writes made durable before. Who is not heard by any replica for longer than its lease is buried: by a
//! view without it that leaves one in-sync replica in each mirror, from which the others copy what is open
//! in the dead one's slot. No replica adopts that view before the dead one's lease is over, so burying one
//! that lives is harmless: it is fenced.

use core::time::Duration;

use super::change::Edit;
use super::peers::{Peer, PeerLink};
use super::{Context, EndReason, Phase, Primary, PrimaryEffect};
use crate::ids::*;
use crate::message::ReplicaReport;
use crate::payload::Payload;
use crate::time::Instant;
use crate::view::{Cause, PrimaryRecord, ReplicaState, View, ViewError};

impl<P: Payload> Primary<P> {
    /// Whether others run the volume, as far as the replicas tell, so that this primary has to join them.
    /// Otherwise it takes over from whoever the view names.
    pub(super) fn must_join(&self, now: Instant) -> bool {
        let (Phase::Starting(gathering), Some(view)) = (&self.phase, &self.view) else {
            return false;
        };
        // A replica that has not heard of the view can't tell of its primaries; if they live, it soon will.
        let settings = &self.config.settings;
        let is_soon = now.since(gathering.since) < settings.lease + settings.lease_margin;
        let is_behind = |report: &ReplicaReport| report.generation < view.generation;
        let may_hear = is_soon && gathering.reports.values().any(is_behind);
        let are_others = view.is_shared() && self.slots_of_others(view) != 0;
        are_others && !gathering.is_first_of_era && (may_hear || self.hears_others())
    }

    /// The slots of the primaries on other nodes, a bit each.
    fn slots_of_others(&self, view: &View) -> u32 {
        let others = view.primaries.iter().filter(|other| other.id.node != self.config.id.node);
        others.fold(0, |slots, other| slots | 1u32 << other.slot)
    }

    /// Whether some replica has lately answered one of the primaries on other nodes.
    fn hears_others(&self) -> bool {
        let (Phase::Starting(gathering), Some(view)) = (&self.phase, &self.view) else {
            return false;
        };
        let slots = self.slots_of_others(view);
        gathering.reports.values().any(|report| report.slots.heard & slots != 0)
    }

    /// Has a view committed that names this primary beside the others. It has to reach every in-sync
    /// replica as they do: it could only do harm without (V5).
    pub(super) fn join(&mut self, cx: &mut Context<'_, P>) {
        let Phase::Starting(gathering) = &self.phase else { return };
        let waited = cx.now.since(gathering.since);
        let settings = &self.config.settings;
        if let Some(replica) = self.unreached() {
            // The others have it leave, or are dead themselves.
            return if waited >= settings.deadline + settings.lease + settings.lease_margin {
                self.end(cx, EndReason::NotReached(replica));
            } else {
                self.ask_again(cx);
            };
        }
        match self.joining_view() {
            Ok(next) => self.call_swap(cx, next),
            // Perhaps they are all dead: no replica knows of the view yet.
            Err(_) if !self.hears_others() => self.ask_again(cx),
            Err(_) => self.end(cx, EndReason::TooManyPrimaries),
        }
    }

    /// An in-sync replica with which no session is open, or not with the life that the others rely upon.
    fn unreached(&self) -> Option<ReplicaId> {
        let view = self.view.as_ref()?;
        let mut in_sync = view.mirrors.iter().flat_map(|mirror| mirror.in_sync());
        let is_reached = |id: ReplicaId, life: Incarnation| {
            let said = self.peers.get(&id).and_then(|peer| peer.life);
            self.is_usable(id) && said.is_some_and(|(incarnation, _)| incarnation == life)
        };
        in_sync.find(|record| !is_reached(record.id, record.incarnation)).map(|record| record.id)
    }

    /// Reads the view again, and has the replicas tell anew what they know.
    fn ask_again(&mut self, cx: &mut Context<'_, P>) {
        self.must_read = true;
        self.retry_call_at = cx.now + self.config.settings.reconnect_grace;
        let Phase::Starting(gathering) = &mut self.phase else { return };
        gathering.reports.clear();
        for peer in self.peers.values_mut() {
            if let Some(link) = peer.any_link() {
                self.links.remove(&link);
                cx.effects.push(PrimaryEffect::Disconnect { link });
                (peer.link, peer.retry_at) = (PeerLink::Down, cx.now);
            }
        }
    }

    fn joining_view(&self) -> Result<View, ViewError> {
        let me = self.config.id;
        let mut view = self.view.clone().ok_or(ViewError::TooManyPrimaries)?;
        view.mark_confirmed();
        let mut next = view.successor();
        // A lock on the node's state says that they are dead.
        let dead: Vec<_> =
            view.primaries.iter().map(|other| other.id).filter(|id| id.node == me.node).collect();
        for id in dead {
            self.bury(&mut next, id, |replica| self.is_usable(replica));
        }
        if next.primaries.len() >= usize::from(next.intents.slots) {
            return Err(ViewError::TooManyPrimaries);
        }
        let slot = self.free_slot(&next);
        next.primaries.push(PrimaryRecord { id: me, slot });
        Ok(next)
    }

    /// A slot that no primary of the view has: the lowest one in which no replica says that regions are
    /// open. If there is none, the lowest: what a dead primary has left open there is resolved as it would
    /// be elsewhere.
    pub(super) fn free_slot(&self, view: &View) -> u8 {
        let open = self.peers.values().fold(0, |open, peer| open | peer.slots.open);
        let is_free = |slot: &u8| !view.primaries.iter().any(|other| other.slot == *slot);
        let free: Vec<_> = (0..view.intents.slots).filter(is_free).collect();
        let closed = free.iter().find(|slot| open & 1 << **slot == 0);
        closed.or(free.first()).copied().unwrap_or(0)
    }

    /// Whether others run the volume, too, by the present view.
    pub(super) fn has_others(&self) -> bool {
        self.view.as_ref().is_some_and(View::has_several_primaries)
    }

    /// Notices primaries that no replica has heard of for longer than their lease.
    pub(super) fn watch_primaries(&mut self) {
        let Some(view) = self.view.as_ref().filter(|view| view.has_several_primaries()) else {
            return;
        };
        if !matches!(self.phase, Phase::Serving) || !self.can_send() {
            return;
        }
        let members = || self.peers.values().filter(|peer| self.is_member(peer.id));
        if members().any(|peer| peer.heard.is_none()) {
            return; // It has not been asked in this generation, or leaves because it does not answer.
        }
        let heard = members().filter_map(|peer| peer.heard).fold(0, |all, (bits, _)| all | bits);
        let me = self.config.id;
        let is_dead = |other: &&PrimaryRecord| {
            other.id != me && (other.id.node == me.node || heard & 1 << other.slot == 0)
        };
        let dead: Vec<_> = view.primaries.iter().filter(is_dead).map(|other| other.id).collect();
        dead.into_iter().for_each(|id| self.edit(Edit::Bury(id)));
    }

    /// Whether a replica is to be asked which primaries it has heard.
    pub(super) fn is_unsure_of_primaries(&self, peer: &Peer, now: Instant) -> bool {
        let period: Duration = self.config.settings.lease / 4;
        self.has_others() && peer.heard.is_none_or(|(_, at)| now.since(at) >= period)
    }

    pub(super) fn apply_burial(&self, next: &mut View, dead: PrimaryId) {
        self.bury(next, dead, |replica| self.is_sound(replica));
    }

    /// Takes a dead primary out. One in-sync replica of each mirror stays, from which the others copy what
    /// is open in its slot (I8); those that rebuild begin anew.
    fn bury(&self, next: &mut View, dead: PrimaryId, is_usable: impl Fn(ReplicaId) -> bool) {
        if !next.has_primary(dead) {
            return; // Another one has buried it.
        }
        next.primaries.retain(|other| other.id != dead);
        for mirror in next.mirrors.clone() {
            let rank = |id: ReplicaId, node: NodeId| (is_usable(id), node == self.config.id.node);
            let source = mirror.in_sync().max_by_key(|record| rank(record.id, record.node));
            let Some(source) = source.map(|record| record.id) else { continue };
            for record in mirror.members().filter(|record| record.id != source) {
                let (state, cause) = match record.state {
                    ReplicaState::InSync => (ReplicaState::Rebuilding, Cause::UncleanEnd),
                    _ => (ReplicaState::Stale, record.cause),
                };
                next.appoint(record.id, state, cause, None);
            }
        }
    }

    /// The view names other primaries than the one before. Who has gone may have acknowledged what no flush
    /// covers: losing it counts.
    pub(super) fn note_primaries(&mut self, old: &View, new: &View) {
        let me = self.config.id;
        let is_gone = |other: &PrimaryRecord| other.id != me && !new.has_primary(other.id);
        if old.primaries.iter().any(is_gone) {
            self.last_sequence = self.last_sequence.next();
            self.acknowledged = self.last_sequence;
        }
    }

    /// Another primary's view is known: what was wanted because of the one before is wanted again if it is
    /// still so.
    pub(super) fn forget_outdated_edits(&mut self) {
        self.edits
            .retain(|pending| pending.command().is_some() || !pending.edit.rests_on_the_view());
    }

    /// Whether this primary has had a view committed without itself.
    pub(super) fn has_given_up(&self) -> bool {
        self.view.as_ref().is_some_and(|view| !view.has_primary(self.config.id))
    }
}
