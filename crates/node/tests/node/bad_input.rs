//! Garbage on every socket, damaged disks, places in use: each is reported, nothing is lost.

use std::os::unix::fs::FileExt;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use crate::support::{Place, TestNode};

#[tokio::test(flavor = "multi_thread")]
async fn garbage_on_a_socket_hurts_nobody_else() {
    let place = Place::new();
    let mut node = TestNode::new(&place, "a");
    node.config.peer.listen.push("127.0.0.1:0".into());
    node.config.nbd.listen = vec!["127.0.0.1:0".into()];
    node.config.metrics.listen = None;
    evenkeel_node::certificates::init(&node.config).unwrap();
    node.start().await.unwrap();
    node.add_disk("d").await;
    node.create("web", 1).await;
    node.attach("web").await;
    let exported = node.ok("POST", "/v1/volumes/web/exports/nbd", json!({"tcp": true})).await;
    let nbd = exported["export"]["tcp"][0].as_str().unwrap().to_owned();
    let peer = node.get("/v1/node").await["node"]["addresses"][1].as_str().unwrap().to_owned();
    let garbage: Vec<u8> =
        (0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let lines = b"GET / HTTP/9.9\r\n\r\n".to_vec();
    for bytes in [garbage, lines, vec![0; 3], vec![0xff; 64]] {
        for socket in [
            node.config.api_socket(),
            node.directory.join("peer.sock"),
            node.config.runtime.join("nbd/web.sock"),
        ] {
            let mut stream = UnixStream::connect(socket).await.unwrap();
            // The other side may have closed already.
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
        }
        for address in [&peer, &nbd] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
        }
    }
    let status = node.get("/v1/volumes/web").await;
    assert_eq!(status["volume"]["state"], "serving");
    node.ok("DELETE", "/v1/volumes/web/exports/nbd", Value::Null).await;
    node.refused("DELETE", "/v1/volumes/web/exports/nbd", Value::Null, "no-such-export").await;
    node.detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_is_refused_with_its_reason() {
    let place = Place::new();
    let mut node = TestNode::new(&place, "a");
    node.start().await.unwrap();
    node.refused("GET", "/v1/nothing", Value::Null, "no-such-path").await;
    node.refused("PUT", "/v1/node", Value::Null, "no-such-path").await;
    node.refused("POST", "/v1/volumes", json!([1]), "bad-request").await;
    node.refused("POST", "/v1/disks", json!({}), "bad-request").await;
    node.refused("GET", "/v1/disks?al=true", Value::Null, "bad-request").await;
    node.refused("GET", "/v1/volumes/%ad", Value::Null, "bad-request").await;
    node.refused("DELETE", "/v1/disks/none", Value::Null, "no-such-disk").await;
    node.refused("POST", "/v1/node/join", json!({"address": "b:1"}), "already-joined").await;
    node.refused("POST", "/v1/volumes/x/attach", json!({"node": "y"}), "no-such-node").await;
    node.refused("POST", "/v1/volumes/x/attach", Value::Null, "no-such-volume").await;
    // What only nodes ask of each other is not served to users.
    node.refused("POST", "/peer/v1/coordinator", json!("nodes"), "no-such-path").await;
}

/// An answer that closes the connection on somebody who still sends would be lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_nobody_wants_and_that_comes_late_is_taken() {
    let place = Place::new();
    let mut node = TestNode::new(&place, "a");
    node.start().await.unwrap();
    let mut stream = UnixStream::connect(node.config.api_socket()).await.unwrap();
    for method in ["PATCH", "PUT", "GET"] {
        let head =
            format!("{method} /v1/nothing HTTP/1.1\r\nhost: x\r\ncontent-length: 9000\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        stream.write_all(&[b'x'; 9000]).await.unwrap();
        let mut answer = vec![0; 4096];
        let count = stream.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..count]);
        assert!(answer.starts_with("HTTP/1.1 404"), "{method}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn places_in_use_end_the_start() {
    let place = Place::new();
    let mut node = TestNode::new(&place, "a");
    node.start().await.unwrap();
    node.add_disk("d").await;
    let fails = async |config: &evenkeel_node::Config| {
        evenkeel_node::Daemon::start(config.clone()).await.err().unwrap().to_string()
    };
    let error = fails(&node.config).await;
    assert!(error.contains(&format!("process {}", std::process::id())), "{error}");

    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = place.config("b");
    config.peer.listen = vec![taken.local_addr().unwrap().to_string()];
    let error = fails(&config).await;
    assert!(error.contains("another program uses it"), "{error}");
    config = place.config("b");
    config.api.socket = Some(node.config.api_socket());
    let error = fails(&config).await;
    assert!(error.contains("another daemon is listening there"), "{error}");

    // A disk of another node, whatever is asked for.
    let mut other = TestNode::new(&place, "c");
    other.config.coordinator.join = None;
    other.start().await.unwrap();
    let add = json!({"path": node.disk("d"), "force": true});
    other.refused("POST", "/v1/disks", add, "disk-in-use").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_replica_is_reported_and_the_others_are_served() {
    let place = Place::new();
    let mut node = TestNode::new(&place, "a");
    node.start().await.unwrap();
    node.add_disk("d").await;
    node.create("web", 1).await;
    let damaged = node.replicas("d");
    node.create("shop", 1).await;
    node.crash().await;
    let file = std::fs::File::options().write(true).open(&damaged[0]).unwrap();
    for offset in [100, (512 << 10) + 100] {
        file.write_all_at(&[0xaa; 32], offset).unwrap();
    }
    node.restart().await;
    let disks = node.get("/v1/disks").await;
    let replicas = disks["disks"][0]["replicas"].as_array().unwrap().clone();
    let problems: Vec<&str> = replicas.iter().filter_map(|r| r["problem"].as_str()).collect();
    assert_eq!(problems.len(), 1, "{disks:#}");
    assert!(problems[0].contains("checksum"), "{disks:#}");
    node.attach("shop").await;
    node.refused("POST", "/v1/volumes/web/attach", json!({"how": "none"}), "no-data").await;
    node.detach("shop").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documents_are_whole() {
    let place = Place::new();
    let mut node = TestNode::new(&place, "a");
    node.start().await.unwrap();
    node.add_disk("d").await;
    node.create("web", 1).await;
    node.attach("web").await;
    let document = node.get("/v1/openapi.json").await;
    for path in [
        evenkeel_api::routes::NODE,
        evenkeel_api::routes::JOIN,
        evenkeel_api::routes::NODES,
        evenkeel_api::routes::DISKS,
        evenkeel_api::routes::DISK,
        evenkeel_api::routes::VOLUMES,
        evenkeel_api::routes::VOLUME,
        evenkeel_api::routes::ATTACH,
        evenkeel_api::routes::DETACH,
        evenkeel_api::routes::EXPORT_NBD,
        evenkeel_api::routes::REPLICA,
    ] {
        assert!(document["paths"][path].is_object(), "{path} is not described");
    }
    let metrics = node.get("/metrics").await;
    let metrics = metrics.as_str().unwrap();
    for name in ["evenkeel_volume_serving{volume=\"web\"} 1", "evenkeel_coordinator_reachable 1"] {
        assert!(metrics.contains(name), "{name} is missing:\n{metrics}");
    }
    let longest = metrics.lines().find_map(|l| l.strip_prefix("evenkeel_worker_turn_seconds_max{"));
    let seconds = longest.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    assert!(seconds.is_some_and(|seconds| seconds > 0.0), "no turn took any time:\n{metrics}");
    node.detach("web").await;
}
