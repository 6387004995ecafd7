//! The chain of views: what the coordinator may be asked to commit.

use evenkeel_core::{ReplicaState, View};

use super::Violation;

/// Judges a view against the one that it replaces.
///
/// # Errors
/// If it is not a permitted successor.
pub fn check(old: &View, new: &View) -> Result<(), Violation> {
    let fault = |oracle, text: String| Err(Violation::new(oracle, text));
    let generation = new.generation;
    if !new.is_valid() || new.parent != old.generation || generation != old.generation.next() {
        return fault("I4", format!("generation {generation} is not a valid successor: {new:?}"));
    }
    let is_same = (new.volume, new.lineage) == (old.volume, old.lineage);
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
    let takes_over = !old.primaries.is_empty()
        && new.primaries.iter().any(|primary| !old.primaries.contains(primary));
    if takes_over && new.mirrors.iter().any(|mirror| mirror.in_sync().count() > 1) {
        let text =
            format!("generation {generation} takes over with several in-sync replicas: {new:?}");
        return fault("I8", text);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
