//! Failing, removing and re-adding replicas.

use std::sync::Arc;

use evenkeel_core::primary::{Command, CommandError};
use evenkeel_core::view::{Cause, ViewError};
use evenkeel_core::{ReplicaId, ReplicaRecord, ReplicaState, View};
use hyper::Method;

use super::lookup::{Found, find, life, moved, primary_elsewhere, unexpected};
use super::make::delete_one;
use super::status;
use crate::api::types::{VolumeAnswer, VolumeStatus};
use crate::api::{ApiError, ErrorCode, routes};
use crate::cluster;
use crate::coordinator::{Answer, Request, ViewText};
use crate::node::Node;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Fail,
    Remove,
    ReAdd,
}

/// Carries out a command and answers with the volume's status after it.
///
/// # Errors
/// If there is no such volume, replica or command, or the view does not permit it.
pub async fn command(
    node: &Arc<Node>,
    volume: &str,
    replica: &str,
    action: &str,
    forwarded: bool,
) -> Result<VolumeStatus, ApiError> {
    let what = format!("cannot {action} replica {replica} of volume {volume}");
    let wanted = match action {
        "fail" => Action::Fail,
        "remove" => Action::Remove,
        "re-add" => Action::ReAdd,
        _ => {
            let why = format!("there is no command {action}");
            return Err(ApiError::new(
                ErrorCode::BadRequest,
                what,
                why,
                "Use fail, remove or re-add",
            ));
        }
    };
    let found = find(node, &what, volume).await?;
    let id = resolve(node, &found, replica, &what)?;
    let here = node.volumes.get(found.view.volume).is_some();
    if !here && let Some(elsewhere) = primary_elsewhere(node, &found.view) {
        if forwarded {
            return Err(moved(&what));
        }
        let target = life(node, &what, elsewhere)?;
        let id = id.to_string();
        let path = routes::fill(routes::REPLICA, &[&found.stored.record.id, &id, action]);
        let (method, deadline) = (Method::POST, cluster::COMMAND);
        let answer =
            cluster::forward::<(), VolumeAnswer>(node, &target, method, &path, None, deadline);
        return answer.await.map(|answer| answer.volume);
    }
    if here {
        by_primary(node, &found, wanted, id, &what).await?;
    } else {
        by_view(node, &found.view, wanted, id, &what).await?;
    }
    tracing::info!(volume = found.stored.record.name, replica = %id, action, "a command was carried out");
    if wanted == Action::Remove {
        take_out(node, &found, id).await;
    }
    status::one(node, &found.stored.record.id, forwarded).await
}

/// A replica's node and disk, as in `alpha:disk1`; by the node's identity too.
fn places(node: &Node, found: &Found, record: &ReplicaRecord) -> [String; 2] {
    let id = record.id.to_string();
    let placed = found.stored.record.replicas.iter().find(|placed| placed.id == id);
    let disk = placed.map_or("?", |placed| placed.disk.as_str());
    let node = node.coordinator.node_ref(record.node);
    [format!("{}:{disk}", node.name), format!("{}:{disk}", node.id)]
}

/// The replica that is meant: an identity, its beginning, or `NODE:DISK`.
fn resolve(node: &Node, found: &Found, text: &str, what: &str) -> Result<ReplicaId, ApiError> {
    let is = |record: &&ReplicaRecord| {
        let begins = text.len() >= 4 && record.id.to_string().starts_with(text);
        begins || places(node, found, record).iter().any(|place| place == text)
    };
    let replicas = || found.view.replicas().map(|(_, record)| record);
    let matching: Vec<ReplicaId> = replicas().filter(is).map(|record| record.id).collect();
    if let [id] = matching[..] {
        return Ok(id);
    }
    let all: Vec<String> =
        replicas().map(|record| places(node, found, record)[0].clone()).collect();
    let why = match matching.len() {
        0 => format!("the volume has no such replica; it has {}", all.join(", ")),
        count => format!("{count} replicas are meant by that"),
    };
    let advice = "Name it by NODE:DISK or by its identity; see `evenkeel volume status`";
    Err(ApiError::new(ErrorCode::NoSuchReplica, what, why, advice))
}

async fn by_primary(
    node: &Node,
    found: &Found,
    action: Action,
    id: ReplicaId,
    what: &str,
) -> Result<(), ApiError> {
    let command = match action {
        Action::Fail => Command::Fail(id),
        Action::Remove => Command::Remove(id),
        Action::ReAdd => Command::ReAdd(id),
    };
    let done = node.data.command(found.view.volume, command);
    let done = tokio::time::timeout(cluster::COMMAND, done).await;
    match done {
        Ok(Ok(())) => Ok(()),
        Ok(Err(CommandError::View(error))) => Err(not_permitted(error, what)),
        Ok(Err(CommandError::NoCoordinator)) => Err(ApiError::new(
            ErrorCode::NoCoordinator,
            what,
            "the view has to change, and the coordinator does not answer",
            "Start the coordinator's node, or repair the network to it",
        )),
        Ok(Err(CommandError::Ended)) => Err(moved(what)),
        Err(_) => Err(ApiError::new(
            ErrorCode::TimedOut,
            what,
            "it did not end in time",
            "It may still go on: see `evenkeel volume status`",
        )),
    }
}

fn not_permitted(error: ViewError, what: &str) -> ApiError {
    let (code, action) = match error {
        ViewError::UnknownReplica => (ErrorCode::NoSuchReplica, "See `evenkeel volume status`"),
        ViewError::LastInSync => {
            (ErrorCode::LastInSync, "Wait for a rebuild to end, or re-add another replica")
        }
        ViewError::WrongState(state) if state.takes_writes() => {
            (ErrorCode::WrongState, "Fail it first, by `evenkeel replica fail`")
        }
        _ => (ErrorCode::WrongState, "See `evenkeel volume status`"),
    };
    ApiError::new(code, what, error.to_string(), action)
}

/// Changes the view of a volume that is attached nowhere. Its replicas adopt it at the next attach.
async fn by_view(
    node: &Node,
    view: &View,
    action: Action,
    id: ReplicaId,
    what: &str,
) -> Result<(), ApiError> {
    if !view.primaries.is_empty() {
        let why = "the volume was not detached properly";
        return Err(ApiError::new(ErrorCode::WrongState, what, why, "Attach it first"));
    }
    let mut next = view.successor();
    let changed = match action {
        Action::Fail => next.leave(id, ReplicaState::Faulty, Cause::Operator),
        Action::Remove => next.remove(id),
        Action::ReAdd => next.readmit(id),
    };
    changed.map_err(|error| not_permitted(error, what))?;
    let text = ViewText::encode(&next)
        .map_err(|e| ApiError::new(ErrorCode::System, what, e.to_string(), "Please report this"))?;
    let request = Request::Swap { node: node.identity.node.to_string(), view: text };
    match node.coordinator.ask(what, request).await? {
        Answer::Done => Ok(()),
        Answer::Newest(_) | Answer::NotExpired { .. } => Err(moved(what)),
        other => Err(unexpected(what, &other)),
    }
}

/// Gives the space of a removed replica back, now or when its node starts.
async fn take_out(node: &Arc<Node>, found: &Found, id: ReplicaId) {
    let volume = found.view.volume;
    let request = Request::Forget { volume: volume.to_string(), replica: id.to_string() };
    if let Err(error) = node.coordinator.ask("a removed replica is to be forgotten", request).await
    {
        node.warn(error.to_string());
    }
    let Some((_, record)) = found.view.replica(id) else { return };
    if let Err(error) = delete_one(node, record.node, volume, id).await {
        tracing::warn!(replica = %id, %error, "a removed replica is deleted when its node starts");
    }
}
