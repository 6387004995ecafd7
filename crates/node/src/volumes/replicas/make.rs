//! Making a volume: a draft at the coordinator, the replicas, each with the first view in its
//! superblock, then the coordinator's record.
//!
//! If this node dies on the way, or cannot tell whether the record was made, the draft is given up,
//! and the nodes delete the replicas (see [`super::sweep`]): nothing is left that no volume has.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::{ApiError, ErrorCode, routes};
use evenkeel_core::{NodeId, ReplicaId, VolumeId};
use hyper::Method;

use super::draft::Draft;
use super::local;
use crate::cluster;
use crate::coordinator::{Answer, CallError, Request, StoredVolume, ViewText, to_hex};
use crate::disks::NewReplica;
use crate::peer::requests::{CreateReplica, REPLICA, REPLICAS};
use crate::volumes::Node;
use crate::volumes::lookup::{self, unexpected};

/// How long a node may take to make a replica: a block device may have to be zeroed.
pub(in crate::volumes) const CREATION: Duration = Duration::from_secs(24 * 3600);
/// The pause between attempts to tell the coordinator something while it does not answer.
const PAUSE: Duration = Duration::from_secs(5);

pub(in crate::volumes) fn name_in_use(what: &str) -> ApiError {
    let why = "another volume has this name";
    ApiError::new(ErrorCode::NameInUse, what, why, "Choose another one; see `evenkeel volume list`")
}

fn given_up(what: &str) -> ApiError {
    let why = "the coordinator gave the creation up, because it had received no heartbeat of this node for longer than coordinator.expiry_seconds";
    ApiError::new(ErrorCode::NoCoordinator, what, why, "Try again; nothing is left of this attempt")
}

/// Makes what was drafted, or nothing.
///
/// # Errors
/// If a replica cannot be made, or the coordinator refuses or does not answer. In the last case the
/// volume may exist: the error says so.
pub(in crate::volumes) async fn make(
    node: &Arc<Node>,
    draft: &Draft,
    what: &str,
) -> Result<(), ApiError> {
    let volume = draft.view.volume;
    let request = Request::Draft {
        node: node.identity.node.to_string(),
        incarnation: node.identity.start.incarnation().0,
        volume: volume.to_string(),
    };
    match node.coordinator.ask(what, request).await {
        Ok(Answer::Done) => {}
        Ok(other) => return Err(unexpected(what, &other)),
        Err(error) => {
            give_up(node, volume).await;
            return Err(error);
        }
    }
    if let Err(error) = make_replicas(node, draft, what).await {
        unmake(node, draft).await;
        return Err(error);
    }
    record(node, draft, what).await
}

/// The moment at which the volume exists.
async fn record(node: &Arc<Node>, draft: &Draft, what: &str) -> Result<(), ApiError> {
    let view = ViewText::encode(&draft.view)
        .map_err(|e| ApiError::new(ErrorCode::System, what, e.to_string(), "Please report this"))?;
    let stored = Box::new(StoredVolume { record: draft.record(), view });
    let refused = match node.coordinator.ask(what, Request::Create(stored)).await {
        Ok(Answer::Done) => return Ok(()),
        Ok(Answer::NameInUse) => name_in_use(what),
        Ok(Answer::NoVolume) => given_up(what),
        Ok(other) => unexpected(what, &other),
        Err(error) => {
            // It may exist: the replicas are kept unless the coordinator says otherwise.
            give_up(node, draft.view.volume).await;
            let advice = "If `evenkeel volume list` does not show it once the coordinator answers, create it again: what was made of it is deleted then";
            return Err(ApiError { action: advice.into(), ..error });
        }
    };
    unmake(node, draft).await;
    Err(refused)
}

/// Makes the replicas, all at once.
async fn make_replicas(node: &Arc<Node>, draft: &Draft, what: &str) -> Result<(), ApiError> {
    let mut tasks = Vec::new();
    for (mirror, record, disk) in draft.replicas() {
        let new = NewReplica { superblock: draft.superblock(mirror, record.id), thin: draft.thin };
        let (node, target, disk) = (node.clone(), record.node, disk.name.clone());
        let what = what.to_owned();
        tasks.push(tokio::spawn(async move { make_one(&node, target, disk, new, &what).await }));
    }
    let mut failed = None;
    for task in tasks {
        let made = task.await.unwrap_or_else(|e| {
            Err(ApiError::new(ErrorCode::System, what, e.to_string(), "Please report this"))
        });
        failed = failed.or(made.err());
    }
    failed.map_or(Ok(()), Err)
}

pub(in crate::volumes) async fn make_one(
    node: &Arc<Node>,
    target: NodeId,
    disk: String,
    new: NewReplica,
    what: &str,
) -> Result<(), ApiError> {
    if target == node.identity.node {
        return local::create_replica(node, disk, new).await;
    }
    let member = lookup::member(node, what, target)?;
    let superblock = new.superblock.encode().map_err(|e| {
        ApiError::new(ErrorCode::BadRequest, what, e.to_string(), "Choose other values")
    })?;
    let request = CreateReplica { disk, superblock: to_hex(&superblock.0), thin: new.thin };
    let (method, body) = (Method::POST, Some(&request));
    let made = node.cluster.forward::<_, bool>(&member, method, REPLICAS, body, CREATION).await;
    made.map(drop).map_err(|error| cluster::for_what(what, &member, error))
}

/// Gives up a draft, now or as soon as the coordinator answers. A volume that exists stays.
async fn give_up(node: &Arc<Node>, volume: VolumeId) {
    report_in_the_end(node, Request::GiveUp { volume: volume.to_string() }).await;
}

/// Tells the coordinator something, now or as soon as it answers.
pub(in crate::volumes) async fn report_in_the_end(node: &Arc<Node>, request: Request) {
    let unanswered = |answer| matches!(answer, Err(CallError::Unreachable(_)));
    if !unanswered(node.coordinator.call_once(request.clone()).await) {
        return;
    }
    let node = node.clone();
    tokio::spawn(async move {
        while node.pause(PAUSE).await {
            if !unanswered(node.coordinator.call_once(request.clone()).await) {
                return;
            }
        }
    });
}

/// Gives up a draft and deletes what was made of it. What cannot be reached now is deleted later
/// by its node.
async fn unmake(node: &Arc<Node>, draft: &Draft) {
    give_up(node, draft.view.volume).await;
    for (_, record, _) in draft.replicas() {
        let deleted = delete_one(node, record.node, draft.view.volume, record.id).await;
        if let Err(error) = deleted {
            tracing::warn!(replica = %record.id, %error, "a replica of a failed creation is deleted later");
        }
    }
}

/// Deletes a replica on whichever node it is.
pub(in crate::volumes) async fn delete_one(
    node: &Arc<Node>,
    target: NodeId,
    volume: VolumeId,
    replica: ReplicaId,
) -> Result<(), ApiError> {
    if target == node.identity.node {
        return local::delete_replica(node, volume, replica).await.map(drop);
    }
    let member = lookup::member(node, "a replica cannot be deleted", target)?;
    let path = routes::fill(REPLICA, &[&volume.to_string(), &replica.to_string()]);
    let deadline = cluster::COMMAND;
    node.cluster.forward::<(), bool>(&member, Method::DELETE, &path, None, deadline).await?;
    Ok(())
}

/// Gives the space of a replica back that does not belong to its volume any more, now or when its
/// node sweeps its disks.
pub(in crate::volumes) async fn delete_removed(
    node: &Arc<Node>,
    home: NodeId,
    volume: VolumeId,
    replica: ReplicaId,
) {
    if let Err(error) = delete_one(node, home, volume, replica).await {
        tracing::warn!(%replica, %error, "a removed replica is deleted when its node answers");
    }
}
