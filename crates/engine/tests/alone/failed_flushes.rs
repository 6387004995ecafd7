//! A flush that fails on the drive of open replicas: it counts for all replicas there.

use std::time::Duration;

use crate::common::client::Request;
use crate::common::{Cluster, Shape, pattern};
use evenkeel_engine::EngineEvent;
use rustix::fs::{Mode, OFlags, open};

/// A drive tells the failure of a flush nobody but who asked for it. Here that is somebody who
/// makes room, or another replica: what the client wrote before may be lost, though each flush of
/// its own says that all is well.
#[test]
fn a_flush_that_fails_elsewhere_on_the_drive_fails_the_next_one_of_a_client() {
    let _alone = crate::alone();
    let mut cluster = Cluster::start(Shape::default());
    cluster.attach();
    let client = cluster.client();
    client.write(0, pattern(1, 1 << 20));
    let path = cluster.path(0, 0);
    // It lies on the drive, and can't be flushed.
    let other = open(path.parent().unwrap(), OFlags::PATH, Mode::empty()).unwrap();
    evenkeel_engine::flush(&other).expect_err("it can't be flushed");
    cluster.wait_for(
        "the core is told",
        |e| matches!(e, EngineEvent::DiskError { reason, .. } if reason.contains("flush of its drive")),
    );
    let answer =
        client.begin(Request::Flush).recv_timeout(Duration::from_secs(60)).expect("in time");
    assert!(answer.is_err(), "{answer:?}");
}
