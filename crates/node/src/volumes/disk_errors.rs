//! Requests that failed on the disk of a mirror's last in-sync replica.
//!
//! Nobody else has the data, so that replica stays in-sync, and no view says that its disk fails.
//! The coordinator keeps it beside the verdict of the last verify: so every node tells it, and it
//! outlives detaches and restarts. A verify that began later, has been through everything and found
//! nothing damaged or unreadable ends it.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_api::types::{Verify, VerifyState};
use evenkeel_core::{MirrorView, View};
use evenkeel_engine::counters::Failure;
use serde_json::{Value, json};

use super::{Attached, failures, verdict};
use crate::coordinator::VolumeRecord;
use crate::node::Node;

/// The field of what the coordinator keeps of verifies in which they stand.
const KEY: &str = "disk_errors";
/// Of so many replicas it is kept; a volume has at most as many at a time.
const MAX_REPLICAS: usize = 256;

/// When the disk of each replica, by its identity, has last failed a request that nobody else could
/// answer, in seconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DiskErrors(BTreeMap<String, u64>);

impl DiskErrors {
    /// What the coordinator keeps.
    pub(super) fn kept(record: &VolumeRecord) -> Self {
        let kept = record.verified.as_ref().and_then(|kept| kept.get(KEY)).cloned();
        Self(kept.and_then(|kept| serde_json::from_value(kept).ok()).unwrap_or_default())
    }

    /// When the disk of this replica has last failed a request.
    pub(super) fn of(&self, replica: &str) -> Option<u64> {
        self.0.get(replica).copied()
    }

    /// The disks of these replicas have failed a request.
    fn note(&mut self, replicas: impl Iterator<Item = String>, at: u64) {
        for replica in replicas {
            let last = self.0.entry(replica).or_default();
            *last = at.max(*last);
        }
        while self.0.len() > MAX_REPLICAS {
            self.0.pop_first();
        }
    }

    /// Those that a verify has not ended.
    pub(super) fn after(mut self, verify: &Verify) -> Self {
        self.0.retain(|_, at| !is_ended_by(verify, *at));
        self
    }

    /// Puts them into what the coordinator is to keep.
    pub(super) fn put_into(&self, kept: &mut Value) {
        if let Some(kept) = kept.as_object_mut() {
            kept.insert(KEY.to_owned(), json!(self.0));
        }
    }
}

/// Whether a verify has shown that what failed at that moment, in seconds since 1970, fails no
/// more.
pub(super) fn is_ended_by(verify: &Verify, at: u64) -> bool {
    verify.state == VerifyState::Done
        && verify.began.is_some_and(|began| at < began)
        && (verify.damaged, verify.unreadable) == (0, 0)
}

/// A disk could not do what a client asked for, and nobody else could: that is kept.
pub(super) fn keep_soon(node: &Arc<Node>, attached: Arc<Attached>, failure: Failure) {
    let node = node.clone();
    tokio::spawn(async move { keep(&node, &attached, failures::seconds(failure.last)).await });
}

async fn keep(node: &Arc<Node>, attached: &Attached, at: u64) {
    let Some(status) = node.data.volume_status(attached.id).await else { return };
    let Some(view) = status.primary.and_then(|primary| primary.view) else { return };
    let record = attached.record();
    let mut errors = DiskErrors::kept(&record);
    errors.note(last_in_sync(&view), at);
    let mut kept = record.verified.clone().unwrap_or_else(|| json!({}));
    errors.put_into(&mut kept);
    verdict::store(node, attached, kept, verdict::PATIENCE).await;
}

/// The replicas that are alone in-sync in their mirrors.
fn last_in_sync(view: &View) -> impl Iterator<Item = String> {
    let only = |mirror: &MirrorView| {
        let mut in_sync = mirror.in_sync();
        let one = in_sync.next()?.id.to_string();
        in_sync.next().is_none().then_some(one)
    };
    view.mirrors.iter().filter_map(only)
}

#[cfg(test)]
mod tests;
