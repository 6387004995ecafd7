//! Nodes.

use std::sync::Arc;

use axum::extract::State;
use evenkeel_api::error::ErrorAnswer;
use evenkeel_api::types::*;

use crate::api::extract::{Body, Json, Path, Query, Refusal};
use crate::running::Running;
use crate::status;
use crate::volumes::Node;
use crate::volumes::commands::retire;

/// This node.
#[utoipa::path(get, path = "/v1/node", tag = "nodes", operation_id = "node-status",
    responses((status = 200, body = NodeAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn status(State(running): State<Running>) -> Json<NodeAnswer> {
    Json(NodeAnswer { version: VERSION, node: status::of(&running).await })
}

/// Makes this node a member of a cluster. Joining the same one again is no error.
#[utoipa::path(post, path = "/v1/node/join", tag = "nodes", operation_id = "node-join",
    request_body = JoinRequest,
    responses((status = 200, body = NodeAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn join(
    State(running): State<Running>,
    Body(request): Body<JoinRequest>,
) -> Result<Json<NodeAnswer>, Refusal> {
    if let Some(token) = &request.token {
        // Before another certificate takes the place of the one that it has.
        if running.credentials.tls.get().is_some() {
            running.node.member.is_of_its_cluster(&request.address).await?;
        }
        running.certificates.join(&request.address, token).await?;
    }
    running.node.member.join(&request.address, true).await?;
    Ok(Json(NodeAnswer { version: VERSION, node: status::of(&running).await }))
}

/// Makes a token by which nodes get their first certificate. On the node with the authority's key.
#[utoipa::path(post, path = "/v1/cluster/invite", tag = "nodes", operation_id = "node-invite",
    request_body = InviteRequest,
    responses((status = 200, body = InviteAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn invite(
    State(running): State<Running>,
    Body(request): Body<InviteRequest>,
) -> Result<Json<InviteAnswer>, Refusal> {
    Ok(Json(running.certificates.invite(&request).await?))
}

/// Signs the certificate of a client of exports. On the node with the authority's key.
#[utoipa::path(post, path = "/v1/cluster/client-certificate", tag = "nodes",
    operation_id = "client-certificate", request_body = ClientCertificateRequest,
    responses((status = 200, body = ClientCertificateAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn client_certificate(
    State(running): State<Running>,
    Body(request): Body<ClientCertificateRequest>,
) -> Result<Json<ClientCertificateAnswer>, Refusal> {
    Ok(Json(running.certificates.certify_client(&request)?))
}

/// Gives the cluster another name. Its nodes use it from their next heartbeat on, also those that
/// are away now and whose configuration has the old one.
#[utoipa::path(post, path = "/v1/cluster/rename", tag = "nodes", operation_id = "cluster-rename",
    request_body = RenameClusterRequest,
    responses((status = 200, body = DoneAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn rename_cluster(
    State(node): State<Arc<Node>>,
    Body(request): Body<RenameClusterRequest>,
) -> Result<Json<DoneAnswer>, Refusal> {
    let message = node.member.rename_cluster(request.name).await?;
    Ok(Json(DoneAnswer { version: VERSION, message }))
}

/// All nodes of the cluster.
#[utoipa::path(get, path = "/v1/nodes", tag = "nodes", operation_id = "node-list",
    responses((status = 200, body = NodesAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn list(State(running): State<Running>) -> Result<Json<NodesAnswer>, Refusal> {
    let nodes = running.node.member.list().await?;
    Ok(Json(NodesAnswer { version: VERSION, cluster: running.credentials.cluster.get(), nodes }))
}

/// Removes a node from the cluster, for good: one that no volume uses, or a dead one with its
/// replicas. Removing one that was removed is no error.
#[utoipa::path(delete, path = "/v1/nodes/{node}", tag = "nodes", operation_id = "node-remove",
    params(("node" = String, Path, description = "Name or identity"), RemoveNodeQuery),
    responses((status = 200, body = RemoveNodeAnswer), (status = "default", body = ErrorAnswer)))]
pub async fn remove(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
    Query(query): Query<RemoveNodeQuery>,
) -> Result<Json<RemoveNodeAnswer>, Refusal> {
    Ok(Json(retire::remove(&node, &name, &query).await?))
}
