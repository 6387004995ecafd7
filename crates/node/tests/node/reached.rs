//! Members that answer where another node was to be reached.

use serde_json::json;

use crate::support::{Place, TestNode};

#[tokio::test(flavor = "multi_thread")]
async fn a_member_at_the_address_of_another_one_does_not_get_what_that_was_to_do() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "c"]).await;
    let mut b = TestNode::new(&place, "b");
    b.config.peer.advertise = nodes[1].config.peer.listen.clone();
    b.start().await.unwrap();
    b.add_disk("d").await;
    nodes.push(b);
    nodes[0].until("/v1/nodes", |n| n["nodes"].as_array().is_some_and(|n| n.len() == 3)).await;

    let listed = nodes[0].get("/v1/nodes").await;
    assert_eq!(listed["nodes"][1]["name"], "b", "{listed:#}");
    assert_eq!(listed["nodes"][1]["answers"], false, "{listed:#}");
    assert_eq!(listed["nodes"][2]["answers"], true, "{listed:#}");
    // What is for b is not done by c; nor does c's own connection serve for it, which is kept.
    let on = |place: &str| json!({"name": "web", "size": 4 << 20, "replicas": 1, "on": [place]});
    let (status, answer) = nodes[0].call("POST", "/v1/volumes", on("b:d")).await;
    assert!(status >= 400, "{answer:#}");
    assert!(nodes[1].replicas("d").is_empty(), "{answer:#}");
    nodes[0].ok("POST", "/v1/volumes", on("c:d")).await;

    // A volume whose replica is on b, as b itself has made it.
    let mirror = json!({"name": "two", "size": 4 << 20, "replicas": 1, "on": ["b:d"]});
    nodes[2].ok("POST", "/v1/volumes", mirror).await;
    let attach = json!({"how": "nbd"});
    let (status, answer) = nodes[0].call("POST", "/v1/volumes/two/attach", attach).await;
    assert!(status >= 400, "{answer:#}");
    let reported = answer.to_string();
    assert!(!reported.contains("has no such replica"), "c was asked for b's replica: {reported}");
    let path = "/v1/volumes/two/attach";
    let there = json!({"how": "nbd", "node": "b"});
    let error = nodes[0].refused("POST", path, there, "node-unreachable").await;
    let why = error["why"].as_str().unwrap();
    assert!(why.contains("node c answered at"), "{error:#}");
    assert!(why.contains("where node b was wanted"), "{error:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_coordinator_at_the_same_address_is_taken_only_by_a_command() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].stop().await;
    let mut other = TestNode::new(&place, "a");
    other.config.state = place.path().join("other/state");
    std::fs::create_dir_all(place.path().join("other")).unwrap();
    other.restart().await;

    let listed = nodes[1].get("/v1/volumes").await;
    let why = listed["warnings"][0].as_str().unwrap();
    assert!(why.contains("another node of that name ("), "{listed:#}");
    // It introduces itself there with each heartbeat, if it does.
    tokio::time::sleep(std::time::Duration::from_millis(2500)).await;
    let listed = other.get("/v1/nodes").await;
    assert_eq!(listed["nodes"].as_array().unwrap().len(), 1, "{listed:#}");

    let join = json!({"address": other.config.peer.listen[0]});
    nodes[1].ok("POST", "/v1/node/join", join).await;
    let listed = nodes[1].get("/v1/volumes").await;
    assert_eq!(listed["complete"], true, "{listed:#}");
    other.until("/v1/nodes", |n| n["nodes"].as_array().is_some_and(|n| n.len() == 2)).await;
}
