use super::super::sweep::tests::{delete_record, with_volume};
use super::*;

/// Whoever makes a replica larger zeroes its device, for hours perhaps. If the replica were deleted
/// meanwhile, another volume's data would lie there.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_grows_is_deleted_when_the_growth_has_let_go_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = with_volume(directory.path(), &["web"]).await;
    let node = daemon.node();
    let (replica, volume) = node.disks.finished_replicas()[0];
    delete_record(node, volume).await;

    let growth = node.volumes.replica(replica).await;
    let recall = growth.recall();
    let length = 8 << 20;
    let make_room = move |node: &Node| node.disks.make_room(replica, length, recall);
    let room = node.blocking(make_room).await.unwrap();
    let range = (16 << 20)..(17 << 20);
    room.zero(&range).unwrap();
    assert_eq!(growth.recall().percent(), Some(0), "one step, which has begun");

    // It zeroes all the time, as on a slow device, until it is asked to stop.
    let at = node.clone();
    let zeroing = tokio::task::spawn_blocking(move || {
        let error = loop {
            if let Err(error) = room.zero(&range) {
                break error;
            }
        };
        let is_there_still = at.disks.finished_replicas() == [(replica, volume)];
        drop((room, growth));
        (error, is_there_still)
    });
    assert!(delete_replica(node, volume, replica).await.unwrap());
    assert!(zeroing.is_finished(), "the device is free, and is zeroed still");
    let (error, is_there_still) = zeroing.await.unwrap();
    assert!(error.why.contains("deleted") && is_there_still, "{error}");
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
    close_replica(node, volume, replica).await.unwrap();
    let reopen = move |node: &Node| {
        let probes = node.disks.reopen(volume).unwrap();
        Ok(probes.into_iter().flat_map(|probe| node.disks.open_again(probe)).collect::<Vec<_>>())
    };
    let opened = node.blocking(reopen).await.unwrap();
    assert_eq!(opened.len(), 1);
    delete_record(node, volume).await;
    assert!(delete_replica(node, volume, replica).await.unwrap());
    node.open_replicas(opened).await;
    let closed = node.data.close_replica(volume, replica).await;
    assert!(matches!(closed, Err(EngineError::Unknown)), "{closed:?}");
    daemon.stop().await;
}
