//! Volumes.

use std::sync::Arc;

use axum::extract::State;
use evenkeel_api::error::ErrorAnswer;
use evenkeel_api::types::*;

use crate::api::extract::{Body, Forwarded, Json, Path, Query, Refusal};
use crate::volumes::Node;
use crate::volumes::attachment::exports::{self, Ended};
use crate::volumes::attachment::{export, leftovers, nvme};
use crate::volumes::commands::{
    assemble, attach, change, create, delete, members, rename, replica, reservation, stop,
    unmounted, verify,
};
use crate::volumes::status;

/// All volumes of the cluster.
#[utoipa::path(get, path = "/v1/volumes", tag = "volumes", operation_id = "volume-list",
    responses((status = 200, body = VolumesAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn list(State(node): State<Arc<Node>>) -> Result<Json<VolumesAnswer>, Refusal> {
    let mut answer = status::list(&node).await?;
    leftovers::report(&node, &mut answer.volumes).await;
    Ok(Json(answer))
}

/// Creates a volume, or tells what would be done.
#[utoipa::path(post, path = "/v1/volumes", tag = "volumes", operation_id = "volume-create",
    request_body = CreateVolumeRequest,
    responses((status = 200, body = CreateVolumeAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn create(
    State(node): State<Arc<Node>>,
    Body(request): Body<CreateVolumeRequest>,
) -> Result<Json<CreateVolumeAnswer>, Refusal> {
    Ok(Json(create::create(&node, request).await?))
}

/// One volume; waits for something, if asked to.
#[utoipa::path(get, path = "/v1/volumes/{volume}", tag = "volumes", operation_id = "volume-status",
    params(("volume" = String, Path, description = "Name or identity"), VolumeQuery),
    responses((status = 200, body = VolumeAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn status(
    State(node): State<Arc<Node>>,
    Path(volume): Path<String>,
    Query(query): Query<VolumeQuery>,
    Forwarded(forwarded): Forwarded,
) -> Result<Json<VolumeAnswer>, Refusal> {
    let mut volume = status::wait(&node, &volume, &query, forwarded).await?;
    if !forwarded {
        leftovers::report(&node, std::slice::from_mut(&mut volume)).await;
    }
    let warnings = node.cluster.isolation().into_iter().collect();
    Ok(Json(VolumeAnswer { version: VERSION, volume, message: None, warnings }))
}

/// Deletes a volume that is not attached, with its data.
#[utoipa::path(delete, path = "/v1/volumes/{volume}", tag = "volumes",
    operation_id = "volume-delete",
    params(("volume" = String, Path, description = "Name or identity"), DeleteVolumeQuery),
    responses((status = 200, body = DeleteVolumeAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn delete(
    State(node): State<Arc<Node>>,
    Path(volume): Path<String>,
    Query(query): Query<DeleteVolumeQuery>,
) -> Result<Json<DeleteVolumeAnswer>, Refusal> {
    Ok(Json(delete::delete(&node, &volume, &query).await?))
}

/// Gives a volume another name that is attached nowhere. Giving it the name that it has is no
/// error.
#[utoipa::path(post, path = "/v1/volumes/{volume}/rename", tag = "volumes",
    operation_id = "volume-rename",
    params(("volume" = String, Path, description = "Name or identity")),
    request_body = RenameVolumeRequest,
    responses((status = 200, body = ChangeAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn rename(
    State(node): State<Arc<Node>>,
    Path(volume): Path<String>,
    Body(request): Body<RenameVolumeRequest>,
) -> Result<Json<ChangeAnswer>, Refusal> {
    Ok(Json(rename::rename(&node, &volume, request.name).await?))
}

/// Detaches a volume and closes its replicas until it is assembled. Stopping a stopped one is no
/// error.
#[utoipa::path(post, path = "/v1/volumes/{volume}/stop", tag = "volumes",
    operation_id = "volume-stop",
    params(("volume" = String, Path, description = "Name or identity")),
    responses((status = 200, body = StopAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn stop(
    State(node): State<Arc<Node>>,
    Path(volume): Path<String>,
) -> Result<Json<StopAnswer>, Refusal> {
    Ok(Json(stop::stop(&node, &volume).await?))
}

/// Puts volumes together from their disks: stopped ones, those that the coordinator does not know,
/// and with `keep` those whose replicas have diverged. What is refused of a volume is told in
/// the answer.
#[utoipa::path(post, path = "/v1/assemble", tag = "volumes", operation_id = "volume-assemble",
    request_body = AssembleRequest,
    responses((status = 200, body = AssembleAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn assemble(
    State(node): State<Arc<Node>>,
    Body(request): Body<AssembleRequest>,
) -> Result<Json<AssembleAnswer>, Refusal> {
    Ok(Json(assemble::assemble(&node, request).await?))
}

/// Begins to use a volume on a node. There is no way to take a volume over from a node that may
/// be alive: that node's writes and the new one's would mix. A node that has died is recognised
/// after `coordinator.expiry_seconds`.
#[utoipa::path(post, path = "/v1/volumes/{volume}/attach", tag = "volumes",
    operation_id = "volume-attach",
    params(("volume" = String, Path, description = "Name or identity")),
    request_body = AttachRequest,
    responses((status = 200, body = AttachAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn attach(
    State(node): State<Arc<Node>>,
    Path(volume): Path<String>,
    Forwarded(forwarded): Forwarded,
    Body(request): Body<AttachRequest>,
) -> Result<Json<AttachAnswer>, Refusal> {
    Ok(Json(attach::attach(&node, &volume, request, forwarded).await?))
}

/// Ends the use of a volume.
#[utoipa::path(post, path = "/v1/volumes/{volume}/detach", tag = "volumes",
    operation_id = "volume-detach",
    params(("volume" = String, Path, description = "Name or identity")),
    request_body = DetachRequest,
    responses((status = 200, body = DetachAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn detach(
    State(node): State<Arc<Node>>,
    Path(volume): Path<String>,
    Forwarded(forwarded): Forwarded,
    Body(request): Body<DetachRequest>,
) -> Result<Json<DetachAnswer>, Refusal> {
    Ok(Json(unmounted::detach(&node, &volume, request, forwarded).await?))
}

/// Serves an attached volume by NBD, on the node where it is attached.
#[utoipa::path(post, path = "/v1/volumes/{volume}/exports/nbd", tag = "volumes",
    operation_id = "export-nbd",
    params(("volume" = String, Path, description = "Name or identity")),
    request_body = ExportNbdRequest,
    responses((status = 200, body = ExportAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn export_nbd(
    State(node): State<Arc<Node>>,
    Path(volume): Path<String>,
    Forwarded(forwarded): Forwarded,
    Body(request): Body<ExportNbdRequest>,
) -> Result<Json<ExportAnswer>, Refusal> {
    Ok(Json(export::export(&node, &volume, request, forwarded).await?))
}

/// Ends the NBD export of a volume; its clients are disconnected.
#[utoipa::path(delete, path = "/v1/volumes/{volume}/exports/nbd", tag = "volumes",
    operation_id = "unexport-nbd",
    params(("volume" = String, Path, description = "Name or identity")),
    responses((status = 200, body = DoneAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn unexport_nbd(
    State(node): State<Arc<Node>>,
    Path(volume): Path<String>,
    Forwarded(forwarded): Forwarded,
) -> Result<Json<DoneAnswer>, Refusal> {
    Ok(Json(exports::end(&node, &volume, Ended::Nbd, forwarded).await?))
}

/// Serves an attached volume by NVMe over TCP, on the node where it is attached.
#[utoipa::path(post, path = "/v1/volumes/{volume}/exports/nvme", tag = "volumes",
    operation_id = "export-nvme",
    params(("volume" = String, Path, description = "Name or identity")),
    request_body = ExportNvmeRequest,
    responses((status = 200, body = ExportAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn export_nvme(
    State(node): State<Arc<Node>>,
    Path(volume): Path<String>,
    Forwarded(forwarded): Forwarded,
    Body(request): Body<ExportNvmeRequest>,
) -> Result<Json<ExportAnswer>, Refusal> {
    Ok(Json(nvme::export(&node, &volume, request, forwarded).await?))
}

/// Ends the NVMe export of a volume; its hosts are disconnected.
#[utoipa::path(delete, path = "/v1/volumes/{volume}/exports/nvme", tag = "volumes",
    operation_id = "unexport-nvme",
    params(("volume" = String, Path, description = "Name or identity")),
    responses((status = 200, body = DoneAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn unexport_nvme(
    State(node): State<Arc<Node>>,
    Path(volume): Path<String>,
    Forwarded(forwarded): Forwarded,
) -> Result<Json<DoneAnswer>, Refusal> {
    Ok(Json(exports::end(&node, &volume, Ended::Nvme, forwarded).await?))
}

/// Ends all exports of a volume; their clients are disconnected.
#[utoipa::path(delete, path = "/v1/volumes/{volume}/exports", tag = "volumes",
    operation_id = "unexport",
    params(("volume" = String, Path, description = "Name or identity")),
    responses((status = 200, body = DoneAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn unexport(
    State(node): State<Arc<Node>>,
    Path(volume): Path<String>,
    Forwarded(forwarded): Forwarded,
) -> Result<Json<DoneAnswer>, Refusal> {
    Ok(Json(exports::end(&node, &volume, Ended::All, forwarded).await?))
}

/// Begins or ends a comparison of all in-sync replicas of a volume with each other.
#[utoipa::path(post, path = "/v1/volumes/{volume}/verify", tag = "volumes",
    operation_id = "volume-verify",
    params(("volume" = String, Path, description = "Name or identity")),
    request_body = VerifyRequest,
    responses((status = 200, body = VolumeAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn verify(
    State(node): State<Arc<Node>>,
    Path(volume): Path<String>,
    Forwarded(forwarded): Forwarded,
    Body(request): Body<VerifyRequest>,
) -> Result<Json<VolumeAnswer>, Refusal> {
    Ok(Json(verify::verify(&node, &volume, request, forwarded).await?))
}

/// Changes which hosts may read and write a volume: registers one, reserves, preempts.
#[utoipa::path(post, path = "/v1/volumes/{volume}/reservation", tag = "volumes",
    operation_id = "volume-reservation",
    params(("volume" = String, Path, description = "Name or identity")),
    request_body = ReservationRequest,
    responses((status = 200, body = VolumeAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn reservation(
    State(node): State<Arc<Node>>,
    Path(volume): Path<String>,
    Forwarded(forwarded): Forwarded,
    Body(request): Body<ReservationRequest>,
) -> Result<Json<VolumeAnswer>, Refusal> {
    Ok(Json(reservation::change(&node, &volume, request, forwarded).await?))
}

/// Changes the protocol of a volume, or how many replicas its mirrors have.
#[utoipa::path(patch, path = "/v1/volumes/{volume}", tag = "volumes", operation_id = "volume-change",
    params(("volume" = String, Path, description = "Name or identity")),
    request_body = ChangeVolumeRequest,
    responses((status = 200, body = ChangeAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn change(
    State(node): State<Arc<Node>>,
    Path(volume): Path<String>,
    Forwarded(forwarded): Forwarded,
    Body(request): Body<ChangeVolumeRequest>,
) -> Result<Json<ChangeAnswer>, Refusal> {
    Ok(Json(change::change(&node, &volume, request, forwarded).await?))
}

/// Adds a replica to a volume, as a copy, a spare, or instead of another one.
#[utoipa::path(post, path = "/v1/volumes/{volume}/replicas", tag = "volumes",
    operation_id = "replica-add",
    params(("volume" = String, Path, description = "Name or identity")),
    request_body = AddReplicaRequest,
    responses((status = 200, body = ChangeAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn add_replica(
    State(node): State<Arc<Node>>,
    Path(volume): Path<String>,
    Forwarded(forwarded): Forwarded,
    Body(request): Body<AddReplicaRequest>,
) -> Result<Json<ChangeAnswer>, Refusal> {
    Ok(Json(members::add(&node, &volume, request, forwarded).await?))
}

/// Fails, removes, retires or re-adds a replica.
#[utoipa::path(post, path = "/v1/volumes/{volume}/replicas/{replica}/{action}", tag = "volumes",
    operation_id = "replica-command",
    params(("volume" = String, Path, description = "Name or identity"),
        ("replica" = String, Path, description = "Identity, at least 4 digits from its start, or NODE:DISK"),
        ("action" = String, Path, description = "fail, remove, re-add, or retire: remove whatever its state")),
    responses((status = 200, body = VolumeAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn replica(
    State(node): State<Arc<Node>>,
    Path((volume, replica, action)): Path<(String, String, String)>,
    Forwarded(forwarded): Forwarded,
) -> Result<Json<VolumeAnswer>, Refusal> {
    Ok(Json(replica::command(&node, &volume, &replica, &action, forwarded).await?))
}
