//! Several primaries of one volume: how one joins those that run it, and how the others find out
//! that one has died (rules V4, V5).
//!
//! Each has a slot of the intent logs, by which it can be told what its writes may have left
//! undone. Joining is one committed view that names one more primary and changes nothing else; the
//! replicas hear of it as of any view, the others when a replica refuses them. Who leaves by a
//! detach has had all its writes made durable before. Who has not been answered by any replica for
//! several leases is evicted: by a view without it that leaves one in-sync replica in each mirror,
//! from which the others copy what is open in its slot. No replica adopts that view before the
//! evicted one's lease is over, so if it lives, it is fenced. But it loses the volume by it, which
//! is why a pause is waited out.

mod silences;

pub(super) use self::silences::Silences;

use core::time::Duration;

use super::invariants::check_sources;
use super::membership::peer::Peer;
use super::views::edits::Edit;
use super::{Context, EndReason, Phase, Primary, PrimaryEffect};
use crate::ids::*;
use crate::message::ReplicaReport;
use crate::payload::Payload;
use crate::time::Instant;
use crate::view::{Cause, PrimaryRecord, ReplicaState, View, ViewError};

/// How many leases a primary may be silent, as seen by another one, after all members have said
/// that they have not answered it for longer than its lease. Until then it only delays: what needs
/// every primary waits.
const EVICTION_LEASES: u32 = 2;

impl<P: Payload> Primary<P> {
    /// Whether others run the volume, as far as the replicas tell, so that this primary has to join
    /// them. Otherwise it takes over from whoever the view names.
    pub(super) fn must_join(&self, now: Instant) -> bool {
        let (Phase::Starting(gathering), Some(view)) = (&self.phase, &self.view) else {
            return false;
        };
        // A replica that has not heard of the view can't tell of its primaries; if they live, it
        // soon will.
        let is_soon = now.since(gathering.since) < view.lease.honoured();
        let is_behind = |report: &ReplicaReport| report.generation < view.generation;
        let may_hear = is_soon && gathering.reports.values().any(is_behind);
        let are_others = view.is_shared() && self.slots_of_others(view) != 0;
        are_others && !gathering.is_first_of_epoch && (may_hear || self.hears_others())
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

    /// Has a view committed that names this primary beside the others. It has to reach every
    /// in-sync replica as they do: it could only do harm without (V5).
    /// `waited`: since it was started.
    pub(super) fn join(&mut self, cx: &mut Context<'_, P>, waited: Duration) {
        let patience = self.config.settings.deadline + self.lease().honoured();
        if let Some(replica) = self.unreached() {
            // The others have it leave, or are dead themselves.
            return if waited >= patience {
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

    /// An in-sync replica with which no session is open, or not with the incarnation that the
    /// others rely upon.
    fn unreached(&self) -> Option<ReplicaId> {
        let view = self.view.as_ref()?;
        let mut in_sync = view.mirrors.iter().flat_map(|mirror| mirror.in_sync());
        let is_reached = |id: ReplicaId, incarnation: Incarnation| {
            let said = self.membership.known(id).and_then(Peer::incarnation);
            self.is_usable(id) && said == Some(incarnation)
        };
        in_sync.find(|record| !is_reached(record.id, record.incarnation)).map(|record| record.id)
    }

    /// Reads the view again, and has the replicas tell anew what they know.
    pub(super) fn ask_again(&mut self, cx: &mut Context<'_, P>) {
        self.calls.read_at(cx.now + self.config.settings.reconnect_grace);
        if let Phase::Starting(gathering) = &mut self.phase {
            gathering.reports.clear();
        }
        let closed = self.membership.close_all(cx.now).into_iter();
        cx.effects.extend(closed.map(|link| PrimaryEffect::Disconnect { link }));
    }

    fn joining_view(&self) -> Result<View, ViewError> {
        let me = self.config.id;
        let mut view = self.view.clone().ok_or(ViewError::TooManyPrimaries)?;
        view.mark_confirmed();
        let mut next = view.successor();
        // They have ended, or no replica has answered them for their lease.
        let dead: Vec<_> =
            view.primaries.iter().map(|other| other.id).filter(|id| id.node == me.node).collect();
        for id in dead {
            self.evict(&mut next, id, |replica| self.is_usable(replica));
        }
        if next.primaries.len() >= usize::from(next.intents.slots) {
            return Err(ViewError::TooManyPrimaries);
        }
        let slot = self.free_slot(&next);
        next.primaries.push(PrimaryRecord { id: me, slot });
        Ok(next)
    }

    /// A slot that no primary of the view has: the lowest one in which no replica says that regions
    /// are open. If there is none, the lowest: what a dead primary has left open there is resolved
    /// as it would be elsewhere.
    pub(super) fn free_slot(&self, view: &View) -> u8 {
        let open = self.membership.open_slots();
        let is_free = |slot: &u8| !view.primaries.iter().any(|other| other.slot == *slot);
        let free: Vec<_> = (0..view.intents.slots).filter(is_free).collect();
        let closed = free.iter().find(|slot| open & 1 << **slot == 0);
        closed.or(free.first()).copied().unwrap_or(0)
    }

    /// Whether others run the volume, too, by the present view.
    pub(super) fn has_others(&self) -> bool {
        self.view.as_ref().is_some_and(View::has_several_primaries)
    }

    /// Notices primaries that no replica has heard of for longer than their lease, and evicts those
    /// of which that stays so.
    pub(super) fn watch_primaries(&mut self, now: Instant) {
        if self.has_old_words_only(now) {
            return self.silences.forget();
        }
        let Some(silent) = self.silent_primaries() else {
            return self.silences.listen_no_more();
        };
        self.silences.heard_nothing_of(&silent, now);
        let (me, patience) = (self.config.id, self.lease().time() * EVICTION_LEASES);
        // A swap that was not answered comes back as an edit, perhaps long after.
        let is_heard = |edit: Edit| match edit {
            Edit::Evict(id) => id.node != me.node && !silent.contains(&id),
            _ => false,
        };
        self.edits.withdraw(is_heard);
        for id in silent {
            // An older one there has ended, or had been silent when this one joined.
            if id.node == me.node || self.silences.of(id) >= patience {
                self.edit(Edit::Evict(id));
            }
        }
    }

    /// Whether no member has told anything for a lease, as if none can be reached: what they said
    /// before is no word of now, and when they are back the others need the time to reach them,
    /// too. What they told by the view before counts: else each change of the view would begin the
    /// wait for a dead primary anew.
    fn has_old_words_only(&self, now: Instant) -> bool {
        let lease = self.lease().time();
        let members = self.membership.values().filter(|peer| self.is_member(peer.id()));
        let mut told = members.filter_map(Peer::told_at);
        told.all(|asked| now.since(asked) > lease)
    }

    /// The other primaries that no member has answered lately; `None` if not all members have told.
    fn silent_primaries(&self) -> Option<Vec<PrimaryId>> {
        let view = self.view.as_ref().filter(|view| view.has_several_primaries())?;
        if !matches!(self.phase, Phase::Serving) || !self.can_send() {
            return None;
        }
        // Who has not told was not asked in this generation yet, or leaves because it does not
        // answer.
        let members = self.membership.values().filter(|peer| self.is_member(peer.id()));
        let heard: Option<Vec<u32>> = members.map(Peer::heard).collect();
        let heard = heard?.into_iter().fold(0, |all, bits| all | bits);
        let me = self.config.id;
        let is_silent = |other: &&PrimaryRecord| {
            other.id != me && (other.id.node == me.node || heard & 1 << other.slot == 0)
        };
        Some(view.primaries.iter().filter(is_silent).map(|other| other.id).collect())
    }

    /// A process that stood still has heard nobody meanwhile. That is no sign that the others are
    /// gone: they get the time to answer anew.
    pub(super) fn notice_own_pause(&mut self, cx: &mut Context<'_, P>) {
        let now = cx.now;
        if now.since(cx.clock.tick_at) < self.config.settings.deadline / 2 {
            return; // It ticks in time.
        }
        self.silences.forget();
        self.membership.values_mut().for_each(|peer| peer.excuse(now));
    }

    /// Whether a replica is to be asked which primaries it has heard.
    pub(super) fn is_unsure_of_primaries(&self, peer: &Peer, now: Instant) -> bool {
        let period: Duration = self.lease().time() / 4;
        self.has_others() && peer.heard_before(now, period)
    }

    pub(super) fn apply_eviction(&self, next: &mut View, dead: PrimaryId) {
        self.evict(next, dead, |replica| self.is_sound(replica));
    }

    /// Takes a dead primary out. One in-sync replica of each mirror stays, from which the others
    /// copy what is open in its slot (I8); those that rebuild begin anew.
    fn evict(&self, next: &mut View, dead: PrimaryId, is_usable: impl Fn(ReplicaId) -> bool) {
        if !next.has_primary(dead) {
            return; // Another one has evicted it.
        }
        next.primaries.retain(|other| other.id != dead);
        for mirror in next.mirrors.clone() {
            let rank = |id: ReplicaId, node: NodeId| (is_usable(id), node == self.config.id.node);
            let source = mirror.in_sync().max_by_key(|record| rank(record.id, record.node));
            let Some(source) = source.map(|record| record.id) else {
                debug_assert!(false, "a valid view has an in-sync replica in each mirror");
                continue;
            };
            for record in mirror.members().filter(|record| record.id != source) {
                let (state, cause) = match record.state {
                    ReplicaState::InSync => (ReplicaState::Rebuilding, Cause::UncleanEnd),
                    _ => (ReplicaState::Stale, record.cause),
                };
                next.appoint(record.id, state, cause, None);
            }
        }
        if cfg!(debug_assertions) {
            check_sources(next);
        }
    }

    /// The view names other primaries than the one before. Who has gone may have acknowledged what
    /// no flush covers: losing it counts.
    pub(super) fn note_primaries(&mut self, old: &View, new: &View) {
        let me = self.config.id;
        let is_gone = |other: &PrimaryRecord| other.id != me && !new.has_primary(other.id);
        if old.primaries.iter().any(is_gone) {
            self.writes.inherit();
        }
    }

    /// Whether this primary has had a view committed without itself.
    pub(super) fn has_given_up(&self) -> bool {
        self.view.as_ref().is_some_and(|view| !view.has_primary(self.config.id))
    }
}
