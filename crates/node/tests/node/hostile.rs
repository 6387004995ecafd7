//! A member that asks for more than members ask of each other.

use std::fs::Permissions;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::{ReplicaId, VolumeId};
use evenkeel_node::config::Address;
use evenkeel_node::peer::{Destination, Wanted};
use evenkeel_node::{Config, certificates};
use evenkeel_wire::hello::Purpose;
use hyper::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{Place, TestNode};
use crate::trust::{authority, invite, join, node};

/// What a node asks of another one on behalf of a user. A new route is refused to members, or
/// stands here: then it must not take a path or an address of this machine from the request.
const FORWARDED: [(&str, &str); 17] = [
    ("GET", "/v1/node"),
    ("GET", "/v1/disks"),
    ("GET", "/v1/volumes/{volume}"),
    ("PATCH", "/v1/volumes/{volume}"),
    ("POST", "/v1/volumes/{volume}/verify"),
    ("POST", "/v1/volumes/{volume}/reservation"),
    ("POST", "/v1/volumes/{volume}/attach"),
    ("POST", "/v1/volumes/{volume}/detach"),
    ("POST", "/v1/volumes/{volume}/exports/nbd"),
    ("DELETE", "/v1/volumes/{volume}/exports/nbd"),
    ("POST", "/v1/volumes/{volume}/exports/nvme"),
    ("DELETE", "/v1/volumes/{volume}/exports/nvme"),
    ("DELETE", "/v1/volumes/{volume}/exports"),
    ("POST", "/v1/volumes/{volume}/replicas"),
    ("POST", "/v1/volumes/{volume}/replicas/{replica}/{action}"),
    ("GET", "/v1/volumes/{volume}/plans/change"),
    ("GET", "/v1/volumes/{volume}/replicas/{replica}/{action}/plan"),
];

/// A request of one node to another, as a member: the status, and the code of the error.
async fn ask(
    member: &TestNode,
    other: &TestNode,
    (method, path): (&str, &str),
    body: Value,
) -> (u16, Value) {
    let address = Address::parse(&other.config.peer.listen[0]).unwrap();
    let method: Method = method.parse().unwrap();
    let to = Destination { address: &address, wanted: &Wanted::Anyone };
    let body = body.to_string().into();
    let asked = member.node().peers.request(to, method, path, body, Duration::from_secs(30));
    let (status, answer) = asked.await.unwrap();
    let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
    (status.as_u16(), answer["error"]["code"].clone())
}

fn filled(path: &str) -> String {
    let fill = |part: &str| if part.starts_with('{') { "x".to_owned() } else { part.to_owned() };
    path.split('/').map(fill).collect::<Vec<_>>().join("/")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_reaches_no_path_that_only_users_of_the_machine_may_ask() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    let document = nodes[0].get("/v1/openapi.json").await;
    let mut routes = vec![("GET", "/v1/openapi.json"), ("GET", "/metrics")];
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            if !methods[method.to_lowercase()].is_null() {
                routes.push((method, path.as_str()));
            }
        }
    }
    assert!(FORWARDED.iter().all(|route| routes.contains(route)), "{routes:?}");
    for (method, path) in routes {
        let asked = (method, &*filled(path));
        let answer = ask(&nodes[1], &nodes[0], asked, json!({})).await;
        let is_served = answer != (404, json!("no-such-path"));
        assert_eq!(is_served, FORWARDED.contains(&(method, path)), "{method} {path}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_writes_no_file_of_another_machine() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    let (file, disk) = (place.path().join("saved"), place.path().join("disk"));
    std::fs::create_dir(&disk).unwrap();
    // What is free of the filesystem changes by what others write there.
    let known = |mut answer: Value| {
        for disk in answer["disks"].as_array_mut().unwrap() {
            let disk = disk.as_object_mut().unwrap();
            disk.retain(|name, _| !name.contains("free") && !name.contains("available"));
        }
        answer
    };
    let disks = known(nodes[0].get("/v1/disks").await);
    let assemble = json!({"volume": "web", "keep": "b:d", "save_differing": file, "force": true});
    for (path, body) in [
        ("/v1/assemble", assemble),
        ("/v1/disks", json!({"path": disk, "force": true})),
        ("/v1/node/join", json!({"address": "127.0.0.1:1", "token": "x"})),
    ] {
        let refused = ask(&nodes[1], &nodes[0], ("POST", path), body).await;
        assert_eq!(refused, (404, json!("no-such-path")), "{path}");
    }
    assert!(!file.exists() && std::fs::read_dir(&disk).unwrap().next().is_none());
    assert_eq!(known(nodes[0].get("/v1/disks").await), disks);
}

/// Nodes say in a header that they ask for a user. One that leaves it out gets nothing by that.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_has_no_node_ask_others_in_its_name() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    let address = Address::parse(&nodes[0].config.peer.listen[0]).unwrap();
    let peers = &nodes[1].node().peers;
    let connected = peers.connect(&address, &Wanted::Anyone, Purpose::Control).await;
    let (mut stream, _) = connected.unwrap();
    let request = "GET /v1/disks?all=true HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let of: Vec<_> = body["disks"].as_array().unwrap().iter().map(|d| &d["node"]["name"]).collect();
    assert_eq!(of, ["a"], "{body:#}");
}

/// Somebody makes another authority for the same cluster, and has a member join by its token.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_changes_no_authority() {
    let (place, elsewhere) = (Place::new(), Place::new());
    let (mut first, address) = authority(&place).await;
    let mut second = node(&place, "b");
    second.start().await.unwrap();
    let token = invite(&first, json!({})).await;
    assert_eq!(join(&second, &address, &token).await, (200, String::new()));
    first.stop().await;
    let mut thief = first.copy(&elsewhere, "a");
    let state = thief.config.state.clone();
    for file in ["authority.key", "authority.pem", "certificate.json", "certificate.key"] {
        std::fs::remove_file(state.join(file)).unwrap();
    }
    thief.config.peer.listen = vec!["127.0.0.1:0".into()];
    certificates::init(&thief.config).unwrap();
    thief.start().await.unwrap();
    let status = thief.get("/v1/node").await;
    let its_address = status["node"]["addresses"][0].as_str().unwrap();
    let token = invite(&thief, json!({"member": "b"})).await;

    let file = second.config.state.join("certificate.json");
    let (kept, tls) = (std::fs::read(&file).unwrap(), second.running().credentials.tls.get());
    let is_unchanged = || {
        let now = second.running().credentials.tls.get().unwrap();
        let is_same = Arc::ptr_eq(&now.client, &tls.as_ref().unwrap().client);
        is_same && std::fs::read(&file).unwrap() == kept
    };
    // Not at the coordinator's address; and if it were, by another authority.
    let (status, why) = join(&second, its_address, &token).await;
    assert!(status == 409 && why.contains(&address), "{status} {why}");
    assert!(is_unchanged());
    let certificates = &second.running().certificates;
    let refused = certificates.join(its_address, &token).await.unwrap_err();
    assert!(refused.why.contains("trusts another authority"), "{refused}");
    assert!(refused.action.contains(file.to_str().unwrap()), "{refused}");
    assert!(is_unchanged());
    // Whoever wants that moves the file away.
    std::fs::remove_file(&file).unwrap();
    certificates.join(its_address, &token).await.unwrap();
    assert!(!is_unchanged());
}

/// Another user of the machine who got at the socket all the same: its directory was opened.
#[tokio::test(flavor = "multi_thread")]
async fn on_a_unix_socket_other_users_are_no_nodes() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    let mut first = node(&place, "a");
    first.config.peer = Config::default().peer;
    // No deadline closes the connection while this runs.
    first.config.peer.handshake_seconds = 60;
    first.start().await.unwrap();
    let path = first.config.runtime.join("peer.sock");
    for open in path.ancestors().take_while(|open| open.starts_with(place.path())) {
        std::fs::set_permissions(open, Permissions::from_mode(0o777)).unwrap();
    }
    let connect = move || {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(12_345)).unwrap();
        std::os::unix::net::UnixStream::connect(path).unwrap()
    };
    let mut stream = std::thread::spawn(connect).join().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let read = tokio::task::spawn_blocking(move || stream.read(&mut [0])).await.unwrap();
    assert!(matches!(read, Ok(0)), "{read:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_a_member_of_another_machine_advertises_is_not_dialed() {
    let place = Place::new();
    let (first, address) = authority(&place).await;
    let mut second = node(&place, "b");
    second.start().await.unwrap();
    let token = invite(&first, json!({})).await;
    assert_eq!(join(&second, &address, &token).await, (200, String::new()));
    let is_known = |n: &Value| n["nodes"].as_array().is_some_and(|n| n.len() == 2);
    second.until("/v1/nodes", is_known).await;
    let path = place.path().join("other");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut member = second.node().coordinator.node_by_name("a").unwrap();
    member.node.addresses = vec![format!("unix:{}", path.display())];
    let (peers, volume, replica) = (&second.node().peers, VolumeId(1), ReplicaId(2));
    assert!(peers.connect_replica(Some(&member), volume, replica).await.is_err());
    assert!(!second.node().cluster.answers(&member).await);
    assert!(listener.accept().is_err(), "it was dialed");
}
