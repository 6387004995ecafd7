//! View changes: what is wanted ([`super::edits`]) is made into the next view as far as the present
//! one permits (rule V5). The coordinator commits it ([`super::coordinator`]), and all members
//! adopt it ([`super::adoption`]).

use super::edits::{Edit, PendingEdit};
use crate::ids::*;
use crate::message::Failure;
use crate::payload::Payload;
use crate::primary::membership::peer::Peer;
use crate::primary::{Command, CommandError, Context, Phase, Primary, PrimaryEffect};
use crate::view::{Cause, ReplicaState, View, ViewError};

impl<P: Payload> Primary<P> {
    /// Asks for a change of the view. Asking twice is asking once.
    pub(in crate::primary) fn edit(&mut self, edit: Edit) {
        self.edits.want(edit);
    }

    /// A member should leave. It does if the mirror can go on without it.
    pub(in crate::primary) fn wants_to_leave(&mut self, replica: ReplicaId, cause: Cause) {
        let state = match cause {
            Cause::Medium | Cause::NoSpace | Cause::Operator | Cause::OtherHistory => {
                ReplicaState::Faulty
            }
            _ => ReplicaState::Stale,
        };
        if self.is_member(replica) && !self.edits.have_leave(replica) {
            self.edit(Edit::Leave { replica, state, cause });
        }
    }

    /// As what a member is to leave and why, if it is: wanted, or asked of the coordinator already.
    /// The last one of a mirror never leaves, though its requests are late.
    pub(in crate::primary) fn leaving(&self, replica: ReplicaId) -> Option<(ReplicaState, Cause)> {
        let mut next = self.view.as_ref()?.successor();
        for pending in self.calls.edits().iter().chain(self.edits.iter()) {
            let is_possible = self.apply(&mut next, pending.edit()).is_ok();
            if let Edit::Leave { replica: leaves, state, cause } = pending.edit()
                && leaves == replica
            {
                return is_possible.then_some((state, cause));
            }
        }
        None
    }

    /// A replica says by this generation that its disk failed. What it failed before it was
    /// admitted it is to copy anew.
    pub(in crate::primary) fn told_of_failure(
        &mut self,
        replica: ReplicaId,
        generation: Generation,
        failure: Failure,
    ) {
        let record = self.view.as_ref().and_then(|view| view.replica(replica));
        let counts = record.is_some_and(|(_, record)| match record.state {
            ReplicaState::InSync => true,
            ReplicaState::Rebuilding => record.since <= generation,
            ReplicaState::Stale | ReplicaState::Faulty | ReplicaState::Spare => false,
        });
        if counts {
            self.failed_flush(replica);
            self.disk_failed(replica, failure);
        }
    }

    /// A replica's disk failed.
    pub(in crate::primary) fn disk_failed(&mut self, replica: ReplicaId, failure: Failure) {
        let cause = match failure {
            Failure::Medium | Failure::Damaged | Failure::Invalid => Cause::Medium,
            Failure::NoSpace => Cause::NoSpace,
        };
        if let Some(peer) = self.membership.known_mut(replica) {
            peer.disk_mut().fail(cause);
            let (mirror, bit) = (peer.mirror(), peer.bit());
            self.parts.take_reads_from(mirror, bit);
            self.wants_to_leave(replica, cause);
        }
    }

    /// A replica could not make durable what it has, or may have.
    pub(in crate::primary) fn failed_flush(&mut self, replica: ReplicaId) {
        self.membership
            .known_mut(replica)
            .into_iter()
            .for_each(|peer| peer.disk_mut().fail_flush());
    }

    pub(in crate::primary) fn command(
        &mut self,
        cx: &mut Context<'_, P>,
        id: CommandId,
        command: Command,
    ) {
        let cause = Cause::Operator;
        let edit = match command {
            Command::Fail(replica) => Edit::Leave { replica, state: ReplicaState::Faulty, cause },
            Command::Remove(replica) => Edit::Remove(replica),
            Command::ReAdd(replica) => Edit::ReAdd(replica),
            Command::Change(change) => Edit::Change(change),
            Command::Verify { repair, source } => {
                self.begin_verify(cx.now, repair, source);
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
        self.edits.want_for(id, edit, cx.now);
    }

    /// Starts the next call to the coordinator, if one is wanted.
    pub(in crate::primary) fn advance_change(&mut self, cx: &mut Context<'_, P>) {
        if !cx.stage.is_acting() || !self.calls.may_begin(cx.now) {
            return; // This is asked again after every event.
        }
        if self.wants_newest() {
            return self.call_read(cx);
        }
        // Those that it leaves see to the replicas.
        let has_others = self.view.as_ref().is_some_and(|view| !view.primaries.is_empty());
        if self.has_given_up() && has_others {
            return;
        }
        let may_edit = self.adoption.is_over() || self.edits.unblock(self.adoption.awaited());
        if may_edit && !self.edits.is_empty() {
            self.swap_edits(cx);
        }
        if !self.calls.is_under_way() && self.adoption.is_over() {
            self.end_doubt(cx);
        }
        if !self.calls.is_under_way() && self.adoption.is_over() {
            self.poll(cx);
        }
    }

    /// Makes the next view of all edits that it permits, and has it committed.
    fn swap_edits(&mut self, cx: &mut Context<'_, P>) {
        let Some(unchanged) = self.known_view().map(View::successor) else { return };
        let mut next = unchanged.clone();
        let mut applied = Vec::new();
        for pending in self.edits.take() {
            match self.apply(&mut next, pending.edit()) {
                Ok(()) => applied.push(pending),
                Err(error) => finish_command(cx, pending, Err(CommandError::View(error))),
            }
        }
        if next == unchanged {
            return applied.into_iter().for_each(|pending| self.edit_done(cx, pending));
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
            Edit::Complete { replica, .. } if self.membership.has_failed(replica) => {
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
            // One that is gone already was perhaps removed by just this, in a swap whose answer was
            // lost.
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
                let mut changed = next.clone();
                changed.change(change)?;
                if changed.intents.slots < next.intents.slots {
                    self.check_slots(changed.intents.slots)?;
                }
                *next = changed;
                Ok(())
            }
            // Everybody is to know first that all are in-sync.
            Edit::Grow(_) if !self.adoption.is_over() => Err(ViewError::NotAllInSync),
            Edit::Grow(size) => next.grow(size),
            Edit::Detach => {
                let me = self.config.id;
                next.primaries.retain(|record| record.id != me);
                Ok(())
            }
            Edit::Evict(dead) => {
                self.apply_eviction(next, dead);
                Ok(())
            }
        }
    }

    fn has_restarted(&self, replica: ReplicaId, since: Incarnation) -> bool {
        let incarnation = self.membership.get(&replica).and_then(Peer::incarnation);
        incarnation.is_some_and(|incarnation| incarnation != since)
    }
}

pub(in crate::primary) fn finish_command<P>(
    cx: &mut Context<'_, P>,
    pending: PendingEdit,
    result: Result<(), CommandError>,
) {
    if let Some(id) = pending.command() {
        cx.effects.push(PrimaryEffect::CommandDone { id, result });
    }
}
