//! Nodes that are removed from the cluster.

use std::os::fd::AsFd as _;
use std::time::Duration;

use evenkeel_engine::Connection;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::reported::cut_off;
use crate::support::{Place, TestNode};

/// Waits until a node is known to be dead.
pub async fn is_dead(node: &TestNode, name: &str) {
    node.until("/v1/nodes", |answer| {
        let nodes = answer["nodes"].as_array().unwrap();
        nodes.iter().any(|n| n["name"] == name && n["alive"] == false)
    })
    .await;
}

async fn replicas(node: &TestNode, volume: &str) -> usize {
    let answer = node.get(&format!("/v1/volumes/{volume}")).await;
    answer["volume"]["mirrors"][0]["replicas"].as_array().unwrap().len()
}

/// The node says that it was removed, and is refused.
async fn is_reported(node: &TestNode) {
    let is_reported = |warning: &Value| {
        warning.as_str().is_some_and(|text| {
            let begin = format!("this node is refused by the coordinator: node {} was", node.name);
            text.starts_with(&begin) && text.contains(" was removed from the cluster on")
        })
    };
    node.until("/v1/node", |answer| {
        answer["node"]["warnings"].as_array().is_some_and(|all| all.iter().any(is_reported))
    })
    .await;
    let address = node.config.coordinator.join.clone().unwrap();
    node.refused("POST", "/v1/node/join", json!({"address": address}), "node-removed").await;
    node.refused("POST", "/v1/volumes/music/attach", json!({"how": "nbd"}), "node-removed").await;
}

/// A volume that had a copy on c is not called in-sync.
async fn lacks_a_copy_of_c(node: &TestNode, name: &str) {
    let answer = node.get(&format!("/v1/volumes/{name}")).await;
    let (volume, mirror) = (&answer["volume"], &answer["volume"]["mirrors"][0]);
    // What a killed primary had open is copied, perhaps only when the volume is attached again.
    let summary = mirror["summary"].as_str().unwrap();
    assert!(["[UU-]", "[UR-]", "[RU-]"].contains(&summary), "{answer:#}");
    assert_eq!(volume["health"], "degraded");
    assert_eq!(mirror["lost"].as_array().unwrap().len(), 1, "{answer:#}");
    assert_eq!(mirror["lost"][0]["node"], "c", "{answer:#}");
    let why = volume["reason"].as_str().unwrap();
    let lost = format!(
        "it lost a copy with node c, which was removed from the cluster: no other nodes are left for new ones: join some, with a disk each, then `evenkeel volume change {name} --replicas 3`; `--replicas 2` leaves it so"
    );
    assert!(why.contains(&lost), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_node_is_removed_with_its_replicas_and_refused_when_it_returns() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    nodes[0].create("music", 3).await;
    nodes[0].attach("music").await;
    nodes[0].create("film", 3).await;
    nodes[2].attach("film").await;
    let solo = json!({"name": "solo", "size": 4 << 20, "replicas": 1, "on": ["c:d"]});
    nodes[0].ok("POST", "/v1/volumes", solo).await;
    let [a, b, c] = &mut nodes[..] else { panic!() };
    a.refused("DELETE", "/v1/nodes/a", Value::Null, "node-in-use").await;
    a.refused("DELETE", "/v1/nodes/z", Value::Null, "no-such-node").await;
    let living = b.refused("DELETE", "/v1/nodes/c", Value::Null, "node-in-use").await;
    let advice = living["do"].as_str().unwrap();
    assert!(advice.starts_with("If it has died, wait 3 s and try again; "), "{advice}");
    assert!(advice.contains("detach film --node c"), "{advice}");
    assert!(advice.contains("volume music: no other node can take c:d: "), "{advice}");

    c.crash().await;
    is_dead(a, "c").await;
    let last = a.refused("GET", "/v1/nodes/c/plan", Value::Null, "last-in-sync").await;
    assert!(last["why"].as_str().unwrap().contains("volume solo"), "{last}");
    a.ok("DELETE", "/v1/volumes/solo", Value::Null).await;

    let dry = a.get("/v1/nodes/c/plan").await;
    let lost = dry["plan"]["removes"].as_array().unwrap();
    assert_eq!(lost.len(), 2, "{dry:#}");
    assert!(lost.iter().all(|replica| replica["node"]["name"] == "c"), "{dry:#}");
    let left = &dry["plan"]["leaves"][1];
    let mut in_sync: Vec<_> = left["in_sync"].as_array().unwrap().iter().collect();
    in_sync.sort_by_key(|place| place.as_str());
    assert_eq!((&left["volume"], in_sync), (&json!("music"), vec![&json!("a:d"), &json!("b:d")]));
    assert_eq!(replicas(a, "music").await, 3, "a plan changes nothing");
    let unnamed = a.refused("DELETE", "/v1/nodes/c", Value::Null, "bad-request").await;
    assert!(unnamed["why"].as_str().unwrap().contains("c:d of music"), "{unnamed}");
    let other = "/v1/nodes/c?removes=11111111-1111-1111-1111-111111111111";
    a.refused("DELETE", other, Value::Null, "wrong-state").await;

    let ids: Vec<&str> = lost.iter().map(|replica| replica["id"].as_str().unwrap()).collect();
    let path = format!("/v1/nodes/c?removes={}", ids.join(","));
    let done = b.ok("DELETE", &path, Value::Null).await;
    assert_eq!(done["removed"], true, "{done:#}");
    assert_eq!((replicas(a, "music").await, replicas(a, "film").await), (2, 2));
    for volume in ["music", "film"] {
        lacks_a_copy_of_c(a, volume).await;
        lacks_a_copy_of_c(b, volume).await;
    }
    assert_eq!(a.get("/v1/nodes").await["nodes"].as_array().unwrap().len(), 2);
    let again = a.ok("DELETE", "/v1/nodes/c", Value::Null).await;
    assert_eq!(again["removed"], false, "{again:#}");
    assert!(again["message"].as_str().unwrap().contains("was removed from the cluster on"));

    // As many copies as before, or fewer for good: then nothing is missing.
    let more = json!({"replicas": 3, "same_node": true});
    a.ok("PATCH", "/v1/volumes/music", more).await;
    let fewer = b.ok("PATCH", "/v1/volumes/film", json!({"replicas": 2})).await;
    assert_eq!(fewer["changed"], true, "{fewer:#}");
    let message = "it is meant to have 2 copies: none is missing any more";
    assert_eq!(fewer["message"], message, "{fewer:#}");
    let again = b.ok("PATCH", "/v1/volumes/film", json!({"replicas": 2})).await;
    assert_eq!(again["changed"], false, "{again:#}");
    // What is left of its rebuild goes on while it is attached.
    b.attach("film").await;
    for volume in ["music", "film"] {
        let path = format!("/v1/volumes/{volume}");
        a.until(&path, |v| v["volume"]["health"] == "in-sync").await;
        b.until(&path, |v| v["volume"]["mirrors"][0].get("lost").is_none()).await;
    }

    c.restart().await;
    is_reported(c).await;
    assert_eq!(a.get("/v1/nodes").await["nodes"].as_array().unwrap().len(), 2);
    for node in &mut nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_is_removed_while_it_runs() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    let music = json!({"name": "music", "size": 4 << 20, "replicas": 2, "on": ["a:d", "b:d"]});
    nodes[0].ok("POST", "/v1/volumes", music).await;
    nodes[0].attach("music").await;
    nodes[0].refused("DELETE", "/v1/nodes/b", Value::Null, "node-in-use").await;
    let request = json!({"on": "c", "replaces": "b:d"});
    nodes[2].ok("POST", "/v1/volumes/music/replicas", request.clone()).await;
    nodes[0]
        .until("/v1/volumes/music", |answer| {
            let replicas = answer["volume"]["mirrors"][0]["replicas"].as_array().unwrap();
            replicas.len() == 2 && answer["volume"]["health"] == "in-sync"
        })
        .await;
    let again = nodes[2].ok("POST", "/v1/volumes/music/replicas", request).await;
    assert_eq!(again["changed"], false, "{again:#}");
    let done = nodes[0].ok("DELETE", "/v1/nodes/b", Value::Null).await;
    assert_eq!((&done["removed"], &done["plan"]["removes"]), (&json!(true), &json!([])));
    is_reported(&nodes[1]).await;
    for node in &mut nodes {
        node.stop().await;
    }
}

/// The other end of a connection to a replica: whether it is closed within so many milliseconds.
async fn is_closed_within(link: &Connection, milliseconds: u64) -> bool {
    let socket = link.as_fd().try_clone_to_owned().unwrap();
    let stream = std::os::unix::net::UnixStream::from(socket);
    stream.set_nonblocking(true).unwrap();
    let mut stream = tokio::net::UnixStream::from_std(stream).unwrap();
    let end = async { !matches!(stream.read(&mut [0; 64]).await, Ok(1..)) };
    tokio::time::timeout(Duration::from_millis(milliseconds), end).await.unwrap_or(false)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_links_of_a_node_that_is_removed_end_everywhere_by_the_command() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    let music = json!({"name": "music", "size": 4 << 20, "replicas": 2, "on": ["a:d", "b:d"]});
    nodes[0].ok("POST", "/v1/volumes", music).await;
    let volume = &nodes[0].get("/v1/volumes/music").await["volume"];
    let id = volume["id"].as_str().unwrap().parse().unwrap();
    let mut links = Vec::new();
    for replica in volume["mirrors"][0]["replicas"].as_array().unwrap() {
        let on =
            nodes[2].node().coordinator.node_by_name(replica["node"]["name"].as_str().unwrap());
        let replica = replica["id"].as_str().unwrap().parse().unwrap();
        let peers = &nodes[2].node().peers;
        links.push(peers.connect_replica(on.as_ref(), id, replica).await.unwrap());
    }
    assert_eq!(links.len(), 2);
    for link in &links {
        assert!(!is_closed_within(link, 300).await, "nobody has ended it yet");
    }
    let done = nodes[0].ok("DELETE", "/v1/nodes/c", Value::Null).await;
    let message = done["message"].as_str().unwrap();
    // Whoever is too slow to be told within seconds is named.
    assert!(message.starts_with("node c is removed from the cluster"), "{message}");
    for link in &links {
        assert!(is_closed_within(link, 60_000).await);
    }
    for node in &mut nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_hears_of_a_newer_membership_lets_nobody_in_before_it_has_fetched_it() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    let music = json!({"name": "music", "size": 4 << 20, "replicas": 1, "on": ["b:d"]});
    nodes[0].ok("POST", "/v1/volumes", music).await;
    let made = nodes[0].get("/v1/volumes/music").await;
    let volume = made["volume"]["id"].as_str().unwrap().parse().unwrap();
    let replica = &made["volume"]["mirrors"][0]["replicas"][0]["id"];
    let replica = replica.as_str().unwrap().parse().unwrap();
    let connect = async |from: &TestNode| {
        let b = from.node().coordinator.node_by_name("b");
        let connected = from.node().peers.connect_replica(b.as_ref(), volume, replica).await;
        connected.map(drop).map_err(|error| error.to_string())
    };
    let known = |node: &TestNode| node.running().credentials.epoch.known();
    for node in &nodes {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while known(node) != known(&nodes[0]) || node.node().coordinator.nodes().len() < 3 {
            assert!(tokio::time::Instant::now() < deadline, "{}", node.name);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let join_again = cut_off(&nodes[1]);
    let done = nodes[0].ok("DELETE", "/v1/nodes/c", Value::Null).await;
    let message = done["message"].as_str().unwrap();
    assert!(message.contains("but not yet by b"), "{message}");
    // Nobody has told b anything, and c knows no newer epoch either.
    assert_eq!(connect(&nodes[2]).await, Ok(()));
    for from in [&nodes[0], &nodes[2]] {
        let why = connect(from).await.unwrap_err();
        assert!(why.contains("node b has learned that nodes have joined"), "{}: {why}", from.name);
    }
    join_again();
    assert_eq!(connect(&nodes[0]).await, Ok(()));
    let why = connect(&nodes[2]).await.unwrap_err();
    assert!(why.contains("was removed from the cluster"), "{why}");
    for node in &mut nodes {
        node.stop().await;
    }
}

/// A shared volume's other primaries evict a dead one some leases after it has died, which may be
/// later than it counts as dead: nothing is removed before.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_of_a_shared_volume_go_only_when_the_dead_primary_is_evicted() {
    let place = Place::new();
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        let mut node = TestNode::new(&place, name);
        node.config.times.lease_ms = 4000;
        node.start().await.unwrap();
        node.add_disk("d").await;
        nodes.push(node);
    }
    nodes[0].until("/v1/nodes", |n| n["nodes"].as_array().is_some_and(|all| all.len() == 3)).await;
    let web = json!({"name": "web", "size": 4 << 20, "replicas": 3, "primaries": 2});
    nodes[0]
        .until("/v1/disks?all=true", |d| d["disks"].as_array().is_some_and(|all| all.len() == 3))
        .await;
    nodes[0].ok("POST", "/v1/volumes", web).await;
    nodes[0].attach("web").await;
    nodes[2].attach("web").await;
    nodes[2].crash().await;
    is_dead(&nodes[0], "c").await;
    let primaries = nodes[0].get("/v1/volumes/web").await["volume"]["primaries"].clone();
    assert_eq!(primaries.as_array().unwrap().len(), 2, "c is not evicted yet: {primaries:#}");
    let plan = nodes[0].get("/v1/nodes/c/plan").await;
    let lost = plan["plan"]["removes"][0]["id"].as_str().unwrap();
    assert!(!plan["message"].as_str().unwrap().contains("heartbeats from none"), "{plan:#}");
    let done = nodes[0].ok("DELETE", &format!("/v1/nodes/c?removes={lost}"), Value::Null).await;
    assert_eq!(done["removed"], true, "{done:#}");
    let web = &nodes[0].get("/v1/volumes/web").await["volume"];
    assert_eq!(web["primaries"].as_array().unwrap().len(), 1, "{web:#}");
    assert_eq!(replicas(&nodes[0], "web").await, 2);

    // A coordinator that hears nobody says so with the plan.
    nodes[1].crash().await;
    is_dead(&nodes[0], "b").await;
    let plan = nodes[0].get("/v1/nodes/b/plan").await;
    let message = plan["message"].as_str().unwrap();
    assert!(
        message.contains("this coordinator receives heartbeats from none of the other nodes"),
        "{plan:#}"
    );
}

/// Right after its start a coordinator has heard nobody: a node that is long dead is neither alive
/// nor was it a moment ago.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_not_heard_yet_is_not_called_alive() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    nodes[1].crash().await;
    is_dead(&nodes[0], "b").await;
    let mut is_refused = false;
    // A start that takes long has waited for it already.
    for _ in 0..10 {
        nodes[0].stop().await;
        nodes[0].restart().await;
        let (_, answer) = nodes[0].call("GET", "/v1/nodes/b/plan", Value::Null).await;
        let why = answer["error"]["why"].as_str().unwrap_or_default();
        is_refused = why.contains("the coordinator has just started or stood still");
        if is_refused {
            break;
        }
        assert!(answer["plan"].is_object(), "{answer:#}");
    }
    assert!(is_refused, "it never has to be waited for");
    is_dead(&nodes[0], "b").await;
    nodes[0].until("/v1/nodes/b/plan", |plan| plan["plan"]["removes"].is_array()).await;
}

/// What is cut off between two volumes has taken the replicas out of the first; the same command
/// goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_removal_that_was_cut_off_between_two_volumes_goes_on() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    for name in ["film", "music"] {
        nodes[0].create(name, 3).await;
    }
    nodes[2].crash().await;
    is_dead(&nodes[0], "c").await;
    let plan = nodes[0].get("/v1/nodes/c/plan").await;
    let lost = plan["plan"]["removes"].as_array().unwrap();
    assert_eq!(lost.len(), 2, "{plan:#}");
    let ids: Vec<&str> = lost.iter().map(|replica| replica["id"].as_str().unwrap()).collect();
    let path = format!("/v1/nodes/c?removes={}", ids.join(","));
    // As far as it came: the first replica has left, the node is a member still.
    let first = format!("/v1/volumes/film/replicas/{}/retire", ids[0]);
    nodes[0].ok("POST", &first, Value::Null).await;
    assert_eq!((replicas(&nodes[0], "film").await, replicas(&nodes[0], "music").await), (2, 3));

    let again = nodes[1].get("/v1/nodes/c/plan").await;
    let left = again["plan"]["removes"].as_array().unwrap();
    assert_eq!((left.len(), &left[0]["volume"]), (1, &json!("music")), "{again:#}");
    let done = nodes[1].ok("DELETE", &path, Value::Null).await;
    assert_eq!(done["removed"], true, "{done:#}");
    assert_eq!((replicas(&nodes[0], "film").await, replicas(&nodes[0], "music").await), (2, 2));
    nodes[0].until("/v1/nodes", |n| n["nodes"].as_array().unwrap().len() == 2).await;
    // Of the first a replica was taken out for its own sake.
    for (volume, health) in [("film", "in-sync"), ("music", "degraded")] {
        nodes[0].attach(volume).await;
        let path = format!("/v1/volumes/{volume}");
        nodes[0].until(&path, |v| v["volume"]["health"] == health).await;
        nodes[0].detach(volume).await;
    }
}

/// A coordinator that is cut off takes all others for dead. What one of them has attached is not
/// taken over because a replica of it lies on another one, which is removed.
#[tokio::test(flavor = "multi_thread")]
async fn a_removal_takes_no_volume_over_from_another_silent_node() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    nodes[0].create("music", 3).await;
    nodes[1].attach("music").await;
    nodes[0].create("film", 3).await;
    nodes[2].crash().await;
    nodes[1].crash().await;
    let a = &nodes[0];
    is_dead(a, "b").await;
    is_dead(a, "c").await;
    let on_c = async |volume: &str| {
        let status = a.get(&format!("/v1/volumes/{volume}")).await;
        let replicas = status["volume"]["mirrors"][0]["replicas"].as_array().unwrap();
        let replica = replicas.iter().find(|replica| replica["node"]["name"] == "c").unwrap();
        replica["id"].as_str().unwrap().to_owned()
    };
    let remove = format!("/v1/nodes/c?removes={},{}", on_c("music").await, on_c("film").await);
    let planned = a.refused("GET", "/v1/nodes/c/plan", Value::Null, "node-in-use").await;
    let refused = a.refused("DELETE", &remove, Value::Null, "node-in-use").await;
    for error in [planned, refused] {
        let (why, advice) = (error["why"].as_str().unwrap(), error["do"].as_str().unwrap());
        assert!(why.contains("music is attached on b, which does not answer"), "{error}");
        assert!(why.contains("b:d would become stale and music stay detached"), "{error}");
        assert!(advice.contains("take music over first by `evenkeel attach music`"), "{error}");
    }
    let status = &a.get("/v1/volumes/music").await["volume"];
    assert_eq!(status["primaries"][0]["node"]["name"], "b", "{status:#}");
    assert_eq!(replicas(a, "music").await, 3);

    // Somebody who means that volume takes it over: then only what answers counts.
    a.attach("music").await;
    let plan = a.get("/v1/nodes/c/plan").await;
    let in_sync = |answer: &Value| {
        let leaves = answer["plan"]["leaves"].as_array().unwrap().clone();
        leaves.into_iter().map(|left| left["in_sync"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(in_sync(&plan), [json!(["a:d"]), json!(["a:d"])], "{plan:#}");
    let done = a.ok("DELETE", &remove, Value::Null).await;
    assert_eq!((&done["removed"], in_sync(&done)), (&json!(true), in_sync(&plan)), "{done:#}");
    let message = done["message"].as_str().unwrap();
    assert!(message.contains("receives heartbeats from none of the other nodes"), "{message}");
}
