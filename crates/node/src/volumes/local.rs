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

/// Closes the replicas of a volume on this node, and keeps them closed.
///
/// # Errors
/// If the engine does not let go of one, or it cannot be remembered.
pub async fn close_volume(node: &Arc<Node>, volume: VolumeId) -> Result<(), ApiError> {
    let what = format!("cannot close the replicas of volume {volume}");
    let here = node.disks.finished_replicas().into_iter().filter(|(_, of)| *of == volume);
    for (replica, _) in here {
        match node.data.close_replica(volume, replica).await {
            Ok(()) | Err(EngineError::Unknown) => {}
            Err(e) => {
                let advice = "Try again; see the node's log";
                return Err(ApiError::new(ErrorCode::System, what, e.to_string(), advice));
            }
        }
    }
    node.blocking(move |node| {
        node.disks.close(volume).map_err(|e| {
            let advice = "Repair the state directory's file system, then stop the volume again";
            ApiError::new(ErrorCode::System, what, e.to_string(), advice)
        })
    })
    .await
}

/// Opens the replicas of a stopped volume on this node again.
///
/// # Errors
/// If it cannot be remembered. A replica that cannot be opened is told by `disk list`.
pub async fn open_volume(node: &Arc<Node>, volume: VolumeId) -> Result<(), ApiError> {
    let opened = node.blocking(move |node| {
        node.disks.reopen(volume).map_err(|e| {
            let what = format!("cannot open the replicas of volume {volume}");
            let advice = "Repair the state directory's file system, then assemble it again";
            ApiError::new(ErrorCode::System, what, e.to_string(), advice)
        })
    });
    node.open_replicas(opened.await?).await;
    Ok(())
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
    if node.disks.is_stopped(volume) {
        open_volume(node, volume).await?;
    }
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
