//! Machines that run with a copy of another one's state directory.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Place, TestNode};

const WARNING: &str = "another machine runs with this node's identity";

fn warns(of: &str) -> impl Fn(&Value) -> bool {
    move |status| status["node"]["warnings"].to_string().contains(of)
}

/// Whether the coordinator has this node's own addresses for it.
async fn is_registered(coordinator: &TestNode, node: &TestNode) -> bool {
    let nodes = coordinator.get("/v1/nodes").await;
    let entry = nodes["nodes"].as_array().unwrap().iter().find(|n| n["name"] == "b").unwrap();
    entry["addresses"][0].as_str() == Some(&node.config.peer.listen[0])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_running_node_is_refused_and_both_are_told() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    nodes[1].attach("web").await;
    let mut copy = nodes[1].copy(&place, "copy");
    copy.start().await.unwrap();
    copy.until("/v1/node", warns(WARNING)).await;
    nodes[1].until("/v1/node", warns(WARNING)).await;
    assert!(is_registered(&nodes[0], &nodes[1]).await);
    let attach = "/v1/volumes/web/attach";
    let refused = copy.refused("POST", attach, json!({"how": "none"}), "not-joined").await;
    assert!(refused["why"].as_str().unwrap().contains(WARNING), "{refused}");
    copy.refused("DELETE", "/v1/volumes/web", Value::Null, "not-joined").await;
    // The original is not disturbed: it stays attached, and restarts without a wait.
    let status = nodes[1].get("/v1/volumes/web").await;
    assert_eq!(status["volume"]["state"], "serving", "{status:#}");
    nodes[1].stop().await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    copy.until("/v1/node", warns(WARNING)).await;
    nodes[1].restart().await;
    nodes[1].until("/v1/node", |n| n["node"]["attached"] == json!(["web"])).await;
    assert!(is_registered(&nodes[0], &nodes[1]).await);
    nodes[1].detach("web").await;
}

/// The second node returns where its copy has taken its place: it goes on in place of a start of
/// its own until it is told so, then it is refused.
async fn original_returns(nodes: &mut [TestNode], copy: &TestNode) {
    nodes[1].restart().await;
    nodes[1].ended().await;
    copy.until("/v1/node", warns(WARNING)).await;
    nodes[1].restart().await;
    nodes[1].until("/v1/node", warns(WARNING)).await;
    assert!(is_registered(&nodes[0], copy).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_chooses_the_copy_and_the_original_is_refused() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    let mut copy = nodes[1].copy(&place, "copy");
    copy.start().await.unwrap();
    copy.until("/v1/node", warns(WARNING)).await;
    let join = json!({"address": nodes[0].config.peer.listen[0]});
    copy.refused("POST", "/v1/node/join", join.clone(), "not-joined").await;
    nodes[1].stop().await;
    copy.ok("POST", "/v1/node/join", join).await;
    assert!(is_registered(&nodes[0], &copy).await);
    original_returns(&mut nodes, &copy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_original_that_returns_after_its_silence_ends() {
    let place = Place::with_expiry(15);
    let mut nodes = place.cluster(&["a", "b"]).await;
    let mut copy = nodes[1].copy(&place, "copy");
    // The start that was copied from has crashed: the copy waits out its silence.
    nodes[1].crash().await;
    copy.start().await.unwrap();
    copy.until("/v1/node", warns("until its predecessor has been silent")).await;
    copy.until("/v1/node", |n| n["node"]["warnings"] == json!([])).await;
    assert!(is_registered(&nodes[0], &copy).await);
    original_returns(&mut nodes, &copy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_daemon_restarts_on_its_machine_without_a_wait() {
    // Longer than the test waits for anything.
    let place = Place::with_expiry(300);
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    nodes[1].attach("web").await;
    for _ in 0..3 {
        nodes[1].crash().await;
        nodes[1].restart().await;
        nodes[1].until("/v1/node", |n| n["node"]["attached"] == json!(["web"])).await;
    }
    nodes[1].detach("web").await;
}

/// Each start names those before it back to the last that was admitted, and the lock proves that
/// they have ended: so none is taken for a copy, and the silence of the admitted one is not waited
/// out.
#[tokio::test(flavor = "multi_thread")]
async fn starts_that_nobody_admitted_are_followed_without_a_wait() {
    let place = Place::new();
    let mut first = TestNode::new(&place, "a");
    // Longer than the test waits for anything.
    first.config.coordinator.expiry_seconds = 300;
    first.start().await.unwrap();
    first.add_disk("d").await;
    let mut second = TestNode::new(&place, "b");
    second.start().await.unwrap();
    second.until("/v1/node", |n| n["node"]["coordinator"]["reachable"] == true).await;
    first.create("web", 1).await;
    second.attach("web").await;
    first.crash().await;
    for _ in 0..3 {
        second.crash().await;
        second.restart().await;
    }
    first.restart().await;
    second.until("/v1/node", |n| n["node"]["attached"] == json!(["web"])).await;
    assert!(is_registered(&first, &second).await);
    second.detach("web").await;
}

/// Whether the last daemon of this node has ended is proved by the lock of its state directory,
/// held in the same boot. After a restart of the machine, or on a copy of it, that is not certain:
/// it may serve clients still.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_whose_own_earlier_primary_may_live_is_taken_over_before_it_is_deleted() {
    for is_proved in [true, false] {
        let place = Place::with_expiry(15);
        let mut nodes = place.cluster(&["a", "b", "c"]).await;
        let request = json!({"name": "web", "size": 4 << 20, "replicas": 1, "on": ["c:d"]});
        nodes[0].ok("POST", "/v1/volumes", request).await;
        nodes[1].attach("web").await;
        nodes[1].crash().await;
        nodes[2].crash().await;
        if !is_proved {
            let file = nodes[1].config.state.join("start.json");
            let mut start: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            start["boot"] = json!("another boot");
            std::fs::write(&file, start.to_string()).unwrap();
        }
        nodes[1].restart().await;
        if !is_proved {
            nodes[1].until("/v1/node", warns("until its predecessor has been silent")).await;
        }
        let is_admitted = |n: &Value| {
            n["node"]["coordinator"]["reachable"] == true && n["node"]["warnings"] == json!([])
        };
        nodes[1].until("/v1/node", is_admitted).await;
        let (status, answer) = nodes[1].call("DELETE", "/v1/volumes/web", Value::Null).await;
        if is_proved {
            assert_eq!(status, 200, "{answer:#}");
            continue;
        }
        let why = answer["error"]["why"].as_str().unwrap_or_default();
        let is_tried = why.contains("it cannot be taken over") && !why.contains("admitted");
        assert!(is_tried, "{status} {answer:#}");
        nodes[1].ok("DELETE", "/v1/volumes/web?force=true", Value::Null).await;
    }
}
