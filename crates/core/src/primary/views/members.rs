//! Members of a mirror that are to be added, replaced or taken out, and spares that stand in for
//! those that are not there.

use std::collections::BTreeSet;

use super::{Grounds, Views};
use crate::ids::*;
use crate::primary::Context;
use crate::primary::membership::Membership;
use crate::primary::membership::peer::Peer;
use crate::view::{Cause, MirrorView, ReplicaRecord, ReplicaState, Role, View, ViewError};

impl Views {
    /// Whether a replica is gone: failed, or stale for so long that it is not waited for.
    fn is_gone<P>(cx: &Context<'_, P>, peers: &Membership, record: &ReplicaRecord) -> bool {
        let patience = cx.config.settings.spare_takes_over_after;
        let since = peers.known(record.id).and_then(Peer::absent_since);
        match record.state {
            ReplicaState::Faulty => true,
            ReplicaState::Stale => since.is_some_and(|since| cx.now.since(since) >= patience),
            ReplicaState::InSync | ReplicaState::Rebuilding | ReplicaState::Spare => false,
        }
    }

    /// The copy in a spare's mirror for which it is wanted: the first that is gone and in whose
    /// place nobody is who can be relied upon.
    pub fn vacancy<P>(
        &self,
        cx: &Context<'_, P>,
        peers: &Membership,
        spare: ReplicaId,
    ) -> Option<ReplicaId> {
        let (mirror, record) = self.view.replica(spare)?;
        if record.state != ReplicaState::Spare {
            return None;
        }
        let mirror: &MirrorView = &self.view.mirrors[mirror];
        let is_taken = |gone: ReplicaId| {
            let instead = |r: &&ReplicaRecord| r.role.instead_of() == Some(gone);
            mirror.replicas.iter().filter(instead).any(|r| !Self::is_gone(cx, peers, r))
        };
        mirror.copies().find(|r| Self::is_gone(cx, peers, r) && !is_taken(r.id)).map(|r| r.id)
    }

    /// Whether a replica is a spare without a task.
    pub fn is_idle_spare(&self, replica: ReplicaId) -> bool {
        let record = self.view.replica(replica);
        record.is_some_and(|(_, record)| {
            record.state == ReplicaState::Spare && record.role == Role::Spare(None)
        })
    }
}

/// A drop keeps an in-sync replica that answers (V2).
pub(super) fn apply_leave(
    next: &mut View,
    grounds: Grounds<'_>,
    replica: ReplicaId,
    state: ReplicaState,
    cause: Cause,
) -> Result<(), ViewError> {
    let (mirror, record) = next.replica(replica).ok_or(ViewError::UnknownReplica)?;
    let can_go_on =
        || next.mirrors[mirror].in_sync().any(|r| r.id != replica && grounds.is_sound(r.id));
    if record.state == ReplicaState::InSync && !can_go_on() {
        return Err(ViewError::LastInSync);
    }
    let already_out = record.state == state || record.state == ReplicaState::Faulty;
    if !record.state.takes_writes() && already_out {
        return Ok(());
    }
    next.leave(replica, state, cause)
}

/// Makes a change by which members may leave, if the mirror can go on without them (V2).
pub(super) fn apply_departure(
    next: &mut View,
    grounds: Grounds<'_>,
    change: impl FnOnce(&mut View) -> Result<(), ViewError>,
) -> Result<(), ViewError> {
    let members = |view: &View| -> BTreeSet<_> {
        let records = view.replicas();
        records.filter(|(_, r)| r.state.takes_writes()).map(|(m, r)| (m, r.id)).collect()
    };
    let mut changed = next.clone();
    change(&mut changed)?;
    let (before, after) = (members(next), members(&changed));
    let mut left = before.difference(&after);
    let can_go_on = left.all(|(mirror, left)| {
        let was_in_sync = next.replica(*left).is_some_and(|(_, r)| r.state == ReplicaState::InSync);
        !was_in_sync || changed.mirrors[*mirror].in_sync().any(|r| grounds.is_sound(r.id))
    });
    if !can_go_on {
        return Err(ViewError::LastInSync);
    }
    *next = changed;
    Ok(())
}
