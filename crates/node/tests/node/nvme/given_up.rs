//! Commands that a host gives up while no replica answers: they have no effect later.

use serde_json::{Value, json};

use super::initiator::Queue;
use super::{HOST, connected, export, pattern};
use crate::support::{Place, TestNode};

const VOLUME: &str = "/v1/volumes/web";
const ABORTED: u16 = 0x007;

/// A node that exports a volume whose only replica is on another node, which is the second one.
async fn apart(place: &Place) -> (Vec<TestNode>, String, String) {
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].stop().await;
    nodes[0].config.nvme.listen = vec!["127.0.0.1:0".to_owned()];
    nodes[0].restart().await;
    nodes[0].until("/v1/nodes", |it| it["nodes"][1]["alive"] == true).await;
    let no_data = json!({"policy": "suspend", "seconds": 3600});
    let request = json!({
        "name": "web", "size": 4 << 20, "replicas": 1, "on": ["b:d"], "no_data": no_data
    });
    nodes[0].ok("POST", "/v1/volumes", request).await;
    nodes[0].attach("web").await;
    let (address, subsystem) = export(&nodes[0], &[HOST], false).await;
    (nodes, address, subsystem)
}

/// Waits until the volume has so many requests under way.
async fn under_way(node: &TestNode, requests: u64) {
    let has = |it: &Value| it["volume"]["primaries"][0]["requests"] == requests;
    node.until(VOLUME, has).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_replica_was_sent_is_aborted_and_dropped_by_a_reset() {
    let place = Place::new();
    let (mut nodes, address, subsystem) = apart(&place).await;
    let (mut admin, controller, mut io, block_size) = connected(&address, &subsystem).await;
    assert_eq!(io.write(0, &pattern(1), block_size).await.status, 0);
    nodes[1].crash().await;
    nodes[0].until(VOLUME, |it| it["volume"]["state"] == "suspended").await;

    let write = io.begin_write(0, &pattern(2), block_size).await;
    under_way(&nodes[0], 1).await;
    assert!(admin.abort(1, write).await);
    let (answered, answer) = io.answer().await.unwrap();
    assert_eq!((answered, answer.status), (write, ABORTED));
    assert!(!admin.abort(1, write).await, "it is over");

    // A reset ends although no replica answers, and although the queue receives nothing: the data
    // of a Compare in a capsule waits for what it is compared with.
    io.begin_write(0, &pattern(3), block_size).await;
    io.begin_compare(4096, &pattern(1), block_size).await;
    under_way(&nodes[0], 2).await;
    admin.reset().await;
    io.closed().await;
    under_way(&nodes[0], 0).await;

    assert_eq!(admin.enable().await.status, 0);
    let (mut io, answer) =
        Queue::connect(&address, (&subsystem, HOST), (controller, 1)).await.unwrap();
    assert_eq!(answer.status, 0);
    nodes[1].restart().await;
    nodes[0].until(VOLUME, |it| it["volume"]["state"] == "serving").await;
    assert_eq!(io.read(0, 4096, block_size).await, pattern(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_gone_leaves_nothing_behind() {
    let place = Place::new();
    let (mut nodes, address, subsystem) = apart(&place).await;
    let (admin, _, mut io, block_size) = connected(&address, &subsystem).await;
    assert_eq!(io.write(0, &pattern(1), block_size).await.status, 0);
    nodes[1].crash().await;
    nodes[0].until(VOLUME, |it| it["volume"]["state"] == "suspended").await;
    io.begin_write(0, &pattern(2), block_size).await;
    under_way(&nodes[0], 1).await;
    drop((admin, io));
    under_way(&nodes[0], 0).await;
    nodes[1].restart().await;
    nodes[0].until(VOLUME, |it| it["volume"]["state"] == "serving").await;
    let (_admin, _, mut io, _) = connected(&address, &subsystem).await;
    assert_eq!(io.read(0, 4096, block_size).await, pattern(1));
}

/// The host has lost the connections, and connects again before their ends are seen here: a write
/// that lies unread in an old one must not take effect after those that come over the new one.
#[tokio::test(flavor = "multi_thread")]
async fn an_unread_write_of_a_lost_association_has_no_effect_after_newer_ones() {
    let place = Place::new();
    let (mut nodes, address, subsystem) = apart(&place).await;
    let (_admin, _, mut old, block_size) = connected(&address, &subsystem).await;
    assert_eq!(old.write(0, &pattern(1), block_size).await.status, 0);
    nodes[1].crash().await;
    nodes[0].until(VOLUME, |it| it["volume"]["state"] == "suspended").await;
    // What comes behind a Compare with its data is not read while the volume reads.
    old.begin_compare(4096, &pattern(1), block_size).await;
    let unread = old.begin_write(0, &pattern(2), block_size).await;
    under_way(&nodes[0], 1).await;

    let (_new_admin, _, mut new, _) = connected(&address, &subsystem).await;
    let newer = new.begin_write(0, &pattern(3), block_size).await;
    new.begin_write(8192, &pattern(4), block_size).await;
    // Of the old queue there is one at most: so the first one of the new queue is in the volume.
    under_way(&nodes[0], 2).await;
    nodes[1].restart().await;
    let answer = loop {
        let (answered, answer) = new.answer().await.unwrap();
        if answered == newer {
            break answer;
        }
    };
    assert_eq!(answer.status, 0);
    // Until nothing comes over the old one any more.
    while let Ok((answered, _)) = old.answer().await {
        if answered == unread {
            break;
        }
    }
    assert_eq!(new.read(0, 4096, block_size).await, pattern(3));
}

/// Of another host, or between other addresses, an association is not lost.
#[tokio::test(flavor = "multi_thread")]
async fn an_association_between_other_addresses_goes_on() {
    let place = Place::new();
    let (_nodes, address, subsystem) = apart(&place).await;
    let (_admin, _, mut io, block_size) = connected(&address, &subsystem).await;
    let (second, answer) =
        Queue::connect_from([127, 0, 0, 2], &address, (&subsystem, HOST)).await.unwrap();
    assert_eq!(answer.status, 0);
    assert_eq!(io.write(0, &pattern(1), block_size).await.status, 0);
    drop(second);
}
