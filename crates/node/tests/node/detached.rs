//! Members of a volume that is attached nowhere: what is promised of them comes when it is
//! attached.

use serde_json::{Value, json};

use crate::support::{Place, TestNode};

const VOLUME: &str = "/v1/volumes/web";
const REPLICAS: &str = "/v1/volumes/web/replicas";

/// What the answer says was done, and why the replica on this node is not in-sync.
fn said(answer: &Value, node: &str) -> (String, String) {
    let replicas = answer["volume"]["mirrors"][0]["replicas"].as_array().unwrap();
    let found = replicas.iter().find(|replica| replica["node"]["name"] == node).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&answer["message"]), text(&found["reason"]))
}

async fn attach_until_in_sync(node: &TestNode) -> Vec<String> {
    node.attach("web").await;
    let status = node
        .until(VOLUME, |v| {
            let replicas = v["volume"]["mirrors"][0]["replicas"].as_array().unwrap();
            replicas.iter().all(|r| r["state"] == "in-sync" && r["role"] == "copy")
        })
        .await;
    node.detach("web").await;
    let replicas = status["volume"]["mirrors"][0]["replicas"].as_array().unwrap();
    replicas.iter().map(|r| r["node"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_added_to_a_detached_volume_rebuilds_when_it_is_attached() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b", "c"]).await;
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 1, "on": ["a:d"]});
    nodes[0].ok("POST", "/v1/volumes", request).await;

    let added = nodes[2].ok("POST", REPLICAS, json!({"on": "b"})).await;
    let (message, reason) = said(&added, "b");
    assert!(message.ends_with("it rebuilds when the volume is attached"), "{message}");
    assert!(reason.starts_with("it holds nothing yet; it rebuilds when the volume"), "{reason}");
    assert_eq!(added["volume"]["state"], "detached");
    assert_eq!(attach_until_in_sync(&nodes[0]).await, ["a", "b"]);

    let more = nodes[2].ok("PATCH", VOLUME, json!({"replicas": 3})).await;
    let (message, _) = said(&more, "c");
    assert!(message.ends_with("which is to rebuild when the volume is attached"), "{message}");
    assert_eq!(attach_until_in_sync(&nodes[0]).await, ["a", "b", "c"]);

    nodes[2].ok("PATCH", VOLUME, json!({"replicas": 2})).await;
    let moved = nodes[2].ok("POST", REPLICAS, json!({"on": "c", "replaces": "b:d"})).await;
    let (message, _) = said(&moved, "c");
    assert!(message.contains("it copies when the volume is attached, then the old"), "{message}");
    assert_eq!(attach_until_in_sync(&nodes[0]).await, ["a", "c"]);

    // While it runs nothing of that is said.
    nodes[0].attach("web").await;
    let added = nodes[2].ok("POST", REPLICAS, json!({"on": "b"})).await;
    let (message, reason) = said(&added, "b");
    assert!(message.ends_with("it copies what it lacks"), "{message}");
    assert!(!reason.contains("is attached"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_may_be_promised_more_than_there_is() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    let disks = nodes[0].get("/v1/disks").await;
    let free = disks["disks"][0]["free"].as_u64().unwrap();
    let request = json!({
        "name": "web", "size": free.next_multiple_of(4096) * 2, "replicas": 1, "on": ["a:d"],
        "thin": true,
    });
    nodes[0].ok("POST", "/v1/volumes", request).await;
    let refused = nodes[1].refused("POST", REPLICAS, json!({"on": "b"}), "disk-too-small").await;
    assert!(refused["do"].as_str().unwrap().contains("--thin"), "{refused:#}");
    nodes[1].ok("POST", REPLICAS, json!({"on": "b", "thin": true})).await;
}
