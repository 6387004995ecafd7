//! Connections that say nothing: as many as somebody likes, and nobody else is kept out.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixStream};
use tokio::time::timeout;

use crate::support::{Place, TestNode};

/// For what happens at once.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn strangers_that_say_nothing_keep_no_member_out() {
    let place = Place::new();
    let mut first = TestNode::new(&place, "a");
    first.config.peer.max_unauthenticated = 4;
    // No deadline frees a seat while this runs.
    first.config.peer.handshake_seconds = 60;
    first.start().await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(UnixStream::connect(first.directory.join("peer.sock")).await.unwrap());
    }
    let closed = timeout(SOON, silent[0].read(&mut [0])).await;
    assert!(matches!(closed, Ok(Ok(0))), "the oldest has not given way: {closed:?}");
    let mut second = TestNode::new(&place, "b");
    second.start().await.unwrap();
    second.until("/v1/nodes", |n| n["nodes"].as_array().is_some_and(|n| n.len() == 2)).await;
    second.add_disk("d").await;
    second.create("web", 1).await;
}

async fn connect(from: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    socket.connect(to).await.unwrap()
}

/// Waits until a request for the metrics is answered.
async fn until_served(by: SocketAddr) {
    let deadline = Instant::now() + SOON;
    loop {
        let answer = metrics("127.0.0.1", by).await;
        if answer.starts_with("HTTP/1.1 200") && answer.contains("evenkeel_node_info") {
            return;
        }
        assert!(Instant::now() < deadline, "{answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A request for the metrics from this address of the machine; what is answered.
async fn metrics(from: &str, to: SocketAddr) -> String {
    let mut stream = connect(from, to).await;
    let request = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    // The other side may have closed already.
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_machine_does_not_take_all_connections_to_the_metrics() {
    // After five seconds of silence the node closes a connection.
    const SILENCE: Duration = Duration::from_secs(5);
    let place = Place::new();
    let mut node = TestNode::new(&place, "a");
    // Nobody else has it in between, as far as is likely.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    node.config.metrics.listen = Some(free.to_string());
    node.start().await.unwrap();
    // A machine that is too busy for that needs another try.
    for _ in 0..10 {
        let began = Instant::now();
        let mut silent = Vec::new();
        for place in 0..64 {
            // All addresses of loopback are one machine's.
            silent.push(connect(&format!("127.0.0.{}", 1 + place % 4), free).await);
        }
        let own = metrics("127.0.0.5", free).await;
        if began.elapsed() < SILENCE {
            assert_eq!(own, "", "the source has more than its share");
            drop(silent);
            until_served(free).await;
            return;
        }
    }
    panic!("no try was quick enough");
}
