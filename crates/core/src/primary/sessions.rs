//! Sessions with replicas: made, watched, lost and made again; and the lease that the replicas'
//! answers grant (rules W2, W5, V3).

use super::{Context, Informed, Note, Phase, PrimaryEffect};
use crate::ids::*;
use crate::message::{Message, Opener, ReplicaReport};
use crate::payload::Payload;
use crate::primary::membership::OutOfSync;
use crate::primary::membership::peer::{Peer, Session, SessionEnd};
use crate::primary::views::edits::Edit;
use crate::time::Instant;
use crate::view::{Cause, ReplicaState};

impl<P: Payload> Informed<P> {
    pub(super) fn link_up(&mut self, cx: &mut Context<'_, P>, replica: ReplicaId, link: LinkId) {
        let named = Box::new(self.views.named_incarnations(&self.membership, replica));
        let Some(session) = self.membership.link_up(replica, link, cx.now) else {
            return cx.effects.push(PrimaryEffect::Disconnect { link });
        };
        let opener = Opener::Primary(cx.config.id);
        cx.send(link, Message::OpenSession { session, opener, named_incarnations: named }, None);
    }

    pub(super) fn link_down(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        link: Option<LinkId>,
    ) {
        let is_awaited = |peer: &Peer| peer.session() == Session::Connecting;
        match link {
            Some(link) => self.link_lost(cx, link),
            None if self.membership.get(&replica).is_some_and(is_awaited) => {
                self.connect_failed(cx, replica);
            }
            // It was removed meanwhile, and perhaps added again and reached.
            None => {}
        }
    }

    /// Closes a link that broke the protocol or serves no purpose.
    pub(super) fn drop_link(&mut self, cx: &mut Context<'_, P>, link: LinkId) {
        cx.effects.push(PrimaryEffect::Disconnect { link });
        self.link_lost(cx, link);
    }

    fn link_lost(&mut self, cx: &mut Context<'_, P>, link: LinkId) {
        let Some(peer) = self.membership.link_ended(link) else {
            return; // It was closed from here before.
        };
        let replica = peer.id();
        self.io.forget_link(link);
        if peer.open_link().is_none() {
            return self.connect_failed(cx, replica);
        }
        let SessionEnd { is_again, is_hopeless } = peer.session_lost(cx.now);
        let (io, lower) = &mut self.io();
        io.session_ended(lower, replica);
        if is_hopeless {
            self.views.wants_to_leave(replica, Cause::Disconnected);
        }
        if !is_again && self.views.is_member(replica) {
            self.membership.connect(cx, replica);
        }
    }

    fn connect_failed(&mut self, cx: &mut Context<'_, P>, replica: ReplicaId) {
        let longest = cx.config.settings.retry_pause.longest;
        let Some(peer) = self.membership.get_mut(&replica) else {
            return; // It was removed from the volume meanwhile.
        };
        peer.connect_failed(cx.now, longest);
        if cx.stage.is_acting() {
            self.views.wants_to_leave(replica, Cause::Disconnected);
        }
    }

    pub(super) fn session_opened(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        link: LinkId,
        session: SessionNumber,
        report: ReplicaReport,
    ) {
        let view = self.views.view();
        let Some(peer) = self.membership.known_mut(replica) else { return };
        let is_too_large = report.history != view.history && report.size > view.replica_size();
        let is_other_history = !view.descends_from(report.history, report.generation);
        if !peer.awaits_session(link, session) || report.replica != replica {
            return self.drop_link(cx, link);
        }
        if is_other_history {
            return self.other_history(cx, replica, link);
        }
        peer.session_opened(link, &report, cx.now);
        if let Phase::Starting(gathering) = &mut self.phase {
            gathering.reported(replica, report);
            return self.views.ask_to_confirm(cx, &self.membership, replica);
        }
        self.views.learn_of(report.generation);
        if is_too_large {
            // It can't adopt a view by which it would become smaller, nor take part without.
            let (state, cause) = (ReplicaState::Faulty, Cause::TooLarge);
            self.views.edit(Edit::Leave { replica, state, cause });
            return self.drop_link(cx, link);
        }
        self.receive(cx, replica);
    }

    pub(super) fn other_history(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        link: LinkId,
    ) {
        cx.note(Note::OtherHistory(replica));
        self.views.wants_to_leave(replica, Cause::OtherHistory);
        self.drop_link(cx, link);
    }

    /// Does what the view says of a replica with which a session is open and that may not be sent
    /// operations. Asked again until it may, because a view that was on its way may be refused.
    fn receive(&mut self, cx: &mut Context<'_, P>, replica: ReplicaId) {
        let Some((mirror, &record)) = self.views.view().replica(replica) else {
            debug_assert!(false, "{replica:?} is not of the volume");
            return;
        };
        let peer = self.membership.known(replica).filter(|peer| !peer.is_ready());
        let session = peer.and_then(|peer| Some((peer.open_link()?, peer.incarnation()?)));
        let Some((link, incarnation)) = session else {
            return; // It is sent operations, or there is no session with it.
        };
        match record.state {
            state if state.takes_writes() && record.incarnation == incarnation => {
                self.session_resumed(cx, replica);
            }
            ReplicaState::InSync => self.restarted(cx, mirror, replica, incarnation),
            ReplicaState::Rebuilding => self.views.wants_to_leave(replica, Cause::Restarted),
            ReplicaState::Stale => self.views.admit(&self.membership, replica, incarnation),
            ReplicaState::Spare => self.receive_spare(cx, replica, link, incarnation),
            ReplicaState::Faulty => self.drop_link(cx, link),
        }
    }

    /// The same incarnation of a member is back: it gets what it has not answered.
    fn session_resumed(&mut self, cx: &mut Context<'_, P>, replica: ReplicaId) {
        let shortest_pause = cx.config.settings.retry_pause.first;
        self.membership.known_mut(replica).into_iter().for_each(|peer| peer.resume(shortest_pause));
        if self.views.adoption().awaits(replica) {
            self.views.send_adopt(cx, &self.membership, replica);
        } else {
            let (io, lower) = &mut self.io();
            io.go_on_with(cx, lower, replica);
        }
    }

    /// An in-sync replica has had another incarnation since. It leaves, unless nobody else has the
    /// data: then it stays if it can't have lost any (W5).
    fn restarted(
        &mut self,
        cx: &mut Context<'_, P>,
        mirror: usize,
        replica: ReplicaId,
        incarnation: Incarnation,
    ) {
        let is_stale_clone = self.views.is_stale_clone(&self.membership, replica);
        let out_of_sync: OutOfSync<'_> = &|mirror| self.io.out_of_sync(mirror);
        if self.membership.has_sound_other(mirror, replica, out_of_sync) {
            let cause = if is_stale_clone { Cause::StaleClone } else { Cause::Restarted };
            return self.views.wants_to_leave(replica, cause);
        }
        // What a failed flush covered goes with the process, as all that was not flushed goes with
        // a boot.
        let has_rebooted = self.membership.known(replica).is_none_or(|peer| {
            peer.incarnations().has_rebooted() || peer.disk().has_failed_flush()
        });
        // What other primaries have had acknowledged is not known here.
        let is_shared = self.views.has_others();
        let is_unflushed = is_shared || self.io.is_unflushed();
        let may_have_lost = is_stale_clone || has_rebooted && is_unflushed;
        if !may_have_lost {
            let (io, lower) = &mut self.io();
            io.forget_incarnation(lower, replica, has_rebooted);
            if has_rebooted {
                // Rebuilding ones may have copied what it has lost.
                self.views.rebuilds_lack_a_source(&self.membership, mirror);
            }
            return self.views.edit(Edit::Renew { replica, incarnation });
        }
        self.membership.known_mut(replica).into_iter().for_each(|peer| peer.disk_mut().lose());
        let out_of_sync: OutOfSync<'_> = &|mirror| self.io.out_of_sync(mirror);
        if self.membership.has_lost_everywhere(mirror, out_of_sync) {
            self.end(cx, crate::primary::EndReason::LostWrites);
        }
    }

    /// A session with an idle spare is open: it stands in for somebody, or the session has no use.
    pub(super) fn receive_spare(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        link: LinkId,
        incarnation: Incarnation,
    ) {
        match self.views.vacancy(cx, &self.membership, replica) {
            Some(absent) => self.views.edit(Edit::StandIn { replica, incarnation, absent }),
            None => self.drop_link(cx, link),
        }
    }

    /// What depends on time: connects again, notices who is late, asks who was silent.
    pub(super) fn watch_peers(&mut self, cx: &mut Context<'_, P>) {
        let is_serving = cx.stage.is_acting();
        let replicas: Vec<_> = self.membership.ids().collect();
        for replica in replicas {
            if matches!(self.phase, Phase::Ended) {
                return; // One of them has lost what was acknowledged.
            }
            let state = self.views.state_of(replica);
            self.watch_link(cx, replica, state);
            if is_serving {
                self.receive(cx, replica);
            }
            if is_serving && state.is_some_and(ReplicaState::takes_writes) {
                self.watch_member(cx, replica);
            }
        }
    }

    fn watch_link(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        state: Option<ReplicaState>,
    ) {
        let Some(peer) = self.membership.known(replica) else { return };
        let wanted = match (&self.phase, state) {
            (Phase::Starting(_), state) => {
                state == Some(ReplicaState::InSync) || self.views.adoption().awaits(replica)
            }
            (Phase::Detaching(_), Some(state)) => state.takes_writes(),
            (Phase::Serving, Some(ReplicaState::Spare)) => {
                self.views.vacancy(cx, &self.membership, replica).is_some()
            }
            (Phase::Serving, Some(state)) => state.takes_writes() || state == ReplicaState::Stale,
            _ => false,
        };
        let is_serving = matches!(self.phase, Phase::Serving);
        match peer.session() {
            // It became stale while a session was open: an operator brought it back.
            Session::Open(_)
                if is_serving
                    && state == Some(ReplicaState::Stale)
                    && !self.views.calls().is_under_way() =>
            {
                if let Some(incarnation) = peer.incarnation() {
                    self.views.admit(&self.membership, replica, incarnation);
                }
            }
            Session::Down if wanted && cx.now >= peer.retry_at() => {
                self.membership.connect(cx, replica)
            }
            Session::Opening(link, since) if cx.now.since(since) >= cx.config.settings.deadline => {
                self.drop_link(cx, link);
            }
            _ => {}
        }
    }

    fn watch_member(&mut self, cx: &mut Context<'_, P>, replica: ReplicaId) {
        let grace = cx.config.settings.reconnect_grace;
        let is_late = self.is_late(cx, replica, 1);
        if self.is_late(cx, replica, 2)
            && let Some(link) = self.membership.known(replica).and_then(Peer::open_link)
        {
            // It could not be dropped. Perhaps only the connection is dead.
            return self.drop_link(cx, link);
        }
        let generation = self.views.generation();
        let (number, period) = (PingNumber(cx.next_number()), self.views.lease().time() / 4);
        let adopting = self.views.adoption().awaits(replica);
        let is_unsure = self
            .membership
            .known(replica)
            .is_some_and(|peer| self.views.is_unsure_of_primaries(peer, cx.now));
        let Some(peer) = self.membership.known_mut(replica) else { return };
        peer.is_late(is_late);
        if !adopting
            && (peer.is_silent(cx.now, period) || is_unsure)
            && let Some(link) = peer.ping(number, cx.now)
        {
            cx.send(link, Message::Ping { generation, number }, None);
        }
        let cause = peer.cause_to_leave(cx.now, grace);
        if let Some(cause) = cause {
            self.views.wants_to_leave(replica, cause);
        }
    }

    /// At the end of each window of time: lets those leave that hold the others up.
    pub(super) fn watch_speed(&mut self, cx: &mut Context<'_, P>) {
        if self.membership.is_speed_due(cx) {
            let late = self.io.late_writes(cx.now, cx.config.settings.lag.least);
            for replica in self.membership.judge_speed(cx, &late) {
                self.views.wants_to_leave(replica, Cause::Lagging);
            }
        }
    }

    /// Whether a replica has left anything unanswered for longer than so many deadlines.
    fn is_late(&self, cx: &Context<'_, P>, replica: ReplicaId, deadlines: u32) -> bool {
        let Some(peer) = self.membership.known(replica) else { return false };
        let waited = |since: Instant| peer.waited(since, cx.now);
        let deadline = cx.config.settings.deadline;
        if self.views.adoption().awaits(replica) {
            // Until it has adopted the view it carries out nothing, and refuses what it had not
            // begun.
            return waited(self.views.adoption().since())
                >= self.views.adoption().deadline(deadline) * deadlines;
        }
        let overdue = |since: Instant| waited(since) >= deadline * deadlines;
        peer.session().pinged_at().is_some_and(overdue)
            || self.io.leaves_unanswered(peer.mirror(), peer.bit(), overdue)
    }
}
