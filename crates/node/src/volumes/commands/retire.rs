//! Removing a node from the cluster: a drained one, or a dead one with its replicas.
//!
//! First nothing is attached there any more; until then, nothing is removed. Then each replica
//! leaves its volume by a view of its own, and the coordinator strikes the node off in one
//! transaction, which refuses if anything names the node still. What is cut off in between goes on
//! when the command is given again.

mod drain;
mod evict;
mod takeover;

use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::types::{Plan, PlanAnswer, RemoveNodeAnswer, RemoveNodeQuery, VERSION};
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::{NodeId, ReplicaId, ReplicaRecord, View};

use super::{plan, replica};
use crate::clock::unix_seconds;
use crate::coordinator::handle::find_node;
use crate::coordinator::{Answer, LostCopy, NodeLiveness, Request, VolumeRecord};
use crate::volumes::Node;
use crate::volumes::lookup::{Found, by_names, decode, find, unexpected};

/// How often a replica is taken out whose view has changed meanwhile, and the pause between.
const MAX_TRIES: u32 = 8;
const PAUSE: Duration = Duration::from_millis(250);

/// A volume that has to do with a node.
struct Use {
    found: Found,
    replicas: Vec<ReplicaId>,
    attached: bool,
}

/// What the removal of a node would take away.
///
/// # Errors
/// As the removal.
pub async fn plan(node: &Arc<Node>, name: &str) -> Result<PlanAnswer, ApiError> {
    let what = format!("cannot remove node {name}");
    let Some(victim) = known(node, name, &what).await? else {
        let before = removed_before(node, name, &what).await?;
        return Ok(plan::answer(before.plan, before.message));
    };
    let (_, plan) = losses(node, &victim, &what).await?;
    let message = format!("node {} would be removed from the cluster", victim.node.name);
    let before = " before you say yes";
    Ok(plan::answer(plan, doubted(message, node.cluster.reaches_nobody(), before)))
}

/// A coordinator that hears no other node takes all of them for dead, and may be wrong.
fn doubted(message: String, reaches_nobody: bool, when: &str) -> String {
    match reaches_nobody {
        true => format!(
            "{message}; but this coordinator receives heartbeats from none of the other nodes: it may be cut off itself. See that they are down{when}"
        ),
        false => message,
    }
}

/// The volumes that use a node, and what they lose with it.
async fn losses(
    node: &Arc<Node>,
    victim: &NodeLiveness,
    what: &str,
) -> Result<(Vec<Use>, Plan), ApiError> {
    let id = identity(victim, what)?;
    let uses = uses(node, id, what).await?;
    refuse_living(node, victim, &uses, what).await?;
    let plan = lost(node, id, &uses, what)?;
    for held in &uses {
        takeover::refuse(node, id, &held.found, what)?;
    }
    Ok((uses, plan))
}

/// Removes a node.
///
/// # Errors
/// If there is no such node, it serves the coordinator, it lives and is in use, a volume would
/// lose its last in-sync replica or be taken over from another node that does not answer, or
/// replicas would be lost that were not named.
pub async fn remove(
    node: &Arc<Node>,
    name: &str,
    query: &RemoveNodeQuery,
) -> Result<RemoveNodeAnswer, ApiError> {
    let what = format!("cannot remove node {name}");
    let Some(victim) = known(node, name, &what).await? else {
        return removed_before(node, name, &what).await;
    };
    let reaches_nobody = node.cluster.reaches_nobody();
    let (uses, plan) = losses(node, &victim, &what).await?;
    let (id, name) = (identity(&victim, &what)?, &victim.node.name);
    refuse_unnamed(&plan, query.removes.as_deref(), name, &what)?;
    let taken_over = evict::evict(node, id, name, &uses, &what).await?;
    // Other replicas may be in-sync then, and the node may have come back.
    let Some(present) = known(node, &victim.node.id, &what).await? else {
        return removed_before(node, name, &what).await;
    };
    let (uses, mut plan) = losses(node, &present, &what).await?;
    refuse_unnamed(&plan, query.removes.as_deref(), name, &what)?;
    for held in &uses {
        note_losses(node, id, name, held, &what).await?;
        take_out(node, held).await?;
    }
    let incarnation = Some(victim.node.incarnation);
    let request = Request::RemoveNode { node: victim.node.id.clone(), incarnation };
    match node.coordinator.ask(&what, request).await? {
        Answer::Done => {}
        Answer::NodeInUse { why } => {
            let advice = "Something has changed meanwhile: try again";
            return Err(ApiError::new(ErrorCode::NodeInUse, what, why, advice));
        }
        other => return Err(unexpected(&what, &other)),
    }
    node.member.refresh().await;
    tracing::info!(node = name, id = victim.node.id, "removed from the cluster");
    let silent = node.member.report_removal().await;
    report_left(node, &mut plan, &uses, &what).await;
    let message = doubted(removed(name, &silent, &taken_over), reaches_nobody, "");
    Ok(RemoveNodeAnswer { version: VERSION, removed: true, plan, message })
}

/// What has come of it. `silent`: who has not heard of it yet; `taken_over`: the volumes that the
/// node had attached alone.
fn removed(name: &str, silent: &[String], taken_over: &[String]) -> String {
    let mut message = format!("node {name} is removed from the cluster; its identity is refused");
    if !silent.is_empty() {
        let silent = silent.join(", ");
        message.push_str(&format!(", but not yet by {silent}: no answer, or older software"));
    }
    if !taken_over.is_empty() {
        let volumes = taken_over.join(", ");
        message.push_str(&format!("; taken over from it, and detached now: {volumes}"));
    }
    message
}

/// Tells what the mirrors have kept in the place of what they were to keep.
async fn report_left(node: &Node, plan: &mut Plan, uses: &[Use], what: &str) {
    for held in uses {
        let record = &held.found.stored.record;
        let Ok(found) = find(node, what, &record.id).await else { continue };
        for left in plan.leaves.iter_mut().filter(|left| left.volume == record.name) {
            *left = plan::left(node, &found, &found.view, left.mirror);
        }
    }
}

/// A node of the cluster by its name or identity.
async fn known(node: &Node, name: &str, what: &str) -> Result<Option<NodeLiveness>, ApiError> {
    let Answer::Nodes(nodes) = node.coordinator.ask(what, Request::Nodes).await? else {
        return Err(unexpected(what, &Answer::Done));
    };
    let victim = find_node(&nodes, name).cloned();
    node.coordinator.set_nodes(nodes);
    match victim {
        Some(victim) if victim.coordinator => {
            let why = "it serves the coordinator, which cannot move to another node";
            let advice = "Keep this node; move the replicas that it holds, if they are in the way";
            Err(ApiError::new(ErrorCode::NodeInUse, what, why, advice))
        }
        victim => Ok(victim),
    }
}

fn identity(victim: &NodeLiveness, what: &str) -> Result<NodeId, ApiError> {
    victim.node.id.parse().map_err(|_| {
        let why = format!("node {} has no proper identity", victim.node.name);
        ApiError::new(ErrorCode::System, what, why, "Compare the versions of the nodes")
    })
}

async fn removed_before(node: &Node, name: &str, what: &str) -> Result<RemoveNodeAnswer, ApiError> {
    let answer = node.coordinator.ask(what, Request::RemovedNodes).await?;
    let Answer::RemovedNodes(all) = answer else { return Err(unexpected(what, &answer)) };
    match all.iter().rev().find(|removed| removed.name == name || removed.id == name) {
        Some(removed) => {
            let message = crate::coordinator::removed::without_identities(&removed.to_string());
            let plan = Plan::default();
            Ok(RemoveNodeAnswer { version: VERSION, removed: false, plan, message })
        }
        None => {
            let why = format!("there is no node {name}");
            Err(ApiError::new(ErrorCode::NoSuchNode, what, why, "See `evenkeel node status`"))
        }
    }
}

/// The volumes that have a replica on the node, or are attached there.
async fn uses(node: &Node, id: NodeId, what: &str) -> Result<Vec<Use>, ApiError> {
    let answer = node.coordinator.ask(what, Request::Volumes).await?;
    let Answer::Volumes(volumes) = answer else { return Err(unexpected(what, &answer)) };
    let mut uses = Vec::new();
    for stored in volumes {
        let found = decode(what, stored)?;
        let is_there = |(_, replica): &(usize, &ReplicaRecord)| replica.node == id;
        let replicas: Vec<_> = found.view.replicas().filter(is_there).map(|(_, r)| r.id).collect();
        let attached = evict::is_attached_on(&found.view, id);
        if attached || !replicas.is_empty() {
            uses.push(Use { found, replicas, attached });
        }
    }
    Ok(uses)
}

/// A node that may live is emptied first.
async fn refuse_living(
    node: &Arc<Node>,
    victim: &NodeLiveness,
    uses: &[Use],
    what: &str,
) -> Result<(), ApiError> {
    if !victim.may_live || uses.is_empty() {
        return Ok(());
    }
    let volumes: Vec<&str> = uses.iter().map(|u| u.found.stored.record.name.as_str()).collect();
    let volumes = volumes.join(", ");
    let expiry = node.config.coordinator.expiry_seconds;
    if !victim.alive {
        return Err(not_seen_yet(&volumes, expiry, what));
    }
    let drain = drain::drain(node, victim, uses).await.lines();
    let why = format!(
        "it is alive, or was until less than {expiry} s ago, and volumes use it: {volumes}"
    );
    let advice = format!(
        "If it has died, wait {expiry} s and try again; else drain it first, then remove it:\n{drain}"
    );
    Err(ApiError::new(ErrorCode::NodeInUse, what, why, advice))
}

/// Until a coordinator that has just started, or stood still, has listened for a while, nobody is
/// dead.
fn not_seen_yet(volumes: &str, expiry: u64, what: &str) -> ApiError {
    let why = format!(
        "the coordinator has just started or stood still, and does not know yet whether it is alive; volumes use it: {volumes}"
    );
    let advice = format!(
        "Try again when `evenkeel node status` calls it alive or dead: in a few seconds, {expiry} s at most"
    );
    ApiError::new(ErrorCode::NodeInUse, what, why, advice)
}

/// What is lost with a dead node.
///
/// # Errors
/// With all volumes that would lose what nobody else has.
fn lost(node: &Node, id: NodeId, uses: &[Use], what: &str) -> Result<Plan, ApiError> {
    let mut plan = Plan::default();
    let mut obstacles = Vec::new();
    for held in uses {
        let volume = &held.found.stored.record.name;
        if held.found.stored.record.stopped {
            obstacles.push(format!(
                "volume {volume} is stopped: `evenkeel volume assemble {volume}` opens it"
            ));
            continue;
        }
        match without(node, id, held) {
            Ok(next) => plan::add(&mut plan, node, &held.found, &next),
            Err(why) => obstacles.push(format!("volume {volume}: {why}")),
        }
    }
    if obstacles.is_empty() {
        return Ok(plan);
    }
    let advice = "Start that node, or others with in-sync replicas of these volumes; delete volumes that are lost for good by `evenkeel volume delete`";
    let advice = node.cluster.unless_cut_off(advice);
    Err(ApiError::new(ErrorCode::LastInSync, what, obstacles.join("\n"), advice))
}

/// The view of a volume without its replicas on the node.
fn without(node: &Node, id: NodeId, held: &Use) -> Result<View, String> {
    let mut next = held.found.view.clone();
    for replica in &held.replicas {
        next.retire(*replica).map_err(|error| error.to_string())?;
    }
    for mirror in &next.mirrors {
        if !mirror.in_sync().any(|record| record.node != id && node.may_live(record.node)) {
            return Err("no other in-sync replica of it answers".to_owned());
        }
    }
    Ok(next)
}

/// Refuses what was not agreed to. Replicas are lost only by their names.
fn refuse_unnamed(
    plan: &Plan,
    agreed: Option<&str>,
    name: &str,
    what: &str,
) -> Result<(), ApiError> {
    if agreed.is_none() && !plan.removes.is_empty() {
        let why = format!("it takes replicas along that were not named: {}", plan::list(plan));
        let advice = format!("`evenkeel node remove {name}` names them, and asks");
        return Err(ApiError::new(ErrorCode::BadRequest, what, why, advice));
    }
    plan::refuse_other_than(plan, agreed.map(plan::split), what)
}

/// Has the coordinator keep which copies a volume loses, before it does: it is degraded until
/// others have taken their place. Spares, and what was to replace another replica, were no copies.
async fn note_losses(
    node: &Arc<Node>,
    id: NodeId,
    name: &str,
    held: &Use,
    what: &str,
) -> Result<(), ApiError> {
    let volume = held.found.stored.record.id.clone();
    for _ in 0..MAX_TRIES {
        let found = find(node, what, &volume).await?;
        let record = &found.stored.record;
        let lost = with_losses(record, &found.view, id, name);
        if lost == record.lost {
            return Ok(());
        }
        let revision = Some(record.revision);
        let request = Request::Lost { volume: volume.clone(), lost, revision };
        match node.coordinator.ask(what, request).await? {
            Answer::Done => return Ok(()),
            Answer::Changed(_) => {}
            other => return Err(unexpected(what, &other)),
        }
    }
    let why = "the volume's record changes all the time";
    Err(ApiError::new(ErrorCode::WrongState, what, why, "Try again"))
}

/// What a volume has lost when the replicas on a node are out of its view.
fn with_losses(record: &VolumeRecord, view: &View, id: NodeId, name: &str) -> Vec<LostCopy> {
    let mut lost = record.lost.clone();
    for (mirror, before) in view.mirrors.iter().enumerate() {
        let on_node = before.copies().filter(|copy| copy.node == id);
        // Another replica that was in the place of one of them becomes a copy itself.
        let stand_in = |copy: &&ReplicaRecord| {
            before.replicas.iter().any(|r| r.role.instead_of() == Some(copy.id) && r.node != id)
        };
        let gone = on_node.filter(|copy| !stand_in(copy)).map(|copy| copy.id.to_string());
        for id in gone.filter(|id| !record.lost.iter().any(|lost| lost.id == *id)) {
            let (node, at) = (name.to_owned(), unix_seconds());
            lost.push(LostCopy { id, mirror, node, at });
        }
    }
    lost
}

/// Takes the replicas on a dead node out of a volume, wherever that is attached now. Of one whose
/// primary has died meanwhile none is taken out.
async fn take_out(node: &Arc<Node>, held: &Use) -> Result<(), ApiError> {
    let volume = held.found.view.volume;
    for replica in &held.replicas {
        retire(node, &volume.to_string(), &replica.to_string())
            .await
            .map_err(|error| by_names(node, &held.found, error))?;
    }
    Ok(())
}

/// Takes one replica out. The primary of a takeover may have had a view on its way when it ended,
/// and the volume may be attached or detached at any moment: then it is tried again by the newest
/// view.
async fn retire(node: &Arc<Node>, volume: &str, replica: &str) -> Result<(), ApiError> {
    let mut tries = 1;
    loop {
        match replica::command(node, volume, replica, "retire", false).await {
            Err(error) if error.code == ErrorCode::WrongState && tries < MAX_TRIES => tries += 1,
            done => return done.map(drop),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests;
