//! What becomes of a view: the changes that its successor may hold.

use super::{Cause, Change, Protocol, ReplicaRecord, ReplicaState, Role, View, ViewError};
use crate::ids::*;
use crate::settings::*;

impl View {
    pub(super) fn record_mut(&mut self, id: ReplicaId) -> Result<&mut ReplicaRecord, ViewError> {
        self.mirrors
            .iter_mut()
            .flat_map(|mirror| mirror.replicas.iter_mut())
            .find(|record| record.id == id)
            .ok_or(ViewError::UnknownReplica)
    }

    pub(super) fn set_state(
        &mut self,
        id: ReplicaId,
        state: ReplicaState,
    ) -> Result<(), ViewError> {
        let generation = self.generation;
        let record = self.record_mut(id)?;
        match (record.state, state) {
            (_, ReplicaState::InSync) => record.missing_since = None,
            (ReplicaState::InSync, _) => record.missing_since = Some(generation),
            _ => {}
        }
        record.state = state;
        record.since = generation;
        Ok(())
    }

    /// What this replica has can't be relied upon: it lacks everything.
    ///
    /// # Errors
    /// If the view does not hold the replica.
    pub fn distrust(&mut self, id: ReplicaId) -> Result<(), ViewError> {
        self.record_mut(id)?.missing_since = None;
        Ok(())
    }

    /// Whether a replica may leave its mirror.
    pub(super) fn may_leave(&self, id: ReplicaId) -> Result<(), ViewError> {
        let (mirror, record) = self.replica(id).ok_or(ViewError::UnknownReplica)?;
        if record.cause == Cause::Unconfirmed {
            return Err(ViewError::Unconfirmed);
        }
        if record.state == ReplicaState::InSync && self.mirrors[mirror].in_sync().count() == 1 {
            return Err(ViewError::LastInSync);
        }
        Ok(())
    }

    /// Takes a replica out of the mirror: to `stale`, from where it returns by itself, or to
    /// `faulty`, where it waits for a command. One that is faulty already stays so for the reason
    /// that it has: that says what it may lack when it is brought back.
    ///
    /// # Errors
    /// [`ViewError::LastInSync`] if the mirror would lose its last in-sync replica;
    /// [`ViewError::Unconfirmed`].
    pub fn leave(
        &mut self,
        id: ReplicaId,
        state: ReplicaState,
        cause: Cause,
    ) -> Result<(), ViewError> {
        self.may_leave(id)?;
        let is_faulty = |state| state == ReplicaState::Faulty;
        if !(is_faulty(state) && is_faulty(self.record_mut(id)?.state)) {
            self.set_state(id, state)?;
            self.record_mut(id)?.cause = cause;
        }
        if matches!(cause, Cause::OtherHistory | Cause::StaleClone) {
            self.distrust(id)?;
        }
        Ok(())
    }

    /// Lets a replica that had left take part again: it gets new writes from now on, and rebuilds.
    ///
    /// # Errors
    /// [`ViewError::WrongState`] if it is a member already.
    pub fn admit(&mut self, id: ReplicaId, incarnation: Incarnation) -> Result<(), ViewError> {
        let record = self.record_mut(id)?;
        if record.state.takes_writes() {
            return Err(ViewError::WrongState(record.state));
        }
        record.incarnation = incarnation;
        self.set_state(id, ReplicaState::Rebuilding)
    }

    /// A rebuilding replica has everything. If it replaces another one, that leaves the volume;
    /// those that stood in for it are spares again.
    ///
    /// # Errors
    /// If it is not rebuilding, or has had another incarnation since it began.
    pub fn complete(&mut self, id: ReplicaId, incarnation: Incarnation) -> Result<(), ViewError> {
        let record = self.record_mut(id)?;
        if record.state != ReplicaState::Rebuilding {
            return Err(ViewError::WrongState(record.state));
        }
        if record.incarnation != incarnation {
            return Err(ViewError::WrongIncarnation);
        }
        record.cause = Cause::None;
        self.set_state(id, ReplicaState::InSync)?;
        self.fulfil_role(id)
    }

    /// Sets what the first view of a new primary says of a replica, and its incarnation if that is
    /// known.
    pub(crate) fn appoint(
        &mut self,
        id: ReplicaId,
        state: ReplicaState,
        cause: Cause,
        incarnation: Option<Incarnation>,
    ) {
        if self.record_mut(id).is_ok_and(|record| record.state != state) {
            let _ = self.set_state(id, state);
        }
        if let Ok(record) = self.record_mut(id) {
            record.cause = cause;
            record.incarnation = incarnation.unwrap_or(record.incarnation);
        }
    }

    /// Notes that a replica lives on this node now: its disk was moved there.
    ///
    /// # Errors
    /// If the view does not hold the replica.
    pub fn relocate(&mut self, id: ReplicaId, node: NodeId) -> Result<(), ViewError> {
        self.record_mut(id)?.node = node;
        Ok(())
    }

    /// Records the incarnation that a member has now, where that is known to have lost nothing.
    ///
    /// # Errors
    /// If the view does not hold the replica.
    pub fn renew(&mut self, id: ReplicaId, incarnation: Incarnation) -> Result<(), ViewError> {
        self.record_mut(id)?.incarnation = incarnation;
        Ok(())
    }

    /// Changes something of the volume as a whole.
    ///
    /// # Errors
    /// [`ViewError::SlotHeld`] if a primary's slot would go; [`ViewError::NotProtocolC`] if there
    /// could be several primaries by another protocol; [`ViewError::WrongSlots`]; those of
    /// [`ReservationChange`].
    pub fn change(&mut self, change: Change) -> Result<(), ViewError> {
        let mut next = self.clone();
        match change {
            Change::Protocol(protocol) => next.protocol = protocol,
            Change::Bitmap { bitmap, slots } => {
                (next.bitmap, next.intents.slots) = (bitmap, slots);
            }
            Change::Intents(layout) => next.intents = layout,
            Change::RebuildLimit(limit) => next.rebuild_limit = limit,
            Change::Lease(lease) => next.lease = lease,
            Change::NoCoordinator(policy) => next.no_coordinator = policy,
            Change::NoData(milliseconds) => next.no_data = Some(milliseconds),
            Change::Reservation(change) => next.change_reservations(change)?,
        }
        if !(1..=MAX_PRIMARIES).contains(&usize::from(next.intents.slots)) {
            return Err(ViewError::WrongSlots);
        }
        if let Some(held) = next.primaries.iter().find(|record| record.slot >= next.intents.slots) {
            return Err(ViewError::SlotHeld(held.slot));
        }
        if next.is_shared() && next.protocol != Protocol::C {
            return Err(ViewError::NotProtocolC);
        }
        *self = next;
        Ok(())
    }

    /// Takes a replica out of the volume for good.
    ///
    /// # Errors
    /// [`ViewError::WrongState`] while it is a member: it must have left first;
    /// [`ViewError::Unconfirmed`].
    pub fn remove(&mut self, id: ReplicaId) -> Result<(), ViewError> {
        let (_, record) = self.replica(id).ok_or(ViewError::UnknownReplica)?;
        if record.state.takes_writes() {
            return Err(ViewError::WrongState(record.state));
        }
        self.may_leave(id)?;
        self.take_out(id);
        Ok(())
    }

    /// Lets a failed replica return by itself, or be a spare as before. If its disk reported
    /// errors, what else that has damaged is unknown: it lacks everything from now on, and is
    /// copied whole.
    ///
    /// # Errors
    /// [`ViewError::WrongState`] if it is not faulty.
    pub fn readmit(&mut self, id: ReplicaId) -> Result<(), ViewError> {
        let record = self.record_mut(id)?;
        match (record.state, record.role) {
            (ReplicaState::Stale, _) => Ok(()),
            (ReplicaState::Faulty, Role::Spare(None)) => {
                record.cause = Cause::None;
                self.set_state(id, ReplicaState::Spare)
            }
            (ReplicaState::Faulty, _) => {
                let has_failing_disk = record.cause == Cause::Medium;
                self.set_state(id, ReplicaState::Stale)?;
                if has_failing_disk { self.distrust(id) } else { Ok(()) }
            }
            (state, _) => Err(ViewError::WrongState(state)),
        }
    }
}
