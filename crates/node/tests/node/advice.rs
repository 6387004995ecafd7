//! What an operator is advised when a node does not answer: nothing that would fail, or destroy
//! what others have, without that being said.

use serde_json::{Value, json};

use crate::retire::is_dead;
use crate::support::{Place, TestNode};

const VOLUME: &str = "/v1/volumes/web";

async fn create_on(node: &TestNode, places: &[&str]) {
    let request = json!({"name": "web", "size": 4 << 20, "replicas": places.len(), "on": places});
    node.ok("POST", "/v1/volumes", request).await;
}

fn has(text: &Value, part: &str) -> bool {
    text.as_str().is_some_and(|text| text.contains(part))
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_sent_to_take_over_what_only_the_dead_node_has() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    create_on(&nodes[0], &["b:d", "c:d"]).await;
    nodes[2].attach("web").await;
    nodes[2].ok("POST", &format!("{VOLUME}/replicas/b:d/fail"), Value::Null).await;
    nodes[2].crash().await;
    is_dead(&nodes[0], "c").await;
    let re_add = format!("{VOLUME}/replicas/b:d/re-add");
    let refused = nodes[0].refused("POST", &re_add, Value::Null, "node-unreachable").await;
    assert_eq!(refused["what"], "cannot re-add the replica on b:d of volume web", "{refused:#}");
    assert_eq!(
        refused["do"],
        "Start node c, or repair its network: no other node can take the volume over, as none has an in-sync replica of mirror 0",
        "{refused:#}"
    );
    // It would fail.
    let (status, _) =
        nodes[0].call("POST", &format!("{VOLUME}/attach"), json!({"how": "none"})).await;
    assert_ne!(status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_of_a_dead_node_is_not_called_one_that_does_not_exist() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    create_on(&nodes[0], &["a:d"]).await;
    let (create, add) = ("/v1/volumes", format!("{VOLUME}/replicas"));
    let new = |on: &str| json!({"name": "new", "size": 4 << 20, "replicas": 1, "on": [on]});
    let refused = nodes[0].refused("POST", create, new("b:other"), "no-such-disk").await;
    assert_eq!(refused["why"], "there is no disk other on node b", "{refused:#}");
    let refused = nodes[0].refused("POST", create, new("x:d"), "no-such-disk").await;
    assert_eq!(refused["why"], "there is no node x with a disk", "{refused:#}");

    nodes[1].crash().await;
    is_dead(&nodes[0], "b").await;
    let why =
        "node b counts as dead, for the coordinator does not hear node b: its disks are not known";
    for (path, body) in [
        (create, new("b:other")),
        (create, new("b:d")),
        (&add, json!({"on": "b:other"})),
        (&add, json!({"on": "b"})),
        (&add, json!({"on": "b", "replaces": "a:d"})),
    ] {
        let refused = nodes[0].refused("POST", path, body, "node-unreachable").await;
        assert_eq!(refused["why"], why, "{refused:#}");
        assert!(has(&refused["do"], "Start node b, or repair its network"), "{refused:#}");
    }
}

/// Whoever hears nobody takes all others for dead, and they may use what is to be deleted.
#[tokio::test(flavor = "multi_thread")]
async fn who_may_be_cut_off_says_so_before_a_volume_is_deleted() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    create_on(&nodes[0], &["b:d"]).await;
    nodes[1].attach("web").await;
    let plan = format!("{VOLUME}/plans/delete");
    nodes[0].refused("GET", &plan, Value::Null, "attached").await;
    nodes[1].crash().await;
    is_dead(&nodes[0], "b").await;
    let doubt = "Node a may be cut off itself, for its coordinator receives heartbeats from no other node: ask another node before you delete anything";
    let planned = nodes[0].get(&plan).await;
    assert!(has(&planned["message"], doubt), "{planned:#}");
    for (method, path) in [("DELETE", VOLUME), ("DELETE", "/v1/nodes/b?removes=")] {
        let (status, answer) = nodes[0].call(method, path, Value::Null).await;
        assert_ne!(status, 200, "{answer:#}");
        let advice = &answer["error"]["do"];
        assert!(has(advice, &format!("{doubt}. ")) && has(advice, "volume delete"), "{answer:#}");
    }
}
