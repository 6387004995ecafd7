//! Replicas on this node's disks: made, deleted, and looked after when the node starts.

use std::sync::Arc;

use evenkeel_core::{ReplicaId, VolumeId};
use evenkeel_engine::EngineError;

use crate::api::{ApiError, ErrorCode};
use crate::coordinator::{Answer, Fate, FoundReplica, Request};
use crate::disks::NewReplica;
use crate::node::Node;

/// Makes a replica on a disk of this node and gives it to the engine.
///
/// # Errors
/// If the disk has no room, or fails.
pub async fn create_replica(
    node: &Arc<Node>,
    disk: String,
    new: NewReplica,
) -> Result<(), ApiError> {
    let what = format!("cannot serve a new replica of {}", new.superblock.name);
    let opened = node.blocking(move |node| node.disks.create_replica(&disk, &new)).await?;
    let settings = node.config.settings();
    let opened = node.data.open_replica(opened, &node.identity, settings).await;
    opened.map_err(|e| {
        ApiError::new(
            ErrorCode::System,
            what,
            e.to_string(),
            "See the node's log, choose another disk",
        )
    })
}

/// Closes a replica of this node and gives its space back. `false`: it is not here.
///
/// # Errors
/// If the disk fails.
pub async fn delete_replica(
    node: &Arc<Node>,
    volume: VolumeId,
    replica: ReplicaId,
) -> Result<bool, ApiError> {
    match node.data.close_replica(volume, replica).await {
        Ok(()) | Err(EngineError::Unknown) => {}
        Err(e) => {
            let what = format!("cannot delete replica {replica}");
            let advice = "It is deleted when the node starts again";
            return Err(ApiError::new(ErrorCode::System, what, e.to_string(), advice));
        }
    }
    node.blocking(move |node| node.disks.delete_replica(replica)).await
}

/// Asks the coordinator which replicas of this node still belong to a volume, and deletes those of
/// which it says that they do not. `false`: there was no answer.
pub async fn sweep(node: &Arc<Node>) -> bool {
    let replicas = node.disks.replicas();
    let found = |(replica, volume): &(ReplicaId, VolumeId)| FoundReplica {
        volume: volume.to_string(),
        replica: replica.to_string(),
    };
    let question = Request::Fates(replicas.iter().map(found).collect());
    let Ok(Answer::Fates(fates)) = node.coordinator.call_once(question).await else {
        return false;
    };
    for ((replica, volume), fate) in replicas.into_iter().zip(fates) {
        match fate {
            Fate::Belongs => {}
            Fate::Deleted => match delete_replica(node, volume, replica).await {
                Ok(_) => tracing::info!(%volume, %replica, "deleted a replica of a deleted volume"),
                Err(error) => node.warn(error.to_string()),
            },
            Fate::Unknown => node.warn(format!(
                "replica {replica} belongs to volume {volume}, of which the coordinator knows nothing; it is kept. It may come from another cluster, or the coordinator was restored from a backup"
            )),
        }
    }
    true
}
