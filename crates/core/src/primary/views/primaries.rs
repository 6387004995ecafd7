//! Several primaries of one volume: how each finds out that another one has died (rules V4, V5).
//!
//! Each has a slot of the intent logs, by which it can be told what its writes may have left
//! undone. Who leaves by a detach has had all its writes made durable before. Who has not been
//! answered by any replica for several leases is evicted: by a view without it that leaves one
//! in-sync replica in each mirror, from which the others copy what is open in its slot. No replica
//! adopts that view before the evicted one's lease is over, so if it lives, it is fenced. But it
//! loses the volume by it, which is why a pause is waited out.

use core::time::Duration;

use super::Views;
use super::edits::Edit;
use crate::ids::*;
use crate::primary::membership::Membership;
use crate::primary::membership::peer::Peer;
use crate::primary::{Context, PrimaryConfig, Stage};
use crate::time::Instant;
use crate::view::{Cause, PrimaryRecord, ReplicaState, View};

/// How many leases a primary may be silent, as seen by another one, after all members have said
/// that they have not answered it for longer than its lease. Until then it only delays: what needs
/// every primary waits.
const EVICTION_LEASES: u32 = 2;

impl Views {
    /// Notices primaries that no replica has heard of for longer than their lease, and evicts those
    /// of which that stays so.
    pub fn watch_primaries<P>(&mut self, cx: &Context<'_, P>, peers: &Membership) {
        let now = cx.now;
        if self.has_old_words_only(peers, now) {
            return self.silences.forget();
        }
        let Some(silent) = self.silent_primaries(cx, peers) else {
            return self.silences.listen_no_more();
        };
        self.silences.seen_nothing_of(&silent, now);
        let (me, patience) = (cx.config.id, self.lease().time() * EVICTION_LEASES);
        // A swap that was not answered comes back as an edit, perhaps long after.
        let was_seen = |edit: Edit| match edit {
            Edit::Evict(id) => id.node != me.node && !silent.contains(&id),
            _ => false,
        };
        self.asking.edits.withdraw(was_seen);
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
    fn has_old_words_only(&self, peers: &Membership, now: Instant) -> bool {
        let lease = self.lease().time();
        let members = peers.values().filter(|peer| self.is_member(peer.id()));
        let mut reported = members.filter_map(Peer::reported_at);
        reported.all(|asked| now.since(asked) > lease)
    }

    /// The other primaries that no member has answered lately; `None` if not all members have told.
    fn silent_primaries<P>(
        &self,
        cx: &Context<'_, P>,
        peers: &Membership,
    ) -> Option<Vec<PrimaryId>> {
        if !self.has_others() || cx.stage != Stage::Serving || !self.can_send(cx.stage) {
            return None;
        }
        // Who has not told was not asked in this generation yet, or leaves because it does not
        // answer.
        let members = peers.values().filter(|peer| self.is_member(peer.id()));
        let seen: Option<Vec<u32>> = members.map(Peer::seen).collect();
        let seen = seen?.into_iter().fold(0, |all, bits| all | bits);
        let me = cx.config.id;
        let is_silent = |other: &&PrimaryRecord| {
            other.id != me && (other.id.node == me.node || seen & 1 << other.slot == 0)
        };
        Some(self.view.primaries.iter().filter(is_silent).map(|other| other.id).collect())
    }

    /// A process that stood still has heard nobody meanwhile. That is no sign that the others are
    /// gone: they get the time to answer anew.
    /// Returns whether it has stood still.
    pub fn notice_own_pause<P>(&mut self, cx: &Context<'_, P>, peers: &mut Membership) -> bool {
        if cx.now.since(cx.clock.tick_at) < cx.config.settings.deadline / 2 {
            return false; // It ticks in time.
        }
        self.silences.forget();
        peers.values_mut().for_each(|peer| peer.excuse(cx.now));
        true
    }

    /// Whether a replica is to be asked which primaries it has heard.
    pub fn is_unsure_of_primaries(&self, peer: &Peer, now: Instant) -> bool {
        let period: Duration = self.lease().time() / 4;
        self.has_others() && peer.seen_before(now, period)
    }

    /// Whether the present view names a primary no more that the one before did. It may have
    /// acknowledged what no flush covers.
    pub fn has_lost_a_primary(&self, config: &PrimaryConfig, before: &View) -> bool {
        let is_gone =
            |other: &PrimaryRecord| other.id != config.id && !self.view.has_primary(other.id);
        before.primaries.iter().any(is_gone)
    }
}

/// A slot that no primary of the view has: the lowest one in which no replica says that regions are
/// open. If there is none, the lowest: what a dead primary has left open there is resolved as it
/// would be elsewhere.
pub(super) fn free_slot(peers: &Membership, view: &View) -> u8 {
    let open = peers.open_slots();
    let is_free = |slot: &u8| !view.primaries.iter().any(|other| other.slot == *slot);
    let free: Vec<_> = (0..view.intents.slots).filter(is_free).collect();
    let closed = free.iter().find(|slot| open & 1 << **slot == 0);
    closed.or(free.first()).copied().unwrap_or(0)
}

/// Takes a dead primary out. One in-sync replica of each mirror stays, from which the others copy
/// what is open in its slot (I8); those that rebuild begin anew. `here`: the node of this primary.
pub(super) fn evict(
    next: &mut View,
    dead: PrimaryId,
    here: NodeId,
    is_usable: impl Fn(ReplicaId) -> bool,
) {
    if !next.has_primary(dead) {
        return; // Another one has evicted it.
    }
    next.primaries.retain(|other| other.id != dead);
    for mirror in next.mirrors.clone() {
        let rank = |id: ReplicaId, node: NodeId| (is_usable(id), node == here);
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

/// By this view the others take what a dead primary has left open from one replica of each mirror:
/// panics if there are two that may differ.
pub(super) fn check_sources(view: &View) {
    let has_one = view.mirrors.iter().all(|mirror| mirror.in_sync().count() == 1);
    assert!(has_one, "V4: after a dead primary each mirror has one source");
}

#[cfg(test)]
mod tests;
