//! Disks that could not be opened are opened again, until they are or the daemon ends.

use std::sync::Arc;
use std::time::Instant;

use crate::api::ApiError;
use crate::disks::{OpenReplica, Probe};
use crate::node::Node;

/// Opens again what is due, until the daemon ends. What is opened is given to the engine: the volumes
/// that wait for it go on by themselves.
pub async fn reopen(node: Arc<Node>) {
    let mut stopping = node.stopping.subscribe();
    loop {
        let now = Instant::now();
        for probe in node.disks.due(now) {
            // One disk that hangs keeps no other one waiting.
            tokio::spawn(open(node.clone(), probe));
        }
        let opened = node.blocking(move |node| node.disks.open_replicas_again(now)).await;
        serve(&node, opened).await;
        tokio::select! {
            () = node.disks.until_due() => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
    }
}

async fn open(node: Arc<Node>, probe: Probe) {
    let opened = node.blocking(move |node| node.disks.open_again(probe)).await;
    serve(&node, opened).await;
}

async fn serve(node: &Node, opened: Result<Vec<OpenReplica>, ApiError>) {
    match opened {
        Ok(_) if *node.stopping.borrow() => {}
        Ok(opened) => node.open_replicas(opened).await,
        Err(error) => node.warn(error.to_string()),
    }
}
