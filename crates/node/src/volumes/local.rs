//! Replicas on this node's disks: made and deleted.

use std::sync::Arc;

use evenkeel_core::{ReplicaId, VolumeId};
use evenkeel_engine::EngineError;

use crate::api::{ApiError, ErrorCode};
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
