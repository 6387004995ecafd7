//! A request that failed on the disk of the last in-sync replica: who knows of it, and what ends
//! it.

use std::time::{Duration, SystemTime};

use evenkeel_core::RequestError;
use evenkeel_engine::counters::Failure;
use serde_json::{Value, json};

use crate::support::Place;

const VOLUME: &str = "/v1/volumes/web";

fn warns(status: &Value) -> bool {
    let volume = &status["volume"];
    let reason = volume["reason"].as_str().unwrap_or_default();
    volume["health"] == "degraded" && reason.contains("a:d is the last in-sync replica")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_tells_of_it_until_a_verify_finds_nothing_wrong() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 1, "on": ["a:d"]});
    nodes[0].ok("POST", "/v1/volumes", request).await;
    nodes[1].attach("web").await;
    let id = nodes[1].get(VOLUME).await["volume"]["id"].as_str().unwrap().parse().unwrap();
    let now = SystemTime::now();
    let error = RequestError::Medium;
    let failure = Failure { kind: "read", error, count: 1, first: now, last: now };
    nodes[1].node().volumes.requests_failed(nodes[1].node(), id, failure);
    let kept = |status: &Value| {
        let replica = &status["volume"]["mirrors"][0]["replicas"][0];
        replica["disk_failed"].as_u64().is_some() && warns(status)
    };
    nodes[1].until(VOLUME, kept).await;
    nodes[1].detach("web").await;
    for node in &nodes {
        let status = node.get(VOLUME).await;
        assert!(kept(&status), "{}: {status:#}", node.name);
        // The node that has counted it is asked.
        assert_eq!(status["volume"]["failed"][0]["count"], 1, "{}: {status:#}", node.name);
    }
    // Neither a restart nor an attach ends it.
    nodes[1].stop().await;
    let status = nodes[0].get(VOLUME).await;
    let reason = status["volume"]["reason"].as_str().unwrap();
    assert!(reason.contains("`evenkeel volume verify web` ends this"), "{reason}");
    nodes[1].restart().await;
    nodes[1].until("/v1/node", |v| v["node"]["coordinator"]["reachable"] == true).await;
    let attached = nodes[1].attach("web").await;
    assert!(kept(&attached), "{attached:#}");

    // Nothing is wrong with it after all.
    tokio::time::sleep(Duration::from_millis(2100)).await;
    nodes[1].ok("POST", "/v1/volumes/web/verify", json!({})).await;
    for node in &nodes {
        let status = node.until(VOLUME, |v| v["volume"]["health"] == "in-sync").await;
        assert!(status["volume"]["reason"].is_null(), "{status:#}");
    }
    nodes[1].detach("web").await;
    let status = nodes[0].get(VOLUME).await;
    assert_eq!(status["volume"]["health"], "in-sync", "{status:#}");
}
