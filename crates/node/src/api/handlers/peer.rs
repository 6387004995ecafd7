//! What only nodes ask of each other, carried out.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::{ReplicaId, VolumeId};
use evenkeel_format::Superblock;
use serde::Deserialize;

use crate::api::extract::{Body, Json, Path, Query, Refusal};
use crate::coordinator::{Answer, Caller, Request, from_hex};
use crate::disks::NewReplica;
use crate::peer::requests::{
    CreateReplica, MakeSpace, NewCertificate, PeerFound, PeerReplica, PeerReplicas, ReadData,
    WantedCertificate,
};
use crate::running::Running;
use crate::volumes::Node;
use crate::volumes::commands::assemble::{PIECE, read_piece};
use crate::volumes::replicas::found;
use crate::volumes::replicas::{local, sweep};
use crate::volumes::status::reports;

/// Of which volume a node is asked what it has; older software tells of all.
#[derive(Debug, Deserialize)]
pub struct FoundQuery {
    volume: Option<String>,
}

pub async fn coordinator(
    State(running): State<Running>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<Request>,
) -> Result<Json<Answer>, Refusal> {
    let what = "the coordinator cannot be asked here";
    let Some(embedded) = running.embedded.clone() else {
        let why = format!("node {} does not serve it", running.node.identity.name);
        let advice = "Ask the node with `here = true` under [coordinator]";
        return Err(ApiError::new(ErrorCode::WrongCluster, what, why, advice).into());
    };
    let error =
        |code, why: String| ApiError::new(code, what, why, "See the log of the coordinator's node");
    let failed = |why| error(ErrorCode::CoordinatorFailed, why);
    let answer = embedded.asked(caller, request).await.map_err(|e| failed(e.to_string()))?;
    let answer = answer.map_err(|e| {
        tracing::error!(error = %e, "the coordinator's database");
        match e.is_refusal() {
            true => error(ErrorCode::BadRequest, e.to_string()),
            false => failed(e.to_string()),
        }
    })?;
    Ok(Json(answer))
}

/// What the caller says of the members does not count: the coordinator is asked.
pub async fn removed(State(node): State<Arc<Node>>) -> Result<Json<()>, Refusal> {
    if node.member.refresh().await {
        return Ok(Json(()));
    }
    let what = format!("node {} cannot learn who was removed", node.identity.name);
    let why = "the coordinator does not answer it";
    let advice = "Start the coordinator's node, or repair the network between the two";
    Err(ApiError::new(ErrorCode::NoCoordinator, what, why, advice).into())
}

pub async fn certificate(
    State(running): State<Running>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<WantedCertificate>,
) -> Result<Json<NewCertificate>, Refusal> {
    let key = request.key().ok_or_else(|| bad("no public key"))?;
    Ok(Json(running.certificates.certify(&caller, &key).await?))
}

pub async fn create_replica(
    State(node): State<Arc<Node>>,
    Body(request): Body<CreateReplica>,
) -> Result<Json<bool>, Refusal> {
    let superblock = from_hex(&request.superblock).unwrap_or_default();
    let superblock = Superblock::decode(&superblock).map_err(|e| bad(&e.to_string()))?;
    let new = NewReplica { superblock, thin: request.thin };
    local::create_replica(&node, request.disk, new).await?;
    Ok(Json(true))
}

pub async fn make_space(
    State(node): State<Arc<Node>>,
    Path((volume, replica)): Path<(String, String)>,
    Body(request): Body<MakeSpace>,
) -> Result<Json<bool>, Refusal> {
    let volume: VolumeId = volume.parse().map_err(|_| bad("no volume"))?;
    let replica: ReplicaId = replica.parse().map_err(|_| bad("no replica"))?;
    crate::volumes::commands::grow::here(&node, volume, replica, &request).await?;
    Ok(Json(true))
}

pub async fn delete_replica(
    State(node): State<Arc<Node>>,
    Path((volume, replica)): Path<(String, String)>,
) -> Result<Json<bool>, Refusal> {
    let volume: VolumeId = volume.parse().map_err(|_| bad("no volume"))?;
    let replica: ReplicaId = replica.parse().map_err(|_| bad("no replica"))?;
    Ok(Json(local::delete_replica(&node, volume, replica).await?))
}

/// The replicas here, and what is attached.
pub async fn found(
    State(node): State<Arc<Node>>,
    Query(query): Query<FoundQuery>,
) -> Result<Json<PeerFound>, Refusal> {
    let only = query.volume.map(|volume| volume.parse().map_err(|_| bad("no volume")));
    Ok(Json(found::here(&node, only.transpose()?).await?))
}

/// `false`: something that was to be done has not ended yet.
pub async fn sweep(State(node): State<Arc<Node>>) -> Json<bool> {
    Json(sweep::now(&node).await)
}

/// A question: nothing is changed.
pub async fn conditions(
    State(node): State<Arc<Node>>,
    Body(asked): Body<PeerReplicas>,
) -> Json<Vec<PeerReplica>> {
    Json(reports::here(&node, &asked))
}

pub async fn read(
    State(node): State<Arc<Node>>,
    Body(request): Body<ReadData>,
) -> Result<Vec<u8>, Refusal> {
    let replica: ReplicaId = request.replica.parse().map_err(|_| bad("no replica"))?;
    if request.length > PIECE {
        return Err(bad("too long a piece").into());
    }
    let read = move |node: &Node| {
        let what = format!("replica {replica} cannot be read");
        let Some((path, data)) = node.disks.place_of(replica) else {
            let why = format!("node {} has no such replica", node.identity.name);
            return Err(ApiError::new(ErrorCode::NoSuchReplica, what, why, "Ask its node"));
        };
        let offset = data.checked_add(request.offset).ok_or_else(|| bad("beyond any disk"))?;
        let piece =
            std::fs::File::open(&path).and_then(|file| read_piece(&file, offset, request.length));
        piece.map_err(|e| ApiError::new(ErrorCode::System, what, e.to_string(), "Check its disk"))
    };
    Ok(node.blocking(read).await?)
}

fn bad(why: &str) -> ApiError {
    let advice =
        "The asking node may run other software: compare versions by `evenkeel node status`";
    ApiError::new(ErrorCode::BadRequest, "a peer's request cannot be read", why, advice)
}
