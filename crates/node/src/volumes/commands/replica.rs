//! Failing, removing and re-adding replicas.

use std::sync::Arc;

use evenkeel_api::types::{self, MirrorStatus, VERSION, VolumeAnswer};
use evenkeel_api::{ApiError, ErrorCode, routes};
use evenkeel_core::primary::Command;
use evenkeel_core::{ReplicaId, ReplicaRecord};
use hyper::Method;

use super::view_change;
use crate::cluster;
use crate::coordinator::Request;
use crate::volumes::Node;
use crate::volumes::lookup::{Found, There, called, carried_out_elsewhere, find, forward, places};
use crate::volumes::replicas::make::delete_one;
use crate::volumes::status;
use crate::volumes::status::unserved;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Fail,
    Remove,
    Retire,
    ReAdd,
}

impl Action {
    /// By its name in the API.
    fn named(action: &str, what: &str) -> Result<Self, ApiError> {
        match action {
            "fail" => Ok(Self::Fail),
            "remove" => Ok(Self::Remove),
            "retire" => Ok(Self::Retire),
            "re-add" => Ok(Self::ReAdd),
            _ => {
                let why = format!("there is no command {action}");
                let advice = "Use fail, remove, retire or re-add";
                Err(ApiError::new(ErrorCode::BadRequest, what, why, advice))
            }
        }
    }

    const fn command(self, id: ReplicaId) -> Command {
        match self {
            Self::Fail => Command::Fail(id),
            Self::Remove => Command::Remove(id),
            Self::Retire => Command::Retire(id),
            Self::ReAdd => Command::ReAdd(id),
        }
    }

    /// What was done, as a sentence.
    fn done(self, place: &str, volume: &str, is_attached: bool) -> String {
        match self {
            Self::Fail => format!(
                "the replica on {place} of volume {volume} is faulty from now on; `evenkeel replica re-add` brings it back"
            ),
            Self::Remove | Self::Retire => {
                format!("the replica on {place} is removed from volume {volume}")
            }
            Self::ReAdd if is_attached => brought_back(place, volume, "it copies what it lacks"),
            Self::ReAdd => brought_back(place, volume, "it rebuilds when the volume is attached"),
        }
    }
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
) -> Result<VolumeAnswer, ApiError> {
    let what = cannot(action, replica, volume);
    let wanted = Action::named(action, &what)?;
    let found = find(node, &what, volume).await?;
    let takes_out = matches!(wanted, Action::Remove | Action::Retire);
    if takes_out && was_removed(node, &found, replica) {
        let message = format!("the replica on {replica} was removed before: nothing is changed");
        return answer(node, &found, message, forwarded).await;
    }
    let id = resolve(node, &found, replica, &what)?;
    let place = found.view.replica(id).map(|(_, record)| places(node, &found, record)[0].clone());
    let place = place.as_deref().unwrap_or(replica);
    let name = &found.stored.record.name;
    let what = format!("cannot {action} the replica on {place} of volume {name}");
    if let Some(target) = carried_out_elsewhere(node, &found, forwarded, &what)? {
        let id = id.to_string();
        let path = routes::fill(routes::REPLICA, &[&found.stored.record.id, &id, action]);
        let (method, deadline) = (Method::POST, cluster::COMMAND);
        let there = There { found: &found, target: &target, what: &what };
        return forward::<(), VolumeAnswer>(node, there, method, &path, None, deadline).await;
    }
    if wanted == Action::ReAdd {
        return re_add(node, &found, id, place, forwarded, &what).await;
    }
    view_change::carry_out(node, &found, wanted.command(id), &what).await?;
    tracing::info!(volume = name, replica = %id, action, "a command was carried out");
    if takes_out {
        take_out(node, &found, id).await;
    }
    let is_attached = node.volumes.get(found.view.volume).is_some();
    answer(node, &found, wanted.done(place, name, is_attached), forwarded).await
}

/// Brings a replica back that has left, and tells what it waits for.
async fn re_add(
    node: &Arc<Node>,
    found: &Found,
    id: ReplicaId,
    place: &str,
    forwarded: bool,
    what: &str,
) -> Result<VolumeAnswer, ApiError> {
    let (wanted, name) = (Action::ReAdd, &found.stored.record.name);
    let is_faulty = unserved::is_faulty(found, id);
    unserved::refuse_lost(node, found, id, what).await?;
    match view_change::carry_out(node, found, wanted.command(id), what).await {
        // It has returned by itself meanwhile, or was never away.
        Err(error) if error.code == ErrorCode::ReplicaInUse => {
            let message = format!("the replica on {place} is not faulty: nothing is changed");
            return answer(node, found, message, forwarded).await;
        }
        done => done?,
    }
    tracing::info!(volume = name, replica = %id, action = "re-add", "a command was carried out");
    let is_attached = node.volumes.get(found.view.volume).is_some();
    if is_faulty && is_attached {
        unserved::watch(node, &found.stored.record.id, id, what).await?;
    }
    let reported = answer(node, found, wanted.done(place, name, is_attached), forwarded).await?;
    let waits = is_attached.then(|| waits_for(&reported.volume.mirrors, id)).flatten();
    let message = waits.map(|then| brought_back(place, name, &then));
    Ok(VolumeAnswer { message: message.or(reported.message), ..reported })
}

/// What a replica waits for that was brought back: itself, or one to copy from.
fn waits_for(mirrors: &[MirrorStatus], id: ReplicaId) -> Option<String> {
    let id = id.to_string();
    let holds = |mirror: &&MirrorStatus| mirror.replicas.iter().any(|replica| replica.id == id);
    let mirror = mirrors.iter().find(holds)?;
    let replica = mirror.replicas.iter().find(|replica| replica.id == id)?;
    if replica.state == types::ReplicaState::InSync {
        return None;
    }
    let is_away = replica.node_alive == Some(false) || replica.unserved.is_some();
    let node = &replica.node.name;
    match (is_away && replica.connected != Some(true), mirror.has_source()) {
        (true, _) if replica.unserved.is_some() => {
            Some(format!("it copies what it lacks as soon as node {node} serves it"))
        }
        (true, _) => Some(format!("it copies what it lacks as soon as node {node} answers")),
        (false, false) => {
            Some("it copies what it lacks as soon as an in-sync replica answers".to_owned())
        }
        (false, true) => None,
    }
}

fn brought_back(place: &str, volume: &str, then: &str) -> String {
    format!("the replica on {place} of volume {volume} is brought back: {then}")
}

async fn answer(
    node: &Arc<Node>,
    found: &Found,
    message: String,
    forwarded: bool,
) -> Result<VolumeAnswer, ApiError> {
    let volume = status::one(node, &found.stored.record.id, forwarded).await?;
    let (message, warnings) = (Some(message), Vec::new());
    Ok(VolumeAnswer { version: VERSION, volume, message, warnings })
}

/// What did not work, before the replica is found: one that is named by its identity was found by
/// it.
pub(super) fn cannot(action: &str, replica: &str, volume: &str) -> String {
    let volume = called(volume);
    match replica.parse::<ReplicaId>() {
        Ok(_) => format!("cannot {action} a replica of {volume}"),
        Err(_) => format!("cannot {action} replica {replica} of {volume}"),
    }
}

/// The replica that is meant: an identity, its beginning, or `NODE:DISK`.
pub(super) fn resolve(
    node: &Node,
    found: &Found,
    text: &str,
    what: &str,
) -> Result<ReplicaId, ApiError> {
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

/// Whether a replica that is named so was removed from the volume, and none is there now.
pub(super) fn was_removed(node: &Node, found: &Found, text: &str) -> bool {
    if resolve(node, found, text, "").is_ok() {
        return false;
    }
    let removed = found.stored.record.replicas.iter().filter(|placed| placed.removed);
    removed.into_iter().any(|placed| {
        let name = node.coordinator.node_by_name(&placed.node).map(|member| member.node.name);
        let is_place = |node: &str| node == text || format!("{node}:{}", placed.disk) == text;
        let is_there = is_place(&placed.node) || name.is_some_and(|name| is_place(&name));
        is_there || (text.len() >= 4 && placed.id.starts_with(text))
    })
}

/// Gives the space of a removed replica back, now or when its node starts.
pub(super) async fn take_out(node: &Arc<Node>, found: &Found, id: ReplicaId) {
    let volume = found.view.volume;
    let request = Request::Forget { volume: volume.to_string(), replica: id.to_string() };
    if let Err(error) = node.coordinator.ask("a removed replica is to be forgotten", request).await
    {
        node.warn(error.to_string());
    }
    // It was out of the view before: the sweep of its node's disks finds it.
    let Some((_, record)) = found.view.replica(id) else { return };
    if node.coordinator.node(record.node).is_some_and(|member| !member.may_live) {
        tracing::info!(replica = %id, "a removed replica is deleted when its node starts");
        return;
    }
    if let Err(error) = delete_one(node, record.node, volume, id).await {
        tracing::warn!(replica = %id, %error, "a removed replica is deleted when its node starts");
    }
}

#[cfg(test)]
mod tests;
