//! The moment at which a volume is put together: its disks belong to nodes, and the coordinator has
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::{ReplicaId, ReplicaRecord, View};

use super::super::stop;
use super::{Candidate, Replica, refusals};
use crate::coordinator::{
    Answer, NoData, PlacedReplica, Request, Standing, StoredVolume, ViewText, VolumeRecord,
};
use crate::tasks::asker_has_gone_since;
use crate::volumes::Node;
use crate::volumes::attachment::actor::Turn;
use crate::volumes::attachment::start;
use crate::volumes::lookup::{moved, unexpected};
use crate::volumes::replicas::open;

/// Gives this node the disks that it needs, and the coordinator the volume; then lets the replicas
/// adopt its first view, so that no older coordinator's primary is heard by them any more.
pub(super) async fn register(
    node: &Arc<Node>,
    turn: &Turn,
    candidate: &Candidate,
    view: &View,
    warnings: &mut Vec<String>,
    what: &str,
) -> Result<(), ApiError> {
    // Before a disk is taken.
    refuse_name_in_use(node, candidate, what).await?;
    let disks = take_disks(node, candidate, view).await?;
    let encoded = ViewText::encode(view)
        .map_err(|e| ApiError::new(ErrorCode::System, what, e.to_string(), "Please report this"))?;
    let record = record(candidate, view, &disks);
    let stored = StoredVolume { record, view: encoded };
    match ask(node, candidate, stored, what).await? {
        Answer::Done => {}
        Answer::NameInUse => return Err(refusals::name_in_use(what, &candidate.name)),
        Answer::Newest(_) | Answer::Changed(_) | Answer::WasDeleted(_) | Answer::NoVolume => {
            return Err(moved(what));
        }
        Answer::GivenUp => return Err(refusals::being_deleted(what)),
        other => return Err(unexpected(what, &other)),
    }
    stop::report(node, view).await;
    if let Err(error) = start::adopt(node, turn, what).await {
        warnings.push(format!(
            "volume {} is assembled, and its replicas have not adopted that yet: {}. They do when it is attached",
            candidate.name, error.why
        ));
    }
    Ok(())
}

/// Asks for it; once more if the coordinator says that the volume was deleted, as a request that
/// comes late must not bring one back that was deleted since.
async fn ask(
    node: &Node,
    candidate: &Candidate,
    volume: StoredVolume,
    what: &str,
) -> Result<Answer, ApiError> {
    let known = candidate.known.as_ref();
    let request = |stands| Request::Assemble {
        volume: Box::new(volume.clone()),
        replaces: known.map(|(_, view)| view.generation.0),
        stands: Some(stands),
        node: node.identity.node.to_string(),
    };
    let stands = known.map_or(Standing::Nothing, |(now, _)| Standing::Volume(now.view.clone()));
    let began = Instant::now();
    match node.coordinator.ask(what, request(stands)).await? {
        Answer::WasDeleted(last) if known.is_none() && !asker_has_gone_since(began) => {
            node.coordinator.ask(what, request(Standing::Deleted(last))).await
        }
        answer => Ok(answer),
    }
}

/// # Errors
/// If another volume of the cluster has the name, or the coordinator does not answer.
pub(super) async fn refuse_name_in_use(
    node: &Node,
    candidate: &Candidate,
    what: &str,
) -> Result<(), ApiError> {
    let named = Request::Read { volume: candidate.name.clone() };
    match node.coordinator.ask(what, named).await? {
        Answer::Volume(other) if other.record.id != candidate.id.to_string() => {
            Err(refusals::name_in_use(what, &candidate.name))
        }
        _ => Ok(()),
    }
}

/// What has to be a disk of this node is made one. Returns the names of the disks by replica.
async fn take_disks(
    node: &Arc<Node>,
    candidate: &Candidate,
    view: &View,
) -> Result<BTreeMap<ReplicaId, String>, ApiError> {
    let in_view = |replica: &&Replica| view.replica(replica.superblock.replica).is_some();
    let replicas: Vec<&Replica> = candidate.replicas.iter().filter(in_view).collect();
    let needed: BTreeSet<PathBuf> = replicas.iter().filter_map(|r| r.needs.clone()).collect();
    let mut added = BTreeMap::new();
    for path in needed {
        let (add, place) = (path.clone(), path.display().to_string());
        let added_disk = node.blocking(move |node| {
            let name = node.disks.free_name(&add);
            node.disks.add(&add, Some(name), false)
        });
        let (disk, opened) = added_disk.await?;
        open::open_all(node, opened).await;
        tracing::info!(disk = disk.name, path = place, "a disk was added for an assembly");
        added.insert(path, disk.name);
    }
    let name = |replica: &&Replica| {
        let added = replica.needs.as_ref().and_then(|path| added.get(path)).cloned();
        let disk = replica.disk.clone().or(added)?;
        Some((replica.superblock.replica, disk))
    };
    Ok(replicas.iter().filter_map(name).collect())
}

/// What the coordinator stores of the volume besides its view.
fn record(candidate: &Candidate, view: &View, disks: &BTreeMap<ReplicaId, String>) -> VolumeRecord {
    let known = candidate.known.as_ref().map(|(stored, _)| &stored.record);
    let placed = |(mirror, record): (usize, &ReplicaRecord)| {
        let id = record.id.to_string();
        let before = known.and_then(|known| known.replicas.iter().find(|p| p.id == id));
        let disk = disks.get(&record.id).cloned();
        let disk = disk.or_else(|| before.map(|placed| placed.disk.clone()));
        let node = record.node.to_string();
        PlacedReplica {
            id,
            mirror,
            node,
            disk: disk.unwrap_or_else(|| "?".into()),
            removed: false,
            maker: None,
        }
    };
    let mut replicas: Vec<PlacedReplica> = view.replicas().map(placed).collect();
    let removed = known.into_iter().flat_map(|known| &known.replicas);
    let is_new = |placed: &&PlacedReplica| !replicas.iter().any(|p| p.id == placed.id);
    let removed: Vec<PlacedReplica> = removed.filter(is_new).cloned().collect();
    replicas.extend(removed);
    VolumeRecord {
        id: candidate.id.to_string(),
        name: candidate.name.clone(),
        no_data: known.map_or_else(NoData::default, |known| known.no_data),
        replicas,
        stopped: false,
        checksums: candidate.replicas.iter().any(|replica| replica.superblock.has_checksums),
        used_on: known.and_then(|known| known.used_on.clone()),
        wanted_on: known.map(|known| known.wanted_on.clone()).unwrap_or_default(),
        // Of what has been put together nothing is known.
        verified: None,
        revision: known.map_or(0, |known| known.revision),
        lost: known.map(|known| known.lost.clone()).unwrap_or_default(),
    }
}
