//! The attach: read the view, reach the replicas, become primary (rules V1, V4). If the view is the
//! first one after an assembly from the disks, those that count there adopt it before anybody is
//! primary (V7).

use core::time::Duration;

use super::membership::peer::Session;
use super::{Context, EndReason, Informed, Phase, PrimaryEffect};
use crate::payload::Payload;
use crate::view::{Cause, ReplicaRecord, ReplicaState, View};

impl<P: Payload> Informed<P> {
    /// The view was read again.
    pub(super) fn gather(&mut self, cx: &mut Context<'_, P>, view: View) {
        let is_first_of_epoch = self.views.gathered(cx, &mut self.membership, view);
        if let Phase::Starting(gathering) = &mut self.phase {
            gathering.read(is_first_of_epoch, cx.now);
        }
        self.reach_needed(cx);
    }

    /// Reaches the in-sync replicas, and those that have to confirm an assembly.
    pub(super) fn reach_needed(&mut self, cx: &mut Context<'_, P>) {
        let is_needed =
            |r: &ReplicaRecord| r.state == ReplicaState::InSync || r.cause == Cause::Unconfirmed;
        for (_, record) in self.views.view().replicas().filter(|(_, record)| is_needed(record)) {
            let peer = self.membership.known(record.id);
            if peer.is_some_and(|peer| peer.session() == Session::Down) {
                self.membership.connect(cx, record.id);
            }
        }
    }

    /// Goes on with the attach when enough replicas have answered, or have had their time.
    pub(super) fn advance_start(&mut self, cx: &mut Context<'_, P>) {
        let Phase::Starting(gathering) = &self.phase else {
            return; // It has begun, or never will.
        };
        let (since, read_at) = (gathering.since(), gathering.read_at());
        let settings = &cx.config.settings;
        let waited = cx.now.since(since);
        if waited >= settings.coordinator_patience && self.views.calls().are_unanswered() {
            return self.end(cx, EndReason::NoCoordinator);
        }
        if !self.views.calls().may_begin(cx.now) {
            return; // An answer is waited for, or the pause after none.
        }
        if self.views.calls().must_read() {
            return self.views.call_read(cx);
        }
        if self.is_surprised(cx) {
            return; // The view is read again, or never was the newest.
        }
        let (since_start, waited) = (waited, cx.now.since(read_at));
        if !self.views.adoption().is_over() {
            return self.await_confirmation(cx, waited);
        }
        let settings = &cx.config.settings;
        let patience = settings.reconnect_grace * 2;
        let answers = |is_it: fn(Session) -> bool| self.membership.in_sync_sessions_are(is_it);
        let everyone = answers(|session| matches!(session, Session::Open(_)));
        let rest_refused = answers(|it| matches!(it, Session::Open(_) | Session::Down));
        let is_time = everyone
            || (rest_refused && waited >= patience && self.views.has_sources(&self.membership))
            || waited >= settings.deadline;
        if is_time {
            self.take_office(cx, since_start);
        }
    }

    /// The view is the first one of an epoch, and not all that counted have adopted it.
    fn await_confirmation(&mut self, cx: &mut Context<'_, P>, waited: Duration) {
        // They may have to wait for the lease of a primary of the epoch before.
        if waited >= cx.config.settings.deadline + self.views.lease().honoured()
            && let Some(replica) = self.views.adoption().awaited().first()
        {
            self.end(cx, EndReason::Unconfirmed(*replica));
        }
    }

    /// Whether a replica has adopted a newer view than the one read.
    fn is_surprised(&mut self, cx: &mut Context<'_, P>) -> bool {
        let Phase::Starting(gathering) = &mut self.phase else {
            debug_assert!(false, "who is surprised is starting");
            return false;
        };
        match gathering.surprise(self.views.generation()) {
            None => return false,
            Some(true) => self.end(cx, EndReason::CoordinatorBehind),
            Some(false) => self.views.read_at(cx.now + cx.config.settings.reconnect_grace),
        }
        true
    }

    /// Has a view committed in which this is the primary. `waited`: since it was started.
    fn take_office(&mut self, cx: &mut Context<'_, P>, waited: Duration) {
        let Phase::Starting(gathering) = &self.phase else {
            debug_assert!(false, "who takes office is starting");
            return;
        };
        if !self.views.has_sources(&self.membership) {
            let old = self.views.stale_clone(&self.membership);
            return self.end(cx, old.map_or(EndReason::NoData, EndReason::StaleClone));
        }
        if self.views.hears_predecessor(&cx.config, gathering) {
            return self.await_predecessor(cx, waited);
        }
        if self.views.must_join(cx, gathering) {
            return self.join(cx, waited);
        }
        let next = self.views.inaugural_view(&cx.config, &self.membership, gathering);
        let Some(next) = next else {
            debug_assert!(false, "each mirror has a replica that can be its source");
            return;
        };
        self.views.call_swap(cx, &mut self.membership, next);
    }

    /// A dead one's lease ends, also at a replica that was restarted in between. One that is
    /// answered longer lives.
    fn await_predecessor(&mut self, cx: &mut Context<'_, P>, waited: Duration) {
        let patience = cx.config.settings.deadline + self.views.lease().honoured() * 2;
        match waited < patience {
            true => self.ask_again(cx),
            false => self.end(cx, EndReason::PredecessorLives),
        }
    }

    /// Has a view committed that names this primary beside the others. It has to reach every
    /// in-sync replica as they do: it could only do harm without (V5).
    /// `waited`: since it was started.
    fn join(&mut self, cx: &mut Context<'_, P>, waited: Duration) {
        let Phase::Starting(gathering) = &self.phase else {
            debug_assert!(false, "who joins is starting");
            return;
        };
        let patience = cx.config.settings.deadline + self.views.lease().honoured();
        if let Some(replica) = self.views.unreached(&self.membership) {
            // The others have it leave, or are dead themselves.
            return if waited >= patience {
                self.end(cx, EndReason::NotReached(replica));
            } else {
                self.ask_again(cx);
            };
        }
        match self.views.joining_view(&cx.config, &self.membership) {
            Ok(next) => self.views.call_swap(cx, &mut self.membership, next),
            // Perhaps they are all dead: no replica knows of the view yet.
            Err(_) if !self.views.hears_others(&cx.config, gathering) => self.ask_again(cx),
            Err(_) => self.end(cx, EndReason::TooManyPrimaries),
        }
    }

    /// Reads the view again, and has the replicas tell anew what they know.
    fn ask_again(&mut self, cx: &mut Context<'_, P>) {
        self.views.read_at(cx.now + cx.config.settings.reconnect_grace);
        if let Phase::Starting(gathering) = &mut self.phase {
            gathering.forget_reports();
        }
        let closed = self.membership.close_all(cx.now).into_iter();
        cx.effects.extend(closed.map(|link| PrimaryEffect::Disconnect { link }));
    }

    /// The inaugural view is committed: from now on this is the primary.
    pub(super) fn started(&mut self, cx: &mut Context<'_, P>, view: View) {
        if self.views.take_over(&view) {
            self.io.inherit_writes();
        }
        self.enter(cx, Phase::Serving);
        let is_joining = view.has_several_primaries();
        self.install(cx, view);
        if is_joining && matches!(self.phase, Phase::Serving) {
            self.io.join(cx);
        }
        let (io, lower) = &mut self.io();
        io.accept_early(cx, lower);
    }
}
