//! Adopting a view: the fence between generations (rules V2, V3; invariant I3).
//!
//! In this order: nothing of the old generation is accepted any more; what was accepted ends on
//! the disk; primaries that the replica has confirmed and that the new view may contradict have
//! either said that they know, or their lease is over; the view is durable in both superblocks;
//! the answer.

use super::adoption::{Saved, Turn, takes_anything};
use super::cluster_locks::ClusterLocks;
use super::{Context, DiskAction, DiskError, DiskTicket, Replica};
use crate::ids::*;
use crate::incarnations::Incarnations;
use crate::message::Message;
use crate::payload::Payload;
use crate::time::Instant;
use crate::view::View;

impl<P: Payload> Replica<P> {
    pub(super) fn adopt(&mut self, cx: &mut Context<'_, P>, link: LinkId, view: View) {
        let Some(adopter) = self.links.primary_of(link) else { return self.drop_link(cx, link) };
        let generation = view.generation;
        if !self.is_successor(&view) {
            return self.refuse(cx, link, None);
        }
        let turn = self.adoption.turn(link, &view);
        if turn == Turn::Refused {
            return self.refuse(cx, link, None);
        }
        self.confirmations.knows(adopter, generation);
        if turn == Turn::Now {
            if generation == self.view.generation && !self.is_unsaved() {
                self.confirm(cx, link, Message::Adopted { generation }, None);
                return self.tell_cluster_locks_to(cx, link);
            }
            self.adoption.begin(view, adopter, link);
            self.pause_rebuild(cx);
            self.refuse_waiting(cx);
        }
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
        self.adoption.is_unsaved()
    }

    /// The generation of the last view that was saved: what was refused after it in the hope of a
    /// newer one, whose save failed, does not count as adopted.
    pub(super) fn adopted_generation(&self) -> Generation {
        self.adoption.unsaved_over().unwrap_or(self.view.generation)
    }

    fn adopted_view(&self) -> View {
        View { generation: self.adopted_generation(), ..self.view.clone() }
    }

    /// Takes a pending adoption as far as it goes now.
    pub(super) fn advance_adoption(&mut self, cx: &mut Context<'_, P>) {
        let is_idle = self.operations.is_empty() && self.flushes.is_idle();
        if self.adoption.is_draining() && is_idle {
            self.fence(cx);
        }
        if self.adoption.is_fencing() {
            let until = self.fenced_until(cx.now);
            self.adoption.fence_until(until);
            if cx.now >= until {
                self.save_view(cx);
            }
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
        self.adoption.fence_until(until);
        let Some((view, adopter)) = self.adoption.pending() else {
            debug_assert!(false, "a view is being adopted");
            return;
        };
        let generation = view.generation;
        // Of a shared volume the others go on: they are to hear of it as soon as may be.
        let (is_shared, confirmations) = (view.is_shared(), &self.confirmations);
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
        let pending = self.adoption.pending().filter(|(view, _)| takes_anything(&self.view, view));
        pending.into_iter().flat_map(move |(view, adopter)| {
            self.confirmations.unaware(view, adopter, view.is_of_epoch(&self.view))
        })
    }

    /// While a view is fenced and saved nothing of the one before is under way.
    pub(super) fn check_adoption(&self) {
        if let Some((view, _)) = self.adoption.pending() {
            let is_drained = self.operations.is_empty() && self.flushes.is_idle();
            assert!(
                is_drained || self.adoption.is_draining(),
                "I3: a view is being saved while older work is under way"
            );
            let (pending, adopted) = (view.generation, self.adopted_generation());
            assert!(pending > adopted, "I3: {pending:?} is being adopted after {adopted:?}");
        }
    }

    fn save_view(&mut self, cx: &mut Context<'_, P>) {
        debug_assert!(cx.now >= self.fenced_until(cx.now), "V3: a primary may still be heard");
        if let Some(view) = self.adoption.begin_save() {
            let named = Incarnations::of([self.incarnation_named_by(&view)]);
            let all = self.recorded.add_with_view(&named);
            cx.disk(DiskTicket::Adoption, DiskAction::SaveView(Box::new(view), all));
        }
    }

    pub(super) fn view_saved(&mut self, cx: &mut Context<'_, P>, outcome: Result<(), DiskError>) {
        let saved = self.adoption.saved(self.view.generation, outcome.is_ok());
        debug_assert!(saved.is_some(), "a driver answers each action once");
        match (saved, outcome) {
            (Some(saved), Ok(())) => self.adopted(cx, saved),
            (Some(saved), Err(error)) => self.not_saved(cx, saved, error),
            (None, _) => {}
        }
    }

    /// The generation that is refused from now on is the higher one. It can be adopted again.
    fn not_saved(&mut self, cx: &mut Context<'_, P>, saved: Saved, error: DiskError) {
        let generation = saved.view.generation;
        self.suspend_rebuild(cx);
        self.view.generation = self.view.generation.max(generation);
        for link in saved.reply_to {
            let failure = error.into();
            cx.send(link, Message::DiskFailed { generation, failure }, None);
        }
    }

    fn adopted(&mut self, cx: &mut Context<'_, P>, Saved { view, reply_to, next }: Saved) {
        let generation = view.generation;
        self.recorded.saved_with_view();
        let old = core::mem::replace(&mut self.view, view);
        self.cluster_locks = ClusterLocks::default();
        self.intents_follow(cx, &old);
        self.confirmations.follow(&self.view, cx.now);
        for link in reply_to {
            self.confirm(cx, link, Message::Adopted { generation }, None);
        }
        self.resume_rebuild(cx, &old);
        if let Some((link, view)) = next {
            self.adopt(cx, link, view);
        }
    }
}
