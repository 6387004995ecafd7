//! View changes: what is wanted ([`super::edits`]) is made into the next view as far as the present
//! one permits (rule V5). The coordinator commits it ([`super::coordinator`]), and all members
//! adopt it ([`super::adoption`]).

use super::Views;
use super::edits::{Edit, PendingEdit};
use super::members::{apply_departure, apply_leave};
use super::primaries::evict;
use crate::ids::*;
use crate::primary::membership::peer::Peer;
use crate::primary::membership::{Membership, OutOfSync};
use crate::primary::{CommandError, Context, PrimaryEffect};
use crate::settings::MAX_PRIMARIES;
use crate::view::{Cause, ReplicaState, View, ViewError};

/// What decides, beside the view, whether a change of it is possible.
#[derive(Clone, Copy)]
pub(in crate::primary) struct Grounds<'a> {
    pub me: PrimaryId,
    pub peers: &'a Membership,
    pub out_of_sync: OutOfSync<'a>,
}

impl Grounds<'_> {
    /// Whether a mirror can rely on this replica.
    pub fn is_sound(&self, replica: ReplicaId) -> bool {
        self.peers.is_sound(replica, self.out_of_sync)
    }

    fn has_restarted(&self, replica: ReplicaId, since: Incarnation) -> bool {
        let incarnation = self.peers.get(&replica).and_then(Peer::incarnation);
        incarnation.is_some_and(|incarnation| incarnation != since)
    }

    /// Whether these slots are all that hold anything, as far as the replicas have told.
    fn check_slots(&self, slots: u8) -> Result<(), ViewError> {
        let open = self.peers.open_slots();
        match (slots..MAX_PRIMARIES as u8).find(|slot| open & 1 << slot != 0) {
            Some(slot) => Err(ViewError::SlotOpen(slot)),
            None => Ok(()),
        }
    }
}

impl Views {
    /// As what a member is to leave and why, if it is: wanted, or asked of the coordinator already.
    /// The last one of a mirror never leaves, though its requests are late.
    pub fn leaving(
        &self,
        grounds: Grounds<'_>,
        replica: ReplicaId,
    ) -> Option<(ReplicaState, Cause)> {
        let mut next = self.view.successor();
        for pending in self.asking.calls.edits().iter().chain(self.asking.edits.iter()) {
            let is_possible = self.apply(&mut next, pending.edit(), grounds).is_ok();
            if let Edit::Leave { replica: leaves, state, cause } = pending.edit()
                && leaves == replica
            {
                return is_possible.then_some((state, cause));
            }
        }
        None
    }

    /// The last in-sync replica of a mirror failed a write that rebuilding ones may have: they
    /// begin anew, so that they do not keep what their source lacks.
    pub fn rebuilds_lack_a_source(&mut self, peers: &Membership, mirror: usize) {
        let peers = peers.mirror(mirror);
        for id in peers.ids(peers.members() & !peers.in_sync()) {
            self.wants_to_leave(id, Cause::SourceFailed);
        }
    }

    /// A replica has everything, and every primary has finished its writes.
    pub fn rebuild_done(&mut self, peers: &Membership, replica: ReplicaId, generation: Generation) {
        let is_rebuilding = self.state_of(replica) == Some(ReplicaState::Rebuilding);
        let peer = peers.known(replica).filter(|peer| peer.is_ready());
        if let Some(incarnation) = peer.and_then(Peer::incarnation)
            && is_rebuilding
            && generation == self.generation()
        {
            self.edit(Edit::Complete { replica, incarnation });
        }
    }

    /// Starts the next call to the coordinator, if one is wanted. Tells which edits are done
    /// because they change nothing; after them [`Self::settle`] goes on.
    pub fn advance<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        peers: &mut Membership,
        out_of_sync: OutOfSync<'_>,
    ) -> Vec<PendingEdit> {
        if !cx.stage.is_acting() || !self.asking.calls.may_begin(cx.now) {
            return Vec::new(); // This is asked again after every event.
        }
        if self.wants_newest() {
            self.call_read(cx);
            return Vec::new();
        }
        let may_edit =
            self.adoption.is_over() || self.asking.edits.unblock(self.adoption.awaited());
        if may_edit && !self.asking.edits.is_empty() && !self.leaves_it_to_others(cx) {
            return self.swap_edits(cx, peers, out_of_sync);
        }
        Vec::new()
    }

    /// If nothing else is asked of the coordinator: ends a doubt, or looks whether others have
    /// changed the view.
    pub fn settle<P>(&mut self, cx: &mut Context<'_, P>, peers: &mut Membership) {
        if !self.can_send(cx.stage)
            || !self.asking.calls.may_begin(cx.now)
            || self.leaves_it_to_others(cx)
        {
            return; // This is asked again after every event.
        }
        self.end_doubt(cx, peers);
        if !self.asking.calls.is_under_way() {
            self.poll(cx);
        }
    }

    /// Whether this primary has left, and those that it leaves see to the replicas.
    fn leaves_it_to_others<P>(&self, cx: &Context<'_, P>) -> bool {
        !self.view.primaries.is_empty() && self.has_given_up(&cx.config)
    }

    /// Makes the next view of all edits that it permits, and has it committed.
    fn swap_edits<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        peers: &mut Membership,
        out_of_sync: OutOfSync<'_>,
    ) -> Vec<PendingEdit> {
        let unchanged = self.view.successor();
        let mut next = unchanged.clone();
        let mut applied = Vec::new();
        let grounds = Grounds { me: cx.config.id, peers, out_of_sync };
        for pending in self.asking.edits.take() {
            match self.apply(&mut next, pending.edit(), grounds) {
                Ok(()) => applied.push(pending),
                Err(error) => finish_command(cx, pending, Err(CommandError::View(error))),
            }
        }
        if next == unchanged {
            return applied;
        }
        self.call_swap_for(cx, peers, next, applied);
        Vec::new()
    }

    fn apply(&self, next: &mut View, edit: Edit, grounds: Grounds<'_>) -> Result<(), ViewError> {
        match edit {
            Edit::Leave { replica, state, cause } => {
                apply_leave(next, grounds, replica, state, cause)
            }
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
            Edit::Complete { replica, .. } if grounds.peers.has_failed(replica) => {
                Err(ViewError::WrongState(ReplicaState::Rebuilding))
            }
            // One that restarted since has left (W5).
            Edit::Complete { replica, incarnation }
                if grounds.has_restarted(replica, incarnation) =>
            {
                Err(ViewError::WrongIncarnation)
            }
            Edit::Complete { replica, incarnation } => {
                apply_departure(next, grounds, |view| view.complete(replica, incarnation))
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
            Edit::Retire(replica) => apply_departure(next, grounds, |view| view.retire(replica)),
            Edit::StandIn { replica, incarnation, absent } => {
                next.stand_in(replica, incarnation, absent)
            }
            Edit::Change(change) => {
                let mut changed = next.clone();
                changed.change(change)?;
                if changed.intents.slots < next.intents.slots {
                    grounds.check_slots(changed.intents.slots)?;
                }
                *next = changed;
                Ok(())
            }
            // Everybody is to know first that all are in-sync.
            Edit::Grow(_) if !self.adoption.is_over() => Err(ViewError::NotAllInSync),
            Edit::Grow(size) => next.grow(size),
            Edit::Detach => {
                next.primaries.retain(|record| record.id != grounds.me);
                Ok(())
            }
            Edit::Evict(dead) => {
                evict(next, dead, grounds.me.node, |replica| grounds.is_sound(replica));
                Ok(())
            }
        }
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
