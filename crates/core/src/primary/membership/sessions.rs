//! Sessions with replicas: made, watched, lost and made again; and the lease that the replicas'
//! answers grant (rules W2, W5, V3).

use crate::ids::*;
use crate::lives::Lives;
use crate::message::{Message, Opener, ReplicaReport, SlotBits};
use crate::payload::Payload;
use crate::primary::membership::peers::{Peer, PeerLink};
use crate::primary::views::edits::Edit;
use crate::primary::{Context, Note, Phase, Primary, PrimaryEffect};
use crate::time::Instant;
use crate::view::{Cause, ReplicaState, View};

/// A replica whose sessions end this often without an answer is as good as gone.
const MOST_UNANSWERED_SESSIONS: u32 = 3;

impl<P: Payload> Primary<P> {
    pub(in crate::primary) fn connect(&mut self, cx: &mut Context<'_, P>, replica: ReplicaId) {
        let Some(peer) = self.peers.get_mut(&replica) else { return };
        peer.link = PeerLink::Connecting;
        cx.effects.push(PrimaryEffect::Connect { replica, node: peer.node });
    }

    pub(in crate::primary) fn link_up(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        link: LinkId,
    ) {
        let named_lives = self.named_lives(replica);
        let wanted = self.peers.get_mut(&replica).filter(|p| p.link == PeerLink::Connecting);
        let Some(peer) = wanted else {
            return cx.effects.push(PrimaryEffect::Disconnect { link });
        };
        peer.has_refused = false;
        peer.last_session = peer.last_session.next();
        peer.link = PeerLink::Opening(link, cx.now);
        self.links.insert(link, replica);
        let opener = Opener::Primary(self.config.id);
        let session = peer.last_session;
        cx.send(link, Message::OpenSession { session, opener, named_lives }, None);
    }

    pub(in crate::primary) fn link_down(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        link: Option<LinkId>,
    ) {
        match link {
            Some(link) => self.link_lost(cx, link),
            None => self.connect_failed(cx, replica),
        }
    }

    /// Closes a link that broke the protocol or serves no purpose.
    pub(in crate::primary) fn drop_link(&mut self, cx: &mut Context<'_, P>, link: LinkId) {
        cx.effects.push(PrimaryEffect::Disconnect { link });
        self.link_lost(cx, link);
    }

    fn link_lost(&mut self, cx: &mut Context<'_, P>, link: LinkId) {
        let Some(replica) = self.links.remove(&link) else { return };
        self.rebuild_waits.forget_link(link);
        let Some(peer) = self.peers.get_mut(&replica) else { return };
        if peer.any_link() != Some(link) {
            return;
        }
        if peer.open_link().is_none() {
            return self.connect_failed(cx, replica);
        }
        peer.link = PeerLink::Down;
        peer.ready = false;
        peer.ping = None;
        peer.down_since = cx.now;
        peer.unanswered_sessions += 1;
        // At once, unless this one was as short as the one before.
        let again = peer.unanswered_sessions > 1;
        peer.retry_at = if again { cx.now + peer.retry_pause } else { cx.now };
        let hopeless = peer.unanswered_sessions > MOST_UNANSWERED_SESSIONS;
        self.session_ended(replica);
        if hopeless {
            self.wants_to_leave(replica, Cause::Disconnected);
        }
        if !again && self.is_member(replica) {
            self.connect(cx, replica);
        }
    }

    fn connect_failed(&mut self, cx: &mut Context<'_, P>, replica: ReplicaId) {
        let longest = self.config.settings.retry_pause.1;
        let Some(peer) = self.peers.get_mut(&replica) else { return };
        peer.link = PeerLink::Down;
        peer.retry_at = cx.now + peer.retry_pause;
        peer.retry_pause = (peer.retry_pause * 2).min(longest);
        if matches!(self.phase, Phase::Serving | Phase::Detaching(_)) {
            self.wants_to_leave(replica, Cause::Disconnected);
        }
    }

    pub(in crate::primary) fn session_opened(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        session: SessionNumber,
        report: ReplicaReport,
    ) {
        let Some(&replica) = self.links.get(&link) else { return };
        let Some(view) = &self.view else { return };
        let is_too_large = report.lineage != view.lineage && report.size > view.replica_size();
        let is_other_lineage = !view.descends_from(report.lineage, report.generation);
        let Some(peer) = self.peers.get_mut(&replica) else { return };
        let expected = matches!(peer.link, PeerLink::Opening(l, _) if l == link);
        if !expected || peer.last_session != session || report.replica != replica {
            return self.drop_link(cx, link);
        }
        if is_other_lineage {
            return self.other_lineage(cx, replica, link);
        }
        peer.life = Some((report.incarnation, report.boot));
        peer.is_old_copy = report.is_old_copy;
        peer.slots = report.slots;
        peer.link = PeerLink::Open(link);
        peer.answers_since = cx.now;
        peer.late = false;
        if let Phase::Starting(gathering) = &mut self.phase {
            gathering.reported(replica, report);
            return self.ask_to_confirm(cx, replica);
        }
        self.calls.hear_of(report.generation);
        if is_too_large {
            // It can't adopt a view by which it would become smaller, nor take part without.
            let (state, cause) = (ReplicaState::Faulty, Cause::TooLarge);
            self.edit(Edit::Leave { replica, state, cause });
            return self.drop_link(cx, link);
        }
        self.receive(cx, replica);
    }

    pub(in crate::primary) fn other_lineage(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        link: LinkId,
    ) {
        cx.note(Note::OtherLineage(replica));
        self.wants_to_leave(replica, Cause::OtherLineage);
        self.drop_link(cx, link);
    }

    /// Does what the view says of a replica with which a session is open and that may not be sent
    /// operations. Asked again until it may, because a view that was on its way may be refused.
    fn receive(&mut self, cx: &mut Context<'_, P>, replica: ReplicaId) {
        let record = self.view.as_ref().and_then(|view| view.replica(replica));
        let Some((mirror, record)) = record.map(|(mirror, record)| (mirror, *record)) else {
            return;
        };
        let Some(peer) = self.peers.get(&replica).filter(|peer| !peer.ready) else { return };
        let (Some(link), Some((incarnation, _))) = (peer.open_link(), peer.life) else { return };
        match record.state {
            state if state.takes_writes() && record.incarnation == incarnation => {
                self.session_resumed(cx, replica);
            }
            ReplicaState::InSync => self.restarted(cx, mirror, replica),
            ReplicaState::Rebuilding => self.wants_to_leave(replica, Cause::Restarted),
            ReplicaState::Stale => self.admit(replica, incarnation),
            ReplicaState::Spare => self.receive_spare(cx, replica, link, incarnation),
            ReplicaState::Faulty => self.drop_link(cx, link),
        }
    }

    /// A stale replica may return. It keeps what it has, unless an old copy of its disk was put back.
    fn admit(&mut self, replica: ReplicaId, incarnation: Incarnation) {
        let is_known = !self.is_old_copy(replica);
        self.edit(Edit::Admit { replica, incarnation, is_known });
    }

    /// Whether an old copy of a replica's disk was put back, and no view has admitted that life since.
    pub(in crate::primary) fn is_old_copy(&self, replica: ReplicaId) -> bool {
        let named = self.named_lives(replica).newest();
        let said =
            |peer: &Peer| peer.is_old_copy && peer.life.is_some_and(|(life, _)| life != named);
        self.peers.get(&replica).is_some_and(said)
    }

    /// The life that the view names, then those that this primary has asked for without an answer.
    fn named_lives(&self, replica: ReplicaId) -> Lives {
        let record = self.view.as_ref().and_then(|view| view.replica(replica));
        let named = record.map_or(Incarnation(0), |(_, record)| record.incarnation);
        let doubted = self.peers.get(&replica).into_iter().flat_map(|peer| &peer.doubted_lives);
        Lives::of([named].into_iter().chain(doubted.copied()))
    }

    /// Notes which lives a view would name that is about to be asked for: it may be committed, and this
    /// primary not learn of it.
    pub(in crate::primary) fn doubt_lives(&mut self, proposed: &View) {
        for (_, record) in proposed.replicas() {
            let is_known = self.named_lives(record.id).0.contains(&record.incarnation);
            if let Some(peer) = self.peers.get_mut(&record.id).filter(|_| !is_known) {
                peer.doubted_lives.insert(0, record.incarnation);
                peer.doubted_lives.truncate(Lives::MOST - 3);
            }
        }
    }

    /// A newer view is known: what was asked for in place of it can't be committed any more.
    pub(in crate::primary) fn end_doubt_of_lives(&mut self) {
        self.peers.values_mut().for_each(|peer| peer.doubted_lives.clear());
    }

    /// The same life of a member is back: it gets what it has not answered.
    fn session_resumed(&mut self, cx: &mut Context<'_, P>, replica: ReplicaId) {
        let Some(peer) = self.peers.get_mut(&replica) else { return };
        peer.become_ready();
        peer.retry_pause = self.config.settings.retry_pause.0;
        if self.adoption.awaits(replica) {
            self.send_adopt(cx, replica);
        } else {
            self.resend(cx, replica);
            self.tell_settled_to(cx, replica);
            self.restate_claim(replica);
        }
    }

    /// An in-sync replica has had another life since. It leaves, unless nobody else has the data:
    /// then it stays if it can't have lost any (W5).
    fn restarted(&mut self, cx: &mut Context<'_, P>, mirror: usize, replica: ReplicaId) {
        let is_old_copy = self.is_old_copy(replica);
        if self.has_sound_other(mirror, replica) {
            let cause = if is_old_copy { Cause::OldCopy } else { Cause::Restarted };
            return self.wants_to_leave(replica, cause);
        }
        let Some(peer) = self.peers.get(&replica) else { return };
        let Some((incarnation, boot)) = peer.life else { return };
        // What a failed flush covered goes with the process, as all that was not flushed goes with a boot.
        let has_rebooted = peer.relied_on_boot != Some(boot) || peer.has_failed_flush;
        // What other primaries have had acknowledged is not known here.
        let is_shared = self.has_others();
        let is_unflushed = is_shared || self.acknowledged > self.flushed;
        let may_have_lost = is_old_copy || has_rebooted && is_unflushed;
        if !may_have_lost {
            self.forget_life(replica, has_rebooted);
            if has_rebooted {
                // Rebuilding ones may have copied what it has lost.
                self.rebuilds_lack_a_source(mirror);
            }
            return self.edit(Edit::Renew { replica, incarnation });
        }
        if let Some(peer) = self.peers.get_mut(&replica) {
            peer.lost = true;
        }
        if self.has_lost_everywhere(mirror) {
            self.end(cx, crate::primary::EndReason::LostWrites);
        }
    }

    /// Whether each in-sync replica of a mirror lacks acknowledged writes, or may.
    pub(in crate::primary) fn has_lost_everywhere(&self, mirror: usize) -> bool {
        let lacking = self.lacking(mirror);
        let peers = &self.mirrors[mirror];
        let has_lost = |peer: &Peer| peer.lost || lacking & peer.bit() != 0;
        peers.ids(peers.in_sync).all(|id| self.peers.get(&id).is_some_and(has_lost))
    }

    fn has_sound_other(&self, mirror: usize, replica: ReplicaId) -> bool {
        let peers = &self.mirrors[mirror];
        peers.ids(peers.in_sync).any(|id| id != replica && self.is_sound(id))
    }

    /// Whether a mirror can rely on this replica: it answers, and lacks nothing acknowledged.
    pub(in crate::primary) fn is_sound(&self, replica: ReplicaId) -> bool {
        let is_sound =
            |peer: &Peer| peer.is_healthy() && self.lacking(peer.mirror) & peer.bit() == 0;
        self.peers.get(&replica).is_some_and(is_sound)
    }

    pub(in crate::primary) fn is_member(&self, replica: ReplicaId) -> bool {
        self.state_of(replica).is_some_and(ReplicaState::takes_writes)
    }

    /// What depends on time: connects again, notices who is late, asks who was silent.
    pub(in crate::primary) fn watch_peers(&mut self, cx: &mut Context<'_, P>) {
        let is_serving = matches!(self.phase, Phase::Serving | Phase::Detaching(_));
        let replicas: Vec<_> = self.peers.keys().copied().collect();
        for replica in replicas {
            if matches!(self.phase, Phase::Ended) {
                return;
            }
            let state = self.state_of(replica);
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
        let Some(peer) = self.peers.get(&replica) else { return };
        let wanted = match (&self.phase, state) {
            (Phase::Starting(_), state) => {
                state == Some(ReplicaState::InSync) || self.adoption.awaits(replica)
            }
            (Phase::Detaching(_), Some(state)) => state.takes_writes(),
            (Phase::Serving, Some(ReplicaState::Spare)) => self.vacancy(replica, cx.now).is_some(),
            (Phase::Serving, Some(state)) => state.takes_writes() || state == ReplicaState::Stale,
            _ => false,
        };
        let is_serving = matches!(self.phase, Phase::Serving);
        match peer.link {
            // It became stale while a session was open: an operator brought it back.
            PeerLink::Open(_)
                if is_serving
                    && state == Some(ReplicaState::Stale)
                    && !self.calls.is_under_way() =>
            {
                if let Some((incarnation, _)) = peer.life {
                    self.admit(replica, incarnation);
                }
            }
            PeerLink::Down if wanted && cx.now >= peer.retry_at => self.connect(cx, replica),
            PeerLink::Opening(link, since)
                if cx.now.since(since) >= self.config.settings.deadline =>
            {
                self.drop_link(cx, link);
            }
            _ => {}
        }
    }

    fn watch_member(&mut self, cx: &mut Context<'_, P>, replica: ReplicaId) {
        let settings = self.config.settings;
        let is_late = self.is_late(replica, cx.now, 1);
        if self.is_late(replica, cx.now, 2)
            && let Some(link) = self.peers.get(&replica).and_then(|peer| peer.open_link())
        {
            // It could not be dropped. Perhaps only the connection is dead.
            return self.drop_link(cx, link);
        }
        let generation = self.generation();
        let (number, period) = (self.next_number(), self.lease().time() / 4);
        let adopting = self.adoption.awaits(replica);
        let is_unsure =
            self.peers.get(&replica).is_some_and(|peer| self.is_unsure_of_primaries(peer, cx.now));
        let Some(peer) = self.peers.get_mut(&replica) else { return };
        let is_down = peer.open_link().is_none();
        peer.late = is_late && !is_down;
        let silent = peer.confirmed.is_none_or(|at| cx.now.since(at) >= period);
        if let Some(link) = peer.ready_link()
            && (silent || is_unsure)
            && peer.ping.is_none()
            && !peer.has_refused
            && !adopting
        {
            peer.ping = Some((number, cx.now));
            cx.send(link, Message::Ping { generation, number }, None);
        }
        let cause = match peer.failing {
            Some(cause) => Some(cause),
            None if peer.late => Some(Cause::Late),
            None if is_down && cx.now.since(peer.down_since) >= settings.reconnect_grace => {
                Some(Cause::Disconnected)
            }
            None => None,
        };
        if let Some(cause) = cause {
            self.wants_to_leave(replica, cause);
        }
    }

    /// Whether a replica has left anything unanswered for longer than so many deadlines.
    fn is_late(&self, replica: ReplicaId, now: Instant, deadlines: u32) -> bool {
        let Some(peer) = self.peers.get(&replica) else { return false };
        let bit = peer.bit();
        let waited = |since: Instant| now.since(since.max(peer.answers_since));
        if self.adoption.awaits(replica) {
            // Until it has adopted the view it carries out nothing, and refuses what it had not begun.
            return waited(self.adoption.since())
                >= self.adoption.deadline(self.config.settings.deadline) * deadlines;
        }
        let overdue = |since: Instant| waited(since) >= self.config.settings.deadline * deadlines;
        let mut parts = self.parts.values().filter(|part| part.mirror == peer.mirror);
        peer.ping.is_some_and(|(_, since)| overdue(since))
            || parts.any(|part| part.waits_for(bit) && overdue(part.sent_at))
    }

    pub(in crate::primary) fn pong(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        (generation, number): (Generation, u64),
        slots: SlotBits,
    ) {
        let is_current = generation == self.generation();
        let Some(peer) = self.peers.get_mut(&replica) else { return };
        peer.slots = slots;
        if let Some((_, asked)) = peer.ping.filter(|(expected, _)| *expected == number) {
            peer.ping = None;
            peer.told_at = Some(asked);
            if is_current {
                peer.confirm(asked);
                peer.heard = Some((slots.heard, asked));
                self.confirmations_changed(cx);
            }
        }
    }

    /// Whether every member of a mirror has confirmed this primary less than the lease ago, counted
    /// from asking: then no other primary can have had a write acknowledged. One that rebuilds counts,
    /// too: a view that this primary has not learnt of may have made it the only one in-sync.
    pub(in crate::primary) fn has_lease(&self, mirror: usize, now: Instant) -> bool {
        let peers = &self.mirrors[mirror];
        peers.ids(peers.members).all(|id| self.peers.get(&id).is_some_and(|peer| peer.grants(now)))
    }

    /// Holds an answer back until the lease is confirmed.
    pub(in crate::primary) fn await_lease(&mut self, cx: &mut Context<'_, P>, sequence: Sequence) {
        if !self.unconfirmed.contains(&sequence) {
            self.unconfirmed.push(sequence);
        }
        self.tick_at = self.tick_at.min(cx.now + self.config.settings.reconnect_grace / 4);
    }

    /// Somebody has confirmed: gives the answers that waited for it.
    pub(in crate::primary) fn confirmations_changed(&mut self, cx: &mut Context<'_, P>) {
        if self.unconfirmed.is_empty() {
            return;
        }
        for sequence in core::mem::take(&mut self.unconfirmed) {
            self.check_part(cx, sequence);
        }
    }
}
