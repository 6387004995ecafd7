//! The chain of views: what the coordinator may be asked to commit.

use evenkeel_core::{PrimaryId, ReplicaId, ReplicaRecord, ReplicaState, View};

use super::Violation;

/// Judges a view against the one that it replaces.
///
/// # Errors
/// If it is not a permitted successor.
pub fn check(old: &View, new: &View) -> Result<(), Violation> {
    let fault = |oracle, text: String| Err(Violation::new(oracle, text));
    let generation = new.generation;
    if !new.follows(old) {
        return fault("I4", format!("generation {generation} is not a valid successor: {new:?}"));
    }
    let is_same = (new.volume, new.history) == (old.volume, old.history);
    if !is_same || !new.geometry.is_grown_from(old.geometry) {
        return fault("I4", format!("generation {generation} is of another volume: {new:?}"));
    }
    for (_, record) in new.replicas().filter(|(_, r)| r.state == ReplicaState::InSync) {
        let before = old.replica(record.id).map(|(_, r)| *r);
        let permitted = before.is_some_and(|before| match before.state {
            ReplicaState::InSync => true,
            ReplicaState::Rebuilding => before.incarnation == record.incarnation,
            _ => false,
        });
        if !permitted {
            return fault(
                "I6",
                format!(
                    "generation {generation} calls replica {} in-sync, which was {before:?}",
                    record.id
                ),
            );
        }
    }
    Ok(())
}

/// Judges what a view says of primaries, which one of them proposed.
///
/// # Errors
/// If another one is gone, which has not detached, and several replicas of a mirror stay in-sync.
pub fn check_primaries(old: &View, new: &View, by: PrimaryId) -> Result<(), Violation> {
    let mut gone = old.primaries.iter().filter(|primary| !new.has_primary(primary.id));
    let is_unclean = gone.any(|primary| primary.id != by);
    if !is_unclean || new.mirrors.iter().all(|mirror| mirror.in_sync().count() == 1) {
        return Ok(());
    }
    let generation = new.generation;
    let text = format!("generation {generation} takes over with several in-sync replicas: {new:?}");
    Err(Violation::new("I8", text))
}

/// Judges the first view of an epoch against the newest view of those found that it goes on from.
///
/// # Errors
/// If it can't be adopted by those who have adopted that; or if nobody took a loss, and it goes on
/// without a replica that may have newer data (V7), or calls one in-sync that was not.
pub fn check_assembly(
    kept: &View,
    new: &View,
    found: &[ReplicaId],
    forced: bool,
) -> Result<(), Violation> {
    let generation = new.generation;
    let fault = |text: &str| {
        let text = format!("generation {generation} of a new epoch {text}: {new:?}");
        Err(Violation::new("I4", text))
    };
    let is_anew = new.coordinator != kept.coordinator && new.history != kept.history;
    if !new.is_valid() || generation <= kept.generation || !is_anew || new.volume != kept.volume {
        return fault("is not valid");
    }
    let was_in_sync = |record: &ReplicaRecord| {
        kept.replica(record.id).is_some_and(|(_, r)| r.state == ReplicaState::InSync)
    };
    let mut in_sync = new.replicas().filter(|(_, r)| r.state == ReplicaState::InSync);
    if !forced && in_sync.any(|(_, record)| !was_in_sync(record)) {
        return fault("calls in-sync what was not");
    }
    let mut members = kept.mirrors.iter().flat_map(|mirror| mirror.members());
    if !forced && members.any(|record| !found.contains(&record.id)) {
        return fault("goes on without a replica that may have newer data");
    }
    if !kept.primaries.is_empty() && new.primaries.is_empty() {
        return fault("forgets that the last primary has not detached");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
