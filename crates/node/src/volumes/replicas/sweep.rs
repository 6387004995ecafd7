//! Replicas on this node's disks of which no volume knows any more: they are deleted. Those of
//! stopped volumes are closed, and opened again when the volume is assembled.
//!
//! A volume may have been deleted, or a creation cut off, while this node was away, or by a node
//! that died in the midst of it. So the coordinator is asked again and again what is to become of
//! the replicas here; only what it says was deleted is, and it says so once more when that is done
//! ([`try_to_delete`]).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_api::ApiError;
use evenkeel_core::{ReplicaId, VolumeId};
use tokio::time::{Instant, timeout_at};

use super::local::{Deletion, close_replica, open_volume, try_to_delete};
use crate::coordinator::{Answer, Fate, FoundReplica, Request};
use crate::keyed_lock::KeyedLock;
use crate::volumes::Node;
use crate::volumes::lock;

/// The pause between two sweeps.
const PAUSE: Duration = Duration::from_secs(30);
/// The pause while the coordinator does not answer.
const SHORT_PAUSE: Duration = Duration::from_secs(1);
/// How long whoever asks for a sweep waits for what it has begun: a disk may hang.
const PATIENCE: Duration = Duration::from_secs(25);
/// Replicas that are asked for at once: some 100 KiB of JSON.
const MAX_AT_ONCE: usize = 1000;

/// What one sweep leaves to the next.
#[derive(Debug, Default)]
pub(in crate::volumes) struct Sweeping {
    /// Held while this node asks what is to become of its replicas, and begins what follows from
    /// it.
    asking: tokio::sync::Mutex<()>,
    /// Replicas with which something is done. Each is a task of its own, so that one whose disk
    /// hangs keeps no other one waiting; no second one is begun for the same replica.
    under_way: KeyedLock<ReplicaId>,
    /// Those of which the log says already that nobody knows them.
    reported: Mutex<BTreeSet<ReplicaId>>,
}

/// What a sweep has come to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Swept {
    /// Replicas with which something was begun.
    begun: Vec<ReplicaId>,
    /// Those with which something is to be done, and an earlier sweep's doing has not ended.
    busy: Vec<ReplicaId>,
}

/// Sweeps until the daemon ends.
pub async fn sweeps(node: Arc<Node>) {
    loop {
        // Reachable: this life of the daemon is registered, and drafts of an earlier one are over.
        let swept = node.coordinator.status().reachable && sweep(&node).await.is_some();
        let pause = if swept { PAUSE } else { SHORT_PAUSE };
        if !node.pause(pause).await {
            return;
        }
    }
}

/// Looks at all replicas once, now, and waits for what is to be done with them. What fails is done
/// by the next sweep. Returns false if the coordinator does not answer, or something has not ended
/// in time: that goes on by itself.
pub async fn now(node: &Arc<Node>) -> bool {
    let end = Instant::now() + PATIENCE;
    loop {
        let Some(swept) = sweep(node).await else { return false };
        for replica in swept.begun.iter().chain(&swept.busy) {
            let ended = node.volumes.sweeping.under_way.lock(*replica);
            if timeout_at(end, ended).await.is_err() {
                return false;
            }
        }
        // What was under way followed from an older answer.
        if swept.busy.is_empty() {
            return true;
        }
    }
}

/// Looks at all replicas once, and begins what is to be done. `None`: the coordinator did not
/// answer.
async fn sweep(node: &Arc<Node>) -> Option<Swept> {
    let _alone = node.volumes.sweeping.asking.lock().await;
    let replicas = node.disks.finished_replicas();
    lock(&node.volumes.sweeping.reported)
        .retain(|replica| replicas.iter().any(|(id, _)| id == replica));
    let mut swept = Swept::default();
    for some in replicas.chunks(MAX_AT_ONCE) {
        let found = |(replica, volume): &(ReplicaId, VolumeId)| FoundReplica {
            volume: volume.to_string(),
            replica: replica.to_string(),
        };
        let question = Request::Fates(some.iter().map(found).collect());
        let Ok(Answer::Fates(fates)) = node.coordinator.call_once(question).await else {
            return None;
        };
        for ((replica, volume), fate) in some.iter().zip(fates) {
            begin(node, *replica, *volume, fate, &mut swept);
        }
    }
    Some(swept)
}

/// Begins what is to be done with a replica, unless something is done with it.
fn begin(node: &Arc<Node>, replica: ReplicaId, volume: VolumeId, fate: Fate, swept: &mut Swept) {
    let is_as_it_should = match fate {
        Fate::Belongs => !node.disks.is_stopped(volume),
        Fate::Stopped => node.disks.is_stopped(volume) && node.disks.is_closed(replica),
        Fate::Unknown => lock(&node.volumes.sweeping.reported).contains(&replica),
        Fate::Deleted | Fate::NeverMade => false,
    };
    if is_as_it_should {
        return;
    }
    let Some(alone) = node.volumes.sweeping.under_way.try_lock(replica) else {
        return swept.busy.push(replica);
    };
    swept.begun.push(replica);
    let node = node.clone();
    tokio::spawn(async move {
        carry_out(&node, replica, volume, fate).await;
        drop(alone);
    });
}

async fn carry_out(node: &Arc<Node>, replica: ReplicaId, volume: VolumeId, fate: Fate) {
    let done = match fate {
        Fate::Belongs => open_volume(node, volume).await,
        Fate::Stopped => close_replica(node, volume, replica).await,
        Fate::Deleted | Fate::NeverMade => delete(node, replica, volume).await,
        Fate::Unknown => {
            report_kept(node, replica, volume);
            Ok(())
        }
    };
    reported_if_failed(node, done);
}

async fn delete(node: &Arc<Node>, replica: ReplicaId, volume: VolumeId) -> Result<(), ApiError> {
    if node.volumes.get(volume).is_some() {
        // Deleted by force. Its primary learns that, and ends first.
        return Ok(());
    }
    let deleted = try_to_delete(node, volume, replica).await?;
    // What it is if it is something else the next sweep is told.
    if deleted == Deletion::Refused(Fate::Unknown) {
        report_kept(node, replica, volume);
    }
    Ok(())
}

fn report_kept(node: &Node, replica: ReplicaId, volume: VolumeId) {
    if lock(&node.volumes.sweeping.reported).insert(replica) {
        node.warn(format!(
            "replica {replica} of volume {volume} is kept: the coordinator does not know it, or knows less of it than its disk. It may come from another cluster, or the coordinator's database was restored from a backup or made anew: `evenkeel volume assemble --scan` tells what can be made of it"
        ));
    }
}

fn reported_if_failed(node: &Node, done: Result<(), ApiError>) {
    if let Err(error) = done {
        node.warn(error.to_string());
    }
}

#[cfg(test)]
pub(in crate::volumes) mod tests;
