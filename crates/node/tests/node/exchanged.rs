//! Names and addresses that stand for something else when a command gets to use them.

use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use evenkeel_core::VolumeId;
use evenkeel_node::volumes::attachment::actor;
use serde_json::{Value, json};

use crate::support::{Place, TestNode};

fn identity(made: &Value) -> String {
    made["plan"]["id"].as_str().unwrap().to_owned()
}

async fn until_it_waits(node: &TestNode, volume: VolumeId) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !actor::is_turn_awaited(node.node(), volume) {
        assert!(Instant::now() < deadline, "no command waits for its turn");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Has a command wait for another change of the volume "web", and exchanges the volume meanwhile by
/// another one of this name. Returns what the command answered, with the new volume's identity.
async fn exchange_while_it_waits(
    nodes: &[TestNode],
    (method, path, body): (&str, &str, Value),
    meanwhile: impl AsyncFnOnce(&str),
) -> (u16, Value, String) {
    let (waiting, other) = (&nodes[0], &nodes[1]);
    let id = identity(&other.create("web", 1).await);
    let volume: VolumeId = id.parse().unwrap();
    let changing = actor::turn(waiting.node(), volume).await;
    let command = waiting.call(method, path, body);
    let exchange = async {
        until_it_waits(waiting, volume).await;
        other.ok("DELETE", &format!("/v1/volumes/{id}"), Value::Null).await;
        let new = identity(&other.create("web", 1).await);
        meanwhile(&new).await;
        drop(changing);
        new
    };
    let ((status, answer), new) = tokio::join!(command, exchange);
    (status, answer, new)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_that_waits_deletes_the_volume_that_was_named() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    let delete = ("DELETE", "/v1/volumes/web", Value::Null);
    let (status, answer, new) = exchange_while_it_waits(&nodes, delete, async |_: &str| ()).await;
    assert_eq!((status, &answer["error"]["code"]), (404, &json!("no-such-volume")), "{answer:#}");
    let kept = nodes[0].get("/v1/volumes/web").await;
    assert_eq!(kept["volume"]["id"], json!(new), "{kept:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attach_that_waits_takes_no_other_attachment_away() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    let attach = async |new: &str| {
        nodes[0].ok("POST", &format!("/v1/volumes/{new}/attach"), json!({"how": "nbd"})).await;
    };
    let command = ("POST", "/v1/volumes/web/attach", json!({"how": "nbd"}));
    let (status, answer, _) = exchange_while_it_waits(&nodes, command, attach).await;
    assert_eq!((status, &answer["error"]["code"]), (404, &json!("no-such-volume")), "{answer:#}");
    assert_eq!(nodes[0].get("/v1/node").await["node"]["attached"], json!(["web"]));
    let (status, answer) = nodes[1].call("DELETE", "/v1/volumes/web", Value::Null).await;
    assert_eq!(answer["error"]["code"], "attached", "{status} {answer:#}");
    nodes[0].detach("web").await;
}

/// A first address behind which nobody answers: a network that is cut, say.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_reached_by_its_second_address() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a"]).await;
    let mut second = TestNode::new(&place, "b");
    let silent = second.directory.join("silent.sock");
    second.config.peer.listen.insert(0, format!("unix:{}", silent.display()));
    second.start().await.unwrap();
    second.add_disk("d").await;
    std::fs::remove_file(&silent).unwrap();
    let _silent = UnixListener::bind(&silent).unwrap();
    let draft = json!({"name": "web", "size": 4 << 20, "replicas": 1, "on": ["b:d"]});
    let made = nodes[0].ok("POST", "/v1/volumes", draft).await;
    assert_eq!(made["plan"]["name"], "web", "{made:#}");
    second.stop().await;
    nodes[0].stop().await;
}
