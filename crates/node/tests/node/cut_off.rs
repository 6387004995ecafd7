//! Clients that go away before they are answered: what they asked for is done to its end, and the
//! node and the coordinator agree on it.

use std::cell::Cell;
use std::time::{Duration, Instant};

use evenkeel_node::config::Address;
use evenkeel_node::peer::{Destination, Wanted};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

use crate::support::{Place, TestNode};

/// Moments at which the client goes away after its request.
const CUTS: [u64; 10] = [0, 1, 2, 3, 5, 8, 13, 21, 40, 80];

/// Sends a request. Whoever lets go of the connection goes away.
async fn ask(node: &TestNode, (method, path, body): &Asked<'_>) -> UnixStream {
    let mut stream = UnixStream::connect(node.config.api_socket()).await.unwrap();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// What a client asks for before it goes away.
type Asked<'a> = (&'a str, &'a str, Value);

/// How often a client had to ask again though the node had begun what it asked for.
#[derive(Default)]
struct Repeats(Cell<u32>);

/// Whoever goes so early may be gone before the node has read its request: then nothing is begun.
const EARLY: Duration = Duration::from_millis(10);

/// Waits until the node has begun what it was asked for, or has done it already.
async fn until_begun(node: &TestNode, shown: &str, is_done: &impl Fn(&Value) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while node.running().tasks.under_way() == 0
        && !is_done(&node.call("GET", shown, Value::Null).await.1)
    {
        assert!(Instant::now() < deadline, "{shown}: nothing was begun");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A client asks and goes away; what it asked for is done. What the coordinator does not commit in
/// time is given up if nobody awaits it: then another client asks again. That is rare.
async fn leave(
    repeats: &Repeats,
    node: &TestNode,
    after: Duration,
    asked: Asked<'_>,
    shown: &str,
    is_done: impl Fn(&Value) -> bool,
) -> Value {
    let mut pause = after;
    loop {
        let client = ask(node, &asked).await;
        tokio::time::sleep(pause).await;
        if pause >= EARLY {
            until_begun(node, shown, &is_done).await;
        }
        drop(client);
        let patience = Duration::from_secs(if pause < EARLY { 5 } else { 30 });
        let done = node.until(shown, &is_done);
        if let Ok(answer) = tokio::time::timeout(patience, done).await {
            return answer;
        }
        if pause >= EARLY {
            repeats.0.update(|repeats| repeats + 1);
            assert!(repeats.0.get() <= 3, "{asked:?} after {pause:?}: it is not done to its end");
        }
        pause = (pause * 10).max(Duration::from_millis(500)).min(Duration::from_secs(20));
    }
}

/// The node's view of what is attached here, and the coordinator's, once both say the same.
async fn agreed(node: &TestNode, volume: &str) -> bool {
    let path = format!("/v1/volumes/{volume}");
    for _ in 0..1200 {
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
        let client = ask(&nodes[0], &("POST", "/v1/volumes/web/detach", Value::Null)).await;
        tokio::time::sleep(after).await;
        drop(client);
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
    let (place, repeats) = (Place::new(), Repeats::default());
    let nodes = place.cluster(&["a", "b"]).await;
    for (turn, after) in CUTS.map(Duration::from_millis).into_iter().enumerate() {
        let (name, node) = (format!("v{turn}"), &nodes[turn % 2]);
        let path = format!("/v1/volumes/{name}");
        let draft = json!({"name": name, "size": 4 << 20, "replicas": 2});
        leave(&repeats, node, after, ("POST", "/v1/volumes", draft), &path, |v| {
            v["volume"]["state"] == "detached"
        })
        .await;
        leave(
            &repeats,
            node,
            after,
            ("POST", &format!("{path}/attach"), json!({"how": "nbd"})),
            &path,
            |v| v["volume"]["exports"][0]["kind"] == "nbd",
        )
        .await;
        leave(&repeats, node, after, ("PATCH", &path, json!({"size": 8 << 20})), &path, |v| {
            v["volume"]["size"] == 8 << 20
        })
        .await;
        leave(
            &repeats,
            node,
            after,
            ("DELETE", &format!("{path}/exports/nbd"), Value::Null),
            &path,
            |v| v["volume"]["exports"] == json!([]),
        )
        .await;
        leave(
            &repeats,
            node,
            after,
            ("POST", &format!("{path}/detach"), Value::Null),
            &path,
            |v| v["volume"]["state"] == "detached",
        )
        .await;
        assert!(!agreed(node, &name).await);
        leave(&repeats, node, after, ("POST", &format!("{path}/stop"), Value::Null), &path, |v| {
            v["volume"]["state"] == "stopped"
        })
        .await;
        leave(&repeats, node, after, ("DELETE", &path, Value::Null), &path, |v| {
            v["error"]["code"] == "no-such-volume"
        })
        .await;
        for node in &nodes {
            let deadline = Instant::now() + Duration::from_secs(60);
            while !node.replicas("d").is_empty() {
                assert!(Instant::now() < deadline, "after {after:?}: left on a disk");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// What only nodes ask of each other: the method, the path, and whether it is carried out by a
/// task.
const PEERS: [(&str, &str, bool); 10] = [
    ("POST", "/peer/v1/replicas", true),
    ("DELETE", "/peer/v1/volumes/x/replicas/x", true),
    ("POST", "/peer/v1/volumes/x/replicas/x/room", true),
    ("POST", "/peer/v1/sweep", true),
    ("POST", "/peer/v1/certificate", true),
    ("GET", "/peer/v1/found", false),
    ("POST", "/peer/v1/read", false),
    ("POST", "/peer/v1/removed", false),
    ("POST", "/peer/v1/replicas/conditions", false),
    ("POST", "/peer/v1/coordinator", false),
];

/// The paths of the document, with something in place of what is in braces.
fn document(node_document: &Value) -> Vec<(String, Value)> {
    let paths = node_document["paths"].as_object().unwrap();
    let fill = |part: &str| if part.starts_with('{') { "x".to_owned() } else { part.to_owned() };
    let filled = |path: &str| path.split('/').map(fill).collect::<Vec<_>>().join("/");
    paths.iter().map(|(path, methods)| (filled(path), methods.clone())).collect()
}

/// A node that takes no more changes refuses whatever would be a task; so each that is refused is
/// one, and goes to its end ([`evenkeel_node::tasks`]). The rest must not be able to change
/// anything.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_may_change_something_is_a_task_on_every_path() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    let paths = document(&nodes[0].get("/v1/openapi.json").await);
    let routes = include_str!("../../src/api/server.rs").matches(".route(").count();
    // Those of the metrics' own listener, the metrics and the document describe no JSON; two paths
    // are served to nodes by some of their methods only, and have two routes.
    assert_eq!(routes, paths.len() + PEERS.len() + 3 + 2, "a path is not looked at by this test");
    assert!(nodes[0].running().tasks.finish(Duration::from_secs(10)).await);
    let mut changing = 0;
    for (path, methods) in &paths {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let (_, answer) = nodes[0].call(method, path, json!({})).await;
            let is_task = answer["error"]["code"] == "stopping";
            let is_there = !methods[method.to_lowercase()].is_null();
            assert_eq!(is_task, is_there && method != "GET", "{method} {path}: {answer:#}");
            changing += usize::from(is_task);
        }
    }
    assert!(changing > 15, "only {changing}");
    let address = Address::parse(&place.config("a").peer.listen[0]).unwrap();
    for (method, path, is_task) in PEERS {
        let (method, body) = (method.parse().unwrap(), "{}".into());
        let peers = &nodes[1].node().peers;
        let to = Destination { address: &address, wanted: &Wanted::Anyone };
        let asked = peers.request(to, method, path, body, Duration::from_secs(10)).await;
        let answer = String::from_utf8_lossy(&asked.unwrap().1).into_owned();
        assert_eq!(answer.contains("\"stopping\""), is_task, "{path}: {answer}");
    }
}

/// The same as above, of those that need several nodes and disks.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_leaves_in_a_change_of_members_leaves_it_done_to_its_end() {
    let (place, repeats) = (Place::new(), Repeats::default());
    let nodes = place.cluster(&["a", "b", "c"]).await;
    for (turn, after) in [0, 1, 5, 40].map(Duration::from_millis).into_iter().enumerate() {
        let (name, node) = (format!("v{turn}"), &nodes[turn % 2]);
        let path = format!("/v1/volumes/{name}");
        let homes = |v: &Value| -> Vec<String> {
            let replicas = v["volume"]["mirrors"][0]["replicas"].as_array().cloned();
            let home = |r: &Value| format!("{} {}", r["node"]["name"], r["state"]);
            let mut all: Vec<String> = replicas.iter().flatten().map(home).collect();
            all.sort();
            all.into_iter().map(|home| home.replace('"', "")).collect()
        };
        let draft = json!({"name": name, "size": 4 << 20, "replicas": 2, "on": ["a:d", "b:d"]});
        node.ok("POST", "/v1/volumes", draft).await;
        nodes[0].attach(&name).await;
        node.until(&path, |v| homes(v) == ["a in-sync", "b in-sync"]).await;
        leave(
            &repeats,
            node,
            after,
            ("POST", &format!("{path}/replicas"), json!({"on": "c:d"})),
            &path,
            |v| homes(v) == ["a in-sync", "b in-sync", "c in-sync"],
        )
        .await;
        leave(
            &repeats,
            node,
            after,
            ("POST", &format!("{path}/replicas/c:d/fail"), Value::Null),
            &path,
            |v| homes(v) == ["a in-sync", "b in-sync", "c faulty"],
        )
        .await;
        leave(
            &repeats,
            node,
            after,
            ("POST", &format!("{path}/replicas/c:d/re-add"), Value::Null),
            &path,
            |v| homes(v) == ["a in-sync", "b in-sync", "c in-sync"],
        )
        .await;
        let two = |v: &Value| homes(v).len() == 2 && v["volume"]["lease_ms"] == 2000;
        let fewer = ("PATCH", &*path, json!({"lease_ms": 2000, "replicas": 2}));
        let left = homes(&leave(&repeats, node, after, fewer, &path, two).await);
        assert!(left.contains(&"a in-sync".to_owned()), "{left:?}");
        let other = left[1].split(' ').next().unwrap();
        let to = if other == "b" { "c" } else { "b" };
        let replace = json!({"replaces": format!("{other}:d"), "on": format!("{to}:d")});
        let moved = ["a in-sync".to_owned(), format!("{to} in-sync")];
        let replace = ("POST", &*format!("{path}/replicas"), replace);
        leave(&repeats, node, after, replace, &path, |v| homes(v) == moved).await;
        let retire = ("POST", &*format!("{path}/replicas/{to}:d/retire"), Value::Null);
        leave(&repeats, node, after, retire, &path, |v| homes(v) == ["a in-sync"]).await;
        let verify = ("POST", &*format!("{path}/verify"), json!({}));
        leave(&repeats, node, after, verify, &path, |v| v["volume"]["verify"]["state"] == "done")
            .await;
        nodes[0].detach(&name).await;
        let renamed = format!("w{turn}");
        let rename = ("POST", &*format!("{path}/rename"), json!({"name": renamed}));
        let path = format!("/v1/volumes/{renamed}");
        leave(&repeats, node, after, rename, &path, |v| v["volume"]["name"] == renamed.as_str())
            .await;
        node.ok("POST", &format!("{path}/stop"), Value::Null).await;
        let assemble = ("POST", "/v1/assemble", json!({"volume": renamed}));
        leave(&repeats, node, after, assemble, &path, |v| v["volume"]["state"] == "detached").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_leaves_in_a_change_of_a_node_leaves_it_done_to_its_end() {
    let (place, repeats) = (Place::new(), Repeats::default());
    let mut nodes = place.cluster(&["a", "b"]).await;
    for (turn, after) in [0, 1, 5, 40].map(Duration::from_millis).into_iter().enumerate() {
        let named = |answer: &Value, name: &str| {
            answer["disks"].as_array().unwrap().iter().any(|disk| disk["name"] == name)
        };
        // Each turn its own: one that was just removed is let go of a moment after it is not listed
        // any more.
        let more = format!("more{turn}");
        std::fs::create_dir_all(nodes[0].disk(&more)).unwrap();
        leave(
            &repeats,
            &nodes[0],
            after,
            ("POST", "/v1/disks", json!({"path": nodes[0].disk(&more)})),
            "/v1/disks",
            |answer| named(answer, &more),
        )
        .await;
        leave(
            &repeats,
            &nodes[0],
            after,
            ("DELETE", &format!("/v1/disks/{more}"), Value::Null),
            "/v1/disks",
            |answer| !named(answer, &more),
        )
        .await;
        let cluster = format!("cluster{turn}");
        leave(
            &repeats,
            &nodes[0],
            after,
            ("POST", "/v1/cluster/rename", json!({"name": cluster})),
            "/v1/node",
            |answer| answer["node"]["cluster"] == cluster.as_str(),
        )
        .await;
    }
    nodes[1].stop().await;
    let path = "/v1/nodes/b";
    let dead = |answer: &Value| {
        answer["nodes"].as_array().unwrap().iter().any(|node| node["alive"] == false)
    };
    nodes[0].until("/v1/nodes", dead).await;
    let alone = |answer: &Value| answer["nodes"].as_array().unwrap().len() == 1;
    let remove = ("DELETE", path, Value::Null);
    leave(&repeats, &nodes[0], Duration::ZERO, remove, "/v1/nodes", alone).await;
    let mut joins = TestNode::new(&place, "c");
    let address = joins.config.coordinator.join.take().unwrap();
    joins.config.cluster = "cluster3".into();
    joins.start().await.unwrap();
    let joined = |answer: &Value| answer["node"]["coordinator"]["reachable"] == true;
    let join = ("POST", "/v1/node/join", json!({"address": address}));
    leave(&repeats, &joins, Duration::ZERO, join, "/v1/node", joined).await;
}
