//! A committed view becomes the one to work by: all members adopt it before anything relies on it
//! (rule V2).

use super::Views;
use super::edits::Edit;
use crate::ids::*;
use crate::message::Message;
use crate::primary::membership::Membership;
use crate::primary::membership::peer::Peer;
use crate::primary::{Context, Note};
use crate::time::Instant;
use crate::view::{Cause, ReplicaRecord, ReplicaState, Role, View};

/// What was so before a view was installed.
#[derive(Debug)]
pub(in crate::primary) struct Installed {
    /// The view before.
    pub before: View,
    /// The replicas that were members then and are none now, or left in between.
    pub left: Vec<(ReplicaId, Cause)>,
}

impl Views {
    /// Makes a committed view the one to work by. Its caller lets those go that have left, and has
    /// all members adopt it ([`Self::begin_adoption`], [`Self::make_ready`]).
    pub fn install<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        peers: &mut Membership,
        view: View,
    ) -> Installed {
        self.follow_leases(peers, &view);
        let before = core::mem::replace(&mut self.view, view);
        let view = &self.view;
        peers.end_doubt_of_incarnations();
        // It may have a shorter lease, which has to be renewed more often.
        cx.wake_at(cx.now + view.lease.time() / 4);
        peers.update(&cx.config, view, cx.now);
        let size = view.geometry.size;
        if before.geometry.size < size {
            cx.note(Note::Grown(size));
        }
        if brings_anybody(&before, view) {
            cx.wake_at(cx.now);
        }
        peers.note_absences(view, cx.now);
        if peers.expect_members(&before, view, cx.now) {
            cx.wake_at(cx.now);
        }
        let left = left_between(&before, view);
        Installed { before, left }
    }

    /// This view is the next one. Nobody counts on more than its lease grants from now on, and on
    /// no more than before until a replica has adopted it.
    fn follow_leases(&mut self, peers: &mut Membership, next: &View) {
        let are_others =
            self.adoption.is_takeover() || self.has_others() || next.has_several_primaries();
        let granted = self.lease().honoured().max(next.lease.honoured());
        self.adoption.fence(are_others.then_some(granted));
        peers.bound_leases(next);
    }

    /// Tells an administrator who has become what by the view.
    pub fn note_newcomers<P>(&self, cx: &mut Context<'_, P>, peers: &Membership) {
        let view = &self.view;
        for (_, record) in view.replicas().filter(|(_, record)| record.since == view.generation) {
            match (record.state, record.role) {
                (ReplicaState::Rebuilding, Role::Spare(Some(absent))) => {
                    cx.note(Note::StandsIn(record.id, absent));
                }
                (ReplicaState::Rebuilding, _) => cx.note(Note::Admitted(record.id)),
                (ReplicaState::InSync, _) => {
                    let progress = peers.known(record.id).and_then(Peer::progress);
                    let copied = progress.map_or(0, |progress| progress.copied);
                    cx.note(Note::Completed { replica: record.id, copied });
                }
                _ => {}
            }
        }
    }

    /// A replica has become in-sync although its source had failed a write meanwhile that it has.
    /// From now on it is read, so it stays, and the source leaves.
    pub fn keep_completed(&mut self, peers: &Membership) {
        let view = &self.view;
        for (mirror, record) in view.replicas() {
            let is_new = record.state == ReplicaState::InSync && record.since == view.generation;
            let mut others = view.mirrors[mirror].in_sync().filter(|other| other.id != record.id);
            if is_new && !peers.has_failed(record.id) && others.any(|r| peers.has_failed(r.id)) {
                self.asking.edits.withdraw(|edit| {
                    matches!(edit, Edit::Leave { replica, cause: Cause::SourceFailed, .. }
                        if replica == record.id)
                });
            }
        }
    }

    /// All members have to adopt the view.
    pub fn begin_adoption(&mut self, now: Instant) {
        let members = self.view.replicas().filter(|(_, record)| record.state.takes_writes());
        self.adoption.begin(members.map(|(_, record)| record.id), now);
    }

    /// Sends the view to the members with which a session is open.
    pub fn make_ready<P>(&self, cx: &mut Context<'_, P>, peers: &mut Membership) {
        let view = &self.view;
        for (_, record) in view.replicas() {
            let is_member = record.state.takes_writes();
            if let Some(peer) = peers.known_mut(record.id) {
                peer.follow_view(is_member.then_some(record.incarnation));
                if record.state == ReplicaState::InSync && record.since == view.generation {
                    peer.completed(cx.config.settings.retry_pause.first);
                }
                if peer.is_ready() {
                    self.send_adopt(cx, peers, record.id);
                }
            }
        }
    }

    pub fn send_adopt<P>(&self, cx: &mut Context<'_, P>, peers: &Membership, replica: ReplicaId) {
        let link = peers.known(replica).and_then(Peer::ready_link);
        if let Some(link) = link {
            cx.send(link, Message::Adopt { view: Box::new(self.view.clone()) }, None);
        }
    }

    /// A session is open with a replica that may have to adopt the view before anybody is primary.
    pub fn ask_to_confirm<P>(
        &self,
        cx: &mut Context<'_, P>,
        peers: &Membership,
        replica: ReplicaId,
    ) {
        let link = peers.known(replica).and_then(Peer::open_link);
        if let Some(link) = link
            && self.adoption.awaits(replica)
        {
            cx.send(link, Message::Adopt { view: Box::new(self.view.clone()) }, None);
        }
    }

    /// A replica has adopted a view. Tells whether it had to.
    pub fn adopted(
        &mut self,
        peers: &mut Membership,
        replica: ReplicaId,
        generation: Generation,
        now: Instant,
    ) -> bool {
        if generation != self.generation() || !self.adoption.adopted(replica) {
            return false; // It says so again, or of a view that is not the newest.
        }
        let (asked, lease) = (self.adoption.since(), self.lease().time());
        if let Some(peer) = peers.known_mut(replica) {
            peer.adopted(lease, asked, now);
        }
        true
    }

    /// All have adopted the view. Tells whether that ends a takeover.
    pub fn end_takeover(&mut self) -> bool {
        self.adoption.end_takeover()
    }

    /// Whether a replica refuses operations because it has still to adopt the present view, or has
    /// adopted it just now, perhaps from another primary: they were sent by the one before, and are
    /// sent again when all have adopted the present one.
    pub fn expects_refusal(&self, replica: ReplicaId, adopted: Generation) -> bool {
        self.adoption.awaits(replica) && adopted <= self.generation()
    }

    /// A replica has adopted another generation than that of a message. `operation`: the message
    /// was one.
    pub fn refused(
        &mut self,
        peers: &mut Membership,
        replica: ReplicaId,
        adopted: Generation,
        operation: Option<Sequence>,
    ) {
        if operation.is_some() && self.expects_refusal(replica, adopted) {
            return; // There is nothing newer in it: the coordinator need not be asked.
        }
        peers.known_mut(replica).into_iter().for_each(Peer::refused);
        if adopted > self.generation() {
            self.asking.calls.learn_of(adopted);
        } else {
            self.asking.calls.read_soon();
        }
    }

    /// Replicas that refuse the newest view each time they are asked to adopt it will never do: it
    /// does not go on from their epoch, which it has forgotten if there were many since. They count
    /// as diverged; these are their links. The others may be asked again.
    pub fn give_up_refusing(&self, peers: &mut Membership) -> Vec<(ReplicaId, LinkId)> {
        let mut hopeless = Vec::new();
        for peer in peers.values_mut().filter(|peer| peer.has_refused()) {
            if peer.refuses_newest(self.adoption.awaits(peer.id())) {
                hopeless.extend(peer.open_link().map(|link| (peer.id(), link)));
            }
        }
        hopeless
    }

    /// The coordinator may be asked again at once.
    pub fn end_pause(&mut self, now: Instant) {
        self.asking.calls.end_pause(now);
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
