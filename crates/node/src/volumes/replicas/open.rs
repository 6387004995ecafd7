//! Gives replicas whose files are open to the engine, at the start and whenever a disk has come
//! back.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::ApiError;
use evenkeel_engine::EngineError;
use tokio::sync::{Semaphore, oneshot};
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
        let (at, turns) = (node.clone(), turns.clone());
        let open = async move {
            let _turn = turns.acquire().await;
            open_one(at, replica).await;
        };
        let at = node.clone();
        spawn_until(end, open, move || {
            tracing::warn!(replica = %id, "a replica is not served yet: its disk does not answer");
            at.disks.in_engine().note_slow(id);
        })
    };
    let waits: Vec<_> = opened.into_iter().map(begin).collect();
    for wait in waits {
        // Nothing is sent: the other end is dropped.
        let _ = wait.await;
    }
}

/// Does some work in a task. If it is not done at `end`, `late` is called, and never after it is
/// done. The receiver's other end is dropped when one of both is so.
fn spawn_until(
    end: Instant,
    work: impl Future<Output = ()> + Send + 'static,
    late: impl FnOnce() + Send + 'static,
) -> oneshot::Receiver<()> {
    let (awaited, wait) = oneshot::channel();
    tokio::spawn(async move {
        let mut work = pin!(work);
        if timeout_at(end, work.as_mut()).await.is_err() {
            late();
            drop(awaited);
            work.await;
        }
    });
    wait
}

async fn open_one(node: Arc<Node>, replica: OpenReplica) {
    let id = replica.newest.superblock.replica;
    let _held = node.volumes.replica(id).await;
    // It may have been deleted, or its volume stopped, since its disk was opened.
    if !node.disks.is_open(id) {
        return;
    }
    let path = replica.path.display().to_string();
    match give(&node, replica).await {
        Ok(()) => {}
        Err(EngineError::System(error)) if error.raw_os_error().is_some() => {
            tracing::warn!(path, %error, "a replica cannot be served yet");
        }
        Err(error) => node.warn(format!("the replica {path} is not served: {error}")),
    }
}

/// Gives a replica whose file is open to the engine, and notes what comes of that.
///
/// # Errors
/// If the engine does not take it.
pub(super) async fn give(node: &Node, replica: OpenReplica) -> Result<(), EngineError> {
    let (id, settings) = (replica.newest.superblock.replica, node.config.settings());
    let given = node.data.open_replica(replica, &node.identity, settings).await;
    let in_engine = node.disks.in_engine();
    match &given {
        Ok(()) => in_engine.note_served(id),
        // What the system reports may pass.
        Err(EngineError::System(error)) if let Some(number) = error.raw_os_error() => {
            in_engine.note_trouble(id, std::io::Error::from_raw_os_error(number));
        }
        Err(error) => in_engine.note_problem(id, &error.to_string()),
    }
    given
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

#[cfg(test)]
mod tests;
