//! What verifies have found wrong of in-sync replicas, and nobody has repaired.
//!
//! Such a replica stays in-sync: its other blocks are good, and of the bad ones nobody may have
//! more. No request of a client needs to fail until one reads there. A verify that began later and
//! has been through everything ends it, and so does the replica's leaving.

use evenkeel_api::types::{FoundWrong, Verify, VerifyState, WrongReplica};
use evenkeel_core::{ReplicaRecord, ReplicaState};
use serde::{Deserialize, Serialize};

use super::kept::{Kept, Kind};
use crate::clock::unix_seconds;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Finding {
    /// The generation in which the replica had become in-sync.
    since: u64,
    found: FoundWrong,
}

impl Finding {
    const fn bytes(&self) -> u64 {
        let FoundWrong { different, damaged, unreadable, repaired, .. } = self.found;
        (different + damaged + unreadable).saturating_sub(repaired)
    }

    /// A later verify has found this.
    fn update(&mut self, later: Self) {
        // One that was stopped early has found less.
        if self.since != later.since || self.bytes() <= later.bytes() {
            *self = later;
        }
    }
}

fn was_looked_at(verify: &Verify, id: &str) -> bool {
    verify.covered.iter().flatten().chain(&verify.read).any(|covered| covered.id == id)
}

impl Kind for Finding {
    const KEY: &'static str = "findings";
    const NAME: &'static str = "findings of verifies";
}

/// What was found of each replica.
pub(super) type Findings = Kept<Finding>;

impl Findings {
    /// The same with what a later verify has found. One that has not been through everything says
    /// nothing of what it has not looked at.
    pub(super) fn after(mut self, verify: &Verify) -> Self {
        if verify.state == VerifyState::Done {
            let began = verify.began.unwrap_or(u64::MAX);
            self.retain(|id, finding| finding.found.at > began || !was_looked_at(verify, id));
        }
        for replica in &verify.replicas {
            if let Some(finding) = finding(verify, replica) {
                self.note(replica.id.clone(), finding, Finding::update);
            }
        }
        self
    }

    /// What was found of a replica, if it has been in-sync all the time since.
    pub(super) fn of_replica(&self, record: &ReplicaRecord) -> Option<FoundWrong> {
        let finding = self.get(&record.id.to_string())?;
        let holds = record.state == ReplicaState::InSync && record.since.0 == finding.since;
        holds.then_some(finding.found)
    }
}

/// What a verify has found of a replica, if some of it was not repaired.
fn finding(verify: &Verify, replica: &WrongReplica) -> Option<Finding> {
    let &WrongReplica { different, damaged, unreadable, repaired, .. } = replica;
    // Older software counts repairs of all replicas together only.
    let all = verify.different + verify.damaged + verify.unreadable;
    if repaired >= different + damaged + unreadable || all == verify.repaired {
        return None;
    }
    let mut looked_at = verify.covered.iter().flatten().chain(&verify.read);
    let since = looked_at.find(|covered| covered.id == replica.id)?.since;
    let at = verify.ended.unwrap_or_else(unix_seconds);
    let found = FoundWrong { at, different, damaged, unreadable, repaired };
    Some(Finding { since, found })
}

#[cfg(test)]
mod tests;
