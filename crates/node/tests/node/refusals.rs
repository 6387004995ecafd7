//! A refusal names what it is about as whoever asked does. Nodes ask each other by identities, and
//! so does the command of replicas: nobody who reads a refusal has seen those.

use serde_json::{Value, json};

use crate::support::{Place, TestNode};

/// Whether a text has an identity, `01234567-89ab-cdef-0123-456789abcdef`, in it.
fn has_identity(text: &str) -> bool {
    let is_identity = |bytes: &[u8]| {
        bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    };
    text.as_bytes().windows(36).any(is_identity)
}

/// Asks each node; tells how many have refused.
async fn refused(nodes: &[&TestNode], method: &str, path: &str, body: Value) -> usize {
    for node in nodes {
        let (status, answer) = node.call(method, path, body.clone()).await;
        assert_ne!(status, 200, "{method} {path} at {}: {answer:#}", node.name);
        let error = &answer["error"];
        for part in ["what", "why", "do"] {
            let text = error[part].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{method} {path} at {}: {answer:#}", node.name);
            assert!(!has_identity(text), "{method} {path} at {}: {part}: {text}", node.name);
        }
    }
    nodes.len()
}

async fn create(node: &TestNode, name: &str, on: &[&str]) -> Value {
    let request = json!({"name": name, "size": 4 << 20, "replicas": on.len(), "on": on});
    node.ok("POST", "/v1/volumes", request).await;
    node.get(&format!("/v1/volumes/{name}")).await
}

fn replica_on(status: &Value, node: &str) -> String {
    let replicas = status["volume"]["mirrors"][0]["replicas"].as_array().unwrap();
    let found = replicas.iter().find(|replica| replica["node"]["name"] == node).unwrap();
    found["id"].as_str().unwrap().to_owned()
}

#[test]
fn an_identity_is_recognised() {
    assert!(has_identity("replica 01234567-89ab-cdef-0123-456789abcdef of web"));
    assert!(!has_identity("replica 01234567 of web is in-sync, by the newest view of n1:disk-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_shows_no_identity_that_nobody_asked_by() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    let web = create(&nodes[0], "web", &["a:d", "b:d"]).await;
    let one = create(&nodes[0], "one", &["a:d"]).await;
    create(&nodes[0], "off", &["b:d"]).await;
    nodes[1].attach("web").await;
    let (at_a, at_b, last) = (replica_on(&web, "a"), replica_on(&web, "b"), replica_on(&one, "a"));
    let register = json!({"action": "register", "host": "b", "key": "1"});
    nodes[0].ok("POST", "/v1/volumes/web/reservation", register).await;
    nodes[1].ok("POST", "/v1/volumes/off/stop", Value::Null).await;

    let nobody = "11111111-1111-1111-1111-111111111111";
    let reservation = |action: &str, key: &str| json!({"action": action, "key": key, "victim": "7", "kind": "write-exclusive"});
    let cases = [
        ("POST", "/v1/volumes", json!({"name": "web", "size": 4 << 20, "replicas": 1})),
        ("POST", "/v1/volumes", json!({"name": "new", "size": 4 << 20, "replicas": 9})),
        (
            "POST",
            "/v1/volumes",
            json!({"name": "new", "size": 4 << 20, "on": ["c:d"], "replicas": 1}),
        ),
        ("POST", "/v1/volumes/web/rename", json!({"name": "other"})),
        ("POST", "/v1/volumes/one/rename", json!({"name": "web"})),
        ("DELETE", "/v1/volumes/web", Value::Null),
        ("DELETE", "/v1/volumes/one?removes=", Value::Null),
        ("DELETE", "/v1/volumes/nothing", Value::Null),
        ("PATCH", "/v1/volumes/web", json!({"size": 4096})),
        ("PATCH", "/v1/volumes/web", json!({"size": 1u64 << 50})),
        ("PATCH", "/v1/volumes/web", json!({"replicas": 5})),
        ("PATCH", "/v1/volumes/web", json!({"replicas": 1, "removes": [nobody]})),
        ("PATCH", "/v1/volumes/web", json!({"protocol": "A", "primaries": 2})),
        ("PATCH", "/v1/volumes/one", json!({"lease_ms": 1})),
        ("PATCH", "/v1/volumes/off", json!({"protocol": "A"})),
        ("POST", "/v1/volumes/one/verify", json!({"repair": true})),
        ("POST", "/v1/volumes/web/verify", json!({"repair": true, "source": "c:d"})),
        ("POST", "/v1/volumes/off/attach", json!({"how": "none"})),
        ("POST", "/v1/volumes/web/attach", json!({"how": "none"})),
        ("POST", "/v1/volumes/one/attach", json!({"how": "none", "node": "c"})),
        ("POST", "/v1/volumes/one/detach", Value::Null),
        ("POST", "/v1/volumes/web/detach", json!({"node": "a"})),
        ("POST", "/v1/volumes/one/exports/nbd", json!({"tcp": false, "read_only": false})),
        ("POST", "/v1/volumes/web/exports/nbd", json!({"tcp": true, "read_only": false})),
        ("DELETE", "/v1/volumes/one/exports/nbd", Value::Null),
        ("POST", "/v1/volumes/web/replicas", json!({"on": "c"})),
        ("POST", "/v1/volumes/web/replicas", json!({"on": "a", "replaces": at_b.as_str()})),
        ("POST", "/v1/volumes/web/replicas", json!({"on": "a", "replaces": "n9"})),
        ("POST", "/v1/volumes/off/replicas", json!({"on": "a"})),
        ("POST", "/v1/volumes/one/replicas/a:d/remove", Value::Null),
        ("POST", "/v1/volumes/web/replicas/c:d/fail", Value::Null),
        ("POST", "/v1/volumes/web/reservation", reservation("reserve", "9")),
        ("POST", "/v1/volumes/web/reservation", reservation("release", "9")),
        ("POST", "/v1/volumes/web/reservation", reservation("preempt", "9")),
        ("POST", "/v1/volumes/web/reservation", reservation("clear", "9")),
        ("POST", "/v1/volumes/web/reservation", json!({"action": "drop", "removes": []})),
        ("DELETE", "/v1/nodes/a", Value::Null),
        ("DELETE", "/v1/nodes/b", Value::Null),
        ("DELETE", "/v1/nodes/c", Value::Null),
        ("DELETE", "/v1/disks/d", Value::Null),
        ("GET", "/v1/volumes/web/plans/delete", Value::Null),
    ];
    let both = [&nodes[0], &nodes[1]];
    let mut count = 0;
    for (method, path, body) in cases {
        count += refused(&both, method, path, body).await;
    }
    // As the command asks, which finds the replica that a person means.
    for (volume, replica, action) in [
        ("web", at_a.as_str(), "remove"),
        ("web", &at_b, "remove"),
        ("one", &last, "fail"),
        ("one", &last, "remove"),
        ("web", nobody, "fail"),
        ("web", nobody, "re-add"),
        ("nothing", nobody, "fail"),
    ] {
        let path = format!("/v1/volumes/{volume}/replicas/{replica}/{action}");
        count += refused(&both, "POST", &path, Value::Null).await;
        if action != "re-add" {
            count += refused(&both, "GET", &format!("{path}/plan"), Value::Null).await;
        }
    }
    assert!(count > 80, "{count}");

    // Without the coordinator.
    nodes[0].crash().await;
    let alone = [&nodes[1]];
    for (method, path, body) in [
        ("POST", "/v1/volumes", json!({"name": "new", "size": 4 << 20, "replicas": 1})),
        ("PATCH", "/v1/volumes/web", json!({"protocol": "A"})),
        ("POST", "/v1/volumes/web/detach", Value::Null),
        ("POST", "/v1/volumes/off/attach", json!({"how": "none"})),
        ("GET", "/v1/volumes/one", Value::Null),
        ("GET", "/v1/nodes", Value::Null),
    ] {
        refused(&alone, method, path, body).await;
    }
    let path = format!("/v1/volumes/web/replicas/{at_a}/fail");
    refused(&alone, "POST", &path, Value::Null).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_cannot_be_changed_is_served_as_it_was() {
    let place = Place::new();
    let nodes = place.cluster(&["a"]).await;
    let node = &nodes[0];
    create(node, "web", &["a:d"]).await;
    let export = node.attach("web").await["export"].clone();
    let socket = std::path::PathBuf::from(export["socket"].as_str().unwrap());
    // Nothing can be made where the new one is.
    let blocked = socket.with_extension("new");
    std::fs::create_dir(&blocked).unwrap();
    let (path, read_only) =
        ("/v1/volumes/web/exports/nbd", json!({"tcp": false, "read_only": true}));
    node.refused("POST", path, read_only.clone(), "system").await;
    let status = node.get("/v1/volumes/web").await;
    assert_eq!(status["volume"]["exports"][0]["read_only"], false, "{status:#}");
    tokio::net::UnixStream::connect(&socket).await.unwrap();
    std::fs::remove_dir(&blocked).unwrap();
    let changed = node.ok("POST", path, read_only).await;
    assert_eq!(changed["export"]["read_only"], true, "{changed:#}");
    tokio::net::UnixStream::connect(&socket).await.unwrap();
    node.detach("web").await;
    assert!(!socket.exists());
}
