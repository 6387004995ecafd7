//! Creating a volume: what is asked for is checked, and the places of its replicas are chosen. See
//! [`crate::volumes::replicas::make`] for how it is made then.

use std::sync::Arc;

use evenkeel_api::types::*;
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::{
    Bitmap, CoordinatorId, Geometry, History, IntentLayout, MirrorView, NoCoordinatorPolicy,
    NodeId, ReplicaId, ReplicaRecord, View, VolumeId, settings, stripe,
};
use evenkeel_format::{NEW_NAME_RULE, disk_length, is_new_name};

use super::change::Layout;
use crate::cluster::Listed;
use crate::conversions;
use crate::coordinator::{Answer, Request};
use crate::random::random_u128;
use crate::volumes::Node;
use crate::volumes::replicas::draft::Draft;
use crate::volumes::replicas::make;
use crate::volumes::replicas::place::{self, Placement};

/// The largest volume.
const LARGEST: u64 = 1 << 60;

/// Most seconds that a volume may let requests wait for the coordinator before they fail.
pub(super) const MAX_NO_COORDINATOR: u64 = 86_400;

/// Most seconds that a volume may let requests wait for data before they fail.
pub(super) const MAX_NO_DATA: u64 = 86_400;

/// The policy as the view holds it; the seconds are known to be permitted.
pub(super) fn no_coordinator_policy(policy: NoCoordinator) -> NoCoordinatorPolicy {
    let seconds = match policy {
        NoCoordinator::Suspend => 0,
        NoCoordinator::Fail { seconds } => seconds.clamp(1, MAX_NO_COORDINATOR),
    };
    NoCoordinatorPolicy::from_milliseconds((seconds * 1000) as u32)
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
        return Err(make::name_in_use(&what));
    }
    let draft = draft(node, &request, &what).await?;
    let plan = plan(node, &draft);
    if !request.dry_run {
        make::make(node, &draft, &what).await?;
        tracing::info!(volume = draft.name, id = %draft.view.volume, "a volume was created");
    }
    Ok(CreateVolumeAnswer { version: VERSION, created: !request.dry_run, plan })
}

fn check(request: &CreateVolumeRequest, what: &str) -> Result<(), ApiError> {
    let refuse =
        |why: String, action: &str| Err(ApiError::new(ErrorCode::BadRequest, what, why, action));
    let within =
        |name: &str, value: u64, least: u64, most: u64| match (least..=most).contains(&value) {
            true => Ok(()),
            false => refuse(format!("{name} is {value}"), &format!("Choose {least} to {most}")),
        };
    if !is_new_name(&request.name) {
        return refuse(format!("{:?} cannot be its name", request.name), NEW_NAME_RULE);
    }
    if !(1..=LARGEST).contains(&request.size) {
        let [wanted, largest] = evenkeel_api::sizes::compared(request.size, LARGEST);
        return refuse(format!("the size is {wanted}"), &format!("Choose one up to {largest}"));
    }
    within("the number of replicas", request.replicas as u64, 1, settings::MAX_REPLICAS as u64)?;
    within("the number of mirrors", request.stripe as u64, 1, settings::MAX_MIRRORS as u64)?;
    within("the chunk in bytes", u64::from(request.chunk), 4096, 1 << 30)?;
    if !request.chunk.is_power_of_two() {
        return refuse(format!("the chunk is {} bytes", request.chunk), "Choose a power of two");
    }
    if !matches!(request.block_size, None | Some(512 | 4096)) {
        return refuse("the block size is neither".into(), "Choose 512 or 4096");
    }
    if let NoCoordinator::Fail { seconds } = request.no_coordinator {
        within("the wait for the coordinator in seconds", seconds, 1, MAX_NO_COORDINATOR)?;
    }
    match request.no_data {
        NoData::Suspend { seconds } => {
            within("the wait for data in seconds", seconds, 1, MAX_NO_DATA)
        }
        NoData::Error => Ok(()),
    }
}

async fn draft(
    node: &Arc<Node>,
    request: &CreateVolumeRequest,
    what: &str,
) -> Result<Draft, ApiError> {
    let listed = node.cluster.disks().await?;
    request.on.iter().try_for_each(|place| listed.refuse_silent(place, what))?;
    let Listed { disks, warnings, .. } = listed;
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
    let mut view = first_view(request, &disks, geometry(block_size), coordinator, what)?;
    view.lease = node.config.lease();
    view.no_coordinator = no_coordinator_policy(request.no_coordinator);
    let mut warnings: Vec<String> = if request.on.is_empty() { warnings } else { Vec::new() };
    warnings.extend(shared_fate(&disks));
    let name = request.name.clone();
    let CreateVolumeRequest { no_data, thin, checksums, .. } = *request;
    Ok(Draft { name, no_data, thin, checksums, view, disks, warnings })
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

fn intents(
    request: &CreateVolumeRequest,
    geometry: Geometry,
    what: &str,
) -> Result<IntentLayout, ApiError> {
    let size = stripe::replica_size(geometry, request.stripe);
    let present = IntentLayout::for_size(size);
    let (_, slots) = super::change::sharing(Some(request.bitmap), request.primaries, 1, what)?;
    if slots > 1 && request.protocol != VolumeProtocol::C {
        let why = "with more than one primary at once a volume needs protocol C";
        return Err(ApiError::new(ErrorCode::BadRequest, what, why, "Leave --protocol away"));
    }
    let wanted = Layout { region: request.region_size, places: request.open_regions, slots };
    super::change::layout(present, wanted, size, what)
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
        Ok(ReplicaRecord::first(ReplicaId(random_u128()), node))
    };
    let mirror = |disks: &Vec<Disk>| {
        let replicas: Result<Vec<_>, ApiError> = disks.iter().map(record).collect();
        replicas.map(|replicas| MirrorView { replicas })
    };
    let mirrors = disks.iter().map(mirror).collect::<Result<_, _>>()?;
    let (volume, history) = (VolumeId(random_u128()), History(random_u128()));
    Ok(View {
        protocol: conversions::core_protocol(request.protocol),
        bitmap: match request.bitmap {
            VolumeBitmap::None => Bitmap::None,
            VolumeBitmap::Internal | VolumeBitmap::Clustered => Bitmap::Internal,
        },
        intents: intents(request, geometry, what)?,
        ..View::first(volume, history, coordinator, geometry, mirrors)
    })
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
        protocol: conversions::protocol(view.protocol),
        region_size: view.intents.region,
        open_regions: view.intents.places,
        slots: view.intents.slots,
        no_data: draft.no_data,
        replica_size: disk_length(view.replica_size()),
        replicas: draft.replicas().map(planned).collect(),
        warnings: draft.warnings.clone(),
    }
}
