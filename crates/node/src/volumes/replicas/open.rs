//! Gives replicas whose files are open to the engine, at the start and whenever a disk has come
//! back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::ApiError;
use evenkeel_engine::EngineError;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::disks::{OpenReplica, Probe};
use crate::volumes::Node;

/// How long whoever gives replicas to the engine waits for their disks.
const OPENING: Duration = Duration::from_secs(5);
/// Replicas of one disk that are opened at once: each takes a thread meanwhile.
const OPENED_AT_ONCE: usize = 8;

/// Gives replicas that were found to the engine, those of different disks at the same time. One
/// that it refuses is reported and left alone; one whose disk does not answer in time is served
/// as soon as it does.
pub async fn open_all(node: &Arc<Node>, opened: Vec<OpenReplica>) {
    let end = Instant::now() + OPENING;
    let mut disks: BTreeMap<_, Arc<Semaphore>> = BTreeMap::new();
    let begin = |replica: OpenReplica| {
        let id = replica.newest.superblock.replica;
        let turns = disks
            .entry(node.disks.disk_of(id))
            .or_insert_with(|| Arc::new(Semaphore::new(OPENED_AT_ONCE)));
        let (node, turns) = (node.clone(), turns.clone());
        let task = tokio::spawn(async move {
            let _turn = turns.acquire().await;
            open_one(node, replica).await;
        });
        (id, task)
    };
    let tasks: Vec<_> = opened.into_iter().map(begin).collect();
    for (replica, task) in tasks {
        if timeout_at(end, task).await.is_err() {
            tracing::warn!(%replica, "a replica is not served yet: its disk does not answer");
            node.disks.in_engine().note_slow(replica);
        }
    }
}

async fn open_one(node: Arc<Node>, replica: OpenReplica) {
    let id = replica.newest.superblock.replica;
    let _held = node.volumes.replica(id).await;
    // It may have been deleted, or its volume stopped, since its disk was opened.
    if !node.disks.is_open(id) {
        return;
    }
    let path = replica.path.display().to_string();
    let settings = node.config.settings();
    match node.data.open_replica(replica, &node.identity, settings).await {
        Ok(()) => node.disks.in_engine().note_served(id),
        // What the system reports may pass.
        Err(EngineError::System(error)) if error.raw_os_error().is_some() => {
            tracing::warn!(path, %error, "a replica cannot be served yet");
            node.disks.in_engine().note_trouble(id, error);
        }
        Err(error) => {
            node.disks.in_engine().note_problem(id, &error.to_string());
            node.warn(format!("the replica {path} is not served: {error}"));
        }
    }
}

/// Opens a disk or a replica, and gives what was opened to the engine.
pub async fn open_again(node: Arc<Node>, probe: Probe) {
    let opened: Result<_, ApiError> = node.blocking(|node| Ok(node.disks.open_again(probe))).await;
    match opened {
        Ok(opened) => serve(node, opened).await,
        Err(error) => node.warn(error.to_string()),
    }
}

/// Gives what was opened late to the engine, unless the daemon ends.
pub async fn serve(node: Arc<Node>, opened: Vec<OpenReplica>) {
    if !node.stopping.has_begun() {
        open_all(&node, opened).await;
    }
}
