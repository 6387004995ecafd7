//! Volumes that are attached again by themselves when their node returns, and those that are not.

use serde_json::json;

use crate::support::Place;

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_was_used_elsewhere_meanwhile_is_not_attached_again() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    nodes[1].attach("web").await;
    nodes[1].crash().await;
    nodes[0].until("/v1/nodes", |n| n["nodes"][1]["alive"] == false).await;
    nodes[0].attach("web").await;
    nodes[0].detach("web").await;
    nodes[1].restart().await;
    let node =
        nodes[1].until("/v1/node", |n| !n["node"]["warnings"].as_array().unwrap().is_empty());
    let node = node.await;
    let warning = node["node"]["warnings"].to_string();
    assert!(warning.contains("node a has attached it since this one did"), "{warning}");
    assert_eq!(node["node"]["attached"], json!([]));
    // That holds for good, and may be changed by hand.
    nodes[1].stop().await;
    nodes[1].restart().await;
    assert_eq!(nodes[1].get("/v1/node").await["node"]["attached"], json!([]));
    nodes[1].attach("web").await;
    nodes[1].detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_was_changed_elsewhere_meanwhile_is_attached_again() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].add_disk("more").await;
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 1, "on": ["a:d"]});
    nodes[0].ok("POST", "/v1/volumes", request).await;
    nodes[1].attach("web").await;
    nodes[1].stop().await;
    // Its replicas adopt this by an attachment in passing, which is no use of it.
    nodes[0].ok("PATCH", "/v1/volumes/web", json!({"size": 8 << 20})).await;
    nodes[1].restart().await;
    nodes[1].until("/v1/volumes/web", |v| v["volume"]["state"] == "serving").await;
    assert_eq!(nodes[1].get("/v1/node").await["node"]["attached"], json!(["web"]));
    nodes[1].detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_daemon_is_followed_without_a_wait_for_its_lease() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 2});
    nodes[0].ok("POST", "/v1/volumes", request).await;
    nodes[0].ok("PATCH", "/v1/volumes/web", json!({"lease_ms": 60_000})).await;
    nodes[1].attach("web").await;
    nodes[1].crash().await;
    let killed = std::time::Instant::now();
    nodes[1].restart().await;
    nodes[1].until("/v1/volumes/web", |v| v["volume"]["state"] == "serving").await;
    assert!(killed.elapsed().as_secs() < 30, "{:?}: it waited for the lease", killed.elapsed());
    nodes[1].detach("web").await;
}
