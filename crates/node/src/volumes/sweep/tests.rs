use serde_json::json;

use super::*;
use crate::api::types::CreateVolumeRequest;
use crate::volumes::create;
use crate::{Config, Daemon};

/// A daemon alone in a directory, with one disk and one volume.
async fn with_volume(directory: &std::path::Path) -> Daemon {
    let mut config = Config {
        name: Some("a".into()),
        state: directory.join("state"),
        runtime: directory.join("run"),
        ..Config::default()
    };
    config.peer.listen = vec![format!("unix:{}", directory.join("peer.sock").display())];
    config.coordinator.here = true;
    config.data.workers = Some(1);
    let daemon = Daemon::start(config).await.unwrap();
    let disk = directory.join("d");
    std::fs::create_dir(&disk).unwrap();
    let add = move |node: &Node| node.disks.add(&disk, None, false);
    let (_, opened) = daemon.node().blocking(add).await.unwrap();
    daemon.node().open_replicas(opened).await;
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 1});
    let request: CreateVolumeRequest = serde_json::from_value(request).unwrap();
    create::create(daemon.node(), request).await.unwrap();
    daemon
}

/// The question was asked, and before its answer was acted on the volume came to be what it is now.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_answer_deletes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = with_volume(directory.path()).await;
    let node = daemon.node();
    let (replica, volume) = node.disks.finished_replicas()[0];
    for old in [Fate::Deleted, Fate::NeverMade] {
        carry_out(node, replica, volume, old, &mut BTreeSet::new()).await;
        assert_eq!(node.disks.finished_replicas(), [(replica, volume)], "by {old:?}");
    }
    let generation = 1;
    let delete = Request::Delete {
        node: node.identity.node.to_string(),
        volume: volume.to_string(),
        generation,
        force: false,
    };
    assert!(matches!(node.coordinator.call_once(delete).await, Ok(Answer::Done)));
    now(node).await;
    assert_eq!(node.disks.finished_replicas(), [], "by the present answer");
    daemon.stop().await;
}
