//! Changes of the view: what is asked of the coordinator, and what follows for everything when it
//! has committed a view.

use super::membership::OutOfSync;
use super::membership::peer::Peer;
use super::views::edits::Edit;
use super::views::{Answer, Installed, Newest};
use super::{Command, Context, CoordinatorAnswer, EndReason, Informed, Note, Phase, PrimaryEffect};
use crate::ids::*;
use crate::payload::Payload;
use crate::view::{Cause, ReplicaState, View};

/// What an operator's command is: a change of the view, or something for this primary alone.
#[derive(Debug)]
pub(super) enum Order {
    Edit(Edit),
    Verify { repair: bool, source: Option<ReplicaId> },
    StopVerify,
    Detach,
}

impl From<Command> for Order {
    fn from(command: Command) -> Self {
        let faulty = |replica, cause| Edit::Leave { replica, state: ReplicaState::Faulty, cause };
        Self::Edit(match command {
            Command::Fail(replica) => faulty(replica, Cause::Operator),
            Command::FailDisk(replica) => faulty(replica, Cause::Medium),
            Command::Remove(replica) => Edit::Remove(replica),
            Command::ReAdd(replica) => Edit::ReAdd(replica),
            Command::Change(change) => Edit::Change(change),
            Command::Add(new) => Edit::Add(new),
            Command::Retire(replica) => Edit::Retire(replica),
            Command::Grow(size) => Edit::Grow(size),
            Command::Verify { repair, source } => return Self::Verify { repair, source },
            Command::StopVerify => return Self::StopVerify,
            Command::Detach => return Self::Detach,
        })
    }
}

impl<P: Payload> Informed<P> {
    pub(super) fn command(&mut self, cx: &mut Context<'_, P>, id: CommandId, command: Command) {
        match Order::from(command) {
            Order::Edit(edit) => self.views.edit_for(id, edit, cx.now),
            Order::Verify { repair, source } => {
                let total = self.views.view().geometry.size;
                self.scrub.begin_verify(cx.now, total, repair, source);
                cx.command_done(id, Ok(()));
            }
            Order::StopVerify => {
                self.scrub.stop_verify(cx.now);
                cx.command_done(id, Ok(()));
            }
            Order::Detach => self.begin_detach(cx, id),
        }
    }

    /// Starts the next call to the coordinator, if one is wanted.
    pub(super) fn advance_change(&mut self, cx: &mut Context<'_, P>) {
        let out_of_sync: OutOfSync<'_> = &|mirror| self.io.out_of_sync(mirror);
        let done = self.views.advance(cx, &mut self.membership, out_of_sync);
        let (io, lower) = &mut self.io();
        done.into_iter().for_each(|pending| io.edit_done(cx, lower, pending));
        self.views.settle(cx, &mut self.membership);
    }

    pub(super) fn coordinator(
        &mut self,
        cx: &mut Context<'_, P>,
        call: CoordinatorCall,
        answer: CoordinatorAnswer,
    ) {
        match self.views.answered(cx, call, answer) {
            Answer::Nothing => {}
            Answer::Committed { view, edits } => {
                let (io, lower) = &mut self.io();
                edits.into_iter().for_each(|pending| io.edit_done(cx, lower, pending));
                self.committed(cx, *view);
            }
            Answer::Newest(view) => self.newest(cx, *view),
            Answer::NoVolume => self.end(cx, EndReason::NoVolume),
        }
    }

    fn committed(&mut self, cx: &mut Context<'_, P>, view: View) {
        match self.phase {
            Phase::Starting(_) => self.started(cx, view),
            _ => self.install(cx, view),
        }
    }

    /// The coordinator's newest view.
    fn newest(&mut self, cx: &mut Context<'_, P>, newest: View) {
        let is_primary = newest.has_primary(cx.config.id);
        match self.attach() {
            Some(_) if is_primary => return self.started(cx, newest),
            Some(mut attach) => return attach.read(cx, newest),
            None => {}
        }
        match self.views.compare_newest(cx, &newest, self.is_giving_up()) {
            Newest::Follows => self.install(cx, newest),
            Newest::Same => self.still_newest(cx),
            Newest::Older => {}
            Newest::Ends(reason) => self.end(cx, reason),
        }
    }

    /// A refusal was passing: whoever refused adopted nothing newer. Ask it again.
    fn still_newest(&mut self, cx: &mut Context<'_, P>) {
        for (replica, link) in self.views.give_up_refusing(&mut self.membership) {
            self.other_history(cx, replica, link);
            // It leaves before it can be asked, and refuse, again.
            self.views.end_pause(cx.now);
        }
        self.membership.values_mut().for_each(|peer| peer.ask_again());
        let ready: Vec<_> =
            self.membership.values().filter(|peer| peer.is_ready()).map(Peer::id).collect();
        for replica in ready {
            if self.views.adoption().awaits(replica) {
                self.views.send_adopt(cx, &self.membership, replica);
            } else {
                let (io, lower) = &mut self.io();
                io.resend(cx, lower, replica);
            }
        }
    }

    /// Makes a committed view the one to work by, and has all members adopt it.
    pub(super) fn install(&mut self, cx: &mut Context<'_, P>, view: View) {
        let Installed { before, left } = self.views.install(cx, &mut self.membership, view);
        if self.views.has_lost_a_primary(&cx.config, &before) {
            // It may have acknowledged what no flush covers: losing it counts.
            self.io.inherit_writes();
        }
        for (replica, cause) in left {
            self.replica_left(cx, replica, cause);
        }
        let (io, lower) = &mut self.io();
        io.follow_view(lower);
        self.forget_removed(cx);
        self.views.note_newcomers(cx, &self.membership);
        self.views.keep_completed(&self.membership);
        self.scrub.follow_view();
        self.views.begin_adoption(cx.now);
        let out_of_sync: OutOfSync<'_> = &|mirror| self.io.out_of_sync(mirror);
        let mut mirrors = 0..self.membership.mirrors().len();
        if mirrors.any(|mirror| self.membership.has_lost_everywhere(mirror, out_of_sync)) {
            // The only one left failed an acknowledged write while this view was on its way.
            return self.end(cx, EndReason::LostWrites);
        }
        self.views.make_ready(cx, &mut self.membership);
    }

    /// A replica is no member any more, or none of the volume.
    fn replica_left(&mut self, cx: &mut Context<'_, P>, replica: ReplicaId, cause: Cause) {
        let state = self.views.state_of(replica);
        if !state.is_some_and(ReplicaState::takes_writes)
            && let Some(link) = self.membership.close(replica)
        {
            cx.effects.push(PrimaryEffect::Disconnect { link });
        }
        let Some(peer) = self.membership.known_mut(replica) else { return };
        let (mirror, bit) = (peer.mirror(), peer.bit());
        peer.left(cause, &cx.config.settings, cx.now);
        let pause = peer.retry_at().since(cx.now);
        let stays_away = peer.stays_away_after(cx.now);
        let (io, lower) = &mut self.io();
        io.session_ended(lower, replica);
        io.forget_target(mirror, bit);
        io.release_stability(mirror, bit);
        if state.is_some() {
            cx.note(Note::Left(replica, cause));
        }
        if let Some(times) = stays_away {
            cx.note(Note::StaysAway { replica, times, pause });
        }
    }

    /// Forgets replicas that do not belong to the volume any more.
    fn forget_removed(&mut self, cx: &mut Context<'_, P>) {
        let is_there = |id| self.views.view().replica(id).is_some();
        self.membership.forget_removed(is_there, |peer, link| {
            link.into_iter().for_each(|link| cx.effects.push(PrimaryEffect::Disconnect { link }));
            cx.note(Note::Removed(peer.id(), peer.node()));
        });
    }

    pub(super) fn adopted(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        generation: Generation,
    ) {
        if !self.views.adopted(&mut self.membership, replica, generation, cx.now) {
            return;
        }
        let (io, lower) = &mut self.io();
        io.go_on_with(cx, lower, replica);
        if self.views.adoption().is_over() {
            if self.views.end_takeover() && !self.io.is_joining() {
                let follows = self.views.adoption().follows();
                cx.note(Note::Serving { view: generation, follows });
            }
            let (io, lower) = &mut self.io();
            let flow = io.view_adopted(cx, lower);
            self.follow(cx, flow);
        }
    }
}
