//! Closing a file while its disk hangs.

use std::fs::OpenOptions;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::hanging::HangingFile;
use crate::common::{Cluster, Shape};
use evenkeel_engine::RoomStep;
use evenkeel_format::disk_length;

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

/// Whoever asks for a replica to be closed that is being closed is told when it is, too.
#[test]
fn all_who_close_a_replica_are_answered() {
    const MORE: u64 = 32 << 20;
    let cluster = Cluster::start(Shape::default());
    cluster.close_replica(0, 0, 0);
    let path = cluster.path(0, 0);
    let room = OpenOptions::new().write(true).open(&path).expect("opens");
    room.set_len(disk_length(MORE)).expect("sized");
    let Some(file) = HangingFile::over(&path) else {
        return eprintln!("skipped: no FUSE can be mounted here");
    };
    cluster.open_replica(0, 0, 0, 2).expect("opens");
    file.hang(true);
    let (volume, replica) = (cluster.volume, cluster.replica(0, 0));
    // Orders are obeyed in turn, so the disk is busy with this when it is to be closed.
    let step = RoomStep::MoveMetadata;
    cluster.engines[0].make_room(volume, replica, MORE, step, None, |_| ());
    let close = || {
        let (sender, closed) = channel();
        cluster.engines[0].close_replica(volume, replica, move |result| {
            let _ = sender.send(result);
        });
        closed
    };
    let closed = [close(), close()];
    let early = closed[1].recv_timeout(Duration::from_millis(100));
    file.hang(false);
    assert!(early.is_err(), "closed while its disk hangs: {early:?}");
    for closed in closed {
        let result = closed.recv_timeout(PATIENCE).expect("an answer");
        assert!(result.is_ok(), "{result:?}");
    }
}
