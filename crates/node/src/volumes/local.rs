//! Replicas on this node's disks: made and deleted.

use std::sync::Arc;

use evenkeel_core::{ReplicaId, VolumeId};
use evenkeel_engine::EngineError;

use super::lookup::unexpected;
use super::make::tell_in_the_end;
use crate::api::{ApiError, ErrorCode};
use crate::coordinator::{Answer, FoundReplica, Maker, Request};
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

/// Has the coordinator note that a replica is being deleted: no volume takes it up meanwhile.
async fn discard(node: &Node, replica: &FoundReplica) -> Result<(), ApiError> {
    let what = format!("cannot delete replica {}", replica.replica);
    let by = Maker {
        node: node.identity.node.to_string(),
        incarnation: node.identity.start.incarnation().0,
    };
    let request = Request::Discard { by, replica: replica.clone() };
    match node.coordinator.ask(&what, request).await? {
        Answer::Done => Ok(()),
        Answer::Fates(_) => {
            let why = "a volume has it, or the coordinator does not know it";
            let advice = "See `evenkeel volume list`";
            Err(ApiError::new(ErrorCode::WrongState, what, why, advice))
        }
        other => Err(unexpected(&what, &other)),
    }
}

/// Closes a replica of this node and gives its space back. `false`: it is not here. The coordinator
/// decides: whoever asked may have an old answer of its.
///
/// # Errors
/// If a volume has the replica, the coordinator does not answer, or the disk fails.
pub async fn delete_replica(
    node: &Arc<Node>,
    volume: VolumeId,
    replica: ReplicaId,
) -> Result<bool, ApiError> {
    let found = FoundReplica { volume: volume.to_string(), replica: replica.to_string() };
    discard(node, &found).await?;
    let deleted = delete_discarded(node, volume, replica).await;
    tell_in_the_end(node, Request::Discarded(found)).await;
    deleted
}

async fn delete_discarded(
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
