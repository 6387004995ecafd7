//! The database of the coordinator fails while its daemon runs, or is older than it was.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_node::config::Address;
use evenkeel_node::coordinator::remote::Remote;
use evenkeel_node::coordinator::{Answer, CallFuture, Coordinator, Embedded, Request};
use redb::{ReadableDatabase as _, ReadableTableMetadata as _, TableDefinition};
use serde_json::{Value, json};

use crate::again::{copy_database, let_go_of};
use crate::support::{Place, TestNode};

/// The database of a node, out of order.
struct Broken {
    path: PathBuf,
    away: PathBuf,
}

impl Broken {
    /// An error of its disk, and nothing is where it was.
    fn new(node: &TestNode) -> Self {
        let broken = Self::later(node);
        broken.begin(node.running().embedded.as_ref().unwrap());
        broken
    }

    /// Nothing is broken yet.
    fn later(node: &TestNode) -> Self {
        let path = node.config.state.join("coordinator.redb");
        let away = path.with_extension("away");
        Self { path, away }
    }

    fn begin(&self, coordinator: &Embedded) {
        std::fs::rename(&self.path, &self.away).unwrap();
        coordinator.open_anew();
    }

    fn repair(&self) {
        std::fs::rename(&self.away, &self.path).unwrap();
    }
}

/// The way to a coordinator whose database fails as soon as it has stored a draft.
struct FailsAfterDraft {
    remote: Remote,
    coordinator: Embedded,
    broken: Arc<Broken>,
    has_failed: AtomicBool,
}

impl Coordinator for FailsAfterDraft {
    fn call(&self, request: Request) -> CallFuture<'_> {
        Box::pin(async move {
            let is_draft = matches!(request, Request::Draft { .. });
            let answer = self.remote.call(request).await;
            if is_draft && !self.has_failed.swap(true, Ordering::Relaxed) {
                self.broken.begin(&self.coordinator);
            }
            answer
        })
    }
}

/// Whether a volume is meant to be shown by NBD on a node, as the coordinator knows.
fn is_nbd_wanted(coordinator: &TestNode, volume: &str, node: &TestNode) -> bool {
    let embedded = coordinator.running().embedded.as_ref().unwrap();
    let answer = embedded.answer(Request::Read { volume: volume.into() });
    let Ok(Answer::Volume(stored)) = answer else { panic!("{answer:?}") };
    let shown = stored.record.wanted_on.get(&node.node().identity.node.to_string());
    shown.and_then(Option::as_ref).is_some_and(|shown| shown.nbd.is_some())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fails_stops_the_coordinator_for_as_long_as_it_does() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    let broken = Broken::new(&nodes[0]);
    for node in &nodes {
        let request = json!({"name": "mail", "size": 4 << 20, "replicas": 1});
        let refused = node.refused("POST", "/v1/volumes", request, "no-coordinator").await;
        let why = refused["why"].as_str().unwrap();
        assert!(why.contains("the coordinator's database"), "{why}");
        assert!(!why.contains("backup"), "{why}");
    }
    broken.repair();
    nodes[1].until("/v1/volumes/web", |v| v["volume"]["state"] == "detached").await;
    nodes[1].attach("web").await;
    nodes[1].detach("web").await;
    for node in &mut nodes {
        node.stop().await;
    }
}

/// Else the node would export it again after its next start.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_database_could_not_store_is_told_again() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 1).await;
    nodes[1].attach("web").await;
    assert!(is_nbd_wanted(&nodes[0], "web", &nodes[1]));
    let broken = Broken::new(&nodes[0]);
    nodes[1].ok("DELETE", "/v1/volumes/web/exports/nbd", Value::Null).await;
    // Time for an answer to what was told.
    tokio::time::sleep(Duration::from_secs(2)).await;
    broken.repair();
    nodes[1].until("/v1/node", |n| n["node"]["coordinator"]["reachable"] == true).await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while is_nbd_wanted(&nodes[0], "web", &nodes[1]) {
        assert!(tokio::time::Instant::now() < deadline, "it is not told");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    nodes[1].detach("web").await;
    for node in &mut nodes {
        node.stop().await;
    }
}

/// Else what was made of the volume would stay for as long as the node runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_draft_is_given_up_once_the_database_works() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    let broken = Arc::new(Broken::later(&nodes[0]));
    let way = &nodes[1].node().coordinator;
    let address = Address::parse(&way.membership().address.unwrap()).unwrap();
    let fails = FailsAfterDraft {
        remote: Remote::new(nodes[1].node().peers.clone(), address.clone()),
        coordinator: nodes[0].running().embedded.clone().unwrap(),
        broken: broken.clone(),
        has_failed: AtomicBool::new(false),
    };
    way.set(Arc::new(fails), Some(&address));
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 1});
    nodes[1].refused("POST", "/v1/volumes", request, "no-coordinator").await;
    broken.repair();
    let database = nodes[0].config.state.join("coordinator.redb");
    // The next attempt comes after five seconds.
    tokio::time::sleep(Duration::from_secs(8)).await;
    for node in &mut nodes {
        node.stop().await;
    }
    let_go_of(&database).await;
    let database = redb::Database::open(&database).unwrap();
    let stored = database.begin_read().unwrap();
    let given_up = stored.open_table(TableDefinition::<&str, u64>::new("given-up")).unwrap();
    assert_eq!(given_up.len().unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_node_stays_removed_when_the_database_is_restored_or_lost() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    let database = nodes[0].config.state.join("coordinator.redb");
    let old = place.path().join("old");
    nodes[0].stop().await;
    copy_database(&database, &old).await;
    nodes[0].restart().await;
    let removed = nodes[1].node().identity.node;
    nodes[0].ok("DELETE", "/v1/nodes/b", Value::Null).await;
    nodes[1].stop().await;
    for is_lost in [false, true] {
        nodes[0].stop().await;
        let_go_of(&database).await;
        match is_lost {
            false => copy_database(&old, &database).await,
            true => std::fs::remove_file(&database).unwrap(),
        }
        nodes[0].restart().await;
        nodes[1].restart().await;
        is_refused(&nodes[1]).await;
        nodes[0].until("/v1/nodes", |n| names(n) == ["a", "c"]).await;
        assert!(nodes[2].node().peers.removed(removed).is_some());
        nodes[1].stop().await;
    }
    // One that is new, and has the name of the old one, is welcome.
    let [_, b, _] = &mut nodes[..] else { panic!() };
    std::fs::remove_dir_all(&b.config.state).unwrap();
    b.restart().await;
    for node in &nodes {
        node.until("/v1/nodes", |n| names(n) == ["a", "b", "c"]).await;
    }
    for node in &mut nodes {
        node.stop().await;
    }
}

async fn is_refused(node: &TestNode) {
    let address = node.config.coordinator.join.clone().unwrap();
    let join = json!({"address": address});
    node.refused("POST", "/v1/node/join", join, "node-removed").await;
}

fn names(answer: &Value) -> Vec<&str> {
    let nodes = answer["nodes"].as_array();
    nodes.into_iter().flatten().filter_map(|node| node["name"].as_str()).collect()
}
