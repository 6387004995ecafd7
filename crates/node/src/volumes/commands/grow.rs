//! Making a volume larger: its replicas make room, then the view says so, then those that serve it
//! do.
//!
//! What is new reads as zeroes on every replica before the view changes, and no replica adopts a
//! larger view without that. So it may be cut off anywhere, and be done again.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::sizes::{self, compared};
use evenkeel_api::{ApiError, ErrorCode, routes};
use evenkeel_core::primary::Command;
use evenkeel_core::{Generation, Geometry, NodeId, ReplicaId, ReplicaState, VolumeId, stripe};
use evenkeel_engine::{EngineError, SpaceStep, SpaceTask};
use hyper::Method;
use jiff::Timestamp;
use tokio::time::timeout;

use super::view_change;
use crate::cluster;
use crate::keyed_lock::{Held, Recall};
use crate::peer::requests::{MAKE_SPACE, MakeSpace};
use crate::volumes::Attached;
use crate::volumes::Node;
use crate::volumes::attachment::actor::{Turn, turn};
use crate::volumes::attachment::{device, export};
use crate::volumes::lookup::{self, Found};
use crate::volumes::replicas::make;

/// How often and after which pauses a replica is asked that is saving something.
const TRIES: (u32, Duration) = (200, Duration::from_millis(50));
/// How long a growth waits for whoever does something else with the replica. An earlier growth may
/// zero a device for hours.
const PATIENCE: Duration = Duration::from_secs(20);
/// The largest volume, in bytes.
const LARGEST: u64 = 1 << 60;

/// Makes a volume so large, here or where its replicas are. It is attached here or nowhere. Tells
/// what was done; `None`: it is so large already.
///
/// # Errors
/// If it would become smaller, a replica is not in-sync, does not answer or has no room.
pub(super) async fn grow(
    node: &Arc<Node>,
    found: &Found,
    size: u64,
    what: &str,
) -> Result<Option<String>, ApiError> {
    let old = found.view.geometry;
    let size = size.min(LARGEST).next_multiple_of(u64::from(old.block_size));
    if size < old.size {
        let why = {
            let [old, new] = compared(old.size, size);
            format!("it has {old}: what lies beyond {new} would be lost")
        };
        let advice = "Create a smaller volume, and copy what is on this one";
        return Err(ApiError::new(ErrorCode::WouldLoseData, what, why, advice));
    }
    // One that was added while the volume grew may lack the room still.
    let length = stripe::replica_size(Geometry { size, ..old }, found.view.mirrors.len());
    let volume = found.view.volume;
    if size > old.size {
        // What the view would refuse is refused before anything is changed.
        found.view.clone().grow(size).map_err(|error| view_change::not_permitted(error, what))?;
    }
    for (_, record) in found.view.replicas() {
        let is_spare = record.state == ReplicaState::Spare;
        let spare_in = is_spare.then_some(found.view.generation.0);
        let room = MakeSpace { length, spare_in };
        make_space(node, record.node, volume, record.id, &room, what).await?;
    }
    if size > old.size {
        view_change::carry_out(node, found, Command::Grow(size), what).await?;
    }
    let turn = turn(node, volume).await;
    match node.volumes.get(volume) {
        // Also if `follow` was quicker: the answer tells who sees it, and what failed.
        Some(attached) if size > old.size || attached.shown_size() < size => {
            show(node, &turn, &attached, size, what).await.map(Some)
        }
        _ => Ok((size > old.size).then(|| format!("it has {} now", sizes::size(size)))),
    }
}

/// An attached volume has become larger, by whomever: shows that to those who use it here.
pub(in crate::volumes) async fn follow(node: &Arc<Node>, attached: &Attached, size: u64) {
    let turn = turn(node, attached.id).await;
    if node.volumes.holds(attached)
        && attached.shown_size() < size
        && let Err(error) = show(node, &turn, attached, size, "cannot show the new size").await
    {
        node.warn(error.to_string());
    }
}

/// Shows the new size to those who use an attached volume. What fails is shown by the next growth,
/// also if that is to the same size.
async fn show(
    node: &Arc<Node>,
    turn: &Turn,
    attached: &Attached,
    size: u64,
    what: &str,
) -> Result<String, ApiError> {
    attached.grow_to(size);
    // A growth beyond that may have been quicker.
    let size = attached.size();
    node.nvme.grown(attached.id);
    let (exported, nbd) = match attached.nbd() {
        // It takes the place of the one before, whose clients keep the size that they were told.
        Some(wanted) => (
            export::start(node, turn, attached, wanted, what).await,
            "; NBD clients see it when they connect again",
        ),
        None => (Ok(()), ""),
    };
    let device = match attached.device() {
        Some(_) => device::grow_device(node, attached, what).await,
        None => Ok(""),
    };
    // Whatever fails, the others show it.
    exported?;
    let device = device?;
    attached.set_shown_size(size);
    Ok(format!("it has {} now{nbd}{device}", sizes::size(size)))
}

async fn make_space(
    node: &Arc<Node>,
    target: NodeId,
    volume: VolumeId,
    replica: ReplicaId,
    room: &MakeSpace,
    what: &str,
) -> Result<(), ApiError> {
    if target == node.identity.node {
        return here(node, volume, replica, room).await;
    }
    let member = lookup::member(node, what, target)?;
    let path = routes::fill(MAKE_SPACE, &[&volume.to_string(), &replica.to_string()]);
    let (method, deadline) = (Method::POST, make::CREATION);
    let made = node.cluster.forward::<_, bool>(&member, method, &path, Some(room), deadline).await;
    made.map(drop).map_err(|error| cluster::for_what(what, &member, error))
}

/// Makes room for so many bytes of data of a replica of this node.
///
/// # Errors
/// If it is not served here, has no room, others of its mirror are not in-sync, its disk fails, or
/// it is to be closed or deleted meanwhile.
pub async fn here(
    node: &Arc<Node>,
    volume: VolumeId,
    replica: ReplicaId,
    wanted: &MakeSpace,
) -> Result<(), ApiError> {
    let length = wanted.length;
    let place = place(node, replica);
    let what = format!("the replica on {place} cannot be made larger");
    // One at a time: nobody zeroes what another one has told to be in use. And nobody closes or
    // deletes the replica meanwhile: its device may be another one's then.
    let held = alone(node, replica, &what, PATIENCE).await?;
    let recall = held.recall();
    // Others who want to make it larger are told so from now on.
    recall.report(0);
    let room = node.blocking(move |node| node.disks.make_space(replica, length, recall)).await?;
    let room = Arc::new(room);
    let (all, changed) =
        (SpaceStep::CarryChecksums { anew: true }, SpaceStep::CarryChecksums { anew: false });
    // What is written meanwhile is copied again, until little is left.
    let copies = [all, changed, changed, changed, changed, changed];
    let mut is_copied = false;
    let steps =
        [&[SpaceStep::Plan][..], &copies, &[SpaceStep::MoveMetadata, SpaceStep::Use]].concat();
    for step in steps {
        if step == changed && is_copied {
            continue;
        }
        room.refuse_if_recalled()?;
        let task = take(node, volume, replica, wanted, step).await;
        let Some(task) = task.map_err(|e| engine_error(&what, &e))? else { break };
        is_copied = !matches!(&task, SpaceTask::Carry(pages) if !pages.is_small());
        let room = room.clone();
        node.blocking(move |_| room.carry_out(&task)).await?;
    }
    node.disks.in_engine().note_length(replica, length);
    Ok(())
}

/// Where a replica of this node lies, for messages: `NODE:DISK`.
fn place(node: &Node, replica: ReplicaId) -> String {
    let disk = node.disks.disk_of(replica).unwrap_or_else(|| "?".into());
    format!("{}:{disk}", node.identity.name)
}

/// Waits until nothing else is done with a replica of this node, but not for long.
///
/// # Errors
/// If it is made larger still, or its disk is slow: with since when, and how far that is.
async fn alone(
    node: &Node,
    replica: ReplicaId,
    what: &str,
    patience: Duration,
) -> Result<Held<ReplicaId>, ApiError> {
    if let Ok(held) = timeout(patience, node.volumes.replica(replica)).await {
        return Ok(held);
    }
    let work = node.volumes.at_work(replica);
    let since = work.as_ref().map_or_else(Timestamp::now, Recall::since);
    let since = since.strftime("%Y-%m-%d %H:%M:%S UTC");
    let (why, advice) = match work.and_then(|work| work.percent()) {
        Some(percent) => (
            format!(
                "it is still being made larger, since {since}: {percent} % of the new room is zeroed"
            ),
            "That goes on by itself. Give the command again when it has ended, or remove the replica to end it",
        ),
        None => (
            format!("something else is done with it since {since}; its disk may be slow, or hang"),
            "Try again; see `evenkeel disk list` of its node, and the kernel's log",
        ),
    };
    Err(ApiError::new(ErrorCode::WrongState, what, why, advice))
}

/// Takes a step, as soon as nothing is being saved.
async fn take(
    node: &Arc<Node>,
    volume: VolumeId,
    replica: ReplicaId,
    wanted: &MakeSpace,
    step: SpaceStep,
) -> Result<Option<SpaceTask>, EngineError> {
    let (length, spare_in) = (wanted.length, wanted.spare_in.map(Generation));
    for _ in 1..TRIES.0 {
        match node.data.make_space(volume, replica, length, step, spare_in).await {
            Err(EngineError::Busy) => tokio::time::sleep(TRIES.1).await,
            answer => return answer,
        }
    }
    node.data.make_space(volume, replica, length, step, spare_in).await
}

fn engine_error(what: &str, error: &EngineError) -> ApiError {
    let (code, advice) = match error {
        EngineError::Bitmaps | EngineError::Busy => (
            ErrorCode::WrongState,
            "Wait until the volume is in-sync (`evenkeel volume status NAME --wait in-sync`), then grow it",
        ),
        EngineError::Unknown => (ErrorCode::WrongState, "See `evenkeel disk list` of its node"),
        _ => (ErrorCode::System, "See the node's log and the kernel's"),
    };
    ApiError::new(code, what, error.to_string(), advice)
}

#[cfg(test)]
mod tests;
