//! Looks now and then whether what is open of each disk is still what lies at its path, and
//! remembers which files that are.

use std::sync::Arc;
use std::time::Duration;

use crate::disks::{Due, Look};
use crate::volumes::Node;
use crate::volumes::replicas::local;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(3);
/// Bytes of stack of a thread that asks the system, compares and logs.
const STACK: usize = 256 << 10;

/// Looks until the daemon ends.
pub async fn looks(node: Arc<Node>) {
    while node.pause(PAUSE).await {
        let at = node.clone();
        // It blocks on the state directory, and only if something has changed.
        drop(tokio::task::spawn_blocking(move || {
            at.disks.remember_files();
            at.disks.remember_mounts();
        }));
        node.disks.looks().begin().into_iter().for_each(|look| carry_out(node.clone(), look));
    }
}

/// In a thread of its own, and none of the runtime's: the path may hang for good, and nothing at
/// the end waits for it.
fn carry_out(node: Arc<Node>, look: Look) {
    let thread = std::thread::Builder::new().name("disk-look".into()).stack_size(STACK);
    let runtime = tokio::runtime::Handle::current();
    let look = move || match node.disks.looks().note_seen(look.carry_out()) {
        Some(Due::Reopen(volume, replica)) => {
            drop(runtime.spawn(async move { local::reopen_replica(&node, volume, replica).await }))
        }
        Some(Due::LetGo(disk)) => {
            drop(runtime.spawn(async move {
                local::let_go(&node, disk).await;
                node.disks.failing().let_go_ended(disk);
            }));
        }
        None => {}
    };
    if let Err(error) = thread.spawn(look) {
        tracing::warn!(%error, "no thread to look at a disk's path; it is looked at next time");
    }
}
