//! What only nodes ask of each other.

use std::sync::Arc;

use axum::extract::{Path, State};
use evenkeel_core::{ReplicaId, VolumeId};
use evenkeel_format::Superblock;
use serde::{Deserialize, Serialize};

use crate::api::extract::{Body, Json};
use crate::api::{ApiError, ErrorCode};
use crate::coordinator::{Answer, Request, from_hex};
use crate::disks::NewReplica;
use crate::node::Node;
use crate::volumes::local;

/// Makes a replica on a disk of this node.
pub const REPLICAS: &str = "/peer/v1/replicas";
/// A replica of this node.
pub const REPLICA: &str = "/peer/v1/volumes/{volume}/replicas/{replica}";

/// A replica to be made.
#[derive(Debug, Serialize, Deserialize)]
pub struct CreateReplica {
    /// Name of the disk.
    pub disk: String,
    /// The first superblock in the form of the `format` crate, as hexadecimal text.
    pub superblock: String,
    /// Whether the disk need not have the space for all of it.
    pub thin: bool,
}

pub async fn coordinator(
    State(node): State<Arc<Node>>,
    Body(request): Body<Request>,
) -> Result<Json<Answer>, ApiError> {
    let what = "the coordinator cannot be asked here";
    let Some(embedded) = node.embedded.clone() else {
        let why = format!("node {} does not serve it", node.identity.name);
        let advice = "Ask the node with `here = true` under [coordinator]";
        return Err(ApiError::new(ErrorCode::WrongCluster, what, why, advice));
    };
    let answer = tokio::task::spawn_blocking(move || embedded.answer(request)).await;
    let system = |why: String| {
        ApiError::new(ErrorCode::System, what, why, "See the log of the coordinator's node")
    };
    let answer = answer.map_err(|e| system(e.to_string()))?;
    answer.map(Json).map_err(|e| {
        tracing::error!(error = %e, "the coordinator's database");
        system(e.to_string())
    })
}

pub async fn create_replica(
    State(node): State<Arc<Node>>,
    Body(request): Body<CreateReplica>,
) -> Result<Json<bool>, ApiError> {
    let superblock = from_hex(&request.superblock).unwrap_or_default();
    let superblock = Superblock::decode(&superblock).map_err(|e| bad(&e.to_string()))?;
    let new = NewReplica { superblock, thin: request.thin };
    local::create_replica(&node, request.disk, new).await.map(|()| Json(true))
}

pub async fn delete_replica(
    State(node): State<Arc<Node>>,
    Path((volume, replica)): Path<(String, String)>,
) -> Result<Json<bool>, ApiError> {
    let volume: VolumeId = volume.parse().map_err(|_| bad("no volume"))?;
    let replica: ReplicaId = replica.parse().map_err(|_| bad("no replica"))?;
    local::delete_replica(&node, volume, replica).await.map(Json)
}

fn bad(why: &str) -> ApiError {
    let advice =
        "The asking node may run other software: compare versions by `evenkeel node status`";
    ApiError::new(ErrorCode::BadRequest, "a peer's request cannot be read", why, advice)
}
