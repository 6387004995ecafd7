//! What a command takes away, told before it does.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use evenkeel_api::types::{
    AddDiskPlanQuery, AddReplicaRequest, ChangePlanQuery, DeleteVolumeQuery, LeftMirror,
    LostReplica, Plan, PlanAnswer, ReplicaPlanQuery, VERSION,
};
use evenkeel_api::{ApiError, ErrorCode, routes};
use evenkeel_core::primary::Command;
use evenkeel_core::{ReplicaRecord, ReplicaState, View};
use evenkeel_format::Superblock;
use hyper::Method;

use super::{delete, fewer, members, replica, view_change};
use crate::cluster;
use crate::conversions;
use crate::coordinator::NodeLiveness;
use crate::volumes::Node;
use crate::volumes::attachment::start;
use crate::volumes::lookup::{
    Found, There, carried_out_elsewhere, find, forward, places, primary_elsewhere,
};
use crate::volumes::replicas::local;
use crate::volumes::status;

/// Most replicas that a refusal names.
const MAX_NAMED: usize = 20;

pub(super) const fn answer(plan: Plan, message: String) -> PlanAnswer {
    PlanAnswer { version: VERSION, plan, message }
}

/// What deleting a volume would take away.
///
/// # Errors
/// As deleting it, if that is refused by what is known now.
pub async fn delete(
    node: &Arc<Node>,
    volume: &str,
    query: &DeleteVolumeQuery,
) -> Result<PlanAnswer, ApiError> {
    let what = format!("cannot delete volume {volume}");
    let found = find(node, &what, volume).await?;
    delete::refuse_attached(node, &found, query.force, &what).await?;
    let mut plan = whole(node, &found);
    add_reach(node, &mut plan).await;
    refuse_other_than(&plan, query.removes.as_deref().map(split), &what)?;
    let name = &found.stored.record.name;
    let silent = match primary_elsewhere(node, &found.view) {
        Some(primary) => format!(
            "; it was attached on node {}, which does not answer and may serve it still",
            node.coordinator.node_ref(primary).name
        ),
        None => String::new(),
    };
    let message = format!("volume {name} would be deleted, with all its data{silent}");
    Ok(answer(plan, node.cluster.doubted(message)))
}

/// What another number of copies would take away, and where more would be.
///
/// # Errors
/// As the change.
pub async fn change(
    node: &Arc<Node>,
    volume: &str,
    query: &ChangePlanQuery,
    forwarded: bool,
) -> Result<PlanAnswer, ApiError> {
    let found = find(node, &format!("cannot change volume {volume}"), volume).await?;
    // Who forwards it names it by its identity.
    let what = format!("cannot change volume {}", found.stored.record.name);
    start::refuse_stopped(&found, &what)?;
    if let Some(target) = carried_out_elsewhere(node, &found, forwarded, &what)? {
        let path = routes::fill(routes::CHANGE_PLAN, &[&found.stored.record.id]);
        return ask(node, &found, &target, &(path + &query.text()), what).await;
    }
    let copies = query.replicas;
    let mut fewer = fewer::choose(node, &found, copies, &what).await?;
    add_reach(node, &mut fewer.plan).await;
    let name = &found.stored.record.name;
    let how = members::Placing { same_node: query.same_node, thin: query.thin };
    let places = members::places_of_more(node, &found, copies, how, &what).await?;
    let added = match places.is_empty() {
        true => String::new(),
        false => format!("replicas of volume {name} would be added on {}", places.join(", ")),
    };
    let message = match (fewer.victims.is_empty(), added.is_empty()) {
        (true, true) => format!("no replica of volume {name} would be removed"),
        (true, false) => added,
        (false, true) => format!("volume {name} would keep {copies} replica(s) in each mirror"),
        (false, false) => {
            format!("volume {name} would have {copies} replica(s) in each mirror: {added}")
        }
    };
    Ok(answer(fewer.plan, message))
}

/// What a command about a replica would take away: `named` are the replica and the command.
///
/// # Errors
/// As the command.
pub async fn replica(
    node: &Arc<Node>,
    volume: &str,
    named @ [name, action]: [&str; 2],
    query: &ReplicaPlanQuery,
    forwarded: bool,
) -> Result<PlanAnswer, ApiError> {
    let what = replica::cannot(action, name, volume);
    let found = find(node, &what, volume).await?;
    let what = replica::cannot(action, name, &found.stored.record.name);
    let takes_out = matches!(action, "remove" | "retire");
    if takes_out && replica::was_removed(node, &found, name) {
        let message = "that replica was removed already".to_owned();
        return Ok(answer(Plan::default(), message));
    }
    if let Some(target) = carried_out_elsewhere(node, &found, forwarded, &what)? {
        let path = routes::fill(routes::REPLICA_PLAN, &[&found.stored.record.id, name, action]);
        return ask(node, &found, &target, &(path + &in_query(query)), what).await;
    }
    if action == "replace" {
        start::refuse_stopped(&found, &what)?;
        return replacement(node, &found, name, query, &what).await;
    }
    let mut answer = of_command(node, &found, named, &what)?;
    add_reach(node, &mut answer.plan).await;
    Ok(answer)
}

fn of_command(
    node: &Node,
    found: &Found,
    [name, action]: [&str; 2],
    what: &str,
) -> Result<PlanAnswer, ApiError> {
    let id = replica::resolve(node, found, name, what)?;
    let command = match action {
        "fail" => Command::Fail(id),
        "remove" => Command::Remove(id),
        "retire" => Command::Retire(id),
        _ => {
            let (why, advice) =
                (format!("{action} takes nothing away"), "Use fail, remove, retire or replace");
            return Err(ApiError::new(ErrorCode::BadRequest, what, why, advice));
        }
    };
    let place = found.view.replica(id).map(|(_, r)| places(node, found, r)[0].clone());
    let (place, volume) = (place.unwrap_or_default(), &found.stored.record.name);
    let what = format!("cannot {action} the replica on {place} of volume {volume}");
    let next = view_change::applied(&found.view, command, &what)?;
    let mut plan = Plan::default();
    add(&mut plan, node, found, &next);
    let message = match action {
        "fail" => format!("the replica on {place} would be taken out of use; its data stay there"),
        _ => format!("the replica on {place} would be removed from volume {volume}"),
    };
    Ok(answer(plan, message))
}

/// Adds to the replicas of a plan whether they answer: one whose file was deleted is not what the
/// view says.
async fn add_reach(node: &Arc<Node>, plan: &mut Plan) {
    let replicas = || plan.removes.iter().chain(&plan.fails);
    let volumes: BTreeSet<String> = replicas().map(|lost| lost.volume.clone()).collect();
    for volume in volumes {
        let Ok(status) = status::one(node, &volume, false).await else { continue };
        let known: Vec<_> = status.mirrors.into_iter().flat_map(|mirror| mirror.replicas).collect();
        for lost in plan.removes.iter_mut().chain(&mut plan.fails) {
            let found = known.iter().find(|replica| replica.id == lost.id);
            lost.reach = found.map(|replica| replica.reach).or(lost.reach);
        }
    }
}

/// What would be removed once a copy has taken its place.
async fn replacement(
    node: &Arc<Node>,
    found: &Found,
    old: &str,
    query: &ReplicaPlanQuery,
    what: &str,
) -> Result<PlanAnswer, ApiError> {
    let request = AddReplicaRequest {
        on: query.on.clone(),
        replaces: Some(old.to_owned()),
        same_node: query.same_node,
        thin: query.thin,
        ..AddReplicaRequest::default()
    };
    let mut plan = Plan::default();
    let (old, place) = match members::planned(node, found, &request, what).await? {
        Ok(planned) => planned,
        Err(already) => return Ok(answer(plan, already)),
    };
    let Some((mirror, record)) = found.view.replica(old) else {
        return Ok(answer(plan, "that replica is not there any more".to_owned()));
    };
    plan.removes.push(lost(node, found, mirror, record));
    add_reach(node, &mut plan).await;
    let from = &places(node, found, record)[0];
    let message = format!(
        "a copy of the replica on {from} would be made on {place}; the old one is removed when that is in-sync, not before"
    );
    Ok(answer(plan, message))
}

/// What the removal of a disk of this node would take away: nothing, as one with replicas is
/// refused.
///
/// # Errors
/// If there is no such disk, or it holds replicas.
pub async fn disk(node: &Arc<Node>, name: String) -> Result<PlanAnswer, ApiError> {
    let message =
        format!("disk {name} would be removed; it holds no replica, and nothing on it is deleted");
    local::learn_names(node).await;
    let unwanted = local::unwanted_on(node, &name).await;
    node.blocking(move |node| node.disks.refuse_removal(&name, &unwanted)).await?;
    Ok(answer(Plan::default(), message))
}

/// What giving a disk to this node would take away.
///
/// # Errors
/// As the addition, as far as that can be told without writing to the disk.
pub async fn add_disk(node: &Arc<Node>, query: AddDiskPlanQuery) -> Result<PlanAnswer, ApiError> {
    let AddDiskPlanQuery { path, name, force } = query;
    let look = move |node: &Node| node.disks.plan_addition(&PathBuf::from(path), name, force);
    let found = node.blocking(look).await?;
    let mut plan = Plan::default();
    plan.removes.extend(found.loses.map(|superblock| on_disk(node, &found.name, &superblock)));
    let unwanted = local::unwanted_of(node, &found.finds).await;
    let then = match unwanted.len() {
        0 => "",
        _ => "; those that no volume has any more are deleted then",
    };
    for one in unwanted {
        // What it knew of itself is long past: it lacks what was written since.
        let (volume, state) =
            (local::volume_name(node, one).await, evenkeel_api::types::ReplicaState::Stale);
        plan.removes.push(LostReplica { volume, state, ..on_disk(node, &found.name, one) });
    }
    let message = format!("disk {} would be added; {}{then}", found.name, found.reported);
    Ok(answer(plan, message))
}

/// A replica as its superblock has it.
fn on_disk(node: &Node, disk: &str, superblock: &Superblock) -> LostReplica {
    let record = superblock.view.replica(superblock.replica);
    LostReplica {
        volume: superblock.name.clone(),
        id: superblock.replica.to_string(),
        mirror: superblock.mirror as usize,
        node: node.reference(),
        disk: disk.to_owned(),
        state: conversions::state(record.map_or(ReplicaState::Stale, |(_, record)| record.state)),
        reach: None,
        size: superblock.view.replica_size(),
    }
}

/// Has another node tell a plan: that which would carry it out.
async fn ask(
    node: &Node,
    found: &Found,
    target: &NodeLiveness,
    path: &str,
    what: String,
) -> Result<PlanAnswer, ApiError> {
    let deadline = cluster::QUESTION;
    let there = There { found, target, what: &what };
    let answer = forward::<(), _>(node, there, Method::GET, path, None, deadline).await;
    answer.map_err(|error| match error.code {
        ErrorCode::NoSuchPath => {
            let why = format!(
                "node {}, which has it attached, runs software that cannot tell what would be removed",
                target.node.name
            );
            ApiError::new(ErrorCode::NotSupported, what, why, "Use the same version on all nodes")
        }
        _ => error,
    })
}

fn in_query(ReplicaPlanQuery { on, same_node, thin }: &ReplicaPlanQuery) -> String {
    let on = on.as_ref().map(|on| format!("&on={}", routes::encode(on))).unwrap_or_default();
    let thin = if *thin { "&thin=true" } else { "" };
    format!("?same_node={same_node}{thin}{on}")
}

/// Adds what a volume loses by its next view, and what that leaves.
pub(super) fn add(plan: &mut Plan, node: &Node, found: &Found, next: &View) {
    for (mirror, now) in found.view.mirrors.iter().enumerate() {
        let reported = |records: Vec<&ReplicaRecord>| -> Vec<LostReplica> {
            records.into_iter().map(|record| lost(node, found, mirror, record)).collect()
        };
        let is_gone = |record: &&ReplicaRecord| next.replica(record.id).is_none();
        let fails = |record: &&ReplicaRecord| {
            let after = next.replica(record.id).map(|(_, after)| after.state);
            after.is_some_and(|after| after != record.state && !after.takes_writes())
        };
        let removed = reported(now.replicas.iter().filter(is_gone).collect());
        let failed = reported(now.replicas.iter().filter(fails).collect());
        if removed.is_empty() && failed.is_empty() {
            continue;
        }
        plan.removes.extend(removed);
        plan.fails.extend(failed);
        plan.leaves.push(left(node, found, next, mirror));
    }
}

/// What a mirror has by a view. A replica whose node is dead may be in-sync, and is no copy of
/// which anybody can be sure.
pub(super) fn left(node: &Node, found: &Found, view: &View, mirror: usize) -> LeftMirror {
    let left = view.mirrors.get(mirror);
    let in_sync = left.iter().flat_map(|mirror| mirror.in_sync());
    let answering = in_sync.filter(|record| node.may_live(record.node));
    LeftMirror {
        volume: found.stored.record.name.clone(),
        mirror,
        in_sync: answering.map(|r| places(node, found, r)[0].clone()).collect(),
        replicas: left.map_or(0, |mirror| mirror.replicas.len()),
    }
}

/// All replicas of a volume.
pub(super) fn whole(node: &Node, found: &Found) -> Plan {
    let all = found.view.replicas().map(|(mirror, record)| lost(node, found, mirror, record));
    Plan { removes: all.collect(), ..Plan::default() }
}

fn lost(node: &Node, found: &Found, mirror: usize, record: &ReplicaRecord) -> LostReplica {
    let id = record.id.to_string();
    let placed = found.stored.record.replicas.iter().find(|placed| placed.id == id);
    LostReplica {
        volume: found.stored.record.name.clone(),
        mirror,
        node: node.coordinator.node_ref(record.node),
        disk: placed.map_or_else(|| "?".into(), |placed| placed.disk.clone()),
        state: conversions::state(record.state),
        reach: None,
        size: found.view.replica_size(),
        id,
    }
}

/// Identities with commas between them.
pub(super) fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(|id| !id.is_empty())
}

/// Refuses to remove what nobody has agreed to. What was agreed to and is gone by now is no
/// obstacle: so a command that was cut off goes on.
///
/// # Errors
/// With the replicas that would be removed, and those of them that were not named.
pub(super) fn refuse_other_than<'a>(
    plan: &Plan,
    agreed: Option<impl Iterator<Item = &'a str>>,
    what: &str,
) -> Result<(), ApiError> {
    let Some(agreed) = agreed else { return Ok(()) };
    let agreed: BTreeSet<&str> = agreed.collect();
    let unnamed = plan.removes.iter().filter(|lost| !agreed.contains(lost.id.as_str()));
    let unnamed = Plan { removes: unnamed.cloned().collect(), ..Plan::default() };
    if unnamed.removes.is_empty() {
        return Ok(());
    }
    let why = format!(
        "other replicas would be removed than were agreed to\nto be removed now: {}\nnot agreed to: {}",
        list(plan),
        list(&unnamed)
    );
    let advice = "Nothing was done. Look again (--dry-run), then give the command again";
    Err(ApiError::new(ErrorCode::WrongState, what, why, advice))
}

/// The replicas that go, each with its place and the digits that a status shows of its identity.
pub(super) fn list(plan: &Plan) -> String {
    let one = |lost: &LostReplica| {
        let short = lost.id.get(..8).unwrap_or(&lost.id);
        format!("{}:{} of {} ({short})", lost.node.name, lost.disk, lost.volume)
    };
    let mut all: Vec<String> = plan.removes.iter().take(MAX_NAMED).map(one).collect();
    if plan.removes.len() > MAX_NAMED {
        all.push(format!("and {} more", plan.removes.len() - MAX_NAMED));
    }
    all.join(", ")
}
