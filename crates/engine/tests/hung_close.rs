//! Closing a file while its disk hangs.

use std::fs::OpenOptions;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::common::client::{Answer, Request};
use crate::common::hanging::HangingFile;
use crate::common::{Cluster, Shape, pattern};
use evenkeel_core::Settings;
use evenkeel_engine::{EngineError, SpaceStep};
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

/// Bytes of data for which the replica gets room.
const MORE: u64 = 32 << 20;

/// Has the replica lie in a file that may hang. `None`: there can be none here.
fn hanging(cluster: &Cluster) -> Option<HangingFile> {
    cluster.close_replica(0, 0, 0);
    let path = cluster.path(0, 0);
    let room = OpenOptions::new().write(true).open(&path).expect("opens");
    room.set_len(disk_length(MORE)).expect("sized");
    let Some(file) = HangingFile::over(&path) else {
        eprintln!("skipped: no FUSE can be mounted here");
        return None;
    };
    cluster.open_replica(0, 0, 0, 2).expect("opens");
    Some(file)
}

/// From now on the disk hangs, and is busy when the replica is to be closed: orders are obeyed in
/// turn.
fn keep_busy(cluster: &Cluster, file: &HangingFile) {
    file.hang(true);
    let (volume, replica) = (cluster.volume, cluster.replica(0, 0));
    let step = SpaceStep::MoveMetadata;
    cluster.engines[0].make_space(volume, replica, MORE, step, None, |_| ());
}

fn begin_close(cluster: &Cluster) -> Receiver<Result<(), EngineError>> {
    let (sender, closed) = channel();
    cluster.engines[0].close_replica(cluster.volume, cluster.replica(0, 0), move |result| {
        let _ = sender.send(result);
    });
    closed
}

/// A replica that is being closed hears nothing. Its primary tries again, and reaches the one that
/// is opened after it.
#[test]
fn a_primary_does_not_wait_for_a_replica_that_is_being_closed() {
    let settings = Settings { deadline: 10 * PATIENCE, ..Settings::default() };
    let mut cluster = Cluster::start(Shape { settings, ..Shape::default() });
    let Some(file) = hanging(&cluster) else { return };
    cluster.attach();
    let client = cluster.client();
    client.write(0, pattern(1, 4096));
    assert_eq!(client.call(Request::Flush), Ok(Answer::Done));
    keep_busy(&cluster, &file);
    let closed = begin_close(&cluster);
    // By then it has tried.
    let early = closed.recv_timeout(Duration::from_millis(500));
    file.hang(false);
    assert!(early.is_err(), "closed while its disk hangs: {early:?}");
    assert!(closed.recv_timeout(PATIENCE).expect("an answer").is_ok());
    cluster.open_replica(0, 0, 0, 3).expect("opens");
    let write = client.begin(Request::Write(0, pattern(2, 4096), false));
    assert_eq!(write.recv_timeout(PATIENCE), Ok(Ok(Answer::Done)));
    cluster.detach();
}

/// Whoever asks for a replica to be closed that is being closed is told when it is, too.
#[test]
fn all_who_close_a_replica_are_answered() {
    let cluster = Cluster::start(Shape::default());
    let Some(file) = hanging(&cluster) else { return };
    keep_busy(&cluster, &file);
    let closed = [begin_close(&cluster), begin_close(&cluster)];
    let early = closed[1].recv_timeout(Duration::from_millis(100));
    file.hang(false);
    assert!(early.is_err(), "closed while its disk hangs: {early:?}");
    for closed in closed {
        let result = closed.recv_timeout(PATIENCE).expect("an answer");
        assert!(result.is_ok(), "{result:?}");
    }
}
