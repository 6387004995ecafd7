//! What verifies have found wrong of in-sync replicas, and nobody has repaired.
//!
//! Such a replica stays in-sync: its other blocks are good, and of the bad ones nobody may have
//! more. No request of a client needs to fail until one reads there. The coordinator keeps it beside
//! the verdict of the last verify, as it does errors of disks: so every node tells it. A verify that
//! began later and has been through everything ends it, and so does the replica's leaving.

use std::collections::BTreeMap;

use evenkeel_api::types::{FoundWrong, Verify, VerifyState, WrongReplica};
use evenkeel_core::{ReplicaRecord, ReplicaState};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clock::unix_seconds;
use crate::coordinator::VolumeRecord;

/// The field of what the coordinator keeps of verifies in which it stands.
const KEY: &str = "findings";
/// Of so many replicas it is kept; a volume has at most as many at a time.
const MAX_REPLICAS: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Finding {
    /// The generation in which the replica had become in-sync.
    since: u64,
    found: FoundWrong,
}

impl Finding {
    const fn bytes(&self) -> u64 {
        let FoundWrong { different, damaged, unreadable, repaired, .. } = self.found;
        (different + damaged + unreadable).saturating_sub(repaired)
    }
}

fn was_looked_at(verify: &Verify, id: &str) -> bool {
    verify.covered.iter().flatten().chain(&verify.read).any(|covered| covered.id == id)
}

/// What was found, by the replica's identity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Findings(BTreeMap<String, Finding>);

impl Findings {
    /// What the coordinator keeps.
    pub(super) fn kept(record: &VolumeRecord) -> Self {
        let kept = record.verified.as_ref().and_then(|kept| kept.get(KEY)).cloned();
        Self(kept.and_then(|kept| serde_json::from_value(kept).ok()).unwrap_or_default())
    }

    /// The same with what a later verify has found. One that has not been through everything says
    /// nothing of what it has not looked at.
    pub(super) fn after(mut self, verify: &Verify) -> Self {
        if verify.state == VerifyState::Done {
            let began = verify.began.unwrap_or(u64::MAX);
            self.0.retain(|id, finding| finding.found.at > began || !was_looked_at(verify, id));
        }
        for replica in &verify.replicas {
            if let Some(finding) = finding(verify, replica) {
                let before = self.0.entry(replica.id.clone()).or_insert(finding);
                // One that was stopped early has found less.
                if before.since != finding.since || before.bytes() <= finding.bytes() {
                    *before = finding;
                }
            }
        }
        while self.0.len() > MAX_REPLICAS {
            self.0.pop_first();
        }
        self
    }

    /// What was found of a replica, if it has been in-sync all the time since.
    pub(super) fn of(&self, record: &ReplicaRecord) -> Option<FoundWrong> {
        let finding = self.0.get(&record.id.to_string())?;
        let holds = record.state == ReplicaState::InSync && record.since.0 == finding.since;
        holds.then_some(finding.found)
    }

    /// Puts them into what the coordinator is to keep.
    pub(super) fn put_into(&self, kept: &mut Value) {
        if let Some(kept) = kept.as_object_mut() {
            kept.insert(KEY.to_owned(), json!(self.0));
        }
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
