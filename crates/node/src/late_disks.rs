//! Disks and replicas that could not be opened are opened again, until they are or the daemon ends.

use std::sync::Arc;
use std::time::Instant;

use evenkeel_api::ApiError;

use crate::disks::{OpenReplica, Probe};
use crate::node::Node;

/// Opens again what is due, until the daemon ends. What is opened is given to the engine: the
/// volumes that wait for it go on by themselves.
pub async fn reopen(node: Arc<Node>) {
    let mut stopping = node.stopping.subscribe();
    // Not one of the runtime's threads: it may wait for ever, and nothing at the end waits for it.
    let (at, runtime) = (node.clone(), tokio::runtime::Handle::current());
    std::thread::spawn(move || {
        let serve_one = |opened| drop(runtime.spawn(serve(at.clone(), opened)));
        at.disks.serve_late(serve_one);
    });
    loop {
        for probe in node.disks.due(Instant::now()) {
            // One that hangs keeps no other one waiting.
            tokio::spawn(open(node.clone(), probe));
        }
        tokio::select! {
            () = node.disks.until_due() => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
    }
}

/// Opens a disk or a replica, and gives what was opened to the engine.
pub async fn open(node: Arc<Node>, probe: Probe) {
    let opened: Result<_, ApiError> = node.blocking(|node| Ok(node.disks.open_again(probe))).await;
    match opened {
        Ok(opened) => serve(node, opened).await,
        Err(error) => node.warn(error.to_string()),
    }
}

async fn serve(node: Arc<Node>, opened: Vec<OpenReplica>) {
    if !*node.stopping.borrow() {
        node.open_replicas(opened).await;
    }
}
