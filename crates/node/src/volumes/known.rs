//! What this node knows of volumes while the coordinator does not answer: what is attached here, what
//! other nodes report that have one attached, and what the replicas on its own disks adopted last.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::VolumeId;
use evenkeel_format::Superblock;

use super::hearing::Heard;
use super::{hearing, lookup, primaries, status};
use crate::api::types::VolumeStatus;
use crate::coordinator::{NoData, PlacedReplica, VolumeRecord, WantedOn};
use crate::examine::examine_one;
use crate::node::Node;

/// How long the disks may take to be read: one that hangs is left out.
const PATIENCE: Duration = Duration::from_secs(3);

/// Each volume that is attached here, or has a replica here.
pub(super) async fn all(node: &Arc<Node>) -> Vec<VolumeStatus> {
    let mut volumes = Vec::new();
    for attached in node.volumes.all() {
        volumes.extend(status::of_attached(node, &attached).await);
    }
    let (mut asked, mut views) = (Vec::new(), Vec::new());
    for newest in on_disks(node, |_| true).await.into_values() {
        if volumes.iter().all(|volume| volume.id != newest.superblock.volume.to_string()) {
            views.push(newest.superblock.view.clone());
            let node = node.clone();
            asked.push(tokio::spawn(async move {
                let told = by_primary(&node, &newest).await;
                (newest, told)
            }));
        }
    }
    // While the primaries are asked: where all are silent, one wait is to follow no other.
    let heard = hearing::ask(node, &views, false).await;
    for told in asked {
        match told.await {
            Ok((_, Some(status))) => volumes.push(status),
            Ok((newest, None)) => volumes.push(of_replica(node, &newest, &heard)),
            Err(error) => tracing::error!(%error, "a volume is missing in the list"),
        }
    }
    volumes
}

/// The volume of this name or identity, if a replica of it is here. A superblock has the name that its
/// volume had when the replica was made: if replicas of several volumes have it, one was renamed, and the
/// name does not tell which is meant.
pub(super) async fn one(node: &Arc<Node>, volume: &str) -> Option<VolumeStatus> {
    let wanted = volume.to_owned();
    let is = move |it: &Superblock| it.name == wanted || it.volume.to_string() == wanted;
    let mut found = on_disks(node, is).await.into_values();
    let newest = found.next().filter(|_| found.next().is_none())?;
    let heard = hearing::ask(node, [&newest.superblock.view], false);
    let (told, heard) = tokio::join!(by_primary(node, &newest), heard);
    Some(told.unwrap_or_else(|| of_replica(node, &newest, &heard)))
}

/// The replica here that has adopted the newest view of its volume.
struct Newest {
    superblock: Superblock,
    /// All replicas of the volume that are here.
    placed: Vec<PlacedReplica>,
}

/// Of those volumes that are wanted.
async fn on_disks(
    node: &Arc<Node>,
    is_wanted: impl Fn(&Superblock) -> bool + Send + 'static,
) -> BTreeMap<VolumeId, Newest> {
    let read = node.blocking(move |node| {
        let mut newest: BTreeMap<VolumeId, Newest> = BTreeMap::new();
        for place in node.disks.places_of(&is_wanted) {
            let read = examine_one(&place.path).superblock;
            let Some(superblock) = read.filter(&is_wanted) else { continue };
            let placed = PlacedReplica {
                id: superblock.replica.to_string(),
                mirror: superblock.mirror as usize,
                node: node.identity.node.to_string(),
                disk: place.disk,
                removed: false,
                maker: None,
            };
            let entry = newest
                .entry(superblock.volume)
                .or_insert_with(|| Newest { superblock: superblock.clone(), placed: Vec::new() });
            entry.placed.push(placed);
            if superblock.view.generation > entry.superblock.view.generation {
                entry.superblock = superblock;
            }
        }
        Ok(newest)
    });
    let read = tokio::time::timeout(PATIENCE, read).await;
    read.ok().and_then(Result::ok).unwrap_or_default()
}

/// From the node on which the view says that it is attached, if that answers.
async fn by_primary(node: &Arc<Node>, newest: &Newest) -> Option<VolumeStatus> {
    let superblock = &newest.superblock;
    let elsewhere = lookup::primary_elsewhere(node, &superblock.view)?;
    let life = node.coordinator.node(elsewhere)?;
    primaries::told_by(node, &life, &superblock.volume.to_string(), false).await
}

/// From the view itself, which may have been replaced since.
fn of_replica(node: &Node, newest: &Newest, heard: &Heard) -> VolumeStatus {
    let superblock = &newest.superblock;
    let id = superblock.volume.to_string();
    let record = VolumeRecord {
        id,
        name: superblock.name.clone(),
        no_data: NoData::default(),
        replicas: newest.placed.clone(),
        stopped: false,
        checksums: superblock.has_checksums,
        used_on: None,
        wanted_on: WantedOn::default(),
        verified: None,
    };
    let mut status = status::of_adopted(node, &record, &superblock.view, heard);
    status.as_of = Some(superblock.saved).filter(|saved| *saved > 0);
    status
}
