//! A detach that its replicas do not answer, and what an operator is told to do then.

use serde_json::{Value, json};

use crate::support::{Place, TestNode};

const VOLUME: &str = "/v1/volumes/web";
const ATTACH: &str = "/v1/volumes/web/attach";
const DETACH: &str = "/v1/volumes/web/detach";

/// A volume that is attached on `a` and has its only replica on `b`, which has crashed; detached.
async fn detached_without_b(place: &Place) -> (Vec<TestNode>, Value) {
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 1, "on": ["b:d"]});
    nodes[0].ok("POST", "/v1/volumes", request).await;
    nodes[0].attach("web").await;
    nodes[1].crash().await;
    let answer = nodes[0].detach("web").await;
    (nodes, answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_detach_has_left_is_told_and_a_second_one_gives_it_up() {
    let place = Place::new();
    let (mut nodes, answer) = detached_without_b(&place).await;
    assert_eq!((&answer["clean"], &answer["given_up"]), (&json!(false), &json!(false)));
    assert_eq!(answer["silent"], json!(["b:d"]), "{answer:#}");
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("the replica on b:d did not answer"), "{message}");
    assert!(message.contains("`evenkeel detach web --node a` once more"), "{message}");

    // Every node gives the same advice.
    for node in [&nodes[0], &nodes[2]] {
        let status = node.get(VOLUME).await;
        let reason = status["volume"]["reason"].as_str().unwrap();
        assert!(reason.contains("nothing uses it on node a"), "{status:#}");
        assert!(reason.contains("`evenkeel detach web --node a` does"), "{status:#}");
    }
    // It can't be followed yet, and that is said.
    let there = json!({"node": "a"});
    let error = nodes[2].call("POST", DETACH, there.clone()).await.1["error"].clone();
    let codes = ["no-data", "node-unreachable"];
    assert!(codes.contains(&error["code"].as_str().unwrap()), "{error:#}");
    let how = json!({"how": "none"});
    let error = nodes[2].refused("POST", ATTACH, how, "attached-elsewhere").await;
    let advice = error["do"].as_str().unwrap();
    assert!(advice.contains("(`evenkeel detach web --node a`, from any node)"), "{error:#}");

    nodes[1].restart().await;
    nodes[0].until("/v1/nodes", |n| n["nodes"][1]["alive"] == true).await;
    // Whoever names no node means the one that is asked.
    let error = nodes[2].refused("POST", DETACH, Value::Null, "attached-elsewhere").await;
    assert_eq!(error["why"], "it is attached on node a, not on node c");
    assert_eq!(error["do"], "Detach it there: `evenkeel detach web --node a`");
    let answer = nodes[2].ok("POST", DETACH, there).await;
    assert_eq!((&answer["clean"], &answer["given_up"]), (&json!(true), &json!(true)));
    assert_eq!(nodes[2].get(VOLUME).await["volume"]["state"], "detached");
    nodes[2].attach("web").await;
    nodes[2].detach("web").await;
    nodes[0].refused("POST", DETACH, Value::Null, "not-attached").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_detach_has_left_can_be_attached_again_where_it_was() {
    let place = Place::new();
    let (mut nodes, _) = detached_without_b(&place).await;
    nodes[1].restart().await;
    nodes[0].until("/v1/nodes", |n| n["nodes"][1]["alive"] == true).await;
    nodes[0].attach("web").await;
    let answer = nodes[0].detach("web").await;
    assert_eq!((&answer["clean"], &answer["silent"]), (&json!(true), &json!([])));
}

/// The view names the primary of a daemon that was killed, and the next daemon waits to attach it.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_to_be_attached_again_is_given_up_when_nobody_wants_it_any_more() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 1, "on": ["b:d"]});
    nodes[0].ok("POST", "/v1/volumes", request).await;
    nodes[2].attach("web").await;
    nodes[1].stop().await;
    nodes[2].crash().await;
    nodes[2].restart().await;
    nodes[2].until(VOLUME, |v| v["volume"]["wanted_on"][0]["node"]["name"] == "c").await;
    let answer = nodes[2].detach("web").await;
    assert_eq!((&answer["clean"], &answer["given_up"]), (&json!(false), &json!(false)));
    let message = answer["message"].as_str().unwrap();
    let said = "web: it was not attached on node c, and is not attached there again; but it may count as attached there still, because ";
    assert!(message.starts_with(said), "{message}");
    assert!(message.ends_with("`evenkeel detach web --node c` once more gives it up"), "{message}");

    nodes[1].restart().await;
    nodes[0].until("/v1/nodes", |n| n["nodes"][1]["alive"] == true).await;
    // What was said is so.
    let how = json!({"how": "none"});
    nodes[0].refused("POST", ATTACH, how, "attached-elsewhere").await;
    // An unmount gives it up as a detach does.
    let answer = nodes[2].ok("POST", DETACH, json!({"after_mount": true})).await;
    assert_eq!((&answer["clean"], &answer["given_up"]), (&json!(true), &json!(true)));
    nodes[0].attach("web").await;
    nodes[0].detach("web").await;
    nodes[2].refused("POST", DETACH, json!({"after_mount": true}), "not-attached").await;
}
