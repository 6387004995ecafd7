//! Somebody between two nodes who changes bytes of all their connections: replication, control and
//! coordinator.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_node::certificates;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Place, TestNode};

/// How long the end of a connection may take that was tampered with.
const PATIENCE: Duration = Duration::from_secs(20);

/// Passes on what nodes say to each other.
#[derive(Default)]
struct OnPath {
    /// The next bytes are changed.
    is_armed: AtomicBool,
    /// Connections of which bytes were changed, and which have ended since.
    ended: AtomicUsize,
}

impl OnPath {
    /// Stands before a node. Returns the address that others dial.
    async fn before(self: &Arc<Self>, target: String) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let on_path = self.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (on_path, target) = (on_path.clone(), target.clone());
                tokio::spawn(async move { on_path.relay(near, &target).await });
            }
        });
        address
    }

    async fn relay(&self, near: TcpStream, target: &str) {
        let Ok(far) = TcpStream::connect(target).await else { return };
        let changed = AtomicBool::new(false);
        let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
        tokio::join!(self.pass(near_in, far_out, &changed), self.pass(far_in, near_out, &changed));
        self.ended.fetch_add(changed.into_inner().into(), Ordering::SeqCst);
    }

    async fn pass(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, changed: &AtomicBool) {
        let mut piece = [0; 16 << 10];
        while let Ok(count @ 1..) = from.read(&mut piece).await {
            if self.is_armed.swap(false, Ordering::SeqCst) {
                piece[count - 1] ^= 1;
                changed.store(true, Ordering::SeqCst);
            }
            if to.write_all(&piece[..count]).await.is_err() {
                break;
            }
        }
        let _ = to.shutdown().await;
    }

    /// Changes a byte, and waits until the connection has ended on which that was.
    async fn strike(&self) {
        let before = self.ended.load(Ordering::SeqCst);
        self.is_armed.store(true, Ordering::SeqCst);
        let end = async {
            while self.ended.load(Ordering::SeqCst) == before {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let ended = tokio::time::timeout(PATIENCE, end).await;
        ended.expect("a connection goes on of which a byte was changed");
    }
}

/// A node that others reach only through somebody on the path.
async fn node(place: &Place, name: &str, on_path: &Arc<OnPath>) -> (TestNode, String) {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address = on_path.before(free.to_string()).await;
    let mut node = TestNode::new(place, name);
    node.config.peer.listen = vec![free.to_string()];
    node.config.peer.advertise = vec![address.clone()];
    node.config.coordinator.join = None;
    (node, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_byte_that_is_changed_ends_the_connection_and_is_never_read() {
    let place = Place::new();
    let on_path = Arc::new(OnPath::default());
    let (mut first, address) = node(&place, "a", &on_path).await;
    certificates::init(&first.config).unwrap();
    first.start().await.unwrap();
    first.add_disk("d").await;
    let invited = first.ok("POST", "/v1/cluster/invite", json!({})).await;
    let (mut second, _) = node(&place, "b", &on_path).await;
    second.start().await.unwrap();
    let join = json!({"address": address, "token": invited["token"]});
    second.ok("POST", "/v1/node/join", join).await;
    second.add_disk("d").await;
    first.until("/v1/nodes", |n| n["nodes"].as_array().is_some_and(|n| n.len() == 2)).await;
    first.create("web", 2).await;
    first.attach("web").await;
    let is_whole = |status: &Value| {
        let replicas = status["volume"]["mirrors"][0]["replicas"].as_array();
        status["volume"]["health"] == "in-sync"
            && replicas.is_some_and(|all| all.iter().all(|replica| replica["connected"] == true))
    };
    for _ in 0..8 {
        first.until("/v1/volumes/web", is_whole).await;
        // One that was cut off is not done; only that they speak matters.
        let _ = first.call("POST", "/v1/volumes/web/verify", json!({})).await;
        on_path.strike().await;
    }
    first.until("/v1/volumes/web", is_whole).await;
    first.ok("POST", "/v1/volumes/web/verify", json!({})).await;
    let done = |status: &Value| status["volume"]["verify"]["state"] == "done";
    let status = first.until("/v1/volumes/web", done).await;
    let verify = &status["volume"]["verify"];
    assert_eq!((&verify["different"], &verify["damaged"]), (&json!(0), &json!(0)), "{status:#}");
    first.detach("web").await;
}
