//! Requests that failed on the disk of a mirror's last in-sync replica.
//!
//! Nobody else has the data, so that replica stays in-sync, and no view says that its disk fails.
//! A verify that began later, has been through everything and found nothing damaged or unreadable
//! ends it.

use std::sync::Arc;

use evenkeel_api::types::{Verify, VerifyState};
use evenkeel_core::{MirrorView, View};
use evenkeel_engine::counters::Failure;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::kept::{Kept, Kind};
use super::{Attached, failures, verdict};
use crate::volumes::Node;

/// When a disk has last failed a request that nobody else could answer, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failed(u64);

impl Kind for Failed {
    const KEY: &'static str = "disk_errors";
    const NAME: &'static str = "errors of disks";
}

/// The disks of which replicas have failed.
pub(super) type DiskErrors = Kept<Failed>;

impl DiskErrors {
    /// When the disk of this replica has last failed a request.
    pub(super) fn last(&self, replica: &str) -> Option<u64> {
        self.get(replica).map(|Failed(at)| *at)
    }

    /// The disks of these replicas have failed a request.
    fn failed(&mut self, replicas: impl Iterator<Item = String>, at: u64) {
        for replica in replicas {
            self.note(replica, Failed(at), |last, new| last.0 = last.0.max(new.0));
        }
    }

    /// Those that a verify has not ended.
    pub(super) fn after(mut self, verify: &Verify) -> Self {
        self.retain(|_, Failed(at)| !is_ended_by(verify, *at));
        self
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
    // Its primary has ended: which replicas were alone in-sync is not known any more.
    let Some(status) = node.data.volume_status(attached.id).await else { return };
    let Some(view) = status.primary.and_then(|primary| primary.view) else { return };
    let record = attached.record();
    let mut errors = DiskErrors::of(node, &record);
    errors.failed(last_in_sync(&view), at);
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
