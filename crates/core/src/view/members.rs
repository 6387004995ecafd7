//! Who belongs to a mirror: replicas that are added, replaced, taken out, and spares that stand in.
//!
//! What is intended with a replica stands in the view, as its [`Role`]. So whoever runs the volume
//! when the replica is in-sync carries it out, in the same swap, whatever has become of the node
//! that gave the command.

use super::{Cause, MirrorView, ReplicaRecord, ReplicaState, View, ViewError};
use crate::ids::*;
use crate::settings::{MAX_REPLICAS, MAX_REPLICAS_IN_ALL};
use crate::stripe::Geometry;

/// Why a replica is in its mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// It is one of the mirror's copies.
    #[default]
    Own,
    /// It takes the place of this one, which leaves the volume when this replica is in-sync.
    Replaces(ReplicaId),
    /// It is a spare. If it stands in for a copy that is not there, for which: when that one is
    /// in-sync again, it is a spare as before; when that one is removed, it is a copy itself.
    Spare(Option<ReplicaId>),
}

impl Role {
    /// The replica in whose place it is.
    #[must_use]
    pub const fn instead_of(self) -> Option<ReplicaId> {
        match self {
            Self::Own | Self::Spare(None) => None,
            Self::Replaces(other) | Self::Spare(Some(other)) => Some(other),
        }
    }
}

/// A replica to be added. Its disk holds a superblock of this volume already, and no data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newcomer {
    /// Its identity, as its superblocks have it.
    pub id: ReplicaId,
    /// The node that has its disk.
    pub node: NodeId,
    /// Its mirror.
    pub mirror: usize,
    /// What for.
    pub role: Role,
}

/// What the view does not say of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circumstances {
    /// Its node and its disk answer, as far as anybody knows.
    pub answers: bool,
    /// The volume is attached on its node.
    pub is_attached: bool,
}

impl MirrorView {
    /// The replicas that count when it is asked how many copies there are: not spares, and not
    /// those that only replace another one.
    pub fn copies(&self) -> impl Iterator<Item = &ReplicaRecord> {
        self.replicas.iter().filter(|record| record.role == Role::Own)
    }

    /// Whether the numbers and references are possible.
    pub(super) fn has_valid_roles(&self) -> bool {
        self.replicas.iter().all(|record| {
            let is_here = |other| self.replicas.iter().any(|r| r.id == other);
            let refers_well =
                record.role.instead_of().is_none_or(|other| other != record.id && is_here(other));
            let idles_well =
                record.state != ReplicaState::Spare || record.role == Role::Spare(None);
            let is_done = record.state == ReplicaState::InSync;
            refers_well && idles_well && !(is_done && matches!(record.role, Role::Replaces(_)))
        })
    }

    /// Which copy goes first if there are to be fewer: the one whose loss harms least. One that is
    /// not in-sync, those that have failed before those that are stale before those that rebuild;
    /// then one that does not answer; then one where the volume is not attached; then one that
    /// shares its node with another replica of the mirror; of equals the last in the view. `None`:
    /// there is no copy, or it is the last in-sync replica.
    #[must_use]
    pub fn dispensable(
        &self,
        circumstances: impl Fn(&ReplicaRecord) -> Circumstances,
    ) -> Option<ReplicaId> {
        let rank = |(place, record): &(usize, &ReplicaRecord)| {
            let state = match record.state {
                ReplicaState::Faulty => 3,
                ReplicaState::Stale | ReplicaState::Spare => 2,
                ReplicaState::Rebuilding => 1,
                ReplicaState::InSync => 0,
            };
            let Circumstances { answers, is_attached } = circumstances(record);
            let neighbours = self.replicas.iter().filter(|other| other.node == record.node).count();
            (state, !answers, !is_attached, neighbours > 1, *place)
        };
        let (_, record) = self.copies().enumerate().max_by_key(rank)?;
        let in_sync = self.in_sync().count();
        (record.state != ReplicaState::InSync || in_sync > 1).then_some(record.id)
    }
}

impl View {
    /// Adds a replica that lacks everything. Adding one that is there is no error.
    ///
    /// # Errors
    /// If there is no such mirror, it has as many replicas as it may have, the replica is in
    /// another one, or the one to be replaced is not in it, is no copy, or is being replaced
    /// already.
    pub fn add(&mut self, new: Newcomer) -> Result<(), ViewError> {
        let generation = self.generation;
        match self.replica(new.id) {
            Some((mirror, _)) if mirror == new.mirror => return Ok(()),
            Some((_, record)) => return Err(ViewError::WrongState(record.state)),
            None => {}
        }
        let in_all = self.replicas().count();
        let mirror = self.mirrors.get_mut(new.mirror).ok_or(ViewError::UnknownMirror)?;
        if mirror.replicas.len() >= MAX_REPLICAS || in_all >= MAX_REPLICAS_IN_ALL {
            return Err(ViewError::TooManyReplicas);
        }
        if let Some(old) = new.role.instead_of() {
            let find = |id| mirror.replicas.iter().find(|record| record.id == id);
            let record = find(old).ok_or(ViewError::UnknownReplica)?;
            if record.role != Role::Own {
                return Err(ViewError::NoCopy);
            }
            if mirror.replicas.iter().any(|record| record.role == Role::Replaces(old)) {
                return Err(ViewError::ReplacedAlready);
            }
        }
        let is_spare = new.role == Role::Spare(None);
        mirror.replicas.push(ReplicaRecord {
            id: new.id,
            node: new.node,
            state: if is_spare { ReplicaState::Spare } else { ReplicaState::Stale },
            since: generation,
            incarnation: Incarnation(0),
            cause: Cause::None,
            missing_since: None,
            role: new.role,
        });
        Ok(())
    }

    /// Takes a replica out of the volume for good, whatever its state.
    ///
    /// # Errors
    /// [`ViewError::LastInSync`] if the mirror would lose its last in-sync replica;
    /// [`ViewError::Unconfirmed`].
    pub fn retire(&mut self, id: ReplicaId) -> Result<(), ViewError> {
        self.may_leave(id)?;
        self.take_out(id);
        Ok(())
    }

    /// Takes a record out. Whoever is in its place keeps it.
    pub(super) fn take_out(&mut self, id: ReplicaId) {
        for mirror in &mut self.mirrors {
            mirror.replicas.retain(|record| record.id != id);
            for record in &mut mirror.replicas {
                if record.role.instead_of() == Some(id) {
                    record.role = Role::Own;
                }
            }
        }
    }

    /// A spare stands in for a copy that is not there: it rebuilds.
    ///
    /// # Errors
    /// [`ViewError::WrongState`] if it is no idle spare, or the other one is a member;
    /// [`ViewError::ReplacedAlready`] if a member is in its place.
    pub fn stand_in(
        &mut self,
        spare: ReplicaId,
        incarnation: Incarnation,
        absent: ReplicaId,
    ) -> Result<(), ViewError> {
        let (mirror, record) = self.replica(spare).ok_or(ViewError::UnknownReplica)?;
        let (other_mirror, other) = self.replica(absent).ok_or(ViewError::UnknownReplica)?;
        if record.state != ReplicaState::Spare || other_mirror != mirror {
            return Err(ViewError::WrongState(record.state));
        }
        if other.state.takes_writes() {
            return Err(ViewError::WrongState(other.state));
        }
        let is_in_place = |r: &ReplicaRecord| r.role.instead_of() == Some(absent);
        if self.mirrors[mirror].members().any(is_in_place) {
            return Err(ViewError::ReplacedAlready);
        }
        self.record_mut(spare)?.role = Role::Spare(Some(absent));
        self.admit(spare, incarnation)
    }

    /// Makes the volume larger. All replicas have made room for it; what is new has never been
    /// written.
    ///
    /// # Errors
    /// If it would become smaller, or a replica that is no idle spare is not in-sync: bitmaps would
    /// have to grow.
    pub fn grow(&mut self, size: u64) -> Result<(), ViewError> {
        let geometry = Geometry { size, ..self.geometry };
        let is_whole = size.is_multiple_of(u64::from(geometry.block_size)) && size <= 1 << 60;
        if !geometry.is_grown_from(self.geometry) || !is_whole {
            return Err(ViewError::WrongSize);
        }
        let is_ready = |state| matches!(state, ReplicaState::InSync | ReplicaState::Spare);
        if size > self.geometry.size && !self.replicas().all(|(_, r)| is_ready(r.state)) {
            return Err(ViewError::NotAllInSync);
        }
        self.geometry = geometry;
        self.intents = self.intents.reaching(self.replica_size());
        Ok(())
    }

    /// A replica is in-sync: what was to happen then happens.
    pub(super) fn fulfil_role(&mut self, id: ReplicaId) -> Result<(), ViewError> {
        match self.record_mut(id)?.role {
            Role::Own => self.send_stand_ins_back(id),
            Role::Replaces(old) => {
                self.record_mut(id)?.role = Role::Own;
                self.send_stand_ins_back(old)?;
                self.take_out(old);
                Ok(())
            }
            Role::Spare(_) => Ok(()),
        }
    }

    /// Those that stood in for this replica are spares as before. One that has failed waits for a
    /// command all the same.
    fn send_stand_ins_back(&mut self, id: ReplicaId) -> Result<(), ViewError> {
        let stands_in = |record: &&ReplicaRecord| record.role == Role::Spare(Some(id));
        let records = self.mirrors.iter().flat_map(|mirror| &mirror.replicas);
        let all: Vec<_> = records.filter(stands_in).map(|r| (r.id, r.state)).collect();
        for (spare, state) in all {
            self.record_mut(spare)?.role = Role::Spare(None);
            if state != ReplicaState::Faulty {
                self.set_state(spare, ReplicaState::Spare)?;
                self.record_mut(spare)?.cause = Cause::None;
            }
            self.distrust(spare)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
