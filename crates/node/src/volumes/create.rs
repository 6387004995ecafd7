//! Creating a volume: replicas first, each with the first view in its superblock, then the
//! coordinator's record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::view::Cause;
use evenkeel_core::{
    CoordinatorId, Generation, Geometry, Incarnation, Lineage, MirrorView, NodeId, Protocol,
    ReplicaId, ReplicaRecord, ReplicaState, View, VolumeId, settings, stripe,
};
use evenkeel_format::{DATA_OFFSET, Superblock, disk_length};
use hyper::Method;

use super::local;
use super::lookup::{self, unexpected};
use super::place::{self, Placement};
use crate::api::handlers::peer::{CreateReplica, REPLICA, REPLICAS};
use crate::api::types::*;
use crate::api::{ApiError, ErrorCode, routes};
use crate::cluster;
use crate::config::check::{NAME_RULE, is_name};
use crate::coordinator::{
    Answer, PlacedReplica, Request, StoredVolume, ViewText, VolumeRecord, to_hex,
};
use crate::disks::NewReplica;
use crate::identity::random_u128;
use crate::node::Node;

/// How long a node may take to make a replica: a block device may have to be zeroed.
const CREATION: Duration = Duration::from_secs(24 * 3600);
/// The largest volume.
const LARGEST: u64 = 1 << 60;

/// What is about to be made.
struct Draft {
    name: String,
    no_data: NoData,
    thin: bool,
    view: View,
    /// The disk of each replica, by mirror.
    disks: Vec<Vec<Disk>>,
    warnings: Vec<String>,
}

/// Creates a volume, or tells what would be done.
///
/// # Errors
/// If a value is not permitted, the name is in use, there are not enough disks, or one fails: then
/// nothing is left behind.
pub async fn create(
    node: &Arc<Node>,
    request: CreateVolumeRequest,
) -> Result<CreateVolumeAnswer, ApiError> {
    let what = format!("cannot create volume {}", request.name);
    check(&request, &what)?;
    let taken = Request::Read { volume: request.name.clone() };
    if let Answer::Volume(_) = node.coordinator.ask(&what, taken).await? {
        return Err(name_in_use(&what));
    }
    let draft = draft(node, &request, &what).await?;
    let plan = plan(node, &draft);
    if !request.dry_run {
        make(node, &draft, &what).await?;
        tracing::info!(volume = draft.name, id = %draft.view.volume, "a volume was created");
    }
    Ok(CreateVolumeAnswer { version: VERSION, created: !request.dry_run, plan })
}

fn name_in_use(what: &str) -> ApiError {
    let why = "another volume has this name";
    ApiError::new(ErrorCode::NameInUse, what, why, "Choose another one; see `evenkeel volume list`")
}

fn check(request: &CreateVolumeRequest, what: &str) -> Result<(), ApiError> {
    let refuse =
        |why: String, action: &str| Err(ApiError::new(ErrorCode::BadRequest, what, why, action));
    let within =
        |name: &str, value: u64, least: u64, most: u64| match (least..=most).contains(&value) {
            true => Ok(()),
            false => refuse(format!("{name} is {value}"), &format!("Choose {least} to {most}")),
        };
    if !is_name(&request.name) {
        return refuse(format!("{:?} cannot be its name", request.name), NAME_RULE);
    }
    within("the size in bytes", request.size, 1, LARGEST)?;
    within("the number of replicas", request.replicas as u64, 1, settings::MOST_REPLICAS as u64)?;
    within("the number of mirrors", request.stripe as u64, 1, settings::MOST_MIRRORS as u64)?;
    within("the chunk in bytes", u64::from(request.chunk), 4096, 1 << 30)?;
    if !request.chunk.is_power_of_two() {
        return refuse(format!("the chunk is {} bytes", request.chunk), "Choose a power of two");
    }
    if !matches!(request.block_size, None | Some(512 | 4096)) {
        return refuse("the block size is neither".into(), "Choose 512 or 4096");
    }
    match request.no_data {
        NoData::Suspend { seconds } => within("no_data.seconds", seconds, 1, 86_400),
        NoData::Error => Ok(()),
    }
}

async fn draft(
    node: &Arc<Node>,
    request: &CreateVolumeRequest,
    what: &str,
) -> Result<Draft, ApiError> {
    let (disks, warnings) = cluster::disks(node).await?;
    let coordinator = node.coordinator.membership().coordinator;
    let coordinator: CoordinatorId =
        coordinator.and_then(|id| id.parse().ok()).ok_or_else(|| {
            let why = "the coordinator's identity is not known yet";
            ApiError::new(
                ErrorCode::NoCoordinator,
                what,
                why,
                "Try again when the coordinator answers",
            )
        })?;
    // Disks are chosen for the larger block size; what they permit decides afterwards.
    let size = |block: u32| request.size.next_multiple_of(u64::from(block));
    let geometry = |block| Geometry { size: size(block), block_size: block, chunk: request.chunk };
    let length = stripe::replica_size(geometry(4096), request.stripe);
    let placement = place::choose(request, &disks, length, what)?;
    let block_size = block_size(request, &disks, &placement, what)?;
    let chosen = |mirror: &Vec<usize>| mirror.iter().map(|i| disks[*i].clone()).collect();
    let disks: Vec<Vec<Disk>> = placement.iter().map(chosen).collect();
    let view = first_view(request, &disks, geometry(block_size), coordinator, what)?;
    let mut warnings: Vec<String> = if request.on.is_empty() { warnings } else { Vec::new() };
    warnings.extend(shared_fate(&disks));
    let name = request.name.clone();
    Ok(Draft { name, no_data: request.no_data, thin: request.thin, view, disks, warnings })
}

/// The block size asked for, or the smallest that every disk permits.
fn block_size(
    request: &CreateVolumeRequest,
    disks: &[Disk],
    placement: &Placement,
    what: &str,
) -> Result<u32, ApiError> {
    let largest = placement.iter().flatten().map(|i| &disks[*i]).max_by_key(|d| d.block_size);
    let Some(largest) = largest else { return Ok(4096) };
    match request.block_size {
        Some(wanted) if wanted < largest.block_size => {
            let why = format!(
                "disk {} of node {} permits direct I/O in units of {} bytes only",
                largest.name, largest.node.name, largest.block_size
            );
            let advice = format!("Choose block size {}, or other disks", largest.block_size);
            Err(ApiError::new(ErrorCode::BadRequest, what, why, advice))
        }
        Some(wanted) => Ok(wanted),
        None => Ok(if largest.block_size <= 512 { 512 } else { 4096 }),
    }
}

fn shared_fate(disks: &[Vec<Disk>]) -> Option<String> {
    let shares = disks.iter().any(|mirror| {
        let nodes: std::collections::BTreeSet<&str> =
            mirror.iter().map(|disk| disk.node.id.as_str()).collect();
        mirror.len() > 1 && nodes.len() < mirror.len()
    });
    shares
        .then(|| "replicas of one mirror are on the same node and are lost together with it".into())
}

fn first_view(
    request: &CreateVolumeRequest,
    disks: &[Vec<Disk>],
    geometry: Geometry,
    coordinator: CoordinatorId,
    what: &str,
) -> Result<View, ApiError> {
    let record = |disk: &Disk| {
        let node: NodeId = disk.node.id.parse().map_err(|_| {
            let why = format!("node {} has no proper identity", disk.node.name);
            ApiError::new(ErrorCode::System, what, why, "Compare the versions of the nodes")
        })?;
        Ok(ReplicaRecord {
            id: ReplicaId(random_u128()),
            node,
            state: ReplicaState::InSync,
            since: Generation(1),
            incarnation: Incarnation(0),
            cause: Cause::None,
        })
    };
    let mirror = |disks: &Vec<Disk>| {
        let replicas: Result<Vec<_>, ApiError> = disks.iter().map(record).collect();
        replicas.map(|replicas| MirrorView { replicas })
    };
    Ok(View {
        volume: VolumeId(random_u128()),
        generation: Generation(1),
        parent: Generation(0),
        lineage: Lineage(random_u128()),
        coordinator,
        geometry,
        protocol: match request.protocol {
            VolumeProtocol::A => Protocol::A,
            VolumeProtocol::B => Protocol::B,
            VolumeProtocol::C => Protocol::C,
        },
        mirrors: disks.iter().map(mirror).collect::<Result<_, _>>()?,
        primaries: Vec::new(),
    })
}

impl Draft {
    /// All replicas with their mirror and disk.
    fn replicas(&self) -> impl Iterator<Item = (usize, &ReplicaRecord, &Disk)> {
        let disks = self.disks.iter().flatten();
        self.view.replicas().zip(disks).map(|((mirror, record), disk)| (mirror, record, disk))
    }

    fn superblock(&self, mirror: usize, replica: ReplicaId) -> Superblock {
        Superblock {
            sequence: 1,
            volume: self.view.volume,
            name: self.name.clone(),
            replica,
            mirror: mirror as u32,
            data_offset: DATA_OFFSET,
            data_length: self.view.replica_size(),
            view: self.view.clone(),
        }
    }

    fn record(&self) -> VolumeRecord {
        let placed = |(mirror, record, disk): (usize, &ReplicaRecord, &Disk)| PlacedReplica {
            id: record.id.to_string(),
            mirror,
            node: record.node.to_string(),
            disk: disk.name.clone(),
            removed: false,
        };
        VolumeRecord {
            id: self.view.volume.to_string(),
            name: self.name.clone(),
            no_data: self.no_data,
            replicas: self.replicas().map(placed).collect(),
        }
    }
}

fn plan(node: &Node, draft: &Draft) -> VolumePlan {
    let view = &draft.view;
    let planned = |(mirror, record, disk): (usize, &ReplicaRecord, &Disk)| PlannedReplica {
        id: record.id.to_string(),
        mirror,
        node: node.coordinator.node_ref(record.node),
        disk: disk.name.clone(),
    };
    VolumePlan {
        id: view.volume.to_string(),
        name: draft.name.clone(),
        size: view.geometry.size,
        block_size: view.geometry.block_size,
        chunk: view.geometry.chunk,
        protocol: super::status::protocol(view.protocol),
        no_data: draft.no_data,
        replica_size: disk_length(view.replica_size()),
        replicas: draft.replicas().map(planned).collect(),
        warnings: draft.warnings.clone(),
    }
}

/// Makes the replicas, all at once, then the record. If one cannot be made, the others are deleted.
async fn make(node: &Arc<Node>, draft: &Draft, what: &str) -> Result<(), ApiError> {
    let mut tasks = Vec::new();
    for (mirror, record, disk) in draft.replicas() {
        let new = NewReplica { superblock: draft.superblock(mirror, record.id), thin: draft.thin };
        let (node, target, disk) = (node.clone(), record.node, disk.name.clone());
        tasks.push(tokio::spawn(async move { make_one(&node, target, disk, new).await }));
    }
    let mut failed = None;
    for task in tasks {
        let made = task.await.unwrap_or_else(|e| {
            Err(ApiError::new(ErrorCode::System, what, e.to_string(), "Please report this"))
        });
        failed = failed.or(made.err());
    }
    if let Some(error) = failed {
        unmake(node, draft).await;
        return Err(error);
    }
    let view = ViewText::encode(&draft.view)
        .map_err(|e| ApiError::new(ErrorCode::System, what, e.to_string(), "Please report this"))?;
    let stored = Box::new(StoredVolume { record: draft.record(), view });
    // After an unknown answer the replicas are kept: the record may exist. If it does not, nodes
    // report them as unknown to the coordinator.
    match node.coordinator.ask(what, Request::Create(stored)).await? {
        Answer::Done => Ok(()),
        Answer::NameInUse => {
            unmake(node, draft).await;
            Err(name_in_use(what))
        }
        other => Err(unexpected(what, &other)),
    }
}

async fn make_one(
    node: &Arc<Node>,
    target: NodeId,
    disk: String,
    new: NewReplica,
) -> Result<(), ApiError> {
    let what = "a replica cannot be made";
    if target == node.identity.node {
        return local::create_replica(node, disk, new).await;
    }
    let life = lookup::life(node, what, target)?;
    let superblock = new.superblock.encode().map_err(|e| {
        ApiError::new(ErrorCode::BadRequest, what, e.to_string(), "Choose other values")
    })?;
    let request = CreateReplica { disk, superblock: to_hex(&superblock.0), thin: new.thin };
    let body = Some(&request);
    cluster::forward::<_, bool>(node, &life, Method::POST, REPLICAS, body, CREATION).await?;
    Ok(())
}

/// Deletes what was made of a volume that will not be. What cannot be reached now is unknown to
/// the coordinator, and its node reports it.
async fn unmake(node: &Arc<Node>, draft: &Draft) {
    let by_node: BTreeMap<ReplicaId, NodeId> =
        draft.replicas().map(|(_, record, _)| (record.id, record.node)).collect();
    for (replica, target) in by_node {
        if let Err(error) = delete_one(node, target, draft.view.volume, replica).await {
            tracing::warn!(%replica, %error, "cannot delete a replica of a failed creation");
        }
    }
}

/// Deletes a replica on whichever node it is.
pub(super) async fn delete_one(
    node: &Arc<Node>,
    target: NodeId,
    volume: VolumeId,
    replica: ReplicaId,
) -> Result<(), ApiError> {
    if target == node.identity.node {
        return local::delete_replica(node, volume, replica).await.map(drop);
    }
    let life = lookup::life(node, "a replica cannot be deleted", target)?;
    let path = routes::fill(REPLICA, &[&volume.to_string(), &replica.to_string()]);
    let deadline = cluster::COMMAND;
    cluster::forward::<(), bool>(node, &life, Method::DELETE, &path, None, deadline).await?;
    Ok(())
}
