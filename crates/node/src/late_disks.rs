//! Disks and replicas that could not be opened are opened again, until they are or the daemon ends.

use std::sync::Arc;
use std::time::Instant;

use crate::volumes::Node;
use crate::volumes::replicas::open;

/// Opens again what is due, until the daemon ends. What is opened is given to the engine: the
/// volumes that wait for it go on by themselves.
pub async fn reopen(node: Arc<Node>) {
    // Not one of the runtime's threads: it may wait for ever, and nothing at the end waits for it.
    let (at, runtime) = (node.clone(), tokio::runtime::Handle::current());
    std::thread::spawn(move || {
        let serve_one = |opened| drop(runtime.spawn(open::serve(at.clone(), opened)));
        at.disks.serve_late(serve_one);
    });
    loop {
        for probe in node.disks.due(Instant::now()) {
            // One that hangs keeps no other one waiting.
            tokio::spawn(open::open_again(node.clone(), probe));
        }
        if node.unless_stopping(node.disks.until_due()).await.is_none() {
            return;
        }
    }
}
