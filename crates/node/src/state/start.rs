//! The starts of this node's daemon: each is counted, drawn at random, and names those before it.
//!
//! A copy of the state directory (a cloned machine, a restored backup) starts with the same
//! identity as the original. So each start is saved before it says anything, and the coordinator
//! admits it only if the start before it has ended (see [`evenkeel_coordinator::starts`]). Here is
//! what a start knows of that by itself: the lock's proof.
//!
//! **The lock's proof.** A start saves the boot of the kernel, and the device and inode of the lock
//! file that it holds. Whoever holds the lock of the same inode of the same device in the same boot
//! knows that the start before has let go of it: that process has ended. A copied file is
//! another inode; another machine has another boot; and the number of an inode is not given to
//! another file while a process has the old one open.

pub use evenkeel_coordinator::{Lineage, StartId};
use evenkeel_core::{BootId, Incarnation};
use serde::{Deserialize, Serialize};

use super::directory::{LockId, StateDirectory, StateError};
use crate::random::random_incarnation;

const FILE: &str = "start.json";
/// Starts named at most: so many may follow each other without an answer of the coordinator.
pub const MAX_BEFORE: usize = 64;

/// What this node knows of the coordinator's decision about a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Standing {
    /// No answer yet, or the start before may not have ended.
    Waiting,
    /// It is the node's present start.
    Admitted,
    /// Another one is.
    Superseded,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Saved {
    counter: u64,
    incarnation: u64,
    boot: String,
    lock: LockId,
    standing: Standing,
    before: Vec<u64>,
    before_ended: bool,
    /// Whether one of those was admitted, and all have ended.
    continues: bool,
    /// Whether the last one has provably ended, admitted or not.
    #[serde(default)]
    last_ended: bool,
}

/// A start of this node's daemon.
#[derive(Debug, Clone)]
pub struct Start(Saved);

impl Start {
    /// Begins a start: one that follows the last one of this state directory, and is saved.
    ///
    /// # Errors
    /// If the last one cannot be read, or this one cannot be saved.
    pub fn begin(state: &StateDirectory, boot: BootId) -> Result<Self, StateError> {
        let last: Option<Saved> = state.load(FILE)?;
        let start = Self::after(last, &boot.to_string(), state.lock_id()?);
        state.save(FILE, &start.0)?;
        Ok(start)
    }

    fn after(last: Option<Saved>, boot: &str, lock: LockId) -> Self {
        let Lineage { before, before_ended } =
            last.as_ref().map_or_else(Lineage::default, |last| last.lineage_of_next(boot, lock));
        // The time makes a directory that was restored from a backup go on above what it had
        // counted since.
        let continues = last.as_ref().is_some_and(|last| last.is_continued(boot, lock));
        let last_ended = last.as_ref().is_some_and(|last| last.has_ended(boot, lock));
        let counted = last.map_or(0, |last| last.counter);
        let counter = crate::clock::unix_seconds().max(counted.saturating_add(1));
        Self(Saved {
            counter,
            incarnation: random_incarnation().0,
            boot: boot.to_owned(),
            lock,
            standing: Standing::Waiting,
            before,
            before_ended,
            continues,
            last_ended,
        })
    }

    /// Who this start is.
    #[must_use]
    pub const fn id(&self) -> StartId {
        StartId { counter: self.0.counter, incarnation: self.incarnation() }
    }

    /// Drawn at random for this start.
    #[must_use]
    pub const fn incarnation(&self) -> Incarnation {
        Incarnation(self.0.incarnation)
    }

    /// What it says of those before it.
    #[must_use]
    pub fn lineage(&self) -> Lineage {
        Lineage { before: self.0.before.clone(), before_ended: self.0.before_ended }
    }

    /// Whether it goes on in place of an admitted start that has provably ended: it may serve what
    /// that one served, even while the coordinator does not answer.
    #[must_use]
    pub const fn continues_admitted(&self) -> bool {
        self.0.continues
    }

    /// Whether the last start with this state directory has provably ended, and with it all that it
    /// ran.
    #[must_use]
    pub const fn last_has_ended(&self) -> bool {
        self.0.last_ended
    }

    /// Saves that the coordinator has admitted this start: the next one follows it alone.
    ///
    /// # Errors
    /// If it cannot be saved. The next start then names the ones before this one, too.
    pub fn save_admitted(&self, state: &StateDirectory) -> Result<(), StateError> {
        state.save(FILE, &Saved { standing: Standing::Admitted, ..self.0.clone() })
    }

    /// Saves that another start has superseded this one: the next one goes on in place of nobody.
    ///
    /// # Errors
    /// If it cannot be saved.
    pub fn save_superseded(&self, state: &StateDirectory) -> Result<(), StateError> {
        state.save(FILE, &Saved { standing: Standing::Superseded, ..self.0.clone() })
    }
}

impl Saved {
    /// Whether this start has ended: by the lock's proof, as the start after it runs in this boot
    /// and holds this lock.
    fn has_ended(&self, boot: &str, lock: LockId) -> bool {
        self.boot == boot && self.lock == lock
    }

    /// Whether the start after this one goes on in place of an admitted one.
    fn is_continued(&self, boot: &str, lock: LockId) -> bool {
        let was_entitled = match self.standing {
            Standing::Admitted => true,
            Standing::Waiting => self.continues,
            Standing::Superseded => false,
        };
        was_entitled && self.has_ended(boot, lock)
    }

    /// What the start after this one says, if it runs in this boot and holds this lock.
    fn lineage_of_next(&self, boot: &str, lock: LockId) -> Lineage {
        let has_ended = self.has_ended(boot, lock);
        let (before, before_ended) = match self.standing {
            Standing::Admitted => (vec![self.incarnation], has_ended),
            Standing::Waiting => {
                let all: Vec<u64> =
                    std::iter::once(self.incarnation).chain(self.before.clone()).collect();
                // The first start of all follows nobody who could live.
                (all, has_ended && (self.before_ended || self.before.is_empty()))
            }
            Standing::Superseded => (vec![self.incarnation], false),
        };
        Lineage { before: before.into_iter().take(MAX_BEFORE).collect(), before_ended }
    }
}

#[cfg(test)]
mod tests;
