//! Members of a mirror that are to be added, replaced or taken out, and spares that stand in for
//! those that are not there.

use std::collections::BTreeSet;

use crate::ids::*;
use crate::payload::Payload;
use crate::primary::membership::peer::Peer;
use crate::primary::views::edits::Edit;
use crate::primary::{Context, Primary};
use crate::time::Instant;
use crate::view::{Cause, MirrorView, ReplicaRecord, ReplicaState, Role, View, ViewError};

impl<P: Payload> Primary<P> {
    /// Whether a replica is gone: failed, or stale for so long that it is not waited for.
    fn is_gone(&self, record: &ReplicaRecord, now: Instant) -> bool {
        let patience = self.config.settings.spare_takes_over_after;
        let since = self.membership.known(record.id).and_then(Peer::absent_since);
        match record.state {
            ReplicaState::Faulty => true,
            ReplicaState::Stale => since.is_some_and(|since| now.since(since) >= patience),
            ReplicaState::InSync | ReplicaState::Rebuilding | ReplicaState::Spare => false,
        }
    }

    /// The copy in a spare's mirror for which it is wanted: the first that is gone and in whose
    /// place nobody is who can be relied upon.
    pub(in crate::primary) fn vacancy(&self, spare: ReplicaId, now: Instant) -> Option<ReplicaId> {
        let view = self.view.as_ref()?;
        let (mirror, record) = view.replica(spare)?;
        if record.state != ReplicaState::Spare {
            return None;
        }
        let mirror: &MirrorView = &view.mirrors[mirror];
        let is_taken = |gone: ReplicaId| {
            let instead = |r: &&ReplicaRecord| r.role.instead_of() == Some(gone);
            mirror.replicas.iter().filter(instead).any(|r| !self.is_gone(r, now))
        };
        mirror.copies().find(|r| self.is_gone(r, now) && !is_taken(r.id)).map(|r| r.id)
    }

    /// A session with an idle spare is open: it stands in for somebody, or the session has no use.
    pub(in crate::primary) fn receive_spare(
        &mut self,
        cx: &mut Context<'_, P>,
        replica: ReplicaId,
        link: LinkId,
        incarnation: Incarnation,
    ) {
        match self.vacancy(replica, cx.now) {
            Some(absent) => self.edit(Edit::StandIn { replica, incarnation, absent }),
            None => self.drop_link(cx, link),
        }
    }

    /// A drop keeps an in-sync replica that answers (V2).
    pub(in crate::primary) fn apply_leave(
        &self,
        next: &mut View,
        replica: ReplicaId,
        state: ReplicaState,
        cause: Cause,
    ) -> Result<(), ViewError> {
        let (mirror, record) = next.replica(replica).ok_or(ViewError::UnknownReplica)?;
        let can_go_on =
            || next.mirrors[mirror].in_sync().any(|r| r.id != replica && self.is_sound(r.id));
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
    pub(in crate::primary) fn apply_departure(
        &self,
        next: &mut View,
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
            let was_in_sync =
                next.replica(*left).is_some_and(|(_, r)| r.state == ReplicaState::InSync);
            !was_in_sync || changed.mirrors[*mirror].in_sync().any(|r| self.is_sound(r.id))
        });
        if !can_go_on {
            return Err(ViewError::LastInSync);
        }
        *next = changed;
        Ok(())
    }

    /// Whether a replica is a spare without a task.
    pub(in crate::primary) fn is_idle_spare(&self, replica: ReplicaId) -> bool {
        let record = self.view.as_ref().and_then(|view| view.replica(replica));
        record.is_some_and(|(_, record)| {
            record.state == ReplicaState::Spare && record.role == Role::Spare(None)
        })
    }
}
