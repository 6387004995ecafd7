//! Sessions: who is connected, and when each primary was last confirmed.

mod confirmations;
mod links;
mod recorded;

use core::iter;

pub(super) use self::confirmations::Confirmations;
use self::links::Admission;
pub(super) use self::links::{Asked, Links};
pub(super) use self::recorded::Recorded;
use super::{Context, DiskAction, DiskError, DiskTicket, Replica};
use crate::ids::*;
use crate::incarnations::Incarnations;
use crate::message::{Message, Opener, ReplicaReport, SlotBits};
use crate::payload::Payload;
use crate::time::Instant;
use crate::view::View;

impl<P: Payload> Replica<P> {
    pub(super) fn open_session(&mut self, cx: &mut Context<'_, P>, link: LinkId, asked: Asked) {
        match self.links.admission(link, &asked) {
            Admission::Refused => return self.drop_link(cx, link),
            Admission::InPlaceOf(other) => self.drop_link(cx, other),
            Admission::Free => {}
        }
        self.links.wait(link, asked);
        self.answer_waiting_sessions(cx);
    }

    /// Answers sessions whose opener has no work of an older session left. A disk that does not end
    /// what it has begun is not offered to anybody.
    pub(super) fn answer_waiting_sessions(&mut self, cx: &mut Context<'_, P>) {
        if !self.links.may_wait() || self.is_saving() {
            return;
        }
        let waiting = self.links.waiting();
        let ready = waiting.filter(|(_, asked)| !self.operations.work_for(asked.opener));
        for (link, asked) in ready.collect::<Vec<_>>() {
            if !self.is_incarnation_known_to(cx, asked) {
                return;
            }
            self.answer_session(cx, link, asked);
        }
        self.links.are_answered();
    }

    /// Whether the disk is to make anything durable but data.
    fn is_saving(&self) -> bool {
        self.intent_work.is_saving() || self.missing.is_saving() || self.adoption.is_saving()
    }

    fn answer_session(&mut self, cx: &mut Context<'_, P>, link: LinkId, asked: Asked) {
        let Asked { session, opener, named } = asked;
        self.links.open(link, &asked);
        if let Opener::Primary(primary) = opener {
            self.confirmations.came(primary);
        }
        let report = self.report(&named, cx.now);
        cx.send(link, Message::SessionOpened { session, report }, None);
        // Who was told before may not have heard it.
        if let (Some(error), Opener::Primary(_)) = (self.disk_failure(), opener) {
            let (generation, failure) = (self.view.generation, error.into());
            cx.send(link, Message::DiskFailed { generation, failure }, None);
        }
        self.tell_cluster_locks_to(cx, link);
    }

    /// Whether this incarnation may be told to who asks: the superblocks list it, or do not list
    /// the one that the asker's view names (see [`crate::incarnations`]). If not, it is added to
    /// them, which the session waits for.
    fn is_incarnation_known_to(&mut self, cx: &mut Context<'_, P>, asked: Asked) -> bool {
        let is_primary = matches!(asked.opener, Opener::Primary(_));
        // A view whose save has failed is not to be written over: the next adoption lists the
        // incarnation.
        if is_primary && !self.is_unsaved() && self.recorded.lacks_present(&asked.named) {
            // Who asks may be of another epoch. By the own view a volume can be put together, too.
            let named = iter::once(self.incarnation_named_by(&self.view)).chain(asked.named.0);
            let all = self.recorded.add_present(&Incarnations::of(named));
            let view = Box::new(self.view.clone());
            cx.disk(DiskTicket::Incarnation, DiskAction::SaveView(view, all));
        }
        !self.recorded.is_being_saved()
    }

    /// The incarnation of this replica that a view names; zero if none.
    pub(super) fn incarnation_named_by(&self, view: &View) -> Incarnation {
        view.replica(self.config.id).map_or(Incarnation(0), |(_, record)| record.incarnation)
    }

    /// The superblocks list this incarnation, or can't be saved: then who asked has to ask again.
    pub(super) fn incarnation_saved(
        &mut self,
        cx: &mut Context<'_, P>,
        outcome: Result<(), DiskError>,
    ) {
        if !self.recorded.saved(outcome.is_ok()) {
            let links: Vec<_> = self.links.waiting().map(|(link, _)| link).collect();
            links.into_iter().for_each(|link| self.drop_link(cx, link));
        }
    }

    fn report(&self, named: &Incarnations, now: Instant) -> ReplicaReport {
        ReplicaReport {
            replica: self.config.id,
            incarnation: self.recorded.present(),
            is_stale_clone: !self.recorded.know_all(named),
            boot: self.config.boot,
            generation: self.adopted_generation(),
            history: self.view.history,
            size: self.size(),
            state: self.state(),
            slots: self.slot_bits(now),
        }
    }

    fn slot_bits(&self, now: Instant) -> SlotBits {
        let patience = self.view.lease.honoured();
        let is_heard = |id| self.confirmations.is_heard(id, now, patience);
        let heard = self.view.primaries.iter().filter(|primary| is_heard(primary.id));
        let heard = heard.fold(0, |bits, primary| bits | 1 << primary.slot);
        SlotBits { open: self.intents.open_slots(), heard }
    }

    /// Closes a link that broke the protocol, or that a newer session replaces.
    pub(super) fn drop_link(&mut self, cx: &mut Context<'_, P>, link: LinkId) {
        cx.disconnect(link);
        self.link_closed(cx, link);
    }

    pub(super) fn link_closed(&mut self, cx: &mut Context<'_, P>, link: LinkId) {
        if self.source_link_closed(cx, link) {
            return;
        }
        self.links.closed(link);
        self.adoption.forget(link);
        self.forget_operations_of(cx, link);
        self.answer_waiting_sessions(cx);
    }

    /// Sends an answer that shows a primary that its generation is the adopted one. Over a link
    /// that has closed meanwhile nobody waits for it.
    pub(super) fn confirm(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        message: Message,
        payload: Option<P>,
    ) {
        if let Some(opener) = self.links.opener(link) {
            if let Opener::Primary(primary) = opener
                && self.view.has_primary(primary)
            {
                self.confirmations.answered(primary, cx.now);
            }
            cx.send(link, message, payload);
        }
    }

    pub(super) fn refuse(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        sequence: Option<Sequence>,
    ) {
        if self.links.opener(link).is_some() {
            cx.send(link, Message::Refused { adopted: self.view.generation, sequence }, None);
        }
    }

    /// Whether a message in this generation may be acted upon (W3). Of a view that could not be
    /// saved only the number is known here.
    pub(super) fn is_current(&self, generation: Generation) -> bool {
        generation == self.view.generation && !self.adoption.is_under_way() && !self.is_unsaved()
    }

    pub(super) fn ping(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        generation: Generation,
        number: u64,
    ) {
        let in_view = self.links.primary_of(link).is_some_and(|p| self.view.has_primary(p));
        if in_view && self.is_current(generation) {
            let slots = self.slot_bits(cx.now);
            self.confirm(cx, link, Message::Pong { generation, number, slots }, None);
        } else {
            self.refuse(cx, link, None);
        }
    }

    pub(super) fn fence_confirmed(&mut self, link: LinkId, generation: Generation) {
        if let Some(primary) = self.links.primary_of(link) {
            self.confirmations.knows(primary, generation);
        }
    }
}
