//! Which start of a node's daemon speaks for the node: the rules, without a clock or a database.
//!
//! | a start that registers | answer |
//! |---|---|
//! | is the node's present one, or the node is new | admitted |
//! | is one that the present one follows | superseded, for good |
//! | was found to be a copy, or follows a start that was | copy, until an operator chooses it |
//! | follows none, and the node has had too many copies to remember more | the same |
//! | follows the present one, which has provably ended | admitted at once |
//! | another, and the present one said goodbye, or was silent for the expiry | admitted |
//! | another, and the present one was heard within the expiry, before this one asked | waits |
//! | another, and the present one goes on speaking | copy |
//!
//! So at most one start of a node is ever entitled, and none takes over from one that may live.

use serde::{Deserialize, Serialize};

use crate::{Lineage, StartId};

/// Copies remembered per node. Once there are so many, whatever does not follow the present start
/// may be another one.
const MAX_COPIES: usize = 32;

/// The present start of a node, as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Present {
    /// Its counter; 0 of software that does not count starts.
    pub counter: u64,
    /// Its incarnation.
    pub incarnation: u64,
    /// The starts that it follows.
    before: Vec<u64>,
    /// Whether it said goodbye.
    has_left: bool,
    /// Starts that asked while the present one lived.
    copies: Vec<u64>,
}

/// A start that asks to be the present one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Its counter.
    pub counter: u64,
    /// Its incarnation.
    pub incarnation: u64,
    /// The starts that it follows.
    pub lineage: Lineage,
    /// Whether an operator has said that this one counts.
    pub is_chosen: bool,
}

/// When the present start was last heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastSeen {
    /// Not within the expiry time.
    Silent,
    /// Within the expiry time, and not since the other one asked first.
    Before,
    /// Since the other one asked first: it lives.
    Since,
}

/// The decision about a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is the present start, or becomes it.
    Admitted,
    /// It may ask again until the present one has been silent for long enough.
    Waits,
    /// Both it and the present one live: one of them runs from a copy of a state directory.
    Copy,
    /// The present start has taken its place.
    Superseded,
}

impl Present {
    /// That of a node whose software did not count its starts.
    #[must_use]
    pub fn of_older_software(incarnation: u64) -> Self {
        Self { incarnation, ..Self::default() }
    }

    /// Whether this start is known to come from a copy.
    #[must_use]
    pub fn knows_copy(&self, incarnation: u64) -> bool {
        self.copies.contains(&incarnation)
    }

    /// Whether this start is the present one.
    #[must_use]
    pub const fn is(&self, start: StartId) -> bool {
        self.counter == start.counter && self.incarnation == start.incarnation.0
    }

    /// Whether this start is one that the present one follows.
    #[must_use]
    pub fn follows(&self, incarnation: u64) -> bool {
        self.before.contains(&incarnation)
    }

    /// Decides about a candidate; `last_seen` says when the present start was last heard.
    #[must_use]
    pub fn judge(&self, candidate: &Candidate, last_seen: LastSeen) -> Verdict {
        let is_same =
            self.counter == candidate.counter && self.incarnation == candidate.incarnation;
        let follows = candidate.lineage.before.contains(&self.incarnation);
        let is_copy = std::iter::once(&candidate.incarnation)
            .chain(&candidate.lineage.before)
            .any(|incarnation| self.copies.contains(incarnation))
            || (self.copies.len() >= MAX_COPIES && !follows);
        match last_seen {
            _ if is_same => Verdict::Admitted,
            _ if self.follows(candidate.incarnation) => Verdict::Superseded,
            _ if is_copy && !candidate.is_chosen => Verdict::Copy,
            _ if follows && candidate.lineage.before_ended => Verdict::Admitted,
            _ if self.has_left => Verdict::Admitted,
            LastSeen::Silent => Verdict::Admitted,
            LastSeen::Before => Verdict::Waits,
            LastSeen::Since => Verdict::Copy,
        }
    }

    /// The record to store when a candidate is admitted.
    #[must_use]
    pub fn admit(&self, candidate: &Candidate) -> Self {
        if self.incarnation == candidate.incarnation && self.counter == candidate.counter {
            return self.clone();
        }
        let is_its_own =
            |copy: &u64| *copy == candidate.incarnation || candidate.lineage.before.contains(copy);
        Self {
            counter: candidate.counter,
            incarnation: candidate.incarnation,
            before: candidate.lineage.before.clone(),
            has_left: false,
            copies: self.copies.iter().copied().filter(|copy| !is_its_own(copy)).collect(),
        }
    }

    /// What is stored once a candidate was found to come from a copy.
    #[must_use]
    pub fn note_copy(&self, incarnation: u64) -> Self {
        let mut next = self.clone();
        if next.copies.len() < MAX_COPIES && !next.knows_copy(incarnation) {
            next.copies.push(incarnation);
        }
        next
    }

    /// What is stored once this start has said goodbye; `None` if it is not the present one.
    #[must_use]
    pub fn leave(&self, incarnation: u64) -> Option<Self> {
        (self.incarnation == incarnation).then(|| Self { has_left: true, ..self.clone() })
    }
}

#[cfg(test)]
mod tests;
