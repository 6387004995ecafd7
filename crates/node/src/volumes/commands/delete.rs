//! Deleting a volume: the coordinator's record first, then the replicas. A replica that cannot be
//! reached, or that this node did not come to, is deleted when its node learns that the volume is
//! gone (see [`crate::volumes::replicas::sweep`]).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use evenkeel_api::types::{DeleteVolumeAnswer, DeleteVolumeQuery, PlannedReplica, VERSION};
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::{NodeId, View, VolumeId};

use super::plan;
use crate::coordinator::{Answer, Request};
use crate::tasks::asker_has_gone_since;
use crate::volumes::Node;
use crate::volumes::attachment::actor::{Turn, turn};
use crate::volumes::attachment::start::adopt;
use crate::volumes::lookup::{Found, find, moved, primaries_elsewhere, unexpected};
use crate::volumes::replicas::make::delete_one;
use crate::volumes::status::reports;

/// How often a view may change while its volume is being deleted.
const MAX_ATTEMPTS: u32 = 5;

/// Deletes a volume with its data; with force also one whose last primary may live and that cannot
/// be taken over.
///
/// # Errors
/// If there is no such volume, it is attached, it cannot be taken over from a primary that may
/// live, or it has other replicas than those that may be deleted.
pub async fn delete(
    node: &Arc<Node>,
    volume: &str,
    query: &DeleteVolumeQuery,
) -> Result<DeleteVolumeAnswer, ApiError> {
    let force = query.force;
    let what = format!("cannot delete volume {volume}");
    let id = find(node, &what, volume).await?.view.volume;
    let turn = turn(node, id).await;
    // Not by its name: another one may have got that meanwhile.
    let mut found = find_same(node, &what, id).await?;
    if node.volumes.get(found.view.volume).is_some() {
        return Err(attached(&what, &node.identity.name));
    }
    if !force && !all_have_ended(node, &found.view) {
        take_over(node, &turn, &found, &what).await?;
        found = find_same(node, &what, id).await?;
    }
    strike_off(node, &mut found, query, &what).await?;
    let (mut removed, mut remembered) = (0, Vec::new());
    for (mirror, record) in found.view.replicas() {
        match delete_one(node, record.node, found.view.volume, record.id).await {
            Ok(()) => removed += 1,
            Err(error) => {
                tracing::warn!(replica = %record.id, %error, "a replica is deleted when its node answers");
                let id = record.id.to_string();
                let placed = found.stored.record.replicas.iter().find(|p| p.id == id);
                remembered.push(PlannedReplica {
                    id,
                    mirror,
                    node: node.coordinator.node_ref(record.node),
                    disk: placed.map_or(String::new(), |p| p.disk.clone()),
                });
            }
        }
    }
    let name = &found.stored.record.name;
    let later = match remembered.len() {
        0 => String::new(),
        count => {
            format!("; {count} replica(s) on nodes that do not answer are deleted when those do")
        }
    };
    let message = format!("volume {name} is deleted{later}");
    tracing::info!("{message}");
    Ok(DeleteVolumeAnswer { version: VERSION, removed, remembered, message })
}

/// Whether every primary that the view names has provably ended. Of one of another node that is
/// never certain. One of this node's identity may run as well: on a machine with a copy of its
/// state directory, or cut off from the coordinator.
fn all_have_ended(node: &Node, view: &View) -> bool {
    view.primaries.iter().all(|primary| {
        primary.id.node == node.identity.node
            && node.volumes.has_ended(view.volume, primary.id.incarnation)
    })
}

/// Takes the volume out of the coordinator's records. If its view changes meanwhile, what is to be
/// deleted is looked at again.
async fn strike_off(
    node: &Arc<Node>,
    found: &mut Found,
    query: &DeleteVolumeQuery,
    what: &str,
) -> Result<(), ApiError> {
    let id = found.view.volume;
    for _ in 0..MAX_ATTEMPTS {
        let agreed = query.removes.as_deref().map(plan::split);
        plan::refuse_other_than(&plan::whole(node, found), agreed, what)?;
        let request = Request::Delete {
            node: node.identity.node.to_string(),
            volume: id.to_string(),
            generation: found.view.generation.0,
            view: Some(found.stored.view.clone()),
            revision: Some(found.stored.record.revision),
            force: query.force,
        };
        let began = Instant::now();
        match node.coordinator.ask(what, request).await? {
            Answer::Done => return Ok(()),
            Answer::Newest(_) | Answer::Changed(_) if asker_has_gone_since(began) => {
                return Err(moved(what));
            }
            Answer::Newest(_) | Answer::Changed(_) => {
                *found = find_same(node, what, id).await?;
                refuse_attached(node, found, query.force, what).await?;
            }
            Answer::NoVolume => return Err(gone(what)),
            other => return Err(unexpected(what, &other)),
        }
    }
    let why = format!("its view has changed {MAX_ATTEMPTS} times meanwhile");
    Err(ApiError::new(ErrorCode::WrongState, what, why, "Give the command again"))
}

/// Refuses a volume that is attached on this node or another one that may live: the coordinator
/// hears that, or it answers here.
pub(super) async fn refuse_attached(
    node: &Arc<Node>,
    found: &Found,
    force: bool,
    what: &str,
) -> Result<(), ApiError> {
    if node.volumes.get(found.view.volume).is_some() {
        return Err(attached(what, &node.identity.name));
    }
    if force || found.view.primaries.is_empty() {
        return Ok(());
    }
    node.cluster.nodes().await;
    let primaries: Vec<NodeId> = primaries_elsewhere(node, &found.view).collect();
    if let Some(primary) = primaries.iter().find(|id| !node.coordinator.is_dead(**id)) {
        return Err(attached(what, &node.coordinator.node_ref(*primary).name));
    }
    let asked = primaries.iter().map(|primary| (*primary, BTreeSet::new())).collect();
    let reports = reports::ask_nodes(node, asked, false).await;
    match primaries.into_iter().find(|id| reports.answered(*id) == Some(true)) {
        Some(primary) => Err(unseen(what, &node.coordinator.node_ref(primary).name)),
        None => Ok(()),
    }
}

/// The volume that is to be deleted, if it is there still.
async fn find_same(node: &Arc<Node>, what: &str, id: VolumeId) -> Result<Found, ApiError> {
    find(node, what, &id.to_string()).await.map_err(|error| match error.code {
        ErrorCode::NoSuchVolume => gone(what),
        _ => error,
    })
}

/// A node that the coordinator does not hear may serve the volume all the same. After a takeover it
/// cannot: its lease is over, and the replicas refuse it.
async fn take_over(
    node: &Arc<Node>,
    turn: &Turn,
    found: &Found,
    what: &str,
) -> Result<(), ApiError> {
    refuse_attached(node, found, false, what).await?;
    let name = &found.stored.record.name;
    let adopted = adopt(node, turn, what).await;
    adopted.map(drop).map_err(|error| {
        let why = format!(
            "its last primary did not detach it, and it cannot be taken over to make sure that nobody uses it: {}",
            error.why
        );
        let advice = format!(
            "Start the nodes of its replicas. If they are lost for good: `evenkeel volume delete {name} --yes --force`"
        );
        ApiError { why, action: node.cluster.unless_cut_off(&advice), ..error }
    })
}

fn attached(what: &str, node: &str) -> ApiError {
    let why = format!("it is attached on node {node}");
    ApiError::new(ErrorCode::Attached, what, why, "Detach it first")
}

/// It is attached where the coordinator hears nobody, and somebody answers.
fn unseen(what: &str, node: &str) -> ApiError {
    let why = format!(
        "it is attached on node {node}, which answers, though the coordinator does not hear it"
    );
    let action = "Detach it there, or repair the network between that node and the coordinator's";
    ApiError::new(ErrorCode::Attached, what, why, action)
}

fn gone(what: &str) -> ApiError {
    let why = "it was deleted meanwhile";
    ApiError::new(ErrorCode::NoSuchVolume, what, why, "See `evenkeel volume list`")
}
