//! What commands would take away. A path of its own, so that a node that does not know it can't
//! carry the command out by mistake.

use std::sync::Arc;

use axum::extract::State;
use evenkeel_api::error::ErrorAnswer;
use evenkeel_api::types::*;

use crate::api::extract::{Forwarded, Json, Path, Query, Refusal};
use crate::volumes::Node;
use crate::volumes::commands::{assemble, plan, reservation, retire, stop};

/// What the removal of a node from the cluster would take away.
#[utoipa::path(get, path = "/v1/nodes/{node}/plan", tag = "nodes", operation_id = "node-remove-plan",
    params(("node" = String, Path, description = "Name or identity")),
    responses((status = 200, body = PlanAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn node(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
) -> Result<Json<PlanAnswer>, Refusal> {
    Ok(Json(retire::plan(&node, &name).await?))
}

/// What the removal of a disk of this node would take away.
#[utoipa::path(get, path = "/v1/disks/{disk}/plan", tag = "disks", operation_id = "disk-remove-plan",
    params(("disk" = String, Path, description = "Its name")),
    responses((status = 200, body = PlanAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn disk(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
) -> Result<Json<PlanAnswer>, Refusal> {
    Ok(Json(plan::disk(&node, name).await?))
}

/// What giving a disk to this node would take away: what is on it now, where `force` is to
/// overwrite that.
#[utoipa::path(get, path = "/v1/plans/disk-add", tag = "disks", operation_id = "disk-add-plan",
    params(AddDiskPlanQuery),
    responses((status = 200, body = PlanAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn add_disk(
    State(node): State<Arc<Node>>,
    Query(query): Query<AddDiskPlanQuery>,
) -> Result<Json<PlanAnswer>, Refusal> {
    Ok(Json(plan::add_disk(&node, query).await?))
}

/// What deleting a volume would take away.
#[utoipa::path(get, path = "/v1/volumes/{volume}/plans/delete", tag = "volumes",
    operation_id = "volume-delete-plan",
    params(("volume" = String, Path, description = "Name or identity"), DeleteVolumeQuery),
    responses((status = 200, body = PlanAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn delete(
    State(node): State<Arc<Node>>,
    Path(volume): Path<String>,
    Query(query): Query<DeleteVolumeQuery>,
) -> Result<Json<PlanAnswer>, Refusal> {
    Ok(Json(plan::delete(&node, &volume, &query).await?))
}

/// From where stopping a volume would detach it.
#[utoipa::path(get, path = "/v1/volumes/{volume}/plans/stop", tag = "volumes",
    operation_id = "volume-stop-plan",
    params(("volume" = String, Path, description = "Name or identity")),
    responses((status = 200, body = PlanAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn stop(
    State(node): State<Arc<Node>>,
    Path(volume): Path<String>,
) -> Result<Json<PlanAnswer>, Refusal> {
    Ok(Json(stop::plan(&node, &volume).await?))
}

/// What dropping all reservations of a volume would take away.
#[utoipa::path(get, path = "/v1/volumes/{volume}/plans/reservation-drop", tag = "volumes",
    operation_id = "reservation-drop-plan",
    params(("volume" = String, Path, description = "Name or identity")),
    responses((status = 200, body = PlanAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn drop_reservation(
    State(node): State<Arc<Node>>,
    Path(volume): Path<String>,
) -> Result<Json<PlanAnswer>, Refusal> {
    Ok(Json(reservation::plan(&node, &volume).await?))
}

/// What another number of copies would take away.
#[utoipa::path(get, path = "/v1/volumes/{volume}/plans/change", tag = "volumes",
    operation_id = "volume-change-plan",
    params(("volume" = String, Path, description = "Name or identity"), ChangePlanQuery),
    responses((status = 200, body = PlanAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn change(
    State(node): State<Arc<Node>>,
    Path(volume): Path<String>,
    Query(query): Query<ChangePlanQuery>,
    Forwarded(forwarded): Forwarded,
) -> Result<Json<PlanAnswer>, Refusal> {
    Ok(Json(plan::change(&node, &volume, &query, forwarded).await?))
}

/// What putting volumes together would keep and discard. What would be refused of a volume is told
/// in the answer.
#[utoipa::path(get, path = "/v1/assemble/plan", tag = "volumes", operation_id = "volume-assemble-plan",
    params(AssemblePlanQuery),
    responses((status = 200, body = AssemblePlanAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn assemble(
    State(node): State<Arc<Node>>,
    Query(query): Query<AssemblePlanQuery>,
) -> Result<Json<AssemblePlanAnswer>, Refusal> {
    Ok(Json(assemble::plan(&node, query).await?))
}

/// What failing, removing, retiring or replacing a replica would take away.
#[utoipa::path(get, path = "/v1/volumes/{volume}/replicas/{replica}/{action}/plan", tag = "volumes",
    operation_id = "replica-command-plan",
    params(("volume" = String, Path, description = "Name or identity"),
        ("replica" = String, Path, description = "Identity, at least 4 digits from its start, or NODE:DISK"),
        ("action" = String, Path, description = "fail, remove, retire or replace"), ReplicaPlanQuery),
    responses((status = 200, body = PlanAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn replica(
    State(node): State<Arc<Node>>,
    Path((volume, replica, action)): Path<(String, String, String)>,
    Query(query): Query<ReplicaPlanQuery>,
    Forwarded(forwarded): Forwarded,
) -> Result<Json<PlanAnswer>, Refusal> {
    Ok(Json(plan::replica(&node, &volume, [&replica, &action], &query, forwarded).await?))
}
