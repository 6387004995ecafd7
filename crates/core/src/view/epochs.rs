//! Epochs: what of other coordinators' views this one goes on from, and who has to confirm that
//! (rule V7).

use super::{Cause, ReplicaRecord, ReplicaState, View};
use crate::ids::*;
use crate::settings::MAX_EPOCHS;

/// A run of views that one coordinator identity committed, and that has ended: the volume was
/// assembled from its disks alone, and views go on under another identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch {
    /// Who committed its views.
    pub coordinator: CoordinatorId,
    /// The line of descent of the data then.
    pub history: History,
    /// The last of its views that is superseded. Who has adopted a later one has gone another way.
    pub last: Generation,
    /// When it ended, in seconds since 1970; zero: not known.
    pub ended: u64,
}

impl View {
    /// Whether this view and another one were committed by the same coordinator, of the same data.
    #[must_use]
    pub fn is_of_epoch(&self, other: &Self) -> bool {
        (self.coordinator, self.history) == (other.coordinator, other.history)
    }

    /// Whether who has adopted `older` may adopt this view: it was committed in the same epoch, or
    /// in one that this view supersedes, not later than that epoch's end.
    #[must_use]
    pub fn continues(&self, older: &Self) -> bool {
        let supersedes = |epoch: &Epoch| {
            (epoch.coordinator, epoch.history) == (older.coordinator, older.history)
                && older.generation <= epoch.last
        };
        self.volume == older.volume
            && (self.is_of_epoch(older) || self.epochs.iter().any(supersedes))
    }

    /// Whether data of this history, in this generation, is what this view's data descends from.
    #[must_use]
    pub fn descends_from(&self, history: History, generation: Generation) -> bool {
        let supersedes = |epoch: &Epoch| epoch.history == history && generation <= epoch.last;
        self.history == history || self.epochs.iter().any(supersedes)
    }

    /// The next view, the first of a new epoch: it supersedes this one and all before it.
    #[must_use]
    pub fn next_epoch(&self, coordinator: CoordinatorId, history: History, now: u64) -> Self {
        let mut next = self.successor();
        next.supersede(self.coordinator, self.history, self.generation, now);
        (next.coordinator, next.history) = (coordinator, history);
        next.mark_confirmed();
        next
    }

    /// The replicas that have to adopt this view, the first one of an epoch, before anybody is
    /// primary.
    pub fn unconfirmed(&self) -> impl Iterator<Item = ReplicaId> {
        let is_unconfirmed = |r: &&ReplicaRecord| r.cause == Cause::Unconfirmed;
        self.replicas().map(|(_, record)| record).filter(is_unconfirmed).map(|record| record.id)
    }

    /// Marks a replica as one that has to adopt this view before anybody is primary.
    pub(crate) fn mark_unconfirmed(&mut self, id: ReplicaId) {
        if let Ok(record) = self.record_mut(id) {
            record.cause = Cause::Unconfirmed;
        }
    }

    /// All that had to adopt the view have, or what they may have is superseded.
    pub(crate) fn mark_confirmed(&mut self) {
        let records = self.mirrors.iter_mut().flat_map(|mirror| &mut mirror.replicas);
        for record in records.filter(|record| record.cause == Cause::Unconfirmed) {
            record.cause = match record.state {
                ReplicaState::Rebuilding => Cause::UncleanEnd,
                ReplicaState::Stale => Cause::Restarted,
                ReplicaState::InSync | ReplicaState::Faulty | ReplicaState::Spare => Cause::None,
            };
        }
    }

    /// Supersedes all that another view is, and supersedes.
    pub fn supersede_all(&mut self, other: &Self, now: u64) {
        for epoch in other.epochs.iter().rev() {
            self.supersede(epoch.coordinator, epoch.history, epoch.last, epoch.ended);
        }
        self.supersede(other.coordinator, other.history, other.generation, now);
    }

    /// Supersedes an epoch up to one of its generations, by which its replicas may adopt this view.
    pub fn supersede(
        &mut self,
        coordinator: CoordinatorId,
        history: History,
        last: Generation,
        now: u64,
    ) {
        let is_same = |epoch: &Epoch| (epoch.coordinator, epoch.history) == (coordinator, history);
        let before =
            self.epochs.iter().filter(|epoch| is_same(epoch)).map(|epoch| epoch.last).max();
        self.epochs.retain(|epoch| !is_same(epoch));
        let last = before.map_or(last, |before| before.max(last));
        self.epochs.insert(0, Epoch { coordinator, history, last, ended: now });
        self.epochs.truncate(MAX_EPOCHS);
    }
}
