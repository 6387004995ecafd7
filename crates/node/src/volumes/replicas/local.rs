//! Replicas on this node's disks: made and deleted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::{ReplicaId, ReplicaRecord, ReplicaState, VolumeId};
use evenkeel_engine::{EngineError, OpenReplicaStatus};
use evenkeel_format::Superblock;
use tokio::time::{Instant, timeout, timeout_at};

use super::make::report_in_the_end;
use super::open::{give, open_again};
use crate::coordinator::{Answer, Fate, FoundReplica, Maker, Request, StoredVolume, ViewText};
use crate::disks::NewReplica;
use crate::volumes::Node;
use crate::volumes::lookup::{find, unexpected};

/// How long whoever asks for a replica to be closed or deleted waits for others to let go of it,
/// and then for its disk. What has not ended by then goes on by itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// Makes a replica on a disk of this node and gives it to the engine.
///
/// # Errors
/// If the disk has no room, or fails.
pub async fn create_replica(
    node: &Arc<Node>,
    disk: String,
    new: NewReplica,
) -> Result<(), ApiError> {
    let what = format!("cannot serve a new replica of {}", new.superblock.name);
    let _held = node.volumes.replica(new.superblock.replica).await;
    let opened = node.blocking(move |node| node.disks.create_replica(&disk, &new)).await?;
    give(node, opened).await.map_err(|e| {
        ApiError::new(
            ErrorCode::System,
            what,
            e.to_string(),
            "See the node's log, choose another disk",
        )
    })
}

/// Does something with a replica of this node that nobody else does anything with, and asks whoever
/// does to stop. It is a task of its own: if the disk hangs nobody waits for it for good, and
/// nothing else is begun with that replica.
async fn alone<T: Send + 'static>(
    node: &Arc<Node>,
    replica: ReplicaId,
    what: &str,
    work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    let slow = |why: &str| {
        let why = format!("{why} after {} s; its disk may hang", PATIENCE.as_secs());
        let advice = "It is done as soon as that has ended: see `evenkeel disk list` of its node, and the kernel's log";
        ApiError::new(ErrorCode::WrongState, what, why, advice)
    };
    let held = timeout(PATIENCE, node.volumes.recall(replica)).await;
    let held = held.map_err(|_| slow("what else is done with the replica has not ended"))?;
    let task = tokio::spawn(async move {
        let done = work.await;
        drop(held);
        done
    });
    match timeout(PATIENCE, task).await {
        Ok(Ok(done)) => done,
        Ok(Err(e)) => {
            let advice = "Please report this, with the node's log";
            Err(ApiError::new(ErrorCode::System, what, e.to_string(), advice))
        }
        Err(_) => Err(slow("the replica is not closed")),
    }
}

/// Closes a replica on this node, if its volume is stopped, and keeps it closed.
///
/// # Errors
/// If the engine does not let go of it, or not in time, or it cannot be remembered.
pub async fn close_replica(
    node: &Arc<Node>,
    volume: VolumeId,
    replica: ReplicaId,
) -> Result<(), ApiError> {
    let what = format!("cannot close replica {replica} of volume {volume}");
    let (at, what_fails) = (node.clone(), what.clone());
    alone(node, replica, &what, async move {
        // Whoever asked may have an old answer of the coordinator's. The next sweep asks anew.
        if !is_stopped(&at, volume, replica).await {
            return Ok(());
        }
        close(&at, volume, replica, what_fails).await
    })
    .await
}

/// The replicas of a disk that are closed, and that the coordinator says no volume has any more:
/// they could not be deleted, because their disk fails or is away.
pub async fn unwanted_on(node: &Node, disk: &str) -> BTreeSet<ReplicaId> {
    unwanted(node, &node.disks.closed_on(disk)).await
}

/// Of these replicas, with their volumes, those that the coordinator says no volume has any more;
/// none if it does not answer.
async fn unwanted(node: &Node, replicas: &[(ReplicaId, VolumeId)]) -> BTreeSet<ReplicaId> {
    if replicas.is_empty() {
        return BTreeSet::new();
    }
    let found = |(replica, volume): &(ReplicaId, VolumeId)| FoundReplica {
        volume: volume.to_string(),
        replica: replica.to_string(),
    };
    let question = Request::Fates(replicas.iter().map(found).collect());
    let Ok(Answer::Fates(fates)) = node.coordinator.call_once(question).await else {
        return BTreeSet::new();
    };
    let both = replicas.iter().zip(fates);
    both.filter(|(_, fate)| *fate == Fate::Deleted).map(|((replica, _), _)| *replica).collect()
}

/// The same of what lies on a disk that is to be added.
pub async fn unwanted_of<'a>(node: &Node, found: &'a [Superblock]) -> Vec<&'a Superblock> {
    let replicas: Vec<_> = found.iter().map(|found| (found.replica, found.volume)).collect();
    let unwanted = unwanted(node, &replicas).await;
    found.iter().filter(|found| unwanted.contains(&found.replica)).collect()
}

/// That replicas of a disk which was added go with the next sweep, a sentence each.
pub async fn reported_of_unwanted(node: &Node, found: &[Superblock]) -> Vec<String> {
    let mut reported = Vec::new();
    for found in unwanted_of(node, found).await {
        let (replica, name) = (found.replica, volume_name(node, found).await);
        reported.push(format!(
            "its replica {replica} of volume {name} is deleted within a minute: no volume has it any more"
        ));
    }
    reported
}

/// How long the coordinator may take to tell the names of volumes.
const NAMES: Duration = Duration::from_secs(1);

/// Has this node's replicas called by the names that their volumes have now: a superblock keeps the
/// name that its volume had when the replica was made. Without the coordinator they are called as
/// they were.
pub async fn learn_names(node: &Node) {
    if !node.coordinator.status().reachable {
        return;
    }
    let asked = node.coordinator.call_once(Request::Volumes);
    // They are called as they were.
    let Ok(Ok(Answer::Volumes(volumes))) = timeout(NAMES, asked).await else { return };
    let named = |stored: StoredVolume| Some((stored.record.id.parse().ok()?, stored.record.name));
    node.disks.learn_names(&volumes.into_iter().filter_map(named).collect());
}

/// The name of a replica's volume now, or the one that the replica knows if there is no such volume
/// any more.
pub async fn volume_name(node: &Node, superblock: &Superblock) -> String {
    let found = find(node, "", &superblock.volume.to_string()).await;
    found.map_or_else(|_| superblock.name.clone(), |found| found.stored.record.name)
}

/// Whether the coordinator says now that a replica is one of a stopped volume.
async fn is_stopped(node: &Node, volume: VolumeId, replica: ReplicaId) -> bool {
    let found = FoundReplica { volume: volume.to_string(), replica: replica.to_string() };
    let answer = node.coordinator.call_once(Request::Fates(vec![found])).await;
    matches!(answer, Ok(Answer::Fates(fates)) if fates == [Fate::Stopped])
}

async fn close(
    node: &Arc<Node>,
    volume: VolumeId,
    replica: ReplicaId,
    what: String,
) -> Result<(), ApiError> {
    // A restart between the two must not open it.
    let what_fails = what.clone();
    let stop = node.blocking(move |node| {
        node.disks.stop(volume).map_err(|e| {
            let advice = "Repair the state directory's file system, then stop the volume again";
            ApiError::new(ErrorCode::System, what_fails, e.to_string(), advice)
        })
    });
    stop.await?;
    close_in_engine(node, volume, replica, &what, "Try again; see the node's log").await?;
    note_closed(node, replica).await
}

/// The engine has closed a replica of a stopped volume, or one that is to be opened anew.
async fn note_closed(node: &Arc<Node>, replica: ReplicaId) -> Result<(), ApiError> {
    let note = move |node: &Node| {
        node.disks.close_replica(replica);
        Ok(())
    };
    node.blocking(note).await
}

/// Opens the replica of a device anew that was pulled out and put back: what is open of it is the
/// one that was pulled, of which every operation fails. The primary takes it for one whose machine
/// has restarted.
pub async fn reopen_replica(node: &Arc<Node>, volume: VolumeId, replica: ReplicaId) {
    let what = format!("cannot open replica {replica} anew, whose device was put back");
    let (at, what_fails) = (node.clone(), what.clone());
    let reopened = alone(node, replica, &what, async move {
        // An earlier look may have seen to it.
        if !at.disks.looks().is_missing(replica) {
            return Ok(());
        }
        tracing::warn!(%volume, %replica, "its device was pulled out and put back: it is opened anew");
        close_in_engine(&at, volume, replica, &what_fails, "Restart this node's daemon").await?;
        note_closed(&at, replica).await
    });
    if let Err(error) = reopened.await {
        tracing::warn!("{error}");
    }
}

/// Closes all replicas of a disk whose file system fails, and lets go of it: then it can be
/// unmounted, repaired and mounted again. If it can be read still, those stay that are of use. The
/// next look tries again if one is not closed.
pub async fn let_go(node: &Arc<Node>, disk: u64) {
    let mut closed = Vec::new();
    for (volume, replica) in node.disks.failing().served_of(disk) {
        if node.disks.failing().can_be_read(disk) && is_of_use(node, volume, replica).await {
            continue;
        }
        let what = format!("cannot close replica {replica}, whose file system fails");
        let (at, what_fails) = (node.clone(), what.clone());
        let done = alone(node, replica, &what, async move {
            close_in_engine(&at, volume, replica, &what_fails, "It is tried again").await
        });
        match done.await {
            Ok(()) => closed.push(replica),
            Err(error) => tracing::warn!("{error}"),
        }
    }
    let let_go = move |node: &Node| {
        node.disks.failing().let_go(disk, &closed);
        node.disks.remember_mounts();
        Ok(())
    };
    if let Err(error) = node.blocking(let_go).await {
        tracing::warn!("{error}");
    }
}

/// Whether somebody reads a replica that cannot be written: a primary for which it is in-sync, in
/// the view that it has adopted.
async fn is_of_use(node: &Node, volume: VolumeId, replica: ReplicaId) -> bool {
    let status = node.data.volume_status(volume).await;
    let open = status.and_then(|s| s.replicas.into_iter().find(|open| open.core.id == replica));
    open.is_some_and(|OpenReplicaStatus { core, .. }| {
        let is_in_sync = |record: &ReplicaRecord| record.state == ReplicaState::InSync;
        !core.is_adopting
            && !core.sessions.is_empty()
            && core.view.replica(replica).is_some_and(|(_, record)| is_in_sync(record))
    })
}

/// Has the engine close a replica; it need not be open.
async fn close_in_engine(
    node: &Node,
    volume: VolumeId,
    replica: ReplicaId,
    what: &str,
    advice: &str,
) -> Result<(), ApiError> {
    match node.data.close_replica(volume, replica).await {
        Ok(()) | Err(EngineError::Unknown) => Ok(()),
        Err(e) => Err(ApiError::new(ErrorCode::System, what, e.to_string(), advice)),
    }
}

/// Opens the replicas of a stopped volume on this node again. One whose disk does not answer for
/// some time is opened as soon as it does.
///
/// # Errors
/// If it cannot be remembered. A replica that cannot be opened is told by `disk list`.
pub async fn open_volume(node: &Arc<Node>, volume: VolumeId) -> Result<(), ApiError> {
    let probes = node.blocking(move |node| {
        node.disks.reopen(volume).map_err(|e| {
            let what = format!("cannot open the replicas of volume {volume}");
            let advice = "Repair the state directory's file system, then assemble it again";
            ApiError::new(ErrorCode::System, what, e.to_string(), advice)
        })
    });
    let open = |probe| tokio::spawn(open_again(node.clone(), probe));
    let tasks: Vec<_> = probes.await?.into_iter().map(open).collect();
    let end = Instant::now() + PATIENCE;
    for task in tasks {
        if timeout_at(end, task).await.is_err() {
            tracing::warn!(%volume, "a replica is not open yet: its disk does not answer");
        }
    }
    Ok(())
}

/// Has the coordinator note that a replica is being deleted: no volume takes it up meanwhile. If it
/// refuses, returns what is to become of the replica.
async fn discard(
    node: &Arc<Node>,
    id: ReplicaId,
    found: &FoundReplica,
) -> Result<Option<Fate>, ApiError> {
    let what = format!("cannot delete replica {id}");
    let adopted = node.blocking(move |node| Ok(node.disks.newest_view(id))).await?;
    let adopted = adopted.and_then(|view| ViewText::encode(&view).ok());
    let adopted = adopted.ok_or_else(|| {
        let why = "its superblocks cannot be read, so nobody knows whether it is needed";
        let advice = "Repair its disk; or delete what is there by hand";
        ApiError::new(ErrorCode::WrongState, &what, why, advice)
    })?;
    let by = Maker {
        node: node.identity.node.to_string(),
        incarnation: node.identity.start.incarnation().0,
    };
    let request = Request::Discard { by, replica: found.clone(), view: Some(adopted) };
    match node.coordinator.ask(&what, request).await? {
        Answer::Done => Ok(None),
        Answer::Fates(fates) => Ok(Some(fates.first().copied().unwrap_or(Fate::Unknown))),
        other => Err(unexpected(&what, &other)),
    }
}

/// What has come of deleting a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// It is deleted.
    Done,
    /// It is not here.
    NotHere,
    /// The coordinator says something else of it.
    Refused(Fate),
}

/// As [`try_to_delete`]. `false`: it is not here.
///
/// # Errors
/// The same, and if the coordinator refuses.
pub async fn delete_replica(
    node: &Arc<Node>,
    volume: VolumeId,
    replica: ReplicaId,
) -> Result<bool, ApiError> {
    match try_to_delete(node, volume, replica).await? {
        Deletion::Done => Ok(true),
        Deletion::NotHere => Ok(false),
        Deletion::Refused(_) => {
            let what = format!("cannot delete replica {replica}");
            let why = "a volume has it, or the coordinator does not know it";
            let advice = "See `evenkeel volume list`";
            Err(ApiError::new(ErrorCode::WrongState, what, why, advice))
        }
    }
}

/// Closes a replica of this node and gives its space back. The coordinator decides: whoever asked
/// may have an old answer of its.
///
/// # Errors
/// If the replica is being made, the coordinator does not answer, or the disk fails or is slow. In
/// the last case it is deleted as soon as the disk answers.
pub async fn try_to_delete(
    node: &Arc<Node>,
    volume: VolumeId,
    replica: ReplicaId,
) -> Result<Deletion, ApiError> {
    if node.disks.place_of(replica).is_none() {
        return Ok(Deletion::NotHere);
    }
    // Else whoever asks would wait for that.
    node.disks.refuse_unfinished(replica)?;
    let at = node.clone();
    alone(node, replica, &format!("cannot delete replica {replica}"), async move {
        let found = FoundReplica { volume: volume.to_string(), replica: replica.to_string() };
        if let Some(fate) = discard(&at, replica, &found).await? {
            return Ok(Deletion::Refused(fate));
        }
        let deleted = delete_discarded(&at, volume, replica).await;
        report_in_the_end(&at, Request::Discarded(found)).await;
        if matches!(deleted, Ok(true)) {
            tracing::info!(%volume, %replica, "a replica that no volume has is deleted");
        }
        Ok(if deleted? { Deletion::Done } else { Deletion::NotHere })
    })
    .await
}

async fn delete_discarded(
    node: &Arc<Node>,
    volume: VolumeId,
    replica: ReplicaId,
) -> Result<bool, ApiError> {
    let what = format!("cannot delete replica {replica}");
    let advice = "It is deleted when the node starts again";
    close_in_engine(node, volume, replica, &what, advice).await?;
    node.blocking(move |node| node.disks.delete_replica(replica)).await
}

#[cfg(test)]
mod tests;
