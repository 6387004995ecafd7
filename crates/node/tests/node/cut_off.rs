//! Clients that go away before they are answered: what they asked for is done to its end, and the
//! node and the coordinator agree on it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

use crate::support::{Place, TestNode};

/// Moments at which the client goes away after its request.
const CUTS: [u64; 10] = [0, 1, 2, 3, 5, 8, 13, 21, 40, 80];

/// Sends a request and goes away after a while, whether or not an answer has come.
async fn ask_and_leave(node: &TestNode, method: &str, path: &str, body: &Value, after: Duration) {
    let mut stream = UnixStream::connect(node.config.api_socket()).await.unwrap();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    tokio::time::sleep(after).await;
}

/// The node's view of what is attached here, and the coordinator's, once both say the same.
async fn agreed(node: &TestNode, volume: &str) -> bool {
    let path = format!("/v1/volumes/{volume}");
    for _ in 0..100 {
        let here = node.get("/v1/node").await["node"]["attached"] == json!([volume]);
        let status = node.get(&path).await["volume"].clone();
        let primaries = status["primaries"].as_array().map_or(0, Vec::len);
        let known = status["source"] == "coordinator" && primaries == 0;
        if here && status["state"] == "serving" || !here && known {
            return here;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{:#}\n{:#}", node.get("/v1/node").await, node.get(&path).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_in_a_detach_leaves_no_zombie() {
    let place = Place::new();
    let nodes = place.cluster(&["a"]).await;
    nodes[0].create("web", 1).await;
    for after in CUTS.map(Duration::from_millis) {
        nodes[0].attach("web").await;
        ask_and_leave(&nodes[0], "POST", "/v1/volumes/web/detach", &Value::Null, after).await;
        // In the midst of the detach, and after it: either refused, or attached and served.
        let path = "/v1/volumes/web/attach";
        let (status, answer) = nodes[0].call("POST", path, json!({"how": "nbd"})).await;
        assert!(status == 200 || answer["error"]["code"] == "attached", "{answer:#}");
        if status == 200 {
            assert_eq!(answer["volume"]["state"], "serving", "after {after:?}: {answer:#}");
        }
        if agreed(&nodes[0], "web").await {
            nodes[0].detach("web").await;
        }
    }
    nodes[0].ok("DELETE", "/v1/volumes/web", Value::Null).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_leaves_in_any_change_leaves_it_done_to_its_end() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    for (turn, after) in CUTS.map(Duration::from_millis).into_iter().enumerate() {
        let (name, node) = (format!("v{turn}"), &nodes[turn % 2]);
        let path = format!("/v1/volumes/{name}");
        let draft = json!({"name": name, "size": 4 << 20, "replicas": 2});
        let leave = async |method, path: &str, body| {
            ask_and_leave(node, method, path, &body, after).await;
        };
        leave("POST", "/v1/volumes", draft).await;
        node.until(&path, |v| v["volume"]["state"] == "detached").await;
        leave("POST", &format!("{path}/attach"), json!({"how": "nbd"})).await;
        node.until(&path, |v| v["volume"]["exports"][0]["kind"] == "nbd").await;
        leave("PATCH", &path, json!({"size": 8 << 20})).await;
        node.until(&path, |v| v["volume"]["size"] == 8 << 20).await;
        leave("DELETE", &format!("{path}/exports/nbd"), Value::Null).await;
        node.until(&path, |v| v["volume"]["exports"] == json!([])).await;
        leave("POST", &format!("{path}/detach"), Value::Null).await;
        node.until(&path, |v| v["volume"]["state"] == "detached").await;
        assert!(!agreed(node, &name).await);
        leave("POST", &format!("{path}/stop"), Value::Null).await;
        node.until(&path, |v| v["volume"]["state"] == "stopped").await;
        leave("DELETE", &path, Value::Null).await;
        node.until(&path, |v| v["error"]["code"] == "no-such-volume").await;
        for node in &nodes {
            let deadline = std::time::Instant::now() + Duration::from_secs(10);
            while !node.replicas("d").is_empty() {
                assert!(std::time::Instant::now() < deadline, "after {after:?}: left on a disk");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}
