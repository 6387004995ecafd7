//! Which path is served by what, and on which sockets.

use std::sync::Arc;
use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Extension, Router};
use evenkeel_api::{ApiError, ErrorCode, routes};
use rustix::fs::{Gid, chown};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::extract::Refusal;
use super::{handlers, openapi};
use crate::config::Config;
use crate::coordinator::{Caller, remote, removed};
use crate::http::{self, Accepted, Socket};
use crate::metrics;
use crate::node::Node;
use crate::peer::requests;
use crate::seats::Shares;

/// Most connections to the API, and to the metrics' address, at a time.
const MAX_CONNECTIONS: usize = 256;
/// Most of them from one source, but for root.
const MAX_OF_ONE_SOURCE: usize = 64;
/// Most bytes of a request's body.
const MAX_BODY_LENGTH: usize = 2 << 20;
/// How long a request's body may take to arrive.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

/// The API for users.
pub fn router(node: &Arc<Node>) -> Router {
    // Not in `paths`: no other node makes tokens or certificates.
    let authority = Router::new()
        .route(routes::INVITE, post(handlers::node::invite))
        .route(routes::CLIENT_CERTIFICATE, post(handlers::node::client_certificate));
    served(paths().merge(authority), node)
}

/// The API for another node, `caller`: that for users, and the paths that only nodes need.
pub fn control_router(node: &Arc<Node>, caller: Caller) -> Router {
    let paths = paths()
        .merge(renewal())
        .route(requests::REPLICAS, post(handlers::peer::create_replica))
        .route(requests::FOUND, get(handlers::peer::found))
        .route(requests::SWEEP, post(handlers::peer::sweep))
        .route(requests::REMOVED, post(handlers::peer::removed))
        .route(requests::MAKE_ROOM, post(handlers::peer::make_room))
        .route(requests::REPLICA, delete(handlers::peer::delete_replica))
        .route(remote::PATH, post(handlers::peer::coordinator))
        .route(requests::READ, post(handlers::peer::read))
        .route(requests::CONDITIONS, post(handlers::peer::conditions));
    for_node(paths, node, caller)
}

/// The API for another node whose certificate has expired: it may ask for a new one.
pub fn renewal_router(node: &Arc<Node>, caller: Caller) -> Router {
    for_node(renewal(), node, caller)
}

fn renewal() -> Router<Arc<Node>> {
    Router::new().route(requests::CERTIFICATE, post(handlers::peer::certificate))
}

fn for_node(paths: Router<Arc<Node>>, node: &Arc<Node>, caller: Caller) -> Router {
    served(paths, node)
        .layer(axum::middleware::from_fn_with_state(node.clone(), refuse_removed))
        .layer(Extension(caller))
}

/// What is no task though its method could change something: a question changes nothing, and what
/// the coordinator is asked is one transaction. Other nodes need them until this one has ended.
const NO_TASKS: [&str; 4] = [remote::PATH, requests::READ, requests::CONDITIONS, requests::REMOVED];

fn paths() -> Router<Arc<Node>> {
    Router::new()
        .route(routes::OPENAPI, get(openapi::document))
        .route(routes::METRICS, get(metrics::text))
        .route(routes::NODE, get(handlers::node::status))
        .route(routes::JOIN, post(handlers::node::join))
        .route(routes::RENAME_CLUSTER, post(handlers::node::rename_cluster))
        .route(routes::NODES, get(handlers::node::list))
        .route(routes::NODE_OF_CLUSTER, delete(handlers::node::remove))
        .route(routes::DISKS, get(handlers::disk::list).post(handlers::disk::add))
        .route(routes::DISK, delete(handlers::disk::remove))
        .route(routes::VOLUMES, get(handlers::volume::list).post(handlers::volume::create))
        .route(
            routes::VOLUME,
            get(handlers::volume::status)
                .patch(handlers::volume::change)
                .delete(handlers::volume::delete),
        )
        .route(routes::RENAME_VOLUME, post(handlers::volume::rename))
        .route(routes::STOP, post(handlers::volume::stop))
        .route(routes::ASSEMBLE, post(handlers::volume::assemble))
        .route(routes::VERIFY, post(handlers::volume::verify))
        .route(routes::RESERVATION, post(handlers::volume::reservation))
        .route(routes::ATTACH, post(handlers::volume::attach))
        .route(routes::DETACH, post(handlers::volume::detach))
        .route(
            routes::EXPORT_NBD,
            post(handlers::volume::export_nbd).delete(handlers::volume::unexport_nbd),
        )
        .route(
            routes::EXPORT_NVME,
            post(handlers::volume::export_nvme).delete(handlers::volume::unexport_nvme),
        )
        .route(routes::EXPORTS, delete(handlers::volume::unexport))
        .route(routes::REPLICAS, post(handlers::volume::add_replica))
        .route(routes::REPLICA, post(handlers::volume::replica))
        .route(routes::NODE_PLAN, get(handlers::plan::node))
        .route(routes::DISK_PLAN, get(handlers::plan::disk))
        .route(routes::ADD_DISK_PLAN, get(handlers::plan::add_disk))
        .route(routes::DELETE_PLAN, get(handlers::plan::delete))
        .route(routes::STOP_PLAN, get(handlers::plan::stop))
        .route(routes::DROP_PLAN, get(handlers::plan::drop_reservation))
        .route(routes::ASSEMBLE_PLAN, get(handlers::plan::assemble))
        .route(routes::CHANGE_PLAN, get(handlers::plan::change))
        .route(routes::REPLICA_PLAN, get(handlers::plan::replica))
}

/// Serves all these paths. Whatever may change something on them is carried out by a task of its
/// own, to its end. It gives them their state, too, so that no handler can be put beside that
/// afterwards.
fn served(paths: Router<Arc<Node>>, node: &Arc<Node>) -> Router {
    paths
        .layer(axum::middleware::from_fn_with_state(node.clone(), to_the_end))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_path)
        .layer(axum::middleware::from_fn(whole_body))
        .with_state(node.clone())
}

async fn to_the_end(State(node): State<Arc<Node>>, request: Request, next: Next) -> Response {
    if request.method().is_safe() || NO_TASKS.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let answer = node.tasks.carry_out(next.run(request)).await;
    answer.unwrap_or_else(|stopping| Refusal(stopping).into_response())
}

/// A node that was removed from the cluster is told so, whatever it asks.
async fn refuse_removed(
    State(node): State<Arc<Node>>,
    Extension(caller): Extension<Caller>,
    request: Request,
    next: Next,
) -> Response {
    match node.peers.removed(caller.node) {
        Some(why) => Refusal(removed::refusal("the node is not served", &why)).into_response(),
        None => next.run(request).await,
    }
}

/// Takes the whole body of a request before anything is answered. A connection that is closed on
/// somebody who still sends would take the answer with it.
async fn whole_body(request: Request, next: Next) -> Response {
    let refuse = |why: String| {
        let advice = "See /v1/openapi.json for what is expected";
        Refusal(ApiError::new(ErrorCode::BadRequest, "the request cannot be read", why, advice))
            .into_response()
    };
    let (head, body) = request.into_parts();
    let bytes = match timeout(BODY_DEADLINE, to_bytes(body, MAX_BODY_LENGTH)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => return refuse(error.to_string()),
        Err(_) => {
            let seconds = BODY_DEADLINE.as_secs();
            return refuse(format!("its body did not arrive within {seconds} s"));
        }
    };
    next.run(Request::from_parts(head, bytes.into())).await
}

async fn no_such_path(method: Method, uri: Uri) -> Refusal {
    Refusal(ApiError::new(
        ErrorCode::NoSuchPath,
        format!("{method} {} is not served", uri.path()),
        "there is no such path, or not with that method",
        "See /v1/openapi.json for what there is",
    ))
}

/// Binds the API's socket.
///
/// # Errors
/// If it is in use, or the configured group does not exist.
pub async fn bind(config: &Config) -> Result<UnixListener, String> {
    let path = config.api_socket();
    let mode = if config.api.group.is_some() { 0o660 } else { 0o600 };
    let listener = http::bind_unix(&path, mode).await?;
    if let Some(group) = &config.api.group {
        let id = group_id(group)?;
        chown(&path, None, Some(Gid::from_raw(id)))
            .map_err(|e| format!("cannot give {} to group {group}: {e}", path.display()))?;
    }
    Ok(listener)
}

/// The number of the group that `api.group` names.
///
/// # Errors
/// If there is none.
pub(crate) fn group_id(name: &str) -> Result<u32, String> {
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let mut fields = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = fields.find(|f| f.first() == Some(&name));
    let id = found.and_then(|fields| fields.get(2)?.parse().ok());
    id.ok_or_else(|| format!("api.group = {name:?}: there is no such group"))
}

/// Serves the API on its unix socket until the daemon ends.
pub async fn serve(listener: UnixListener, node: Arc<Node>) {
    let router = router(&node);
    serve_all(&Socket::Unix(listener), router, &node).await;
}

/// Serves only the metrics, on TCP, until the daemon ends.
pub async fn serve_metrics(listener: TcpListener, node: Arc<Node>) {
    let router = Router::new().route(routes::METRICS, get(metrics::text)).with_state(node.clone());
    serve_all(&Socket::Tcp(listener), router, &node).await;
}

async fn serve_all(socket: &Socket, router: Router, node: &Node) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let shares = Shares::new(MAX_OF_ONE_SOURCE);
    let mut stopping = node.stopping.subscribe();
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        let Accepted { stream, from, source } = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection to the API or the metrics");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some(share) = shares.take(source) else {
            tracing::debug!(from, ?source, "closed a connection: its source has its share");
            continue;
        };
        let served = http::serve(stream, router.clone(), http::CLIENT_DEADLINE);
        tokio::spawn(async move {
            served.await;
            drop((share, place));
        });
    }
}
