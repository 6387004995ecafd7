//! A committed view becomes the one to work by: all members adopt it before anything relies on it
//! (rule V2).

use crate::ids::*;
use crate::message::Message;
use crate::payload::Payload;
use crate::primary::membership::Lacking;
use crate::primary::membership::peer::Peer;
use crate::primary::scrub::verify::Verify;
use crate::primary::views::edits::Edit;
use crate::primary::{Context, EndReason, Note, Primary, PrimaryEffect};
use crate::view::{Cause, ReplicaRecord, ReplicaState, Role, View};

impl<P: Payload> Primary<P> {
    /// Makes a committed view the one to work by, and has all members adopt it.
    pub(in crate::primary) fn install(&mut self, cx: &mut Context<'_, P>, view: View) {
        self.follow_leases(&view);
        let old = self.view.replace(view.clone());
        self.membership.end_doubt_of_incarnations();
        // It may have a shorter lease, which has to be renewed more often.
        cx.wake_at(cx.now + view.lease.time() / 4);
        self.membership.update(&cx.config, &view, cx.now);
        old.iter().for_each(|old| self.note_primaries(old, &view));
        let size = view.geometry.size;
        if old.as_ref().is_some_and(|old| old.geometry.size < size) {
            cx.note(Note::Grown(size));
        }
        if old.iter().any(|old| brings_anybody(old, &view)) {
            cx.wake_at(cx.now);
        }
        self.membership.note_absences(&view, cx.now);
        if self.membership.expect_members(old.as_ref(), &view, cx.now) {
            cx.wake_at(cx.now);
        }
        let left: Vec<_> = old.iter().flat_map(|old| left_between(old, &view)).collect();
        for (replica, cause) in left {
            self.replica_left(cx, replica, cause);
        }
        self.retarget_parts();
        if view.is_shared() {
            self.read_again();
        }
        self.cluster_locks_follow(&view);
        self.forget_removed(cx, &view);
        for (_, record) in view.replicas().filter(|(_, record)| record.since == view.generation) {
            match (record.state, record.role) {
                (ReplicaState::Rebuilding, Role::Spare(Some(absent))) => {
                    cx.note(Note::StandsIn(record.id, absent));
                }
                (ReplicaState::Rebuilding, _) => cx.note(Note::Admitted(record.id)),
                (ReplicaState::InSync, _) => {
                    let progress = self.membership.known(record.id).and_then(Peer::progress);
                    let copied = progress.map_or(0, |progress| progress.copied);
                    cx.note(Note::Completed { replica: record.id, copied });
                }
                _ => {}
            }
        }
        self.keep_completed(&view);
        self.verify.iter_mut().for_each(Verify::reset_pace);
        self.rebuild_waits.forget_drains();
        let members = view.replicas().filter(|(_, record)| record.state.takes_writes());
        self.adoption.begin(members.map(|(_, record)| record.id), cx.now);
        let lacking: Lacking<'_> = &|mirror| self.parts.lacking(mirror);
        let mut mirrors = 0..self.membership.mirrors().len();
        if mirrors.any(|mirror| self.membership.has_lost_everywhere(mirror, lacking)) {
            // The only one left failed an acknowledged write while this view was on its way.
            return self.end(cx, EndReason::LostWrites);
        }
        self.make_ready(cx, &view);
    }

    /// This view is the next one. Nobody counts on more than its lease grants from now on, and on
    /// no more than before until a replica has adopted it.
    fn follow_leases(&mut self, next: &View) {
        let lease = next.lease;
        let are_others =
            self.adoption.is_takeover() || self.has_others() || next.has_several_primaries();
        let granted = self.lease().honoured().max(lease.honoured());
        self.adoption.fence(are_others.then_some(granted));
        self.membership.bound_leases(next);
    }

    /// A replica has become in-sync although its source had failed a write meanwhile that it has.
    /// From now on it is read, so it stays, and the source leaves.
    fn keep_completed(&mut self, view: &View) {
        for (mirror, record) in view.replicas() {
            let is_new = record.state == ReplicaState::InSync && record.since == view.generation;
            let mut others = view.mirrors[mirror].in_sync().filter(|other| other.id != record.id);
            if is_new
                && !self.membership.has_failed(record.id)
                && others.any(|r| self.membership.has_failed(r.id))
            {
                self.edits.withdraw(|edit| {
                    matches!(edit, Edit::Leave { replica, cause: Cause::SourceFailed, .. }
                        if replica == record.id)
                });
            }
        }
    }

    /// Sends the view to the members with which a session is open.
    fn make_ready(&mut self, cx: &mut Context<'_, P>, view: &View) {
        for (_, record) in view.replicas() {
            let is_member = record.state.takes_writes();
            if let Some(peer) = self.membership.known_mut(record.id) {
                peer.follow_view(is_member.then_some(record.incarnation));
                if record.state == ReplicaState::InSync && record.since == view.generation {
                    peer.completed(self.config.settings.retry_pause.0);
                }
                if peer.is_ready() {
                    self.send_adopt(cx, record.id);
                }
            }
        }
    }

    pub(in crate::primary) fn send_adopt(&mut self, cx: &mut Context<'_, P>, replica: ReplicaId) {
        let link = self.membership.known(replica).and_then(Peer::ready_link);
        if let (Some(link), Some(view)) = (link, &self.view) {
            cx.send(link, Message::Adopt { view: Box::new(view.clone()) }, None);
        }
    }

    /// A replica is no member any more, or none of the volume.
    fn replica_left(&mut self, cx: &mut Context<'_, P>, replica: ReplicaId, cause: Cause) {
        let state = self.state_of(replica);
        let (longest, lag) = (self.config.settings.retry_pause.1, self.config.settings.lag);
        if !state.is_some_and(ReplicaState::takes_writes)
            && let Some(link) = self.membership.close(replica)
        {
            cx.effects.push(PrimaryEffect::Disconnect { link });
        }
        let Some(peer) = self.membership.known_mut(replica) else { return };
        let (mirror, bit) = (peer.mirror(), peer.bit());
        peer.left(cause, longest, &lag, cx.now);
        self.session_ended(replica);
        self.forget_target(mirror, bit);
        self.release_stability(mirror, bit);
        if state.is_some() {
            cx.note(Note::Left(replica, cause));
        }
    }

    /// Forgets replicas that do not belong to the volume any more.
    fn forget_removed(&mut self, cx: &mut Context<'_, P>, view: &View) {
        let is_there = |id| view.replica(id).is_some();
        self.membership.forget_removed(is_there, |peer, link| {
            link.into_iter().for_each(|link| cx.effects.push(PrimaryEffect::Disconnect { link }));
            cx.note(Note::Removed(peer.id(), peer.node()));
        });
    }

    pub(in crate::primary) fn adopted(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        generation: Generation,
    ) {
        if generation != self.generation() || !self.adoption.adopted(replica) {
            return; // It says so again, or of a view that is not the newest.
        }
        let (asked, lease) = (self.adoption.since(), self.lease().time());
        if let Some(peer) = self.membership.known_mut(replica) {
            peer.adopted(lease, asked, cx.now);
        }
        self.resend(cx, replica);
        self.tell_stable_to(cx, replica);
        self.restate_cluster_lock(replica);
        if self.adoption.is_over() {
            if self.adoption.end_takeover() && !self.exclusions.are_joining() {
                cx.note(Note::Serving { view: generation, follows: self.adoption.follows() });
            }
            self.parts.take_unconfirmed();
            self.check_all_parts(cx);
        }
    }

    /// A replica has adopted another generation than that of a message.
    pub(in crate::primary) fn refused(
        &mut self,
        replica: ReplicaId,
        adopted: Generation,
        sequence: Option<Sequence>,
    ) {
        if let Some(sequence) = sequence {
            self.part_refused(replica, sequence);
        }
        self.membership.known_mut(replica).into_iter().for_each(Peer::refused);
        if adopted > self.generation() {
            self.calls.hear_of(adopted);
        } else {
            self.calls.read_soon();
        }
    }

    /// Replicas that refuse the newest view each time they are asked to adopt it will never do: it
    /// does not go on from their epoch, which it has forgotten if there were many since. They count
    /// as diverged.
    pub(in crate::primary) fn give_up_refusing(&mut self, cx: &mut Context<'_, P>) {
        let mut hopeless = Vec::new();
        for peer in self.membership.values_mut().filter(|peer| peer.has_refused()) {
            if peer.refuses_newest(self.adoption.awaits(peer.id())) {
                hopeless.extend(peer.open_link().map(|link| (peer.id(), link)));
            }
        }
        for (replica, link) in hopeless {
            self.other_history(cx, replica, link);
            // It leaves before it can be asked, and refuse, again.
            self.calls.end_pause(cx.now);
        }
    }

    pub(in crate::primary) fn fenced(&mut self, link: LinkId, generation: Generation) {
        if generation > self.generation() {
            self.fence_notices.retain(|(other, _)| *other != link);
            self.fence_notices.push((link, generation));
            self.calls.hear_of(generation);
        }
    }
}

/// Whether an operator has brought a replica: it is called at once.
fn brings_anybody(old: &View, new: &View) -> bool {
    let was_here = |id| old.replica(id).is_some_and(|(_, r)| r.state != ReplicaState::Faulty);
    new.replicas().any(|(_, r)| r.state == ReplicaState::Stale && !was_here(r.id))
}

/// The replicas that were members in one view and are none in a later one, or left in between.
fn left_between(old: &View, new: &View) -> Vec<(ReplicaId, Cause)> {
    let is_member = |record: &ReplicaRecord| record.state.takes_writes();
    old.replicas()
        .filter_map(|(_, before)| match new.replica(before.id) {
            None => Some((before.id, Cause::Operator)),
            Some((_, after)) => {
                let completed = before.state == ReplicaState::Rebuilding
                    && after.state == ReplicaState::InSync
                    && before.incarnation == after.incarnation;
                let stayed = is_member(after) && (before.since == after.since || completed);
                (is_member(before) && !stayed).then_some((before.id, after.cause))
            }
        })
        .collect()
}
