//! The verdict of a verify, and what becomes of it.

use std::os::unix::fs::FileExt;

use serde_json::{Value, json};

use crate::nbd_clients::{local_client, write};
use crate::support::{Place, TestNode};

const VOLUME: &str = "/v1/volumes/web";
const VERIFY: &str = "/v1/volumes/web/verify";

/// The volume's replicas by the names of their nodes.
fn replica_on(answer: &Value, node: &str) -> String {
    let replicas = answer["volume"]["mirrors"][0]["replicas"].as_array().unwrap();
    let found = replicas.iter().find(|replica| replica["node"]["name"] == node);
    found.unwrap()["id"].as_str().unwrap().to_owned()
}

/// What a node shows of the verdict: its state, the replicas that it covers with bytes, the others.
async fn verdict(node: &TestNode) -> (Value, Vec<(String, u64)>, Value) {
    let verify = node.get(VOLUME).await["volume"]["verify"].clone();
    let covered = verify["covered"].as_array().unwrap_or_else(|| panic!("{verify:#}"));
    let covered = covered
        .iter()
        .map(|covered| (covered["id"].as_str().unwrap().into(), covered["bytes"].as_u64().unwrap()))
        .collect();
    (verify["state"].clone(), covered, verify["not_covered"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_verdict_of_a_verify_is_kept_and_names_whom_it_is_about() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 2, "on": ["a:d", "b:d"]});
    nodes[0].ok("POST", "/v1/volumes", request).await;
    nodes[1].attach("web").await;
    // The second of four ranges would begin after more than a minute.
    let slow = json!({"rebuild": {"limit": "rate", "bytes_per_second": 16 << 10}});
    nodes[0].ok("PATCH", VOLUME, slow).await;
    nodes[2].ok("POST", VERIFY, json!({})).await;
    let begun = nodes[0].until(VOLUME, |v| v["volume"]["verify"]["checked"] == 1 << 20).await;
    let (a, b) = (replica_on(&begun, "a"), replica_on(&begun, "b"));
    nodes[2].ok("POST", VERIFY, json!({"stop": true})).await;
    let mut both = vec![(a.clone(), 1 << 20), (b.clone(), 1 << 20)];
    both.sort();
    assert_eq!(verdict(&nodes[0]).await, (json!("stopped"), both.clone(), json!([])));

    nodes[0].ok("PATCH", VOLUME, json!({"rebuild": {"limit": "none"}})).await;
    nodes[0].ok("POST", "/v1/volumes/web/replicas", json!({"on": "c:d"})).await;
    let added = nodes[0].until(VOLUME, |v| v["volume"]["health"] == "in-sync").await;
    let c = replica_on(&added, "c");
    let stopped = (json!("stopped"), both, json!([c]));
    assert_eq!(verdict(&nodes[0]).await, stopped);
    nodes[1].detach("web").await;
    assert_eq!(verdict(&nodes[2]).await, stopped, "kept over a detach, shown elsewhere");
    nodes[0].stop().await;
    nodes[0].restart().await;
    nodes[1].stop().await;
    nodes[1].restart().await;
    nodes[1].until("/v1/node", |v| v["node"]["coordinator"]["reachable"] == true).await;
    assert_eq!(verdict(&nodes[1]).await, stopped, "and over a restart");
    nodes[2].until("/v1/node", |v| v["node"]["coordinator"]["reachable"] == true).await;
    nodes[2].attach("web").await;
    assert_eq!(verdict(&nodes[2]).await, stopped, "and over an attach");

    // One that runs when the volume is detached is stopped, and takes its place.
    nodes[0]
        .ok("PATCH", VOLUME, json!({"rebuild": {"limit": "rate", "bytes_per_second": 16 << 10}}))
        .await;
    nodes[2].ok("POST", VERIFY, json!({})).await;
    nodes[2].until(VOLUME, |v| v["volume"]["verify"]["checked"] == 1 << 20).await;
    nodes[2].detach("web").await;
    let (state, covered, others) = verdict(&nodes[0]).await;
    assert_eq!((state, covered.len(), others), (json!("stopped"), 3, json!([])));
}

fn is_unhealthy(status: &Value) -> bool {
    let volume = &status["volume"];
    let reason = volume["reason"].as_str().unwrap_or_default();
    volume["health"] == "degraded" && reason.contains("4K contradict their checksums")
}

/// Nobody reads there, so no request fails.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_verify_finds_of_the_only_replica_counts_until_a_later_one_finds_nothing() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 1, "on": ["a:d"]});
    nodes[0].ok("POST", "/v1/volumes", request).await;
    nodes[0].attach("web").await;
    nodes[0].ok("POST", "/v1/volumes/web/exports/nbd", json!({"tcp": false})).await;
    let mut client = local_client(&nodes[0]).await;
    assert_eq!(write(&mut client).await.unwrap(), 0);
    let file = std::fs::OpenOptions::new().write(true).open(&nodes[0].replicas("d")[0]).unwrap();
    file.write_all_at(b"rot", (1 << 20) + 100).unwrap();
    let done = |v: &Value| v["volume"]["verify"]["state"] == "done";

    nodes[0].ok("POST", VERIFY, json!({})).await;
    let found = nodes[0].until(VOLUME, done).await;
    assert!(is_unhealthy(&found), "{found:#}");
    let verify = &found["volume"]["verify"];
    assert_eq!(verify["read"][0]["bytes"], 4 << 20, "it is said who was judged: {verify:#}");
    assert_eq!(verify["not_covered"], json!([]), "{verify:#}");
    for node in &nodes {
        node.until(VOLUME, is_unhealthy).await;
    }
    // One that has not been through everything says nothing of what it has not looked at.
    let slow = json!({"rebuild": {"limit": "paused"}});
    nodes[0].ok("PATCH", VOLUME, slow).await;
    let running = nodes[0].ok("POST", VERIFY, json!({})).await;
    assert!(is_unhealthy(&running), "{running:#}");
    let stopped = nodes[0].ok("POST", VERIFY, json!({"stop": true})).await;
    assert!(is_unhealthy(&stopped), "{stopped:#}");
    nodes[0].ok("PATCH", VOLUME, json!({"rebuild": {"limit": "none"}})).await;
    drop(client);
    nodes[0].ok("DELETE", "/v1/volumes/web/exports/nbd", Value::Null).await;
    nodes[0].detach("web").await;
    for node in &nodes {
        let status = node.get(VOLUME).await;
        assert!(is_unhealthy(&status), "{}: {status:#}", node.name);
        let list = node.get("/v1/volumes").await;
        assert_eq!(list["volumes"][0]["health"], "degraded", "{list:#}");
    }

    // What is written again is right again.
    nodes[0].attach("web").await;
    nodes[0].ok("POST", "/v1/volumes/web/exports/nbd", json!({"tcp": false})).await;
    let mut client = local_client(&nodes[0]).await;
    assert_eq!(write(&mut client).await.unwrap(), 0);
    assert!(is_unhealthy(&nodes[0].get(VOLUME).await), "nobody has looked since");
    nodes[0].ok("POST", VERIFY, json!({})).await;
    for node in &nodes {
        let status = node.until(VOLUME, |v| v["volume"]["health"] == "in-sync").await;
        assert!(status["volume"]["reason"].is_null(), "{status:#}");
    }
}
