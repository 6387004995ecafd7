//! Replicas on this node's disks of which no volume knows any more: they are deleted. Those of stopped
//! volumes are closed, and opened again when the volume is assembled.
//!
//! A volume may have been deleted, or a creation cut off, while this node was away, or by a node
//! that died in the midst of it. So the coordinator is asked again and again what is to become of
//! the replicas here; only what it says was deleted is, and it says so once more when that is done
//! ([`delete_replica`]).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::{Generation, ReplicaId, VolumeId};

use super::local::{close_volume, delete_replica, open_volume};
use crate::api::ApiError;
use crate::coordinator::{Answer, Fate, FoundReplica, Request};
use crate::node::Node;

/// The pause between two sweeps.
const PAUSE: Duration = Duration::from_secs(30);
/// The pause while the coordinator does not answer.
const SHORT_PAUSE: Duration = Duration::from_secs(1);
/// Replicas that are asked for at once: some 100 KiB of JSON.
const MOST_AT_ONCE: usize = 1000;

/// Sweeps until the daemon ends.
pub async fn sweeps(node: Arc<Node>) {
    let mut stopping = node.stopping.subscribe();
    let mut told = BTreeSet::new();
    loop {
        // Reachable: this life of the daemon is registered, and drafts of an earlier one are over.
        let swept = node.coordinator.status().reachable && sweep(&node, &mut told).await;
        let pause = if swept { PAUSE } else { SHORT_PAUSE };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
    }
}

/// Looks at all replicas once, now. What fails is done by the next sweep.
pub async fn now(node: &Arc<Node>) {
    sweep(node, &mut BTreeSet::new()).await;
}

/// Looks at all replicas once. `false`: the coordinator did not answer. `told` are those of which
/// the log says already that nobody knows them.
async fn sweep(node: &Arc<Node>, told: &mut BTreeSet<ReplicaId>) -> bool {
    let _alone = node.volumes.sweeping.lock().await;
    let replicas = node.disks.finished_replicas();
    told.retain(|replica| replicas.iter().any(|(id, _)| id == replica));
    for some in replicas.chunks(MOST_AT_ONCE) {
        let found = |(replica, volume): &(ReplicaId, VolumeId)| FoundReplica {
            volume: volume.to_string(),
            replica: replica.to_string(),
        };
        let question = Request::Fates(some.iter().map(found).collect());
        let Ok(Answer::Fates(fates)) = node.coordinator.call_once(question).await else {
            return false;
        };
        for ((replica, volume), fate) in some.iter().zip(fates) {
            carry_out(node, *replica, *volume, fate, told).await;
        }
    }
    true
}

async fn carry_out(
    node: &Arc<Node>,
    replica: ReplicaId,
    volume: VolumeId,
    fate: Fate,
    told: &mut BTreeSet<ReplicaId>,
) {
    let deletable = match fate {
        Fate::Belongs if node.disks.is_stopped(volume) => {
            return told_if_failed(node, open_volume(node, volume).await);
        }
        Fate::Stopped if !node.disks.is_stopped(volume) => {
            return told_if_failed(node, close_volume(node, volume).await);
        }
        Fate::Belongs | Fate::Stopped => return,
        Fate::Deleted => true,
        Fate::NeverMade => was_never_used(node, replica).await,
        Fate::Unknown => false,
    };
    if deletable && node.volumes.get(volume).is_some() {
        // Deleted by force. Its primary learns that, and ends first.
        return;
    }
    if deletable {
        match delete_replica(node, volume, replica).await {
            Ok(_) => tracing::info!(%volume, %replica, "deleted a replica that no volume has"),
            Err(error) => node.warn(error.to_string()),
        }
    } else if told.insert(replica) {
        node.warn(format!(
            "replica {replica} belongs to volume {volume}, of which the coordinator knows nothing; it is kept. It may come from another cluster, or the coordinator was restored from a backup or made anew: `evenkeel volume assemble --scan` tells what can be made of it"
        ));
    }
}

fn told_if_failed(node: &Node, done: Result<(), ApiError>) {
    if let Err(error) = done {
        node.warn(error.to_string());
    }
}

/// Whether a replica is as it was made. Not so if its disk does not tell.
async fn was_never_used(node: &Arc<Node>, replica: ReplicaId) -> bool {
    let read = node.blocking(move |node| Ok(node.disks.newest_generation(replica))).await;
    matches!(read, Ok(Some(Generation(1))))
}

#[cfg(test)]
mod tests;
