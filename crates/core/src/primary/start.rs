//! The attach after the first view is read: reach the replicas, become primary (rules V1, V4). If
//! the view is the first one after an assembly from the disks, those that count there adopt it
//! before anybody is primary (V7).

use core::ops::ControlFlow;
use core::time::Duration;

use super::membership::Membership;
use super::membership::peer::Session;
use super::views::Views;
use super::views::takeover::Gathering;
use super::{Context, EndReason, Flow, Informed, Phase, PrimaryEffect};
use crate::payload::Payload;
use crate::view::{Cause, ReplicaRecord, ReplicaState, View};

/// An attach under way: what it has found, and what it uses.
pub(super) struct Attach<'a> {
    gathering: &'a mut Gathering,
    peers: &'a mut Membership,
    views: &'a mut Views,
}

impl<P: Payload> Informed<P> {
    /// The attach, while it is under way.
    #[inline]
    pub(super) fn attach(&mut self) -> Option<Attach<'_>> {
        match &mut self.phase {
            Phase::Starting(gathering) => {
                let (peers, views) = (&mut self.membership, &mut self.views);
                Some(Attach { gathering, peers, views })
            }
            _ => None,
        }
    }

    /// Takes the attach as far as it goes now.
    pub(super) fn advance_start(&mut self, cx: &mut Context<'_, P>) {
        if let Some(mut attach) = self.attach() {
            let flow = attach.advance(cx);
            self.follow(cx, flow);
        }
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

impl Attach<'_> {
    /// The view was read again.
    pub(super) fn read<P>(&mut self, cx: &mut Context<'_, P>, view: View) {
        let is_first_of_epoch = self.views.gathered(cx, self.peers, view);
        self.gathering.read(is_first_of_epoch, cx.now);
        reach_needed(cx, self.peers, self.views.view());
    }

    /// Goes on when enough replicas have answered, or have had their time.
    fn advance<P>(&mut self, cx: &mut Context<'_, P>) -> Flow {
        let settings = &cx.config.settings;
        let waited = cx.now.since(self.gathering.since());
        if waited >= settings.coordinator_patience && self.views.calls().are_unanswered() {
            return ControlFlow::Break(EndReason::NoCoordinator);
        }
        if !self.views.calls().may_begin(cx.now) {
            return ControlFlow::Continue(()); // An answer is waited for, or the pause after none.
        }
        if self.views.calls().must_read() {
            self.views.call_read(cx);
            return ControlFlow::Continue(());
        }
        match self.gathering.surprise(self.views.generation()) {
            None => self.gather(cx),
            Some(true) => ControlFlow::Break(EndReason::CoordinatorBehind),
            Some(false) => {
                self.views.read_at(cx.now + settings.reconnect_grace);
                ControlFlow::Continue(())
            }
        }
    }

    /// Goes on by the view that was read: no replica has adopted a newer one.
    fn gather<P>(&mut self, cx: &mut Context<'_, P>) -> Flow {
        let settings = &cx.config.settings;
        let waited = cx.now.since(self.gathering.read_at());
        if let Some(replica) = self.views.adoption().awaited().first() {
            // They may have to wait for the lease of a primary of the epoch before.
            let is_long = waited >= settings.deadline + self.views.lease().honoured();
            let unconfirmed = EndReason::Unconfirmed(*replica);
            return if is_long {
                ControlFlow::Break(unconfirmed)
            } else {
                ControlFlow::Continue(())
            };
        }
        let patience = settings.reconnect_grace * 2;
        let answers = |is_it: fn(Session) -> bool| self.peers.in_sync_sessions_are(is_it);
        let everyone = answers(|session| matches!(session, Session::Open(_)));
        let rest_refused = answers(|it| matches!(it, Session::Open(_) | Session::Down));
        let is_time = everyone
            || (rest_refused && waited >= patience && self.views.has_sources(self.peers))
            || waited >= settings.deadline;
        if is_time { self.take_office(cx) } else { ControlFlow::Continue(()) }
    }

    /// Has a view committed in which this is the primary.
    fn take_office<P>(&mut self, cx: &mut Context<'_, P>) -> Flow {
        if !self.views.has_sources(self.peers) {
            let old = self.views.stale_clone(self.peers);
            return ControlFlow::Break(old.map_or(EndReason::NoData, EndReason::StaleClone));
        }
        if self.views.predecessor_was_seen(&cx.config, self.gathering) {
            return self.await_predecessor(cx);
        }
        if self.views.must_join(cx, self.gathering) {
            return self.join(cx);
        }
        match self.views.inaugural_view(&cx.config, self.peers, self.gathering) {
            Some(next) => self.views.call_swap(cx, self.peers, next),
            None => debug_assert!(false, "each mirror has a replica that can be its source"),
        }
        ControlFlow::Continue(())
    }

    /// A dead one's lease ends, also at a replica that was restarted in between. One that is
    /// answered longer lives.
    fn await_predecessor<P>(&mut self, cx: &mut Context<'_, P>) -> Flow {
        let patience = cx.config.settings.deadline + self.views.lease().honoured() * 2;
        self.ask_again_for(cx, patience, EndReason::PredecessorAlive)
    }

    /// Has a view committed that names this primary beside the others. It has to reach every
    /// in-sync replica as they do: it could only do harm without (V5).
    fn join<P>(&mut self, cx: &mut Context<'_, P>) -> Flow {
        if let Some(replica) = self.views.unreached(self.peers) {
            // The others have it leave, or are dead themselves.
            let patience = cx.config.settings.deadline + self.views.lease().honoured();
            return self.ask_again_for(cx, patience, EndReason::NotReached(replica));
        }
        match self.views.joining_view(&cx.config, self.peers) {
            Ok(next) => self.views.call_swap(cx, self.peers, next),
            // Perhaps they are all dead: no replica knows of the view yet.
            Err(_) if !self.views.others_were_seen(&cx.config, self.gathering) => {
                self.ask_again(cx)
            }
            Err(_) => return ControlFlow::Break(EndReason::TooManyPrimaries),
        }
        ControlFlow::Continue(())
    }

    /// Asks again until so long after the start; then the primary ends.
    fn ask_again_for<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        patience: Duration,
        reason: EndReason,
    ) -> Flow {
        if cx.now.since(self.gathering.since()) >= patience {
            return ControlFlow::Break(reason);
        }
        self.ask_again(cx);
        ControlFlow::Continue(())
    }

    /// Reads the view again, and has the replicas tell anew what they know.
    fn ask_again<P>(&mut self, cx: &mut Context<'_, P>) {
        self.views.read_at(cx.now + cx.config.settings.reconnect_grace);
        self.gathering.forget_reports();
        let closed = self.peers.close_all(cx.now).into_iter();
        cx.effects.extend(closed.map(|link| PrimaryEffect::Disconnect { link }));
    }
}

/// Connects to the in-sync replicas, and to those that have to confirm an assembly.
pub(super) fn reach_needed<P>(cx: &mut Context<'_, P>, peers: &mut Membership, view: &View) {
    let is_needed =
        |r: &ReplicaRecord| r.state == ReplicaState::InSync || r.cause == Cause::Unconfirmed;
    for (_, record) in view.replicas().filter(|(_, record)| is_needed(record)) {
        let peer = peers.known(record.id);
        if peer.is_some_and(|peer| peer.session() == Session::Down) {
            peers.connect(cx, record.id);
        }
    }
}
