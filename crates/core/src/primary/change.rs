//! View changes: what is wanted is collected as edits, committed by the coordinator in one swap,
//! and adopted by all members before anything relies on it (rules V1, V2, V5).

use super::verify::Verify;
use super::{
    Command, CommandError, Context, CoordinatorAnswer, EndReason, Note, Phase, Primary,
    PrimaryEffect,
};
use crate::ids::*;
use crate::message::{Failure, Message};
use crate::payload::Payload;
use crate::time::Instant;
use crate::view::{Cause, Change, Newcomer, ReplicaRecord, ReplicaState, Role, View, ViewError};
use core::time::Duration;

/// Pause before the coordinator is asked again.
const CALL_PAUSE: Duration = Duration::from_millis(250);

/// One wanted change of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edit {
    /// A member leaves.
    Leave { replica: ReplicaId, state: ReplicaState, cause: Cause },
    /// A stale replica rebuilds; from nothing, if what it has is not what it had when it left.
    Admit { replica: ReplicaId, incarnation: Incarnation, is_known: bool },
    /// A rebuilding replica has everything.
    Complete { replica: ReplicaId, incarnation: Incarnation },
    /// An in-sync replica has a new life and has lost nothing.
    Renew { replica: ReplicaId, incarnation: Incarnation },
    /// A replica leaves the volume.
    Remove(ReplicaId),
    /// A faulty replica may return.
    ReAdd(ReplicaId),
    /// Something of the volume as a whole.
    Change(Change),
    /// A replica joins the volume.
    Add(Newcomer),
    /// A replica leaves the volume, whatever its state.
    Retire(ReplicaId),
    /// A spare rebuilds, in the place of one that is not there.
    StandIn { replica: ReplicaId, incarnation: Incarnation, absent: ReplicaId },
    /// The volume becomes larger.
    Grow(u64),
    /// This primary leaves.
    Detach,
}

/// An edit, and the operator's command that it carries out.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingEdit {
    edit: Edit,
    /// The command, and when it came.
    command: Option<(CommandId, Instant)>,
}

/// A call to the coordinator that is not answered.
#[derive(Debug)]
pub(super) struct Call {
    number: CoordinatorCall,
    kind: CallKind,
    since: Instant,
}

#[derive(Debug)]
enum CallKind {
    Read,
    Swap(Box<View>, Vec<PendingEdit>),
}

impl Edit {
    /// Whether an adoption that does not end may be waiting for just this.
    fn unblocks(&self, waits_for: &std::collections::BTreeSet<ReplicaId>) -> bool {
        match self {
            Self::Leave { replica, .. } | Self::Renew { replica, .. } | Self::Retire(replica) => {
                waits_for.contains(replica)
            }
            _ => false,
        }
    }
}

impl<P: Payload> Primary<P> {
    /// Asks for a change of the view. Asking twice is asking once.
    pub(super) fn edit(&mut self, edit: Edit) {
        if !self.edits.iter().any(|pending| pending.edit == edit) {
            self.edits.push(PendingEdit { edit, command: None });
        }
    }

    /// A member should leave. It does if the mirror can go on without it.
    pub(super) fn wants_to_leave(&mut self, replica: ReplicaId, cause: Cause) {
        let state = match cause {
            Cause::Medium | Cause::NoSpace | Cause::Operator | Cause::OtherLineage => {
                ReplicaState::Faulty
            }
            _ => ReplicaState::Stale,
        };
        let leaves =
            |p: &PendingEdit| matches!(p.edit, Edit::Leave { replica: r, .. } if r == replica);
        if self.is_member(replica) && !self.edits.iter().any(leaves) {
            self.edit(Edit::Leave { replica, state, cause });
        }
    }

    /// A replica's disk failed.
    pub(super) fn disk_failed(&mut self, replica: ReplicaId, failure: Failure) {
        let cause = match failure {
            Failure::Medium | Failure::Invalid => Cause::Medium,
            Failure::NoSpace => Cause::NoSpace,
        };
        if let Some(peer) = self.peers.get_mut(&replica) {
            peer.failing = Some(cause);
            let (mirror, bit) = (peer.mirror, peer.bit());
            self.take_reads_from(mirror, bit);
            self.wants_to_leave(replica, cause);
        }
    }

    pub(super) fn command(&mut self, cx: &mut Context<'_, P>, id: CommandId, command: Command) {
        let cause = Cause::Operator;
        let edit = match command {
            Command::Fail(replica) => Edit::Leave { replica, state: ReplicaState::Faulty, cause },
            Command::Remove(replica) => Edit::Remove(replica),
            Command::ReAdd(replica) => Edit::ReAdd(replica),
            Command::Change(change) => Edit::Change(change),
            Command::Verify { repair } => {
                self.begin_verify(cx.now, repair);
                return cx.effects.push(PrimaryEffect::CommandDone { id, result: Ok(()) });
            }
            Command::StopVerify => {
                self.stop_verify(cx.now);
                return cx.effects.push(PrimaryEffect::CommandDone { id, result: Ok(()) });
            }
            Command::Add(new) => Edit::Add(new),
            Command::Retire(replica) => Edit::Retire(replica),
            Command::Grow(size) => Edit::Grow(size),
            Command::Detach => return self.begin_detach(cx, id),
        };
        self.edits.push(PendingEdit { edit, command: Some((id, cx.now)) });
    }

    /// Starts the next call to the coordinator, if one is wanted.
    pub(super) fn advance_change(&mut self, cx: &mut Context<'_, P>) {
        let is_acting = matches!(self.phase, Phase::Serving | Phase::Detaching(_));
        if !is_acting || self.call.is_some() || cx.now < self.retry_call_at {
            return;
        }
        if self.must_read {
            return self.call_read(cx);
        }
        let may_edit = self.unadopted.is_empty()
            || self.edits.iter().any(|pending| pending.edit.unblocks(&self.unadopted));
        if may_edit && !self.edits.is_empty() {
            self.swap_edits(cx);
        }
        if self.call.is_none() && self.unadopted.is_empty() {
            self.end_doubt(cx);
        }
    }

    /// A swap that was not answered may still be carried out, however late. Once another view has been
    /// committed it can't be any more: if nothing else is wanted, one that changes nothing.
    fn end_doubt(&mut self, cx: &mut Context<'_, P>) {
        if self.is_in_doubt
            && matches!(self.phase, Phase::Serving)
            && let Some(view) = &self.view
        {
            self.call_swap(cx, view.successor());
        }
    }

    pub(super) fn call_read(&mut self, cx: &mut Context<'_, P>) {
        let number = CoordinatorCall(self.next_number());
        self.must_read = false;
        self.call = Some(Call { number, kind: CallKind::Read, since: cx.now });
        cx.effects.push(PrimaryEffect::ReadView { call: number });
    }

    pub(super) fn call_swap(&mut self, cx: &mut Context<'_, P>, view: View) {
        self.call_swap_for(cx, view, Vec::new());
    }

    fn call_swap_for(&mut self, cx: &mut Context<'_, P>, view: View, edits: Vec<PendingEdit>) {
        let call = CoordinatorCall(self.next_number());
        let view = Box::new(view);
        cx.effects.push(PrimaryEffect::SwapView { call, view: view.clone() });
        self.call = Some(Call { number: call, kind: CallKind::Swap(view, edits), since: cx.now });
    }

    /// Makes the next view of all edits that it permits, and has it committed.
    fn swap_edits(&mut self, cx: &mut Context<'_, P>) {
        let Some(view) = &self.view else { return };
        let unchanged = view.successor();
        let mut next = unchanged.clone();
        let mut applied = Vec::new();
        for pending in core::mem::take(&mut self.edits) {
            match self.apply(&mut next, pending.edit) {
                Ok(()) => applied.push(pending),
                Err(error) => finish_command(cx, pending, Err(CommandError::View(error))),
            }
        }
        if next == unchanged {
            return applied.into_iter().for_each(|pending| finish_command(cx, pending, Ok(())));
        }
        self.call_swap_for(cx, next, applied);
    }

    fn apply(&self, next: &mut View, edit: Edit) -> Result<(), ViewError> {
        match edit {
            Edit::Leave { replica, state, cause } => self.apply_leave(next, replica, state, cause),
            Edit::Admit { replica, incarnation, is_known } => {
                let state = next.replica(replica).map(|(_, record)| record.state);
                match state {
                    Some(ReplicaState::Stale) if is_known => next.admit(replica, incarnation),
                    Some(ReplicaState::Stale) => {
                        next.distrust(replica)?;
                        next.admit(replica, incarnation)
                    }
                    Some(state) => Err(ViewError::WrongState(state)),
                    None => Err(ViewError::UnknownReplica),
                }
            }
            // One that failed a write while it rebuilt lacks it, whatever it has copied.
            Edit::Complete { replica, .. } if self.has_failed(replica) => {
                Err(ViewError::WrongState(ReplicaState::Rebuilding))
            }
            // One that restarted since has left (W5).
            Edit::Complete { replica, incarnation } if self.has_restarted(replica, incarnation) => {
                Err(ViewError::WrongIncarnation)
            }
            Edit::Complete { replica, incarnation } => {
                self.apply_departure(next, |view| view.complete(replica, incarnation))
            }
            Edit::Renew { replica, incarnation } => next.renew(replica, incarnation),
            // One that is gone already was perhaps removed by just this, in a swap whose answer was lost.
            Edit::Remove(replica) | Edit::Retire(replica) if next.replica(replica).is_none() => {
                Ok(())
            }
            Edit::Remove(replica) => next.remove(replica),
            Edit::ReAdd(replica) => next.readmit(replica),
            Edit::Add(new) => next.add(new),
            Edit::Retire(replica) => self.apply_departure(next, |view| view.retire(replica)),
            Edit::StandIn { replica, incarnation, absent } => {
                next.stand_in(replica, incarnation, absent)
            }
            Edit::Change(change) => {
                if let Change::Intents(layout) = change {
                    self.check_slots(layout.slots)?;
                }
                next.change(change)
            }
            // Everybody is to know first that all are in-sync.
            Edit::Grow(_) if !self.unadopted.is_empty() => Err(ViewError::NotAllInSync),
            Edit::Grow(size) => next.grow(size),
            Edit::Detach => {
                let me = self.config.id;
                next.primaries.retain(|record| record.id != me);
                Ok(())
            }
        }
    }

    fn has_restarted(&self, replica: ReplicaId, since: Incarnation) -> bool {
        let life = self.peers.get(&replica).and_then(|peer| peer.life);
        life.is_some_and(|(incarnation, _)| incarnation != since)
    }

    fn has_failed(&self, replica: ReplicaId) -> bool {
        self.peers.get(&replica).is_some_and(|peer| peer.failing.is_some())
    }

    pub(super) fn coordinator(
        &mut self,
        cx: &mut Context<'_, P>,
        number: CoordinatorCall,
        answer: CoordinatorAnswer,
    ) {
        let Some(call) = self.call.take_if(|call| call.number == number) else { return };
        let mut edits = Vec::new();
        let mut proposed = None;
        if let CallKind::Swap(view, applied) = call.kind {
            (edits, proposed) = (applied, Some(*view));
        }
        if !matches!(answer, CoordinatorAnswer::Unknown) && !self.is_outdated(&answer) {
            self.coordinator_silent_since = None;
        }
        match answer {
            CoordinatorAnswer::Committed => {
                self.is_in_doubt = false;
                edits.into_iter().for_each(|pending| finish_command(cx, pending, Ok(())));
                if let Some(view) = proposed {
                    self.committed(cx, view);
                }
            }
            CoordinatorAnswer::Newest(view) => {
                self.edits.splice(0..0, edits);
                self.newest(cx, *view);
            }
            CoordinatorAnswer::GivenUp => {
                let (adds, others): (Vec<_>, Vec<_>) =
                    edits.into_iter().partition(|p| matches!(p.edit, Edit::Add(_)));
                self.edits.splice(0..0, others);
                for pending in adds {
                    finish_command(cx, pending, Err(CommandError::GivenUp));
                }
            }
            CoordinatorAnswer::NoVolume => {
                // With them their commands are answered.
                self.edits.splice(0..0, edits);
                self.end(cx, EndReason::NoVolume);
            }
            CoordinatorAnswer::Unknown => {
                self.edits.splice(0..0, edits);
                self.coordinator_silent_since.get_or_insert(call.since);
                self.retry_call_at = cx.now + CALL_PAUSE;
                let is_starting = matches!(self.phase, Phase::Starting(_));
                self.must_read |= proposed.is_none() || is_starting;
                self.is_in_doubt |= proposed.is_some();
            }
        }
    }

    /// Whether the coordinator was restored from a backup that is older than what it had this primary
    /// told: as good as silent.
    fn is_outdated(&self, answer: &CoordinatorAnswer) -> bool {
        let CoordinatorAnswer::Newest(newest) = answer else { return false };
        let is_starting = matches!(self.phase, Phase::Starting(_));
        !is_starting && self.view.as_ref().is_some_and(|view| newest.generation < view.generation)
    }

    /// Answers commands that have waited for the coordinator for too long. What was asked of it may
    /// have been committed.
    pub(super) fn give_up_commands(&mut self, cx: &mut Context<'_, P>) {
        let patience = self.config.settings.coordinator_patience;
        let is_long = |since: Instant| cx.now.since(since) >= patience;
        let silent_since = self.coordinator_silent_since.or(self.call.as_ref().map(Call::since));
        if !silent_since.is_some_and(is_long) {
            return;
        }
        let limit = Instant(cx.now.0.saturating_sub(patience.as_nanos() as u64));
        let asked = match &mut self.call {
            Some(Call { kind: CallKind::Swap(_, edits), .. }) => edits.as_mut_slice(),
            _ => &mut [],
        };
        let mut given_up: Vec<_> = asked.iter_mut().filter_map(|p| p.take_command(limit)).collect();
        self.edits.retain_mut(|pending| match pending.take_command(limit) {
            Some(id) => {
                given_up.push(id);
                false
            }
            None => true,
        });
        for id in given_up {
            let result = Err(CommandError::NoCoordinator);
            cx.effects.push(PrimaryEffect::CommandDone { id, result });
        }
    }

    fn committed(&mut self, cx: &mut Context<'_, P>, view: View) {
        if matches!(self.phase, Phase::Starting(_)) {
            self.started(cx, view);
        } else {
            self.install(cx, view);
        }
    }

    /// The coordinator's newest view: perhaps this primary's own, committed unanswered; perhaps
    /// another's.
    fn newest(&mut self, cx: &mut Context<'_, P>, newest: View) {
        let is_primary = newest.has_primary(self.config.id);
        if matches!(self.phase, Phase::Starting(_)) {
            return if is_primary { self.started(cx, newest) } else { self.gather(cx, newest) };
        }
        let Some(view) = &self.view else { return };
        let own_detach = self.is_giving_up() && newest.primaries.is_empty();
        match newest.generation.cmp(&view.generation) {
            _ if !is_primary && !own_detach => {
                if view.has_primary(self.config.id) {
                    self.end(cx, EndReason::Fenced);
                }
            }
            core::cmp::Ordering::Greater => {
                self.is_in_doubt = false;
                self.install(cx, newest);
            }
            core::cmp::Ordering::Equal if newest == *view => self.still_newest(cx),
            core::cmp::Ordering::Equal => self.end(cx, EndReason::Fenced),
            core::cmp::Ordering::Less => {
                self.coordinator_silent_since.get_or_insert(cx.now);
                self.must_read = true;
                self.retry_call_at = cx.now + CALL_PAUSE;
            }
        }
    }

    /// A refusal was passing: whoever refused adopted nothing newer. Ask it again.
    fn still_newest(&mut self, cx: &mut Context<'_, P>) {
        self.retry_call_at = cx.now + CALL_PAUSE;
        let ready: Vec<_> =
            self.peers.values().filter(|p| p.ready_link().is_some()).map(|p| p.id).collect();
        for replica in ready {
            if self.unadopted.contains(&replica) {
                self.send_adopt(cx, replica);
            } else {
                self.resend(cx, replica);
            }
        }
    }

    /// Makes a committed view the one to work by, and has all members adopt it.
    pub(super) fn install(&mut self, cx: &mut Context<'_, P>, view: View) {
        let old = self.view.replace(view);
        let Some(view) = self.view.clone() else { return };
        self.update_peers(cx.now);
        if old.iter().any(|old| brings_anybody(old, &view)) {
            self.tick_at = cx.now;
        }
        self.note_absences(cx.now);
        let left: Vec<_> = old.iter().flat_map(|old| left_between(old, &view)).collect();
        for (replica, cause) in left {
            self.replica_left(cx, replica, cause);
        }
        self.retarget_parts();
        self.forget_removed(cx, &view);
        for (_, record) in view.replicas().filter(|(_, record)| record.since == view.generation) {
            match (record.state, record.role) {
                (ReplicaState::Rebuilding, Role::Spare(Some(absent))) => {
                    cx.note(Note::StandsIn(record.id, absent));
                }
                (ReplicaState::Rebuilding, _) => cx.note(Note::Admitted(record.id)),
                (ReplicaState::InSync, _) => cx.note(Note::Completed(record.id)),
                _ => {}
            }
        }
        self.keep_completed(&view);
        self.verify.iter_mut().for_each(Verify::reset_pace);
        self.drains.clear();
        self.adopting_since = cx.now;
        self.unadopted = view
            .replicas()
            .filter(|(_, record)| record.state.takes_writes())
            .map(|(_, record)| record.id)
            .collect();
        if (0..self.mirrors.len()).any(|mirror| self.has_lost_everywhere(mirror)) {
            // The only one left failed an acknowledged write while this view was on its way.
            return self.end(cx, EndReason::LostWrites);
        }
        self.make_ready(cx, &view);
    }

    /// A replica has become in-sync although its source had failed a write meanwhile that it has. From
    /// now on it is read, so it stays, and the source leaves.
    fn keep_completed(&mut self, view: &View) {
        for (mirror, record) in view.replicas() {
            let is_new = record.state == ReplicaState::InSync && record.since == view.generation;
            let mut others = view.mirrors[mirror].in_sync().filter(|other| other.id != record.id);
            if is_new && !self.has_failed(record.id) && others.any(|r| self.has_failed(r.id)) {
                self.edits.retain(|pending| {
                    !matches!(pending.edit, Edit::Leave { replica, cause: Cause::SourceFailed, .. }
                        if replica == record.id)
                });
            }
        }
    }

    /// Sends the view to the members with which a session is open.
    fn make_ready(&mut self, cx: &mut Context<'_, P>, view: &View) {
        for (_, record) in view.replicas() {
            let Some(peer) = self.peers.get_mut(&record.id) else { continue };
            let life = peer.life.map(|(incarnation, _)| incarnation);
            peer.ready = false;
            let is_member = record.state.takes_writes() && life == Some(record.incarnation);
            if is_member && peer.open_link().is_some() {
                peer.become_ready();
            }
            // A ping of the old generation won't be answered as asked.
            peer.ping = None;
            if record.state == ReplicaState::InSync && record.since == view.generation {
                peer.retry_pause = self.config.settings.retry_pause.0;
            }
            if peer.ready {
                self.send_adopt(cx, record.id);
            }
        }
    }

    pub(super) fn send_adopt(&mut self, cx: &mut Context<'_, P>, replica: ReplicaId) {
        let link = self.peers.get(&replica).and_then(|peer| peer.ready_link());
        if let (Some(link), Some(view)) = (link, &self.view) {
            cx.send(link, Message::Adopt { view: Box::new(view.clone()) }, None);
        }
    }

    /// A replica is no member any more, or none of the volume.
    fn replica_left(&mut self, cx: &mut Context<'_, P>, replica: ReplicaId, cause: Cause) {
        let state = self.state_of(replica);
        let (longest, lag) = (self.config.settings.retry_pause.1, self.config.settings.lag);
        let Some(peer) = self.peers.get_mut(&replica) else { return };
        let (mirror, bit) = (peer.mirror, peer.bit());
        if let Some(link) = peer.any_link()
            && !state.is_some_and(ReplicaState::takes_writes)
        {
            self.links.remove(&link);
            peer.link = super::peers::PeerLink::Down;
            cx.effects.push(PrimaryEffect::Disconnect { link });
        }
        peer.ready = false;
        peer.ping = None;
        peer.failing = None;
        peer.failed_reads = 0;
        peer.lacks_writes = false;
        peer.late = false;
        peer.lost = false;
        peer.renewed_at = None;
        peer.confirmed = None;
        peer.progress = None;
        peer.unanswered_sessions = 0;
        peer.retry_at = cx.now
            + match cause {
                Cause::Lagging => peer.speed.pause(&lag),
                _ => peer.retry_pause,
            };
        peer.retry_pause = (peer.retry_pause * 2).min(longest);
        self.session_ended(replica);
        self.forget_target(mirror, bit);
        self.release_settling(mirror, bit);
        if state.is_some() {
            cx.note(Note::Left(replica, cause));
        }
    }

    /// Forgets replicas that do not belong to the volume any more.
    fn forget_removed(&mut self, cx: &mut Context<'_, P>, view: &View) {
        let links = &mut self.links;
        self.peers.retain(|id, peer| {
            let stays = view.replica(*id).is_some();
            if !stays && let Some(link) = peer.any_link() {
                links.remove(&link);
                cx.effects.push(PrimaryEffect::Disconnect { link });
            }
            if !stays {
                cx.effects.push(PrimaryEffect::Note(Note::Removed(*id, peer.node)));
            }
            stays
        });
    }

    pub(super) fn adopted(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        generation: Generation,
    ) {
        if generation != self.generation() || !self.unadopted.remove(&replica) {
            return;
        }
        let asked = self.adopting_since;
        if let Some(peer) = self.peers.get_mut(&replica) {
            peer.confirm(asked);
        }
        self.resend(cx, replica);
        self.tell_settled_to(cx, replica);
        if self.unadopted.is_empty() {
            if core::mem::take(&mut self.is_takeover) {
                cx.note(Note::Serving(generation));
            }
            self.unconfirmed.clear();
            self.check_all_parts(cx);
        }
    }

    /// A replica has adopted another generation than that of a message.
    pub(super) fn refused(
        &mut self,
        _cx: &mut Context<'_, P>,
        replica: ReplicaId,
        _adopted: Generation,
        sequence: Option<Sequence>,
    ) {
        if let Some(sequence) = sequence {
            self.part_refused(replica, sequence);
        }
        if let Some(peer) = self.peers.get_mut(&replica) {
            peer.ping = None;
        }
        self.must_read = true;
    }

    pub(super) fn fenced(&mut self, link: LinkId, generation: Generation) {
        if generation > self.generation() {
            self.fence_notices.retain(|(other, _)| *other != link);
            self.fence_notices.push((link, generation));
            self.must_read = true;
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

fn finish_command<P>(
    cx: &mut Context<'_, P>,
    pending: PendingEdit,
    result: Result<(), CommandError>,
) {
    if let Some(id) = pending.command() {
        cx.effects.push(PrimaryEffect::CommandDone { id, result });
    }
}

impl PendingEdit {
    /// The operator's command that waits for this edit.
    pub(super) fn command(&self) -> Option<CommandId> {
        self.command.map(|(id, _)| id)
    }

    /// Takes the command away if it came before `limit`.
    fn take_command(&mut self, limit: Instant) -> Option<CommandId> {
        self.command.take_if(|(_, came)| *came <= limit).map(|(id, _)| id)
    }
}

impl Call {
    /// The commands that wait for this call.
    pub(super) fn commands(&self) -> impl Iterator<Item = CommandId> {
        let edits = match &self.kind {
            CallKind::Swap(_, edits) => edits.as_slice(),
            CallKind::Read => &[],
        };
        edits.iter().filter_map(PendingEdit::command)
    }

    /// Whether anything waits for it: a swap without edits only ends a doubt.
    pub(super) fn is_wanted(&self) -> bool {
        match &self.kind {
            CallKind::Read => true,
            CallKind::Swap(_, edits) => !edits.is_empty(),
        }
    }

    /// Since when it waits.
    pub(super) fn since(&self) -> Instant {
        self.since
    }
}
