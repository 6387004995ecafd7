use evenkeel_api::types::CreateVolumeRequest;
use serde_json::json;

use super::*;
use crate::volumes::commands::create;
use crate::{Config, Daemon};

/// A daemon alone in a directory.
pub(in crate::volumes) async fn start_in(directory: &std::path::Path) -> Daemon {
    let mut config = Config {
        name: Some("a".into()),
        state: directory.join("state"),
        runtime: directory.join("run"),
        ..Config::default()
    };
    config.peer.listen = vec![format!("unix:{}", directory.join("peer.sock").display())];
    config.coordinator.here = true;
    config.data.workers = Some(1);
    Daemon::start(config).await.unwrap()
}

/// The same with one disk and volumes of 4 MiB.
pub(in crate::volumes) async fn with_volume(directory: &std::path::Path, names: &[&str]) -> Daemon {
    let daemon = start_in(directory).await;
    let disk = directory.join("d");
    std::fs::create_dir(&disk).unwrap();
    let add = move |node: &Node| node.disks.add(&disk, None, false);
    let (_, opened) = daemon.node().blocking(add).await.unwrap();
    crate::volumes::replicas::open::open_all(daemon.node(), opened).await;
    for name in names {
        let request = json!({"name": name, "size": 4 << 20, "replicas": 1});
        let request: CreateVolumeRequest = serde_json::from_value(request).unwrap();
        create::create(daemon.node(), request).await.unwrap();
    }
    daemon
}

/// The coordinator forgets a volume; its replicas are there still.
pub(in crate::volumes) async fn delete_record(node: &Node, volume: VolumeId) {
    let delete = Request::Delete {
        node: node.identity.node.to_string(),
        volume: volume.to_string(),
        generation: 1,
        view: None,
        revision: None,
        force: false,
    };
    assert!(matches!(node.coordinator.call_once(delete).await, Ok(Answer::Done)));
}

/// The coordinator notes that a volume is stopped, or is not.
pub(in crate::volumes) async fn set_stopped(node: &Node, volume: VolumeId, stopped: bool) {
    let stop = Request::Stop { volume: volume.to_string(), stopped, revision: None };
    assert!(matches!(node.coordinator.call_once(stop).await, Ok(Answer::Done)));
}

/// The question was asked, and before its answer was acted on the volume came to be what it is now.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_answer_deletes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = with_volume(directory.path(), &["web"]).await;
    let node = daemon.node();
    let (replica, volume) = node.disks.finished_replicas()[0];
    for old in [Fate::Deleted, Fate::NeverMade] {
        carry_out(node, replica, volume, old).await;
        assert_eq!(node.disks.finished_replicas(), [(replica, volume)], "by {old:?}");
    }
    delete_record(node, volume).await;
    assert!(now(node).await);
    assert_eq!(node.disks.finished_replicas(), [], "by the present answer");
    daemon.stop().await;
}

/// A volume that was assembled meanwhile loses no replica.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_answer_closes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = with_volume(directory.path(), &["web"]).await;
    let node = daemon.node();
    let (replica, volume) = node.disks.finished_replicas()[0];
    carry_out(node, replica, volume, Fate::Stopped).await;
    assert!(!node.disks.is_closed(replica));
    set_stopped(node, volume, true).await;
    assert!(now(node).await);
    assert!(node.disks.is_closed(replica), "by the present answer");
    daemon.stop().await;
}

/// One disk hangs: of its replica nothing ends. The others are deleted all the same, and no second
/// task begins to wait for that one.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_of_which_nothing_ends_keeps_no_other_one_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = with_volume(directory.path(), &["web", "shop"]).await;
    let node = daemon.node();
    let all = node.disks.finished_replicas();
    for (_, volume) in &all {
        delete_record(node, *volume).await;
    }
    let hung = all[0];
    let under_way = node.volumes.sweeping.under_way.lock(hung.0).await;
    let swept = sweep(node).await.unwrap();
    assert_eq!((swept.begun, swept.busy), (vec![all[1].0], vec![hung.0]));
    drop(node.volumes.sweeping.under_way.lock(all[1].0).await);
    assert_eq!(node.disks.finished_replicas(), [hung]);

    drop(under_way);
    assert!(now(node).await);
    assert_eq!(node.disks.finished_replicas(), []);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_waits_for_a_replica_keeps_no_sweep_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = with_volume(directory.path(), &["web"]).await;
    let node = daemon.node();
    let (replica, volume) = node.disks.finished_replicas()[0];
    delete_record(node, volume).await;
    // Something else is done with it, and its disk hangs.
    let held = node.volumes.replica(replica).await;
    assert_eq!(sweep(node).await.unwrap().begun, [replica]);
    assert_eq!(sweep(node).await.unwrap().busy, [replica]);
    drop(held);
    assert!(now(node).await);
    assert_eq!(node.disks.finished_replicas(), []);
    daemon.stop().await;
}
