//! Disks.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::State;
use evenkeel_api::error::ErrorAnswer;
use evenkeel_api::types::*;

use crate::api::extract::{Body, Forwarded, Json, Path, Query, Refusal};
use crate::cluster::Listed;
use crate::volumes::Node;
use crate::volumes::replicas::{local, open};

/// Disks of this node, or of all nodes.
#[utoipa::path(get, path = "/v1/disks", tag = "disks", operation_id = "disk-list",
    params(DisksQuery),
    responses((status = 200, body = DisksAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn list(
    State(node): State<Arc<Node>>,
    Query(query): Query<DisksQuery>,
    Forwarded(forwarded): Forwarded,
) -> Result<Json<DisksAnswer>, Refusal> {
    local::learn_names(&node).await;
    let (disks, warnings) = match query.all && !forwarded {
        true => {
            let Listed { disks, warnings, .. } = node.cluster.disks().await?;
            (disks, warnings)
        }
        false => (node.blocking(|node| Ok(node.disks.list())).await?, Vec::new()),
    };
    Ok(Json(DisksAnswer { version: VERSION, disks, warnings }))
}

/// Gives a disk of this node to evenkeel.
#[utoipa::path(post, path = "/v1/disks", tag = "disks", operation_id = "disk-add",
    request_body = AddDiskRequest,
    responses((status = 200, body = DiskAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn add(
    State(node): State<Arc<Node>>,
    Body(request): Body<AddDiskRequest>,
) -> Result<Json<DiskAnswer>, Refusal> {
    let add = move |node: &Node| {
        node.disks.add(&PathBuf::from(request.path), request.name, request.force)
    };
    let (disk, opened) = node.blocking(add).await?;
    let found: Vec<_> = opened.iter().map(|replica| replica.newest.superblock.clone()).collect();
    open::open_all(&node, opened).await;
    tracing::info!(disk = disk.name, path = disk.path, "a disk was added");
    let warnings = local::reported_of_unwanted(&node, &found).await;
    Ok(Json(DiskAnswer { version: VERSION, disk, warnings }))
}

/// Takes a disk without replicas back from evenkeel.
#[utoipa::path(delete, path = "/v1/disks/{disk}", tag = "disks", operation_id = "disk-remove",
    params(("disk" = String, Path, description = "Its name")),
    responses((status = 200, body = DoneAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn remove(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
) -> Result<Json<DoneAnswer>, Refusal> {
    let message = format!("disk {name} is removed");
    local::learn_names(&node).await;
    let unwanted = local::unwanted_on(&node, &name).await;
    node.blocking(move |node| node.disks.remove(&name, &unwanted)).await?;
    Ok(Json(DoneAnswer { version: VERSION, message }))
}
