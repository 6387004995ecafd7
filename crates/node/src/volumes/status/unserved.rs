//! Replicas that their nodes do not serve: the file is gone, the disk absent or bad. The node says
//! so when somebody connects, and it is passed on to whoever looks.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::types::{self, Disk, DiskReplica, DisksAnswer, ReplicaStatus};
use evenkeel_api::{ApiError, ErrorCode, routes};
use evenkeel_core::view::Cause;
use evenkeel_core::{ReplicaId, ReplicaRecord, ReplicaState};
use hyper::Method;

use super::{facts, risks};
use crate::cluster;
use crate::disks::{REPLACE, Unserved};
use crate::peer;
use crate::volumes::Node;
use crate::volumes::lookup::{Found, place_of};
use crate::volumes::{Attached, messages, status};

/// How long the answer to a `re-add` waits to see whether the replica fails again.
const WATCH: Duration = Duration::from_secs(2);
/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(100);

impl Attached {
    /// What a replica's node has answered when it was connected to. `None`: it serves the replica,
    /// or has not answered.
    pub fn learn_unserved(&self, node: &Node, replica: ReplicaId, answer: Option<Unserved>) {
        let text = answer.as_ref().map(ToString::to_string);
        let is_new = self.note_unserved(replica, answer);
        if let Some(text) = text.filter(|_| is_new) {
            let place = place_of(node, self, replica);
            tracing::warn!(volume = self.name(), "the replica on {place} is not served: {text}");
            self.event(format!("the replica on {place} is not served: {text}"));
        }
    }
}

/// Asks a replica's node whether it serves it. `None`: it does, or does not answer.
async fn ask(node: &Arc<Node>, found: &Found, record: &ReplicaRecord) -> Option<Unserved> {
    if record.node == node.identity.node {
        return facts::unserved_here(node, &found.stored.record, record);
    }
    let member = node.coordinator.node(record.node)?;
    let connected = node.peers.connect_replica(Some(&member), found.view.volume, record.id).await;
    peer::unserved(&connected)
}

/// Refuses to bring a replica back that does not come back.
///
/// # Errors
/// If its node says that it is gone, or will be when the daemon ends, or its disk is bad or can't
/// be written.
pub(in crate::volumes) async fn refuse_lost(
    node: &Arc<Node>,
    found: &Found,
    id: ReplicaId,
    what: &str,
) -> Result<(), ApiError> {
    let Some((_, record)) = found.view.replica(id) else { return Ok(()) };
    match ask(node, found, record).await {
        Some(unserved) if !unserved.passes() => Err(unusable(what, unserved.to_string())),
        Some(_) => Ok(()),
        None => match risks::ask(node, record).await {
            Some(risk) => Err(unusable(what, messages::at_risk(record.state, &risk, true))),
            None => Ok(()),
        },
    }
}

fn unusable(what: &str, why: String) -> ApiError {
    let advice = format!("Put its disk in order, or take another one: {REPLACE}");
    ApiError::new(ErrorCode::ReplicaUnusable, what, why, advice)
}

/// Watches for a while what becomes of a replica that was brought back.
///
/// # Errors
/// If it fails again: its disk is still full, or bad.
pub(in crate::volumes) async fn watch(
    node: &Arc<Node>,
    volume: &str,
    id: ReplicaId,
    what: &str,
) -> Result<(), ApiError> {
    let end = tokio::time::Instant::now() + WATCH;
    let id = id.to_string();
    while tokio::time::Instant::now() < end {
        let status = status::one(node, volume, true).await?;
        let replicas = status.mirrors.into_iter().flat_map(|mirror| mirror.replicas);
        let Some(replica) = replicas.into_iter().find(|replica| replica.id == id) else { break };
        match replica.state {
            types::ReplicaState::InSync => break,
            types::ReplicaState::Faulty => return Err(failed_again(node, &replica, what).await),
            _ => tokio::time::sleep(LOOK).await,
        }
    }
    Ok(())
}

async fn failed_again(node: &Arc<Node>, replica: &ReplicaStatus, what: &str) -> ApiError {
    let mut why = match replica.cause {
        // What to do is said below.
        Some(types::ReplicaCause::NoSpace) => Cause::NoSpace.to_string(),
        Some(types::ReplicaCause::Medium) => {
            let listed = listed(node, replica).await;
            let error = listed.and_then(|(_, of)| of.warning).map(|error| format!("; {error}"));
            return unusable(what, format!("{}{}", Cause::Medium, error.unwrap_or_default()));
        }
        _ => {
            let why = replica.reason.clone().unwrap_or_else(|| "it failed again".into());
            return unusable(what, why);
        }
    };
    if let Some(room) = room(node, replica).await {
        why = format!("{why} ({room})");
    }
    let advice = format!("Make room on its disk, or take another one: {REPLACE}");
    ApiError::new(ErrorCode::ReplicaUnusable, what, why, advice)
}

/// How much room a replica may still need, and how much its disk has. `None`: its node does not
/// answer, or its disk is not a directory.
async fn room(node: &Arc<Node>, replica: &ReplicaStatus) -> Option<String> {
    let (disk, of) = listed(node, replica).await?;
    let (needed, free) = (of.unallocated?, disk.available?);
    let [needed, free] = evenkeel_api::sizes::compared(needed, free);
    Some(format!("{needed} of it have no space yet, and {free} are free on disk {}", disk.name))
}

/// What its node says of a replica and its disk. `None`: it does not answer.
async fn listed(node: &Arc<Node>, replica: &ReplicaStatus) -> Option<(Disk, DiskReplica)> {
    let disks = match node.coordinator.node(replica.node.id.parse().ok()?)? {
        member if member.node.id == node.identity.node.to_string() => {
            node.blocking(|node| Ok(node.disks.list())).await.ok()?
        }
        member => {
            let (path, deadline) = (routes::DISKS, cluster::QUESTION);
            let answer =
                node.cluster.forward::<(), DisksAnswer>(&member, Method::GET, path, None, deadline);
            answer.await.ok()?.disks
        }
    };
    let is_it = |of: &DiskReplica| of.id.as_deref() == Some(replica.id.as_str());
    disks.into_iter().find_map(|disk| {
        let of = disk.replicas.iter().find(|of| is_it(of)).cloned()?;
        Some((disk, of))
    })
}

/// Whether the replica waits for somebody to bring it back.
pub(in crate::volumes) fn is_faulty(found: &Found, id: ReplicaId) -> bool {
    found.view.replica(id).is_some_and(|(_, record)| record.state == ReplicaState::Faulty)
}
