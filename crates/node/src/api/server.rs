//! Which path is served by what, and on which sockets.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{HttpBody as _, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Extensions, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Extension, Router};
use evenkeel_api::{ApiError, ErrorCode, routes};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::bounds::{Bounds, Place};
use super::doors::Doors;
use super::extract::Refusal;
use super::permission::{Requester, permitted};
use super::{handlers, openapi};
use crate::access::Rights;
use crate::audit::{Answered, Asked, Audit, Who};
use crate::config::Config;
use crate::coordinator::{Caller, remote, removed};
use crate::http::{self, Accepted, Socket};
use crate::metrics;
use crate::peer::requests;
use crate::peer::stream::PeerStream;
use crate::running::Running;
use crate::seats::{Shares, Source};
use crate::volumes::Node;

/// Most connections to the API, and to the metrics' address, at a time.
const MAX_CONNECTIONS: usize = 256;
/// Most of them from one source, but for root.
const MAX_OF_ONE_SOURCE: usize = 64;
/// Most bytes of a request's body.
pub(super) const MAX_BODY_LENGTH: usize = 2 << 20;
/// How long a request's body may take to arrive.
const BODY_DEADLINE: Duration = Duration::from_secs(30);
/// How long a change that a node asks for may wait until others of it have ended.
const CHANGE_DEADLINE: Duration = Duration::from_secs(5);

/// The API for users of this machine. Each request carries its [`Requester`].
pub fn users_router(running: &Running) -> Router {
    served(local().merge(forwarded()), running).layer(axum::middleware::from_fn(permitted))
}

/// The API for other nodes: what they ask of each other for a user, and what only nodes need. Each
/// request carries its [`Caller`].
pub fn control_router(running: &Running) -> Router {
    let paths = forwarded()
        .merge(renewal())
        .route(requests::REPLICAS, post(handlers::peer::create_replica))
        .route(requests::FOUND, get(handlers::peer::found))
        .route(requests::SWEEP, post(handlers::peer::sweep))
        .route(requests::REMOVED, post(handlers::peer::removed))
        .route(requests::MAKE_SPACE, post(handlers::peer::make_space))
        .route(requests::REPLICA, delete(handlers::peer::delete_replica))
        .route(remote::PATH, post(handlers::peer::coordinator))
        .route(requests::READ, post(handlers::peer::read))
        .route(requests::CONDITIONS, post(handlers::peer::conditions));
    for_nodes(paths, running)
}

/// The API for other nodes whose certificates have expired: they may ask for new ones.
pub fn renewal_router(running: &Running) -> Router {
    for_nodes(renewal(), running)
}

fn renewal() -> Router<Running> {
    Router::new().route(requests::CERTIFICATE, post(handlers::peer::certificate))
}

fn for_nodes(paths: Router<Running>, running: &Running) -> Router {
    let bounds = Arc::<Bounds>::default();
    served(paths, running)
        .layer(axum::middleware::from_fn_with_state(bounds, bounded))
        .layer(axum::middleware::from_fn_with_state(running.clone(), refuse_removed))
}

/// What is no task though its method could change something: a question changes nothing, and what
/// the coordinator is asked is one transaction. Other nodes need them until this one has ended.
const NO_TASKS: [&str; 4] = [remote::PATH, requests::READ, requests::CONDITIONS, requests::REMOVED];
/// What nodes remind each other of by themselves, without being asked by anybody.
const UNAUDITED: [&str; 2] = [requests::SWEEP, requests::CERTIFICATE];

/// What a node sends to another one on behalf of a user ([`Cluster::forward`]): questions about a
/// node, its disks and volumes, and changes of one volume where that is attached.
///
/// A route belongs here only if a node sends it. None takes a path or an address from the request:
/// a member could otherwise write this node's files and become root here.
///
/// [`Cluster::forward`]: crate::cluster::Cluster::forward
fn forwarded() -> Router<Running> {
    Router::new()
        .route(routes::NODE, get(handlers::node::status))
        .route(routes::DISKS, get(handlers::disk::list))
        .route(routes::VOLUME, get(handlers::volume::status).patch(handlers::volume::change))
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
        .route(routes::CHANGE_PLAN, get(handlers::plan::change))
        .route(routes::REPLICA_PLAN, get(handlers::plan::replica))
}

/// What only users of this machine may ask for. No node sends it to another.
fn local() -> Router<Running> {
    Router::new()
        .route(routes::OPENAPI, get(openapi::document))
        .route(routes::METRICS, get(metrics::text))
        .route(routes::JOIN, post(handlers::node::join))
        .route(routes::INVITE, post(handlers::node::invite))
        .route(routes::CLIENT_CERTIFICATE, post(handlers::node::client_certificate))
        .route(routes::RENAME_CLUSTER, post(handlers::node::rename_cluster))
        .route(routes::NODES, get(handlers::node::list))
        .route(routes::NODE_OF_CLUSTER, delete(handlers::node::remove))
        .route(routes::DISKS, post(handlers::disk::add))
        .route(routes::DISK, delete(handlers::disk::remove))
        .route(routes::VOLUMES, get(handlers::volume::list).post(handlers::volume::create))
        .route(routes::VOLUME, delete(handlers::volume::delete))
        .route(routes::RENAME_VOLUME, post(handlers::volume::rename))
        .route(routes::STOP, post(handlers::volume::stop))
        .route(routes::ASSEMBLE, post(handlers::volume::assemble))
        .route(routes::NODE_PLAN, get(handlers::plan::node))
        .route(routes::DISK_PLAN, get(handlers::plan::disk))
        .route(routes::ADD_DISK_PLAN, get(handlers::plan::add_disk))
        .route(routes::DELETE_PLAN, get(handlers::plan::delete))
        .route(routes::STOP_PLAN, get(handlers::plan::stop))
        .route(routes::DROP_PLAN, get(handlers::plan::drop_reservation))
        .route(routes::ASSEMBLE_PLAN, get(handlers::plan::assemble))
}

/// Serves all these paths. Whatever may change something on them is carried out by a task of its
/// own, to its end. It gives them their state, too, so that no handler can be put beside that
/// afterwards.
fn served(paths: Router<Running>, running: &Running) -> Router {
    paths
        .layer(axum::middleware::from_fn_with_state(running.clone(), to_the_end))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_path)
        .layer(axum::middleware::from_fn(whole_body))
        .with_state(running.clone())
}

async fn to_the_end(State(running): State<Running>, request: Request, next: Next) -> Response {
    if request.method().is_safe() || NO_TASKS.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let place = match place(&running, request.extensions()).await {
        Ok(place) => place,
        Err(refusal) => return refusal.into_response(),
    };
    let change = audited(running.audit.clone(), request, next);
    let change = async move {
        let response = change.await;
        drop(place);
        response
    };
    let answer = running.tasks.carry_out(change).await;
    answer.unwrap_or_else(|stopping| Refusal(stopping).into_response())
}

/// A place among the changes of nodes. `None`: a user asks.
async fn place(running: &Running, known: &Extensions) -> Result<Option<Place>, Refusal> {
    let (Some(bounds), Some(caller)) = (known.get::<Arc<Bounds>>(), known.get::<Caller>()) else {
        return Ok(None);
    };
    match timeout(CHANGE_DEADLINE, bounds.place(caller.node)).await {
        Ok(place) => Ok(Some(place)),
        Err(_) => {
            let what = format!("node {} cannot begin this", running.node.identity.name);
            let why = "it carries out as many changes for other nodes as it may";
            let advice = "Try again in a moment";
            Err(ApiError::new(ErrorCode::WrongState, what, why, advice).into())
        }
    }
}

/// Lets a node's request pass as soon as there is memory for its body.
async fn bounded(
    State(bounds): State<Arc<Bounds>>,
    Extension(caller): Extension<Caller>,
    mut request: Request,
    next: Next,
) -> Response {
    let length = request.body().size_hint().upper().and_then(|length| length.try_into().ok());
    let length = length.unwrap_or(MAX_BODY_LENGTH).min(MAX_BODY_LENGTH);
    let Ok(memory) = timeout(BODY_DEADLINE, bounds.memory(caller.node, length)).await else {
        let what = "the request is not taken";
        let why = "other nodes send as much as this one has memory for";
        let advice = "Try again in a moment";
        return Refusal(ApiError::new(ErrorCode::WrongState, what, why, advice)).into_response();
    };
    request.extensions_mut().insert(bounds);
    let response = next.run(request).await;
    drop(memory);
    response
}

/// Carries a change out between its two lines of the audit log.
async fn audited(audit: Arc<Audit>, request: Request, next: Next) -> Response {
    if UNAUDITED.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    // It is whole already (`whole_body`).
    let body = to_bytes(body, MAX_BODY_LENGTH).await.unwrap_or_default();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let asked = Asked::new(who(&head.extensions), head.method.as_str(), path, &body);
    let number = audit.asked(&asked).await;
    let response = next.run(Request::from_parts(head, body.into())).await;
    let error = response.extensions().get::<ErrorCode>().copied();
    audit.answered(&number, Answered { status: response.status().as_u16(), error }).await;
    response
}

/// Who is at the other end of a request's connection.
fn who(known: &Extensions) -> Option<Who> {
    let node = known
        .get::<Caller>()
        .map(|caller| Who::Node { node: caller.node.to_string(), from: caller.at.clone() });
    let user = known.get::<Requester>().map(|Requester { account, login, .. }| Who::User {
        uid: account.uid(),
        user: account.name().map(str::to_owned),
        login: *login,
    });
    node.or(user)
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
/// If it is in use.
pub async fn bind(config: &Config, rights: &Rights) -> Result<UnixListener, String> {
    http::bind_unix(&config.api_socket(), rights.socket_mode()).await
}

/// Serves the API on its unix socket until the daemon ends.
pub async fn serve(listener: UnixListener, running: Running) {
    let doors = Arc::new(Doors::new(running.rights.clone()));
    let router = users_router(&running);
    let serve_one = |stream, place| doors.clone().serve_user(stream, place, router.clone());
    serve_all(&Socket::Unix(listener), &running.node, serve_one).await;
}

/// Serves only the metrics, on TCP, until the daemon ends.
pub async fn serve_metrics(listener: TcpListener, running: Running) {
    let router =
        Router::new().route(routes::METRICS, get(metrics::text)).with_state(running.clone());
    let serve_one = |stream, place| {
        let served = http::serve(stream, router.clone(), http::CLIENT_DEADLINE);
        async move {
            served.await;
            drop(place);
        }
    };
    serve_all(&Socket::Tcp(listener), &running.node, serve_one).await;
}

/// Accepts connections until the daemon ends; each is served, in one of the places, by a task of
/// its own.
async fn serve_all<S: Future<Output = ()> + Send + 'static>(
    socket: &Socket,
    node: &Node,
    serve_one: impl Fn(PeerStream, OwnedSemaphorePermit) -> S,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let shares = Arc::new(Shares::default());
    loop {
        // Nobody closes it, so there is always a place in the end.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        // The daemon ends.
        let Some(accepted) = node.unless_stopping(socket.accept()).await else { return };
        let Accepted { stream, from, source } = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                http::accept_failed("a connection to the API or the metrics", &error).await;
                continue;
            }
        };
        // Whoever is root needs no connection to keep others out.
        let most = if source == Source::User(0) { usize::MAX } else { MAX_OF_ONE_SOURCE };
        let Some(share) = shares.take(source.machine(), most) else {
            tracing::debug!(from, ?source, "closed a connection: its source has its share");
            continue;
        };
        let served = serve_one(stream, place);
        tokio::spawn(async move {
            served.await;
            drop(share);
        });
    }
}
