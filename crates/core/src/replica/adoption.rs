//! Adopting a view: the fence between generations (rules V2, V3; invariant I3).
//!
//! In this order: nothing of the old generation is accepted any more; what was accepted ends on
//! the disk; primaries that the replica has confirmed and that the new view may contradict have
//! either said that they know, or their lease is over; the view is durable in both superblocks;
//! the answer.

use super::cluster_locks::ClusterLocks;
use super::{Context, DiskAction, DiskError, DiskTicket, Replica};
use crate::ids::*;
use crate::incarnations::Incarnations;
use crate::message::Message;
use crate::payload::Payload;
use crate::time::Instant;
use crate::view::View;

/// A view that is being adopted.
#[derive(Debug)]
pub(super) struct Adoption {
    view: View,
    /// The primary that asked first.
    adopter: PrimaryId,
    reply_to: Vec<LinkId>,
    phase: Phase,
    /// A newer view that came while the superblocks were being written.
    next: Option<(LinkId, View)>,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Work of the old generation ends.
    Draining,
    /// Until this moment, unless all confirmed primaries say that they know.
    Fencing(Instant),
    /// The superblocks are being written.
    Saving,
}

impl Adoption {
    fn is_being_saved(&self) -> bool {
        matches!(self.phase, Phase::Saving)
    }

    /// A link has closed: over it nobody waits for the answer any more, or wants a newer view
    /// adopted.
    pub fn forget(&mut self, link: LinkId) {
        self.reply_to.retain(|other| *other != link);
        self.next.take_if(|(other, _)| *other == link);
    }

    pub fn next_wakeup(&self) -> Option<Instant> {
        match self.phase {
            Phase::Fencing(until) => Some(until),
            Phase::Draining | Phase::Saving => None,
        }
    }
}

impl<P: Payload> Replica<P> {
    pub(super) fn adopt(&mut self, cx: &mut Context<'_, P>, link: LinkId, view: View) {
        let Some(adopter) = self.links.primary_of(link) else { return self.drop_link(cx, link) };
        let generation = view.generation;
        if !self.is_successor(&view) {
            return self.refuse(cx, link, None);
        }
        match &mut self.adoption {
            Some(pending) if pending.view == view => {
                if !pending.reply_to.contains(&link) {
                    pending.reply_to.push(link);
                }
                return self.confirmations.knows(adopter, generation);
            }
            Some(pending) if pending.view.generation >= generation => {
                return self.refuse(cx, link, None);
            }
            Some(pending) if pending.is_being_saved() => {
                pending.next = Some((link, view));
                return self.confirmations.knows(adopter, generation);
            }
            _ => self.confirmations.knows(adopter, generation),
        }
        if generation == self.view.generation && !self.is_unsaved() {
            self.confirm(cx, link, Message::Adopted { generation }, None);
            return self.tell_cluster_locks_to(cx, link);
        }
        let reply_to = vec![link];
        self.adoption =
            Some(Adoption { view, adopter, reply_to, phase: Phase::Draining, next: None });
        self.pause_rebuild(cx);
        self.refuse_waiting(cx);
    }

    /// Whether a view is one that this replica may adopt, or has adopted.
    fn is_successor(&self, view: &View) -> bool {
        let is_same = view.generation == self.view.generation;
        // What could not be saved of an epoch that has ended does not count.
        let newest = match view.is_of_epoch(&self.view) {
            true => self.view.generation,
            false => self.adopted_generation(),
        };
        let is_newer =
            view.generation > newest || *view == self.view || (is_same && self.is_unsaved());
        view.continues(&self.adopted_view())
            && is_newer
            && view.is_valid()
            && view.geometry.is_grown_from(self.view.geometry)
            && view.mirrors.len() == self.view.mirrors.len()
            && view.replica(self.config.id).is_some()
    }

    /// Whether the last save of a view failed.
    pub(super) const fn is_unsaved(&self) -> bool {
        self.unsaved_over.is_some()
    }

    /// The generation of the last view that was saved: what was refused after it in the hope of a
    /// newer one, whose save failed, does not count as adopted.
    pub(super) fn adopted_generation(&self) -> Generation {
        self.unsaved_over.unwrap_or(self.view.generation)
    }

    fn adopted_view(&self) -> View {
        View { generation: self.adopted_generation(), ..self.view.clone() }
    }

    /// Takes a pending adoption as far as it goes now.
    pub(super) fn advance_adoption(&mut self, cx: &mut Context<'_, P>) {
        let Some(adoption) = &self.adoption else { return };
        if matches!(adoption.phase, Phase::Draining) {
            if !self.operations.is_empty() || !self.flushes.is_idle() {
                return;
            }
            self.fence(cx);
        }
        if !matches!(self.adoption, Some(Adoption { phase: Phase::Fencing(_), .. })) {
            return;
        }
        let until = self.fenced_until(cx.now);
        if let Some(adoption) = &mut self.adoption {
            adoption.phase = Phase::Fencing(until);
        }
        if cx.now >= until {
            self.save_view(cx);
        }
    }

    /// When the last of those primaries may be heard no more that do not know of the pending view.
    fn fenced_until(&self, now: Instant) -> Instant {
        let patience = self.view.lease.honoured();
        self.unaware().map(|(_, at)| at + patience).max().unwrap_or(now)
    }

    /// Tells primaries that the new view may contradict, and computes how long they may be heard.
    fn fence(&mut self, cx: &mut Context<'_, P>) {
        let unaware: Vec<_> = self.unaware().collect();
        let until = self.fenced_until(cx.now);
        let Some(adoption) = &mut self.adoption else { return };
        adoption.phase = Phase::Fencing(until);
        let generation = adoption.view.generation;
        // Of a shared volume the others go on: they are to hear of it as soon as may be.
        let is_shared = adoption.view.is_shared();
        let (adopter, confirmations) = (adoption.adopter, &self.confirmations);
        let knows = |primary| primary == adopter || confirmations.has_learnt(primary, generation);
        let is_told = |primary| {
            unaware.iter().any(|(other, _)| *other == primary) || (is_shared && !knows(primary))
        };
        let links: Vec<_> =
            self.links.open_primaries().filter(|(_, primary)| is_told(*primary)).collect();
        for (link, _) in links {
            cx.send(link, Message::Fenced { generation }, None);
        }
    }

    /// The primaries that this replica has confirmed and that may not know of the pending view,
    /// if that view takes anything from anybody: a place, or time that was granted.
    fn unaware(&self) -> impl Iterator<Item = (PrimaryId, Instant)> {
        let pending = self.adoption.as_ref().filter(|a| takes_anything(&self.view, &a.view));
        pending.into_iter().flat_map(move |Adoption { view, adopter, .. }| {
            self.confirmations.unaware(view, *adopter, view.is_of_epoch(&self.view))
        })
    }

    /// Whether the superblocks are being written.
    pub(super) fn is_saving_view(&self) -> bool {
        self.adoption.as_ref().is_some_and(Adoption::is_being_saved)
    }

    /// While a view is fenced and saved nothing of the one before is under way.
    pub(super) fn check_adoption(&self) {
        let Some(adoption) = &self.adoption else { return };
        if !matches!(adoption.phase, Phase::Draining) {
            let is_drained = self.operations.is_empty() && self.flushes.is_idle();
            assert!(is_drained, "I3: a view is being saved while older work is under way");
        }
        let (pending, adopted) = (adoption.view.generation, self.adopted_generation());
        assert!(pending > adopted, "I3: {pending:?} is being adopted after {adopted:?}");
    }

    fn save_view(&mut self, cx: &mut Context<'_, P>) {
        debug_assert!(cx.now >= self.fenced_until(cx.now), "V3: a primary may still be heard");
        if let Some(adoption) = &mut self.adoption {
            adoption.phase = Phase::Saving;
            let view = Box::new(adoption.view.clone());
            let named = Incarnations::of([self.incarnation_named_by(&view)]);
            let all = self.recorded.add_with_view(&named);
            cx.disk(DiskTicket::Adoption, DiskAction::SaveView(view, all));
        }
    }

    pub(super) fn view_saved(&mut self, cx: &mut Context<'_, P>, outcome: Result<(), DiskError>) {
        let Some(adoption) = self.adoption.take() else {
            debug_assert!(false, "a driver answers each action once");
            return;
        };
        let generation = adoption.view.generation;
        if let Err(error) = outcome {
            // Which of the two views the superblocks hold is unknown; the generation that is
            // refused from now on is the higher one. It can be adopted again.
            self.unsaved_over.get_or_insert(self.view.generation);
            self.suspend_rebuild(cx);
            self.view.generation = self.view.generation.max(generation);
            for link in adoption.reply_to {
                let failure = error.into();
                cx.send(link, Message::DiskFailed { generation, failure }, None);
            }
            return;
        }
        self.unsaved_over = None;
        self.recorded.saved_with_view();
        let old = core::mem::replace(&mut self.view, adoption.view);
        self.cluster_locks = ClusterLocks::default();
        self.intents_follow(cx, &old);
        self.confirmations.follow(&self.view, cx.now);
        for link in adoption.reply_to {
            self.confirm(cx, link, Message::Adopted { generation }, None);
        }
        self.resume_rebuild(cx, &old);
        if let Some((link, view)) = adoption.next {
            self.adopt(cx, link, view);
        }
    }
}

/// Whether a primary or a member of the old view is none in the new one, or the lease is shorter.
/// Who does not know of that goes on by the old view for as long as it was granted. After a restart
/// a replica knows the lease of its view only; so it adopts a shorter one when nobody counts on the
/// longer one any more.
fn takes_anything(old: &View, new: &View) -> bool {
    new.lease.time() < old.lease.time() || drops_anyone(old, new)
}

fn drops_anyone(old: &View, new: &View) -> bool {
    let primary_dropped = old.primaries.iter().any(|record| !new.has_primary(record.id));
    let member_dropped = old.replicas().any(|(_, record)| {
        let stays = |id| new.replica(id).is_some_and(|(_, r)| r.state.takes_writes());
        record.state.takes_writes() && !stays(record.id)
    });
    primary_dropped || member_dropped
}
