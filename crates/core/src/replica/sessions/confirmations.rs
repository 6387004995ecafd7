//! When each primary was last confirmed: by its answers it may serve reads for the lease's time
//! (rule V3).

use core::time::Duration;
use std::collections::BTreeMap;

use crate::ids::*;
use crate::replica::views::Follows;
use crate::time::Instant;
use crate::view::View;

/// How far each primary has been confirmed.
#[derive(Debug)]
pub(in crate::replica) struct Confirmations {
    of: BTreeMap<PrimaryId, Confirmation>,
}

#[derive(Debug, Clone, Copy)]
struct Confirmation {
    /// When it was last answered in its generation.
    at: Instant,
    /// The highest generation for which it said that it knows of it.
    knows: Generation,
    /// What a newer primary of its node shows about it.
    successor: Successor,
}

/// A node's newer primary shows that its older one has ended, unless that one goes on: then one of
/// the two runs from a copy of the node's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Successor {
    /// None has come since the older one was known here.
    None,
    /// One has opened its first session, and the older one was not answered since.
    Came,
    /// The older one was answered since.
    Outlived,
}

impl Confirmation {
    const fn at(now: Instant) -> Self {
        Self { at: now, knows: Generation(0), successor: Successor::None }
    }
}

impl Confirmations {
    /// After a start every primary of the view counts as confirmed just now: whom this replica
    /// answered in an earlier incarnation it does not know.
    pub fn at_start(view: &View, now: Instant) -> Self {
        let confirmed = |record: &crate::view::PrimaryRecord| (record.id, Confirmation::at(now));
        Self { of: view.primaries.iter().map(confirmed).collect() }
    }

    /// A primary of the adopted view is answered in its generation.
    pub fn answered(&mut self, primary: PrimaryId, now: Instant) {
        let confirmation = self.of.entry(primary).or_insert(Confirmation::at(now));
        confirmation.at = now;
        if confirmation.successor == Successor::Came {
            confirmation.successor = Successor::Outlived;
        }
    }

    /// A primary says that it knows of a generation.
    pub fn knows(&mut self, primary: PrimaryId, generation: Generation) {
        if let Some(confirmation) = self.of.get_mut(&primary) {
            confirmation.knows = confirmation.knows.max(generation);
        }
    }

    /// A primary has opened its first session here: it may be the successor of another one of its
    /// node that was known before. Of one that became known only afterwards it can't have made
    /// sure.
    pub fn came(&mut self, newer: PrimaryId) {
        for (older, confirmation) in &mut self.of {
            let is_earlier = older.node == newer.node && *older != newer;
            if is_earlier && confirmation.successor == Successor::None {
                confirmation.successor = Successor::Came;
            }
        }
    }

    /// A view is adopted: only its primaries count. Each of several is given the time to be heard.
    pub fn follow(&mut self, view: &View, now: Instant) {
        self.of.retain(|primary, _| view.has_primary(*primary));
        if view.is_shared() {
            for primary in &view.primaries {
                self.of.entry(primary.id).or_insert(Confirmation::at(now));
            }
        }
    }

    /// Whether a primary was confirmed for less than this time ago.
    pub fn was_seen(&self, primary: PrimaryId, now: Instant, patience: Duration) -> bool {
        self.of.get(&primary).is_some_and(|confirmation| now.since(confirmation.at) < patience)
    }

    /// Whether a primary has said that it knows of this generation.
    pub fn has_learnt(&self, primary: PrimaryId, generation: Generation) -> bool {
        self.of.get(&primary).is_some_and(|confirmation| confirmation.knows >= generation)
    }

    /// The primaries that may not know of a view, which `follows` the adopted one, and when each
    /// was last confirmed. `adopter` has asked for its adoption.
    pub fn unaware(
        &self,
        view: &View,
        adopter: PrimaryId,
        follows: Follows,
    ) -> impl Iterator<Item = (PrimaryId, Instant)> {
        let generation = view.generation;
        self.of.iter().filter_map(move |(primary, confirmation)| {
            // A node's newer primary comes when its older ones have ended, or were silent for their
            // lease (`Earlier`). It makes sure of that for those in the view that it has read,
            // which is the adopted one if its own view follows directly.
            let has_ended = primary.node == adopter.node
                && follows == Follows::Directly
                && confirmation.successor == Successor::Came;
            let knows = follows != Follows::InAnotherEpoch && confirmation.knows >= generation;
            (*primary != adopter && !has_ended && !knows).then_some((*primary, confirmation.at))
        })
    }
}

#[cfg(test)]
mod tests;
