//! The end of an engine while the closing of a file hangs.

mod common;

use std::sync::mpsc::channel;
use std::time::Duration;

use common::hanging::HangingFile;
use common::{Cluster, Shape};

/// For what would not come at all.
const PATIENCE: Duration = Duration::from_secs(120);

/// Closing a file waits for its disk. The engine waits for that too, but not for ever.
#[test]
fn an_engine_stops_while_a_disk_hangs() {
    let cluster = Cluster::start(Shape::default());
    cluster.close_replica(0, 0, 0);
    let Some(file) = HangingFile::over(&cluster.path(0, 0)) else {
        return eprintln!("skipped: no FUSE can be mounted here");
    };
    cluster.open_replica(0, 0, 0, 2).expect("opens");
    file.hang(true);
    let engine = cluster.engines[0].clone();
    let (sender, stopped) = channel();
    std::thread::spawn(move || {
        engine.stop();
        let _ = sender.send(());
    });
    let is_stopped = stopped.recv_timeout(PATIENCE).is_ok();
    file.hang(false);
    assert!(is_stopped, "the engine waits for a disk that hangs");
}
