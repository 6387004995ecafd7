//! Adding replicas to the mirrors of a volume, as copies, spares, or instead of others.
//!
//! In this order, so that whatever dies in between leaves nothing behind: the place is noted at the
//! coordinator, the replica is made on its disk, a view takes it in. What it is for stands in the
//! view, and is carried out by whoever runs the volume then.

use std::sync::Arc;

use evenkeel_api::types::{AddReplicaRequest, ChangeAnswer, Disk, DiskKind, ReplicaState, VERSION};
use evenkeel_api::{ApiError, ErrorCode, routes};
use evenkeel_core::primary::Command;
use evenkeel_core::{Incarnations, Newcomer, NodeId, ReplicaId, ReplicaRecord, Role};
use evenkeel_format::{DATA_OFFSET, Superblock, disk_length, metadata_offset};
use hyper::Method;

use super::{replica, view_change};
use crate::clock::unix_seconds;
use crate::coordinator::{Answer, Maker, PlacedReplica, Request};
use crate::disks::NewReplica;
use crate::random::random_u128;
use crate::volumes::Node;
use crate::volumes::attachment::start;
use crate::volumes::lookup::{
    Found, There, called, carried_out_elsewhere, find, forward, moved, places, unexpected,
};
use crate::volumes::replicas::make;
use crate::volumes::replicas::place::{DiskPlace, OneMore, one_more};
use crate::volumes::status;

/// A replica that is to be added.
struct Plan<'a> {
    mirror: usize,
    role: Role,
    on: Option<&'a str>,
    same_node: bool,
    thin: bool,
}

/// Adds a replica to a volume, wherever that is attached.
///
/// # Errors
/// If there is no such volume, mirror or place, no room, or the view does not permit it.
pub async fn add(
    node: &Arc<Node>,
    volume: &str,
    request: AddReplicaRequest,
    forwarded: bool,
) -> Result<ChangeAnswer, ApiError> {
    let what = match &request.replaces {
        Some(old) => replica::cannot("replace", old, volume),
        None => format!("cannot add a replica to {}", called(volume)),
    };
    let found = find(node, &what, volume).await?;
    let name = &found.stored.record.name;
    let what = match &request.replaces {
        Some(old) => {
            format!("cannot replace replica {} of volume {name}", shown(node, &found, old))
        }
        None => format!("cannot add a replica to volume {name}"),
    };
    start::refuse_stopped(&found, &what)?;
    if let Some(target) = carried_out_elsewhere(node, &found, forwarded, &what)? {
        let path = routes::fill(routes::REPLICAS, &[&found.stored.record.id]);
        let (body, deadline) = (Some(&request), make::CREATION);
        let there = There { found: &found, target: &target, what: &what };
        return forward(node, there, Method::POST, &path, body, deadline).await;
    }
    let (changed, message) = match plan(node, &found, &request, &what)? {
        Err(already) => (false, already),
        Ok(plan) => {
            refuse_without_source(node, &found, &plan, &what).await?;
            let (place, message) = one(node, &found, &plan, &what).await?;
            (place.is_some(), message)
        }
    };
    let volume = status::one(node, &found.stored.record.id, forwarded).await?;
    Ok(ChangeAnswer { version: VERSION, changed, message, volume })
}

/// A replica by its node and disk, whatever it was named by.
fn shown(node: &Node, found: &Found, named: &str) -> String {
    let id = replica::resolve(node, found, named, "").ok();
    let record = id.and_then(|id| found.view.replica(id));
    record.map_or_else(|| named.to_owned(), |(_, record)| places(node, found, record)[0].clone())
}

/// What is to be done, or a sentence that it has been done already.
fn plan<'a>(
    node: &Node,
    found: &Found,
    request: &'a AddReplicaRequest,
    what: &str,
) -> Result<Result<Plan<'a>, String>, ApiError> {
    let bad =
        |why: &str, advice: &str| Err(ApiError::new(ErrorCode::BadRequest, what, why, advice));
    let (on, same_node, thin) = (request.on.as_deref(), request.same_node, request.thin);
    if let Some(on) = on.filter(|_| !same_node)
        && let Some(sentence) = is_there(node, found, on, request)
    {
        return Ok(Err(sentence));
    }
    let Some(old) = &request.replaces else {
        let mirrors = found.view.mirrors.len();
        let role = if request.spare { Role::Spare(None) } else { Role::Own };
        return match request.mirror {
            Some(mirror) if mirror < mirrors => Ok(Ok(Plan { mirror, role, on, same_node, thin })),
            None if mirrors == 1 => Ok(Ok(Plan { mirror: 0, role, on, same_node, thin })),
            None => bad("the volume has several mirrors", "Say to which (--mirror)"),
            Some(_) => bad("the volume has no such mirror", "See `evenkeel volume status`"),
        };
    };
    if request.spare {
        return bad("a spare does not replace anything", "Leave one of the two out");
    }
    let old = replica::resolve(node, found, old, what)?;
    let instead = |record: &&ReplicaRecord| record.role == Role::Replaces(old);
    if let Some(record) = found.view.replicas().map(|(_, record)| record).find(instead) {
        let place = &places(node, found, record)[0];
        return Ok(Err(format!("the replica on {place} is to replace it already")));
    }
    let mirror = found.view.replica(old).map_or(0, |(mirror, _)| mirror);
    Ok(Ok(Plan { mirror, role: Role::Replaces(old), on, same_node, thin }))
}

/// Refuses to add or replace a replica where nobody has the data that the new one needs: it would
/// wait for a source like the others. A spare needs none.
async fn refuse_without_source(
    node: &Arc<Node>,
    found: &Found,
    plan: &Plan<'_>,
    what: &str,
) -> Result<(), ApiError> {
    match plan.role {
        Role::Spare(_) => Ok(()),
        Role::Own | Role::Replaces(_) => refuse_sourceless(node, found, &[plan.mirror], what).await,
    }
}

/// The same of more copies, until each mirror has so many.
///
/// # Errors
/// Says which in-sync replicas do not answer.
pub(super) async fn refuse_more_without_source(
    node: &Arc<Node>,
    found: &Found,
    copies: usize,
    what: &str,
) -> Result<(), ApiError> {
    let mirrors = found.view.mirrors.iter().enumerate();
    let lacking = mirrors.filter(|(_, mirror)| mirror.copies().count() < copies);
    let lacking: Vec<usize> = lacking.map(|(index, _)| index).collect();
    refuse_sourceless(node, found, &lacking, what).await
}

async fn refuse_sourceless(
    node: &Arc<Node>,
    found: &Found,
    mirrors: &[usize],
    what: &str,
) -> Result<(), ApiError> {
    if mirrors.is_empty() {
        return Ok(());
    }
    let status = status::one(node, &found.stored.record.id, true).await?;
    let mut concerned = status.mirrors.iter().filter(|mirror| mirrors.contains(&mirror.index));
    let Some(mirror) = concerned.find(|mirror| !mirror.has_source()) else { return Ok(()) };
    let in_sync = mirror.replicas.iter().filter(|replica| replica.state == ReplicaState::InSync);
    let reported = in_sync.map(|replica| {
        let why = replica.reason.as_deref().unwrap_or("it does not answer");
        format!("{}: {why}", replica.place())
    });
    let why = format!(
        "there is no source to copy from: no in-sync replica of mirror {} answers ({})",
        mirror.index,
        reported.collect::<Vec<_>>().join("; ")
    );
    let is_attached = node.volumes.get(found.view.volume).is_some();
    let attached_on = is_attached.then_some(&*node.identity.name);
    let advice = without_source(&found.stored.record.name, attached_on);
    Err(ApiError::new(ErrorCode::WouldLoseData, what, why, advice))
}

/// What to do then. An attached volume cannot be assembled.
fn without_source(volume: &str, attached_on: Option<&str>) -> String {
    let detach = |node| format!("`evenkeel detach {volume} --node {node}`, then ");
    let first = attached_on.map(detach).unwrap_or_default();
    format!(
        "Start the nodes of its in-sync replicas, or put their disks in order, and try again; if their data are lost for good, go on from an older copy: {first}`evenkeel volume assemble {volume} --force`"
    )
}

/// Whether the volume has a replica at the place that is named, if it is what is asked for.
fn is_there(node: &Node, found: &Found, on: &str, request: &AddReplicaRequest) -> Option<String> {
    // A node is named alone, too.
    let is_named =
        |place: &String| place == on || place.rsplit_once(':').is_some_and(|(node, _)| node == on);
    let here = |(mirror, record): &(usize, &ReplicaRecord)| {
        let is_mirror = request.mirror.is_none_or(|wanted| wanted == *mirror);
        is_mirror && places(node, found, record).iter().any(is_named)
    };
    let reported = |record: &ReplicaRecord| match (&request.replaces, record.role) {
        (Some(old), role) => instead_of(node, found, old, role, on),
        (None, Role::Spare(_)) if request.spare => {
            Some(format!("there is a spare on {on} already"))
        }
        (None, Role::Own) if !request.spare => Some(format!("there is a replica on {on} already")),
        _ => None,
    };
    found.view.replicas().filter(here).find_map(|(_, record)| reported(record))
}

/// Whether a replica that is there, in this role, is what was to replace another one.
fn instead_of(node: &Node, found: &Found, old: &str, role: Role, on: &str) -> Option<String> {
    let replaced = || format!("the replica on {on} has replaced it, or is about to");
    if let Ok(old) = replica::resolve(node, found, old, "") {
        return (role == Role::Replaces(old)).then(replaced);
    }
    if replica::was_removed(node, found, old) {
        return Some(replaced());
    }
    // Once its space is given back, nothing tells it from one that never was: but for a node of the
    // cluster what was asked for is so.
    let name = old.rsplit_once(':').map_or(old, |(name, _)| name);
    node.coordinator.node_by_name(name)?;
    Some(format!("the volume has no replica on {old}, and has one on {on} already"))
}

/// Which replica would be replaced, and where the new one would be; or a sentence that it has been
/// done.
///
/// # Errors
/// As of [`add`].
pub(super) async fn planned(
    node: &Arc<Node>,
    found: &Found,
    request: &AddReplicaRequest,
    what: &str,
) -> Result<Result<(ReplicaId, String), String>, ApiError> {
    let plan = match plan(node, found, request, what)? {
        Ok(plan) => plan,
        Err(already) => return Ok(Err(already)),
    };
    refuse_without_source(node, found, &plan, what).await?;
    let disks = disks_for(node, &plan, what).await?;
    let disk = choose(found, &plan, &disks, what)?;
    let place = format!("{}:{}", disk.node.name, disk.name);
    match plan.role.instead_of() {
        Some(old) => Ok(Ok((old, place))),
        None => Ok(Err(format!("a replica would be added on {place}"))),
    }
}

/// Adds one replica; tells where, if there was none, and a sentence for people.
async fn one(
    node: &Arc<Node>,
    found: &Found,
    plan: &Plan<'_>,
    what: &str,
) -> Result<(Option<String>, String), ApiError> {
    let disks = disks_for(node, plan, what).await?;
    let disk = choose(found, plan, &disks, what)?;
    let place = format!("{}:{}", disk.node.name, disk.name);
    let target: NodeId = disk.node.id.parse().map_err(|_| {
        let why = format!("node {} has no proper identity", disk.node.name);
        ApiError::new(ErrorCode::System, what, why, "Compare the versions of the nodes")
    })?;
    let id = ReplicaId(random_u128());
    let maker = Maker {
        node: node.identity.node.to_string(),
        incarnation: node.identity.start.incarnation().0,
    };
    let replica = placed(id, plan.mirror, disk, Some(maker));
    if let Some(other) = note_place(node, found, plan, replica, what).await? {
        let there = place_noted(node, found, &other, what).await?;
        return match there == place {
            true => Ok((None, format!("there is a replica on {place} already"))),
            false => Err(being_made(&there, what)),
        };
    }
    let superblock = superblock(found, plan.mirror, id);
    let new = NewReplica { superblock, thin: plan.thin };
    let joined = async {
        make::make_one(node, target, disk.name.clone(), new, what).await?;
        let joining = Newcomer { id, node: target, mirror: plan.mirror, role: plan.role };
        view_change::carry_out(node, found, Command::Add(joining), what).await
    };
    if let Err(error) = joined.await {
        give_up(node, found, id).await;
        return Err(error);
    }
    tracing::info!(volume = found.stored.record.name, replica = %id, %place, role = ?plan.role, "a replica was added");
    let message = reported(plan.role, &place, node.volumes.get(found.view.volume).is_some());
    Ok((Some(place), message))
}

/// Where a replica is that the coordinator knows, as `node:disk`.
async fn place_noted(
    node: &Arc<Node>,
    found: &Found,
    replica: &str,
    what: &str,
) -> Result<String, ApiError> {
    let found = find(node, what, &found.stored.record.id).await?;
    let placed = found.stored.record.replicas.iter().find(|placed| placed.id == replica);
    // It may have been given up meanwhile.
    let placed = placed.ok_or_else(|| moved(what))?;
    let home = placed.node.parse().map(|id| node.coordinator.node_ref(id).name);
    Ok(format!("{}:{}", home.unwrap_or_else(|_| placed.node.clone()), placed.disk))
}

fn being_made(place: &str, what: &str) -> ApiError {
    let why = format!("a replica is being made for it on {place}, as another command has asked");
    let advice =
        "Wait until `evenkeel volume status` shows that one; name the place of one more (`--on`)";
    ApiError::new(ErrorCode::WrongState, what, why, advice)
}

/// `runs`: a primary runs the volume, so what is to be copied is.
fn reported(role: Role, place: &str, runs: bool) -> String {
    match (role, runs) {
        (Role::Own, true) => format!("a replica was added on {place}; it copies what it lacks"),
        (Role::Own, false) => {
            format!("a replica was added on {place}; it rebuilds when the volume is attached")
        }
        (Role::Spare(_), _) => format!("a spare was added on {place}"),
        (Role::Replaces(_), true) => format!(
            "the replica on {place} takes its place: it copies first, then the old one is removed"
        ),
        (Role::Replaces(_), false) => format!(
            "the replica on {place} takes its place: it copies when the volume is attached, then the old one is removed"
        ),
    }
}

/// The disks of all nodes; the one that is named is not on a node that does not answer.
async fn disks_for(node: &Node, plan: &Plan<'_>, what: &str) -> Result<Vec<Disk>, ApiError> {
    let listed = node.cluster.disks().await?;
    plan.on.map_or(Ok(()), |place| listed.refuse_silent(place, what))?;
    Ok(listed.disks)
}

fn choose<'a>(
    found: &Found,
    plan: &Plan<'_>,
    disks: &'a [Disk],
    what: &str,
) -> Result<&'a Disk, ApiError> {
    let leaving = plan.role.instead_of();
    let placed = |record: &ReplicaRecord| {
        let id = record.id.to_string();
        let placed = found.stored.record.replicas.iter().find(|placed| placed.id == id)?;
        Some(DiskPlace { node: placed.node.clone(), disk: placed.disk.clone() })
    };
    let mirror = &found.view.mirrors[plan.mirror].replicas;
    let beside: Vec<_> =
        mirror.iter().filter(|r| Some(r.id) != leaving).filter_map(placed).collect();
    let leaving = mirror.iter().find(|r| Some(r.id) == leaving).and_then(placed);
    let wanted = OneMore {
        on: plan.on,
        beside: &beside,
        leaving: leaving.as_ref(),
        needed: length(found),
        block_size: found.view.geometry.block_size,
        same_node: plan.same_node,
        thin: plan.thin,
    };
    one_more(&wanted, disks, what)
}

/// The disk of those given that takes another replica of a mirror, in this role.
///
/// # Errors
/// If none can.
pub(super) fn elsewhere(
    found: &Found,
    mirror: usize,
    role: Role,
    disks: &[Disk],
) -> Result<Disk, ApiError> {
    let plan = Plan { mirror, role, on: None, same_node: false, thin: false };
    choose(found, &plan, disks, "").cloned()
}

/// Bytes that a replica of a volume takes on its disk.
pub(super) fn length(found: &Found) -> u64 {
    disk_length(found.view.replica_size())
}

/// Notes at the coordinator where a replica is about to be made. Returns the one that is there
/// already, or, if nobody has named the place, that is being made for this mirror.
async fn note_place(
    node: &Node,
    found: &Found,
    plan: &Plan<'_>,
    replica: PlacedReplica,
    what: &str,
) -> Result<Option<String>, ApiError> {
    let volume = found.view.volume.to_string();
    let (same_disk, alone) = (plan.same_node, plan.on.is_none());
    let request = |revision| {
        let (volume, replica) = (volume.clone(), replica.clone());
        Request::Place { volume, replica, same_disk, alone, revision }
    };
    let revision = Some(found.stored.record.revision);
    match node.coordinator.change(what, &volume, revision, request).await? {
        Answer::Done => {
            if let Some(attached) = node.volumes.get(found.view.volume) {
                attached.placed(replica);
            }
            Ok(None)
        }
        Answer::PlacedAlready { replica } => Ok(Some(replica)),
        Answer::NoVolume | Answer::Changed(_) => {
            find(node, what, &found.stored.record.id).await?;
            Err(moved(what))
        }
        other => Err(unexpected(what, &other)),
    }
}

fn superblock(found: &Found, mirror: usize, replica: ReplicaId) -> Superblock {
    let size = found.view.replica_size();
    Superblock {
        sequence: 1,
        volume: found.view.volume,
        name: found.stored.record.name.clone(),
        replica,
        mirror: mirror as u32,
        data_offset: DATA_OFFSET,
        data_length: size,
        incarnations: Incarnations::default(),
        metadata_offset: metadata_offset(size),
        has_checksums: found.stored.record.checksums,
        saved: unix_seconds(),
        view: found.view.clone(),
    }
}

/// A replica has not come to join, or it is not known whether it has: the coordinator decides, now
/// or as soon as it answers. What was made of it is deleted by its node then.
async fn give_up(node: &Arc<Node>, found: &Found, id: ReplicaId) {
    let volume = found.view.volume.to_string();
    let request = Request::Forget { volume, replica: id.to_string() };
    make::report_in_the_end(node, request).await;
}

/// What is permitted where replicas are added.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placing {
    /// They may share a node.
    pub(super) same_node: bool,
    /// More may be promised than there is.
    pub(super) thin: bool,
}

/// A replica that is to be on this disk, for the coordinator.
fn placed(id: ReplicaId, mirror: usize, disk: &Disk, maker: Option<Maker>) -> PlacedReplica {
    let (node, disk) = (disk.node.id.clone(), disk.name.clone());
    PlacedReplica { id: id.to_string(), mirror, node, disk, removed: false, maker }
}

/// Where copies would be added until each mirror has so many, see [`more_copies`].
///
/// # Errors
/// If there is no place for all of them: then none is to be added.
pub(super) async fn places_of_more(
    node: &Arc<Node>,
    found: &Found,
    copies: usize,
    how: Placing,
    what: &str,
) -> Result<Vec<String>, ApiError> {
    let Placing { same_node, thin } = how;
    if found.view.mirrors.iter().all(|mirror| mirror.copies().count() >= copies) {
        return Ok(Vec::new());
    }
    let mut disks = node.cluster.disks().await?.disks;
    let (mut then, mut places) = (found.clone(), Vec::new());
    for mirror in 0..then.view.mirrors.len() {
        while then.view.mirrors[mirror].copies().count() < copies {
            let plan = Plan { mirror, role: Role::Own, on: None, same_node, thin };
            let chosen = choose(&then, &plan, &disks, what)?.clone();
            imagine(&mut then, mirror, &chosen, what)?;
            take_space(&mut disks, &chosen, length(found));
            places.push(format!("{}:{}", chosen.node.name, chosen.name));
        }
    }
    Ok(places)
}

/// Adds a copy on this disk to what is known of a volume, as if it had been made.
fn imagine(found: &mut Found, mirror: usize, disk: &Disk, what: &str) -> Result<(), ApiError> {
    let id = ReplicaId(random_u128());
    let node = disk.node.id.parse().map_err(|_| moved(what))?;
    let added = found.view.add(Newcomer { id, node, mirror, role: Role::Own });
    added.map_err(|error| view_change::not_permitted(error, what))?;
    found.stored.record.replicas.push(placed(id, mirror, disk, None));
    Ok(())
}

/// Notes in a list of disks that a replica takes so much of this one.
pub(super) fn take_space(disks: &mut [Disk], chosen: &Disk, needed: u64) {
    let is_it = |disk: &&mut Disk| disk.node.id == chosen.node.id && disk.name == chosen.name;
    if let Some(disk) = disks.iter_mut().find(is_it) {
        // A device holds one replica.
        disk.free = match disk.kind {
            DiskKind::Device => 0,
            DiskKind::Directory => disk.free.saturating_sub(needed),
        };
    }
}

/// Adds copies to each mirror until it has so many, for [`super::change`]. Tells where.
///
/// # Errors
/// As of [`add`], with where replicas have been added before.
pub(super) async fn more_copies(
    node: &Arc<Node>,
    found: &Found,
    copies: usize,
    how: Placing,
    what: &str,
) -> Result<Vec<String>, ApiError> {
    let mut added = Vec::new();
    match add_copies(node, found, copies, how, what, &mut added).await {
        // Half of it is done: what somebody reads first says so.
        Err(error) if !added.is_empty() => {
            let added = added.join(", ");
            let what =
                format!("{} as far as asked: replicas were added on {added} only", error.what);
            Err(ApiError { what, ..error })
        }
        done => done.map(|()| added),
    }
}

async fn add_copies(
    node: &Arc<Node>,
    found: &Found,
    copies: usize,
    how: Placing,
    what: &str,
    added: &mut Vec<String>,
) -> Result<(), ApiError> {
    let Placing { same_node, thin } = how;
    for mirror in 0..found.view.mirrors.len() {
        loop {
            // The view and the free space have changed.
            let found = find(node, what, &found.stored.record.id).await?;
            let Some(now) = found.view.mirrors.get(mirror) else { break };
            if now.copies().count() >= copies {
                break;
            }
            let plan = Plan { mirror, role: Role::Own, on: None, same_node, thin };
            match one(node, &found, &plan, what).await? {
                (Some(place), _) => added.push(place),
                (None, why) => {
                    let advice = "See `evenkeel volume status`, then try again";
                    return Err(ApiError::new(ErrorCode::WrongState, what, why, advice));
                }
            }
        }
    }
    Ok(())
}
