//! Replicas whose disks can't be written any more leave their mirrors, also if nobody writes to
//! them: else they would count as good until the next write, and keep their disks from being
//! unmounted and repaired.
//!
//! A replica leaves by a view that all others adopt, and one that can't be written adopts none. So
//! nobody leaves unless each mirror keeps an in-sync one of which its node has just said that
//! nothing is wrong with it: the others can be read as long as the view stays as it is.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::primary::{Command, PrimaryStatus};
use evenkeel_core::{MirrorView, ReplicaId};
use tokio::task::JoinSet;

use crate::cluster;
use crate::volumes::Attached;
use crate::volumes::Node;
use crate::volumes::lookup::place_of;
use crate::volumes::status::risks::{self, Lasting};

/// The pause between two questions of what is wrong with replicas.
const PAUSE: Duration = Duration::from_secs(3);
/// How long the engine may take to say how a volume is.
const PATIENCE: Duration = Duration::from_secs(2);

/// Has replicas of all volumes leave that are attached here, until the daemon ends.
pub async fn watch(node: Arc<Node>) {
    while node.pause(PAUSE).await {
        let known = Arc::new(risks::look(&node).await);
        // All at once: what was heard must not be old by the time that a replica leaves for it.
        let mut seen = JoinSet::new();
        for attached in node.volumes.all() {
            seen.spawn(see_to(node.clone(), attached, known.clone()));
        }
        seen.join_all().await;
    }
}

async fn see_to(node: Arc<Node>, attached: Arc<Attached>, known: Arc<Lasting>) {
    // Without the coordinator nobody can leave, and requests would wait for that.
    if known.unwritable.is_empty()
        || attached.phase().is_opening()
        || !node.coordinator.status().reachable
    {
        return;
    }
    let status = tokio::time::timeout(PATIENCE, node.data.volume_status(attached.id)).await;
    // A primary that does not answer, or has ended, is asked again at the next look.
    let Some(primary) = status.ok().flatten().and_then(|status| status.primary) else { return };
    for replica in leaving(&primary, &known) {
        let (node, attached) = (node.clone(), attached.clone());
        tokio::spawn(async move { leave(&node, &attached, replica).await });
    }
}

async fn leave(node: &Node, attached: &Attached, replica: ReplicaId) {
    let place = place_of(node, attached, replica);
    let command = node.data.command(attached.id, Command::FailDisk(replica));
    match tokio::time::timeout(cluster::COMMAND, command).await {
        Ok(Ok(())) => {
            let text = format!("the replica on {place} has left: its disk can't be written");
            tracing::warn!(volume = attached.name(), "{text}");
            attached.event(text);
        }
        // It is tried again as long as it is so.
        other => tracing::debug!(volume = attached.name(), place, ?other, "it has not left yet"),
    }
}

/// The replicas that are to leave: in-sync ones that can't be written, if each mirror has an
/// in-sync one besides that answers, lacks nothing and is well.
fn leaving(primary: &PrimaryStatus, known: &Lasting) -> Vec<ReplicaId> {
    let Some(view) = primary.view.as_ref().filter(|_| primary.serving) else { return Vec::new() };
    let answers = |id: ReplicaId| {
        let mut peers = primary.replicas.iter();
        peers.any(|peer| peer.replica == id && peer.connected && peer.leaving.is_none())
    };
    let may_be_out_of_sync =
        |id: ReplicaId| primary.replicas.iter().any(|p| p.replica == id && p.may_be_out_of_sync);
    let goes_on = |mirror: &MirrorView| {
        let mut ids = mirror.in_sync().map(|record| record.id);
        ids.any(|id| known.well.contains(&id) && answers(id) && !may_be_out_of_sync(id))
    };
    if !view.mirrors.iter().all(goes_on) {
        return Vec::new();
    }
    let in_sync = view.mirrors.iter().flat_map(MirrorView::in_sync);
    in_sync
        .map(|record| record.id)
        .filter(|id| known.unwritable.contains(id) && answers(*id))
        .collect()
}

#[cfg(test)]
mod tests;
