//! What a status says of replicas and primaries that only some nodes know of.

use std::sync::Arc;

use evenkeel_node::config::Address;
use evenkeel_node::coordinator::remote::Remote;
use serde_json::{Value, json};

use crate::support::{Place, TestNode};

const VOLUME: &str = "/v1/volumes/web";

/// The replica on a node, as a status tells it.
fn on<'a>(status: &'a Value, node: &str) -> &'a Value {
    let replicas = status["volume"]["mirrors"][0]["replicas"].as_array().unwrap();
    replicas.iter().find(|replica| replica["node"]["name"] == node).unwrap()
}

fn says(status: &Value, text: &str) -> bool {
    status["volume"]["reason"].as_str().is_some_and(|reason| reason.contains(text))
}

async fn create_on(node: &TestNode, places: &[&str], primaries: u8) {
    let request = json!({
        "name": "web", "size": 4 << 20, "replicas": places.len(), "on": places,
        "primaries": primaries,
    });
    node.ok("POST", "/v1/volumes", request).await;
}

/// Cuts a node off from the coordinator, and from nobody else. Returns what joins it to it again.
pub fn cut_off(node: &TestNode) -> impl Fn() + use<> {
    let at = |address: &str| {
        let address = Address::parse(address).unwrap();
        (Arc::new(Remote::new(node.node().peers.clone(), address.clone())), address)
    };
    let (nowhere, _) = at("unix:/nonexistent/peer.sock");
    let before = node.node().coordinator.membership().address.unwrap();
    let (back, address) = at(&before);
    node.node().coordinator.set(nowhere, Some(&address));
    let node = node.node().clone();
    move || node.coordinator.set(back.clone(), Some(&address))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_tells_of_a_detached_volume_that_a_replicas_file_was_deleted() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    create_on(&nodes[0], &["a:d", "b:d"], 1).await;
    nodes[1].crash().await;
    std::fs::remove_file(&nodes[1].replicas("d")[0]).unwrap();
    nodes[1].restart().await;
    // From the moment at which the coordinator hears it, it counts as there.
    nodes[0].until("/v1/nodes", |n| n["nodes"][1]["alive"] == true).await;
    for node in &nodes {
        let status = node.until(VOLUME, |v| says(v, "no such replica")).await;
        assert_eq!(status["volume"]["health"], "unreachable", "{status:#}");
        assert_eq!(status["volume"]["state"], "detached");
        let replica = on(&status, "b");
        assert_eq!((&replica["reach"], &replica["lost"]), (&json!("unreachable"), &json!(true)));
        assert!(says(&status, "replica replace"), "{status:#}");
        let list = node.get("/v1/volumes").await;
        assert_eq!(list["volumes"][0]["health"], "unreachable", "{list:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_detach_forgets_no_reason_of_a_disk_that_is_absent() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    create_on(&nodes[0], &["a:d", "b:d"], 1).await;
    nodes[0].attach("web").await;
    nodes[1].crash().await;
    std::fs::rename(nodes[1].disk("d"), nodes[1].directory.join("away")).unwrap();
    nodes[1].restart().await;
    let why = "disk d: No such file";
    nodes[0].until(VOLUME, |v| says(v, why) && on(v, "b")["state"] == "stale").await;
    nodes[0].detach("web").await;
    let status = nodes[0].get(VOLUME).await;
    assert!(says(&status, why), "{status:#}");
    assert!(says(&status, "when it is served and the volume is attached"), "{status:#}");
    std::fs::rename(nodes[1].directory.join("away"), nodes[1].disk("d")).unwrap();
    nodes[0].until(VOLUME, |v| !says(v, why)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_silent_to_the_coordinator_only_is_not_called_dead() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b", "c"]).await;
    create_on(&nodes[0], &["b:d", "c:d"], 1).await;
    // It learns of all nodes.
    nodes[1].get("/v1/volumes").await;
    let join = cut_off(&nodes[1]);
    nodes[0].until("/v1/nodes", |n| n["nodes"][1]["alive"] == false).await;
    // Node c reaches it.
    nodes[2].until("/v1/nodes", |list| list["nodes"][1]["answers"] == true).await;
    let who = "the coordinator does not hear node b, and node c does";
    let status = nodes[2].until(VOLUME, |v| says(v, who)).await;
    assert_eq!(status["volume"]["mirrors"][0]["summary"], "[UU]", "{status:#}");
    // What it is asked itself it answers by what its replica knows, and who answers it.
    let status = nodes[1].until(VOLUME, |v| v["volume"]["source"] == "replica").await;
    assert_eq!(status["volume"]["mirrors"][0]["summary"], "[UU]", "{status:#}");
    join();
    nodes[0].until("/v1/nodes", |n| n["nodes"][1]["alive"] == true).await;

    nodes[1].attach("web").await;
    let join = cut_off(&nodes[1]);
    nodes[0].until("/v1/nodes", |n| n["nodes"][1]["alive"] == false).await;
    let status = nodes[2].until(VOLUME, |v| says(v, who)).await;
    assert_eq!(status["volume"]["state"], "serving", "{status:#}");
    join();
    nodes[0].until("/v1/nodes", |n| n["nodes"][1]["alive"] == true).await;
    nodes[1].detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_primaries_of_a_shared_volume_are_asked() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c", "d"]).await;
    create_on(&nodes[0], &["b:d", "c:d", "d:d"], 2).await;
    nodes[1].attach("web").await;
    nodes[2].attach("web").await;
    for node in &nodes {
        let status = node.get(VOLUME).await;
        let exports = status["volume"]["exports"].as_array().unwrap();
        assert_eq!(exports.len(), 2, "{status:#}");
        assert_eq!(status["volume"]["state"], "serving");
    }
    let here = nodes[2].get(VOLUME).await;
    let primaries = here["volume"]["primaries"].as_array().unwrap();
    assert!(primaries.iter().all(|p| p["requests"].is_u64()), "{here:#}");
    let is_here: Vec<_> = primaries.iter().filter(|p| p["here"] == true).collect();
    assert_eq!(is_here.len(), 1);
    assert_eq!(is_here[0]["node"]["name"], "c");

    // One of them cannot have the view changed that lost a replica; the other one can.
    let join = cut_off(&nodes[2]);
    nodes[3].crash().await;
    let status = nodes[0].until(VOLUME, |v| says(v, "on node c: a view has to change")).await;
    assert!(says(&status, "does not answer node c"), "{status:#}");
    assert_eq!(status["volume"]["state"], "suspended", "{status:#}");
    join();
    nodes[3].restart().await;
    nodes[0].until(VOLUME, |v| v["volume"]["health"] == "in-sync").await;
}

/// The coordinator, which would say that it is dead, is on the same node.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_primary_is_marked_when_it_was_asked_and_the_coordinator_is_dead_with_it() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    create_on(&nodes[0], &["b:d", "c:d"], 2).await;
    nodes[0].attach("web").await;
    nodes[1].attach("web").await;
    nodes[0].crash().await;
    let is_marked = |volume: &Value| {
        let primaries = volume["primaries"].as_array().unwrap();
        let dead = primaries.iter().find(|primary| primary["node"]["name"] == "a").unwrap();
        dead["alive"] == false
    };
    for node in &nodes[1..] {
        node.until(VOLUME, |v| is_marked(&v["volume"])).await;
        node.until("/v1/volumes", |v| is_marked(&v["volumes"][0])).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_coordinator_the_newest_view_that_anybody_knows_who_answers_is_told() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    create_on(&nodes[0], &["b:d", "c:d"], 1).await;
    nodes[1].attach("web").await;
    nodes[2].crash().await;
    nodes[1].until(VOLUME, |v| on(v, "c")["state"] == "stale").await;
    nodes[1].detach("web").await;
    let newest = nodes[1].get(VOLUME).await["volume"]["generation"].clone();
    nodes[0].crash().await;
    // Its own replica is in-sync as far as it knows.
    nodes[2].restart().await;
    let who = "a replica on node b knew last, saved at ";
    let status = nodes[2].until(VOLUME, |v| says(v, who)).await;
    assert_eq!(on(&status, "c")["state"], "stale", "{status:#}");
    assert_eq!(on(&status, "b")["disk"], "d", "{status:#}");
    assert_eq!(status["volume"]["generation"], newest, "{status:#}");
    assert_eq!(status["volume"]["mirrors"][0]["summary"], "[U_]", "{status:#}");
    assert_eq!(status["volume"]["health"], "degraded", "it is the worst that is known: {status:#}");
    let list = nodes[2].get("/v1/volumes").await;
    assert_eq!(list["volumes"][0]["generation"], newest, "{list:#}");
    assert_eq!(list["complete"], false);
    // Nobody who knew it answers any more.
    nodes[1].crash().await;
    let status = nodes[2].until(VOLUME, |v| says(v, "a replica on node c knew last")).await;
    assert_eq!(status["volume"]["health"], "unknown", "{status:#}");
    assert_eq!(on(&status, "b")["reach"], "unknown", "{status:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_nodes_tells_who_answers_the_node_that_is_asked() {
    let place = Place::with_expiry(15);
    let mut nodes = place.cluster(&["a", "b"]).await;
    let list = nodes[0].get("/v1/nodes").await;
    assert_eq!(list["nodes"][0].get("answers"), None, "itself: {list:#}");
    assert_eq!(
        (&list["nodes"][1]["alive"], &list["nodes"][1]["answers"]),
        (&json!(true), &json!(true))
    );
    nodes[1].crash().await;
    // The coordinator has heard it a moment ago.
    let list = nodes[0].get("/v1/nodes").await;
    assert_eq!(
        (&list["nodes"][1]["alive"], &list["nodes"][1]["answers"]),
        (&json!(true), &json!(false))
    );
    let list = nodes[0].until("/v1/nodes", |n| n["nodes"][1]["alive"] == false).await;
    assert_eq!(list["nodes"][1]["answers"], false, "it is asked all the same: {list:#}");
}

/// The view calls it what it was until the coordinator answers.
#[tokio::test(flavor = "multi_thread")]
async fn no_metric_calls_a_replica_in_sync_that_does_not_answer() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    create_on(&nodes[0], &["b:d", "c:d"], 1).await;
    nodes[1].attach("web").await;
    let status = nodes[1].get(VOLUME).await;
    let line = |node: &str| {
        let id = on(&status, node)["id"].as_str().unwrap();
        format!("evenkeel_volume_replica_in_sync{{volume=\"web\",replica=\"{id}\"}}")
    };
    let says = |metrics: &Value, node: &str, value: u8| {
        let expected = format!("{} {value}", line(node));
        metrics.as_str().unwrap().lines().any(|line| line == expected)
    };
    let metrics = nodes[1].get("/metrics").await;
    assert!(says(&metrics, "b", 1) && says(&metrics, "c", 1), "{metrics}");
    let join = cut_off(&nodes[1]);
    nodes[2].crash().await;
    nodes[1].until("/metrics", |metrics| says(metrics, "b", 1) && says(metrics, "c", 0)).await;
    let status = nodes[1].get(VOLUME).await;
    assert_eq!(on(&status, "c")["state"], "in-sync", "{status:#}");
    join();
}
