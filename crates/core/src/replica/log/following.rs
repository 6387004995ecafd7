//! The intent log and the bitmaps follow the view (rules W6, W7).

use super::Log;
use crate::block_set::BlockSet;
use crate::ids::*;
use crate::replica::Context;
use crate::replica::views::Views;
use crate::view::{ReplicaRecord, ReplicaState, View};

impl Log {
    /// A view has been adopted: notes what is missing on whom from now on, and what is stable by
    /// it (rule W7). `has_rebuilt` says whether this incarnation has completed a rebuild, and has
    /// told so. Returns whether a device flush is to make something stable.
    #[must_use]
    pub fn follow<P>(
        &mut self,
        cx: &Context<'_, P>,
        views: &Views,
        old: &View,
        has_rebuilt: bool,
    ) -> bool {
        let (me, view) = (cx.me.id, views.view());
        let Some((mirror, record)) = view.replica(me).map(|(m, r)| (m, *r)) else {
            debug_assert!(false, "a view is adopted only by who is in it");
            return false;
        };
        self.missing.follow(&view.mirrors[mirror], me);
        self.slots.follow(view, cx.now);
        let before = old.replica(me).map(|(_, record)| *record);
        let begins_anew = record.state != ReplicaState::InSync
            && before.is_none_or(|before| before.since != record.since);
        let became_in_sync = record.state == ReplicaState::InSync
            && before.is_some_and(|before| before.state != ReplicaState::InSync);
        let was_in_sync = record.state == ReplicaState::InSync && !became_in_sync;
        let is_gone = |primary| !view.has_primary(primary);
        let others_go_on = view.is_of_epoch(old)
            && old.primaries.iter().any(|primary| view.has_primary(primary.id));
        let has_detached = was_in_sync && others_go_on && views.is_beside_in_sync();
        if !has_detached {
            self.slots.orphan(is_gone);
        }
        if begins_anew && !stays_member(old, view, &record) {
            self.slots.begin_anew();
        }
        if !begins_anew {
            self.note_who_left(me, old, view, mirror);
        }
        if has_detached {
            // Else only one would be in-sync. Before it detached all was written, and flushed.
            self.slots.stabilize_gone(is_gone);
        }
        if was_in_sync && view.primaries.is_empty() {
            self.slots.stabilize_all();
        } else if became_in_sync && has_rebuilt && views.is_beside_in_sync() {
            // What was open has been copied. After a restart it has not: it was written since. If
            // this is the only one in-sync, a primary has gone, whose last writes may not be
            // durable here.
            self.slots.stabilize_orphans();
        } else {
            return self.resolve_orphans(me, views, record.state == ReplicaState::InSync);
        }
        false
    }

    /// Notes what those lack who are no members any more. One that begins anew gets its own
    /// unstable blocks from its source, which knows who else lacks them.
    fn note_who_left(&mut self, me: ReplicaId, old: &View, view: &View, mirror: usize) {
        let left: Vec<_> = view.mirrors[mirror]
            .replicas
            .iter()
            .filter(|after| after.id != me && after.state != ReplicaState::InSync)
            .filter(|after| left_between(old, after) && !stays_member(old, view, after))
            .map(|after| after.id)
            .collect();
        let touched = if left.is_empty() { BlockSet::default() } else { self.slots.touched() };
        for replica in left {
            self.missing.add(replica, &touched);
        }
    }

    /// Writes of which no primary will tell any more whether they are stable: those that may lack
    /// them are known, if there is only one truth. Returns whether a device flush is to make
    /// something stable.
    fn resolve_orphans(&mut self, me: ReplicaId, views: &Views, is_in_sync: bool) -> bool {
        if is_in_sync && views.is_beside_in_sync() {
            return false;
        }
        let orphaned = self.slots.orphaned();
        if !orphaned.is_empty() {
            let replicas = views.mirror().into_iter().flat_map(|mirror| &mirror.replicas);
            // One that is not in-sync will get these blocks anew.
            let is_out_of_sync = |id: &ReplicaId| (*id == me) != is_in_sync;
            for replica in replicas.map(|record| record.id).filter(is_out_of_sync) {
                self.missing.add(replica, &orphaned);
            }
        }
        if is_in_sync {
            return self.slots.adopt_orphans();
        }
        self.slots.stabilize_orphans();
        false
    }
}

/// Whether a replica rebuilds because one of several primaries has died, and has got all writes of
/// the others without a break: it lacks only what is open in the slot of the dead one.
fn stays_member(old: &View, new: &View, after: &ReplicaRecord) -> bool {
    let Some((_, before)) = old.replica(after.id) else { return false };
    let ceased_here =
        after.missing_since == Some(after.since) && before.incarnation == after.incarnation;
    before.state == ReplicaState::InSync
        && after.state == ReplicaState::Rebuilding
        && ceased_here
        && old.primaries.iter().any(|primary| new.has_primary(primary.id))
}

/// Whether a replica that is not in-sync now was a member in an older view, and not without a
/// break.
fn left_between(old: &View, after: &ReplicaRecord) -> bool {
    let Some((_, before)) = old.replica(after.id) else { return false };
    let stayed = after.state.takes_writes() && before.since == after.since;
    before.state.takes_writes() && !stayed
}
