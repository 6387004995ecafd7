use std::fs::File;

use evenkeel_format::disk_length;
use hanging::HangingFile;

use super::super::sweep::tests::{delete_record, set_stopped, with_volume};
use super::*;
use crate::peer::requests::MakeSpace;
use crate::volumes::commands::grow;

#[allow(dead_code, reason = "of what the file can do a part is used here")]
#[path = "../../../../../engine/tests/common/hanging.rs"]
mod hanging;

/// Closes a replica; no sweep opens it before this test does.
async fn close_for_now(node: &Arc<Node>, volume: VolumeId, replica: ReplicaId) {
    set_stopped(node, volume, true).await;
    close_replica(node, volume, replica).await.unwrap();
    assert!(node.disks.is_closed(replica));
}

/// Whoever makes a replica larger zeroes its device, for hours perhaps. If the replica were deleted
/// meanwhile, another volume's data would lie there.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_grows_on_a_slow_device_is_deleted_when_the_growth_has_let_go_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = with_volume(directory.path(), &["web"]).await;
    let node = daemon.node();
    let (replica, volume) = node.disks.finished_replicas()[0];
    // In four steps of 1 GiB, each of which takes three seconds.
    let length = 4 << 30;
    close_for_now(node, volume, replica).await;
    let (path, _) = node.disks.place_of(replica).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(disk_length(length)).unwrap();
    let Some(device) = HangingFile::over(&path) else {
        return eprintln!("skipped: no FUSE can be mounted here");
    };
    device.slow_zeroing(Duration::from_secs(3));
    set_stopped(node, volume, false).await;
    open_volume(node, volume).await.unwrap();
    let (at, wanted) = (node.clone(), MakeSpace { length, spare_in: None });
    let growth = tokio::spawn(async move { grow::here(&at, volume, replica, &wanted).await });
    while device.zeroings() == 0 {
        assert!(!growth.is_finished(), "{:?}", growth.await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // What is mounted over a file keeps it from being deleted.
    device.unmount();
    delete_record(node, volume).await;
    assert!(delete_replica(node, volume, replica).await.unwrap());
    assert!(growth.is_finished(), "the device is free, and is zeroed still");
    let error = growth.await.unwrap().unwrap_err();
    assert!(error.why.contains("deleted"), "{error}");
    let zeroed = device.zeroings();
    assert!(zeroed < 4, "it was zeroed to the end");
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(device.zeroings(), zeroed, "it is zeroed after it was given back");
    assert_eq!(node.disks.finished_replicas(), []);
    daemon.stop().await;
}

/// What the engine is given late is not served once it is deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_was_deleted_since_it_was_opened_is_not_given_to_the_engine() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = with_volume(directory.path(), &["web"]).await;
    let node = daemon.node();
    let (replica, volume) = node.disks.finished_replicas()[0];
    close_for_now(node, volume, replica).await;
    let reopen = move |node: &Node| {
        let probes = node.disks.reopen(volume).unwrap();
        Ok(probes.into_iter().flat_map(|probe| node.disks.open_again(probe)).collect::<Vec<_>>())
    };
    let opened = node.blocking(reopen).await.unwrap();
    assert_eq!(opened.len(), 1);
    delete_record(node, volume).await;
    assert!(delete_replica(node, volume, replica).await.unwrap());
    crate::volumes::replicas::open::open_all(node, opened).await;
    let closed = node.data.close_replica(volume, replica).await;
    assert!(matches!(closed, Err(EngineError::Unknown)), "{closed:?}");
    daemon.stop().await;
}

/// A restart must not open what was closed, so that is remembered first.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_not_closed_if_that_cannot_be_remembered() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = with_volume(directory.path(), &["web"]).await;
    let node = daemon.node();
    let (replica, volume) = node.disks.finished_replicas()[0];
    let in_the_way = node.config.state.join("stopped.json");
    std::fs::create_dir(&in_the_way).unwrap();
    set_stopped(node, volume, true).await;
    let error = close_replica(node, volume, replica).await.unwrap_err();
    assert!(error.action.contains("state directory"), "{error}");
    assert!(node.disks.is_open(replica));
    let status = node.data.volume_status(volume).await.expect("the engine has it");
    assert_eq!(status.replicas.len(), 1);

    std::fs::remove_dir(&in_the_way).unwrap();
    close_replica(node, volume, replica).await.unwrap();
    assert!(node.disks.is_closed(replica));
    assert!(node.data.volume_status(volume).await.is_none());
    daemon.stop().await;
}

/// It would be listed as served.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_replica_that_the_engine_does_not_take_is_not_called_served() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = with_volume(directory.path(), &["web"]).await;
    let node = daemon.node();
    let engine = node.data.engine().clone();
    tokio::task::spawn_blocking(move || engine.stop()).await.unwrap();
    let new = crate::disks::tests::new(1 << 20);
    let replica = new.superblock.replica;
    create_replica(node, "d".into(), new).await.unwrap_err();
    assert!(!node.disks.is_open(replica), "nobody has its file open");
    assert!(node.disks.why_not_served(replica).is_some());
    daemon.stop().await;
}
