//! What several nodes do together.

use serde_json::{Value, json};

use crate::support::{Place, TestNode};

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_created_attached_detached_and_deleted() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b", "c"]).await;
    let plan = json!({"name": "web", "size": 4 << 20, "dry_run": true});
    let planned = nodes[1].ok("POST", "/v1/volumes", plan).await;
    assert_eq!((&planned["created"], &planned["version"]), (&json!(false), &json!(1)));
    assert!(nodes.iter().all(|node| node.replicas("d").is_empty()));

    nodes[1].create("web", 3).await;
    assert!(nodes.iter().all(|node| node.replicas("d").len() == 1));
    let created = nodes[2].get("/v1/volumes/web").await;
    assert_eq!(created["volume"]["state"], "detached");
    assert_eq!(created["volume"]["mirrors"][0]["summary"], "[UUU]");

    let attached = nodes[0].attach("web").await;
    assert!(attached["export"]["uris"][0].as_str().unwrap().starts_with("nbd+unix:"));
    // Another node asks the one where it is attached.
    let status = nodes[2].get("/v1/volumes/web?wait=10&until=serving").await;
    assert_eq!(status["volume"]["state"], "serving", "{status:#}");
    assert_eq!(status["volume"]["source"], "primary");
    assert_eq!(status["volume"]["primaries"][0]["node"]["name"], "a");
    assert_eq!(status["volume"]["primaries"][0]["here"], false);
    let attach = "/v1/volumes/web/attach";
    nodes[0].refused("POST", attach, json!({"how": "nbd"}), "attached").await;
    nodes[1].refused("POST", attach, json!({"how": "none"}), "attached-elsewhere").await;
    nodes[1].refused("DELETE", "/v1/volumes/web", Value::Null, "attached").await;

    // From any node that says where.
    let detach = json!({"node": "a"});
    let detached = nodes[1].ok("POST", "/v1/volumes/web/detach", detach).await;
    assert_eq!(detached["clean"], true, "{detached:#}");
    nodes[1].refused("POST", "/v1/volumes/web/detach", Value::Null, "not-attached").await;
    let deleted = nodes[2].ok("DELETE", "/v1/volumes/web", Value::Null).await;
    assert_eq!(deleted["removed"], 3);
    assert!(nodes.iter().all(|node| node.replicas("d").is_empty()));
    nodes[0].refused("GET", "/v1/volumes/web", Value::Null, "no-such-volume").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_detached_only_where_it_is_attached() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b", "c"]).await;
    nodes[0].create("web", 3).await;
    nodes[2].attach("web").await;
    let detach = "/v1/volumes/web/detach";
    for (asked, named) in [(0, "a"), (0, "b"), (2, "a"), (1, "b")] {
        let code = "attached-elsewhere";
        let error = nodes[asked].refused("POST", detach, json!({"node": named}), code).await;
        assert_eq!(error["why"], format!("it is attached on node c, not on node {named}"));
        assert_eq!(error["do"], "Detach it there: `evenkeel detach web --node c`");
    }
    // Whoever names no node means the one that is asked.
    let error = nodes[1].refused("POST", detach, Value::Null, "attached-elsewhere").await;
    assert_eq!(error["why"], "it is attached on node c, not on node b");
    assert_eq!(error["do"], "Detach it there: `evenkeel detach web --node c`");
    let status = nodes[0].get("/v1/volumes/web").await;
    assert_eq!(status["volume"]["primaries"][0]["node"]["name"], "c", "{status:#}");
    nodes[0].ok("POST", detach, json!({"node": "c"})).await;
    for named in ["a", "b"] {
        nodes[0].refused("POST", detach, json!({"node": named}), "not-attached").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_joins_at_any_node_of_the_cluster() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    let mut c = TestNode::new(&place, "c");
    c.config.coordinator.join = None;
    c.start().await.unwrap();
    let at = |node: &TestNode| json!({"address": node.config.peer.listen[0]});
    c.ok("POST", "/v1/node/join", at(&nodes[1])).await;
    let status = c.get("/v1/node").await;
    let coordinator = &status["node"]["coordinator"];
    assert_eq!(coordinator["address"], nodes[0].config.peer.listen[0].as_str(), "{status:#}");
    nodes[0].until("/v1/nodes", |n| n["nodes"].as_array().unwrap().len() == 3).await;
    // Twice is as once, by whichever node of the cluster.
    for again in [&nodes[1], &nodes[0], &nodes[1]] {
        let answer = c.ok("POST", "/v1/node/join", at(again)).await;
        assert_eq!(answer["node"]["cluster"], status["node"]["cluster"], "{answer:#}");
    }

    // A node that has joined nobody knows no coordinator: there is nowhere to go on to.
    let mut alone = TestNode::new(&place, "alone");
    alone.config.coordinator.join = None;
    alone.start().await.unwrap();
    let mut d = TestNode::new(&place, "d");
    d.config.coordinator.join = None;
    d.start().await.unwrap();
    let error = d.refused("POST", "/v1/node/join", at(&alone), "wrong-cluster").await;
    assert_eq!(error["why"], "node alone does not serve it");
    // And a member does not leave its cluster for another one.
    let error = c.refused("POST", "/v1/node/join", at(&alone), "already-joined").await;
    let own = nodes[0].config.peer.listen[0].as_str();
    assert_eq!(error["why"], format!("it belongs to the one of {own}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_not_made_smaller() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    nodes[1].attach("web").await;
    let smaller = json!({"size": 1 << 20});
    let error = nodes[0].refused("PATCH", "/v1/volumes/web", smaller, "would-lose-data").await;
    assert_eq!(error["what"], "cannot change volume web (asked: node b)");
    assert_eq!(error["why"], "it has 4M: what lies beyond 1M would be lost");
    let grown = nodes[0].ok("PATCH", "/v1/volumes/web", json!({"size": 8 << 20})).await;
    let message = grown["message"].as_str().unwrap();
    assert!(message.starts_with("it has 8M now"), "{message}");
    nodes[1].detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_silent_is_named_as_unreachable() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 1, "on": ["b:d"]});
    nodes[0].ok("POST", "/v1/volumes", request).await;
    nodes[1].attach("web").await;
    nodes[1].crash().await;
    // Whoever connects waits for an answer, as with a machine that is frozen.
    let socket = nodes[1].directory.join("peer.sock");
    std::fs::remove_file(&socket).unwrap();
    let frozen = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let detach = "/v1/volumes/web/detach";
    let there = json!({"node": "b"});
    let error = nodes[0].refused("POST", detach, there, "node-unreachable").await;
    assert!(error["why"].as_str().unwrap().ends_with("no connection within 4 s"), "{error}");
    drop(frozen);
    nodes[0].until("/v1/nodes", |n| n["nodes"][1]["alive"] == false).await;
    let attach = "/v1/volumes/web/attach";
    let error = nodes[0].refused("POST", attach, json!({"how": "nbd"}), "node-unreachable").await;
    assert_eq!(error["why"], "no in-sync replica answers: the node of b:d is dead");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_created_is_refused_with_its_reason() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    let cases = [
        (json!({"name": "web", "size": 1 << 20, "replicas": 2}), "name-in-use"),
        (json!({"name": "v", "size": 1 << 20, "replicas": 3}), "not-enough-disks"),
        (json!({"name": "v", "size": 1u64 << 50, "replicas": 2}), "disk-too-small"),
        (json!({"name": "v", "size": 0}), "bad-request"),
        (json!({"name": "-v", "size": 4096}), "bad-request"),
        (json!({"name": "v", "size": 4096, "replicas": 17}), "bad-request"),
        (json!({"name": "v", "size": 4096, "chunk": 5000}), "bad-request"),
        (json!({"name": "v", "size": 4096, "block_size": 1024}), "bad-request"),
        (json!({"name": "v", "size": 4096, "sise": 1}), "bad-request"),
        (json!({"name": "v", "size": 4096, "replicas": 1, "on": ["a:x"]}), "no-such-disk"),
        (json!({"name": "v", "size": 4096, "replicas": 2, "on": ["a:d"]}), "bad-request"),
    ];
    for (request, code) in cases {
        nodes[1].refused("POST", "/v1/volumes", request, code).await;
    }
    assert_eq!(nodes[0].replicas("d").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_failed_removed_and_re_added() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b", "c"]).await;
    nodes[0].create("web", 3).await;
    let command =
        |replica: &str, action: &str| format!("/v1/volumes/web/replicas/{replica}/{action}");
    // Attached nowhere: the view alone changes.
    let failed = nodes[1].ok("POST", &command("c:d", "fail"), Value::Null).await;
    assert_eq!(failed["volume"]["health"], "degraded");
    nodes[1].ok("POST", &command("c:d", "re-add"), Value::Null).await;
    nodes[0].attach("web").await;
    nodes[0].until("/v1/volumes/web", |v| v["volume"]["health"] == "in-sync").await;

    // Attached: the primary does it, whichever node is asked.
    let failed = nodes[2].ok("POST", &command("b:d", "fail"), Value::Null).await;
    assert_eq!(failed["volume"]["mirrors"][0]["summary"].as_str().unwrap().matches('F').count(), 1);
    let in_use = "replica-in-use";
    let error = nodes[2].refused("POST", &command("c:d", "remove"), Value::Null, in_use).await;
    assert_eq!(error["what"], "cannot remove the replica on c:d of volume web (asked: node a)");
    // It is in-sync: nothing is to be done.
    nodes[2].ok("POST", &command("c:d", "re-add"), Value::Null).await;
    nodes[2].refused("POST", &command("x:d", "fail"), Value::Null, "no-such-replica").await;
    nodes[2].refused("POST", &command("b:d", "mend"), Value::Null, "bad-request").await;
    nodes[2].ok("POST", &command("b:d", "re-add"), Value::Null).await;
    nodes[0].until("/v1/volumes/web", |v| v["volume"]["health"] == "in-sync").await;

    nodes[2].ok("POST", &command("b:d", "fail"), Value::Null).await;
    let removed = nodes[2].ok("POST", &command("b:d", "remove"), Value::Null).await;
    assert_eq!(removed["volume"]["mirrors"][0]["summary"], "[UU]");
    assert!(nodes[1].replicas("d").is_empty());
    nodes[0].ok("POST", &command("c:d", "fail"), Value::Null).await;
    nodes[0].refused("POST", &command("a:d", "fail"), Value::Null, "last-in-sync").await;
    nodes[0].detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_of_a_deleted_volume_goes_when_its_node_returns() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    nodes[1].crash().await;
    let deleted = nodes[0].ok("DELETE", "/v1/volumes/web", Value::Null).await;
    assert_eq!(deleted["removed"], 1, "{deleted:#}");
    assert_eq!(deleted["remembered"][0]["node"]["name"], "b");
    assert_eq!(nodes[1].replicas("d").len(), 1);
    nodes[1].restart().await;
    nodes[1]
        .until("/v1/disks", |disks| disks["disks"][0]["replicas"].as_array().unwrap().is_empty())
        .await;
    assert!(nodes[1].replicas("d").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_coordinator_attached_volumes_go_on() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 2, "on": ["b:d", "c:d"]});
    nodes[0].ok("POST", "/v1/volumes", request).await;
    nodes[1].attach("web").await;
    nodes[0].crash().await;
    let status =
        nodes[1].until("/v1/node", |n| n["node"]["coordinator"]["reachable"] == false).await;
    let coordinator = &status["node"]["coordinator"];
    assert!(coordinator["unreachable_since"].as_u64().is_some());
    assert!(coordinator["message"].as_str().unwrap().contains("go on"), "{coordinator}");
    let volume = nodes[1].get("/v1/volumes/web").await;
    assert_eq!(volume["volume"]["state"], "serving");
    let listed = nodes[1].get("/v1/volumes").await;
    assert_eq!(listed["volumes"].as_array().unwrap().len(), 1);
    assert_eq!(listed["warnings"].as_array().unwrap().len(), 1);
    let create = json!({"name": "other", "size": 4096, "replicas": 1});
    nodes[1].refused("POST", "/v1/volumes", create, "no-coordinator").await;

    nodes[0].restart().await;
    nodes[1].until("/v1/node", |n| n["node"]["coordinator"]["reachable"] == true).await;
    nodes[1].ok("POST", "/v1/volumes/web/replicas/c:d/fail", Value::Null).await;
    nodes[1].detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_nodes_volume_is_taken_over_after_the_expiry_only() {
    let place = Place::with_expiry(15);
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    nodes[1].attach("web").await;
    nodes[1].crash().await;
    let attach = "/v1/volumes/web/attach";
    let refused =
        nodes[0].refused("POST", attach, json!({"how": "nbd"}), "attached-elsewhere").await;
    assert!(refused["do"].as_str().unwrap().contains("cannot be forced"), "{refused}");
    nodes[0].until("/v1/nodes", |n| n["nodes"][1]["alive"] == false).await;
    nodes[0].attach("web").await;
    let status = nodes[0].get("/v1/volumes/web").await;
    assert_eq!(status["volume"]["health"], "degraded");
    assert!(status["volume"]["reason"].as_str().unwrap().contains("b:d"), "{status:#}");
    // What the returning node believed to be attached is not attached there again.
    nodes[1].restart().await;
    nodes[0].until("/v1/volumes/web", |v| v["volume"]["health"] == "in-sync").await;
    assert_eq!(nodes[1].get("/v1/node").await["node"]["attached"], json!([]));
    nodes[0].detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_of_a_silent_node_is_taken_over_before_it_is_deleted() {
    let place = Place::with_expiry(15);
    let mut nodes = place.cluster(&["a", "b"]).await;
    for (name, on) in [("both", vec!["a:d", "b:d"]), ("there", vec!["b:d"])] {
        let request = json!({"name": name, "size": 4 << 20, "replicas": on.len(), "on": on});
        nodes[0].ok("POST", "/v1/volumes", request).await;
        nodes[1].attach(name).await;
    }
    nodes[1].crash().await;
    nodes[0].refused("DELETE", "/v1/volumes/both", Value::Null, "attached").await;
    nodes[0].until("/v1/nodes", |n| n["nodes"][1]["alive"] == false).await;
    // Whatever still serves it on the silent node, nobody here can tell, nor stop it.
    let there = "/v1/volumes/there";
    let refused = nodes[0].refused("DELETE", there, Value::Null, "node-unreachable").await;
    assert!(refused["do"].as_str().unwrap().contains("--force"), "{refused}");
    nodes[0].ok("DELETE", "/v1/volumes/there?force=true", Value::Null).await;
    // The replica here refuses an old primary from the takeover on.
    let deleted = nodes[0].ok("DELETE", "/v1/volumes/both", Value::Null).await;
    assert_eq!(deleted["removed"], 1, "{deleted:#}");
    nodes[1].restart().await;
    nodes[1].until("/v1/disks", |d| d["disks"][0]["replicas"] == json!([])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_waits_to_leave_is_not_shown_as_in_sync() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    nodes[1].attach("web").await;
    // With it go a replica, and the coordinator that would have to be asked.
    nodes[0].crash().await;
    let leaves =
        |v: &Value| v["volume"]["reason"].as_str().is_some_and(|why| why.contains("a view has"));
    let status = nodes[1].until("/v1/volumes/web", leaves).await;
    let replicas = status["volume"]["mirrors"][0]["replicas"].as_array().unwrap();
    let of = |name: &str| replicas.iter().find(|r| r["node"]["name"] == name).unwrap();
    // Whether it leaves is not known before the coordinator answers.
    assert_eq!(of("a")["reach"], "unreachable", "{status:#}");
    assert_eq!(status["volume"]["health"], "unreachable", "{status:#}");
    assert!(of("a")["reason"].as_str().unwrap().contains("the coordinator answers"), "{status:#}");
    assert_eq!(of("b")["state"], "in-sync");
    nodes[0].restart().await;
    nodes[1].until("/v1/volumes/web", |v| v["volume"]["health"] == "in-sync").await;
    nodes[1].detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_another_cluster_is_refused() {
    let place = Place::new();
    let mut first = TestNode::new(&place, "a");
    first.start().await.unwrap();
    let mut other = TestNode::new(&place, "other");
    other.config.coordinator.join = None;
    other.config.cluster = "another".into();
    other.start().await.unwrap();
    let join = json!({"address": first.config.peer.listen[0]});
    let error = other.refused("POST", "/v1/node/join", join, "not-authorised").await;
    assert!(error["why"].as_str().unwrap().contains("belongs to cluster"), "{error:#}");
    other.refused("GET", "/v1/nodes", Value::Null, "not-joined").await;
}

/// A database that was restored from a backup may hold drafts that have become volumes since.
#[tokio::test(flavor = "multi_thread")]
async fn of_creations_that_were_given_up_only_unused_replicas_are_deleted() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    let mut ids = Vec::new();
    for name in ["used", "unused"] {
        let request = json!({"name": name, "size": 4 << 20, "replicas": 1, "on": ["b:d"]});
        let created = nodes[0].ok("POST", "/v1/volumes", request).await;
        ids.push(created["plan"]["id"].as_str().unwrap().to_owned());
    }
    nodes[1].attach("used").await;
    nodes[1].detach("used").await;
    nodes[1].stop().await;
    nodes[0].stop().await;

    give_up(&nodes[0].config.state.join("coordinator.redb"), &ids).await;
    nodes[0].restart().await;
    nodes[1].restart().await;
    let warned = |node: &Value| node["node"]["warnings"].to_string().contains(&ids[0]);
    nodes[1].until("/v1/node", warned).await;
    nodes[1].until("/v1/disks", |d| d["disks"][0]["replicas"][1].is_null()).await;
    let disks = nodes[1].get("/v1/disks").await;
    assert_eq!(disks["disks"][0]["replicas"][0]["volume"], "used", "{disks:#}");
    assert_eq!(nodes[1].replicas("d").len(), 1);
}

/// Makes the volumes' records what they would be if their creation had been given up.
async fn give_up(database: &std::path::Path, volumes: &[String]) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    // The daemon that ended may hold it for a moment still.
    let database = loop {
        match redb::Database::open(database) {
            Ok(database) => break database,
            Err(error) => assert!(std::time::Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    let transaction = database.begin_write().unwrap();
    for table in ["volumes", "views"] {
        let table = redb::TableDefinition::<&str, &[u8]>::new(table);
        let mut table = transaction.open_table(table).unwrap();
        volumes.iter().for_each(|id| drop(table.remove(id.as_str()).unwrap()));
    }
    let names = redb::TableDefinition::<&str, &str>::new("names");
    transaction.open_table(names).unwrap().retain(|_, _| false).unwrap();
    let given_up = redb::TableDefinition::<&str, u64>::new("given-up");
    let mut given_up = transaction.open_table(given_up).unwrap();
    volumes.iter().for_each(|id| drop(given_up.insert(id.as_str(), 1).unwrap()));
    drop(given_up);
    transaction.commit().unwrap();
}

/// A view tells what replicas hold; whether they are there shows only who answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_detached_volume_is_not_called_in_sync_while_a_node_of_it_is_dead() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    nodes[0].until("/v1/volumes/web", |v| v["volume"]["health"] == "in-sync").await;
    nodes[1].crash().await;
    let is_dead = |v: &Value| v["volume"]["health"] == "unreachable";
    let status = nodes[0].until("/v1/volumes/web", is_dead).await;
    let volume = &status["volume"];
    let summary = volume["mirrors"][0]["summary"].as_str().unwrap();
    assert!(["[U?]", "[?U]"].contains(&summary), "{status:#}");
    let reason = volume["reason"].as_str().unwrap();
    assert!(reason.contains("b:d") && reason.contains("does not answer"), "{reason}");
    nodes[1].restart().await;
    nodes[0].until("/v1/volumes/web", |v| v["volume"]["health"] == "in-sync").await;
}

/// Without the coordinator a node tells what it knows, and that it is not all.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_coordinator_a_node_tells_what_its_replicas_know() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    for (name, home) in [("web", "b:d"), ("far", "a:d")] {
        let request = json!({"name": name, "size": 4 << 20, "replicas": 1, "on": [home]});
        nodes[0].ok("POST", "/v1/volumes", request).await;
    }
    let all = nodes[1].get("/v1/volumes").await;
    assert_eq!((&all["complete"], all["volumes"].as_array().unwrap().len()), (&json!(true), 2));
    nodes[0].crash().await;

    let silent = nodes[1].until("/v1/volumes", |v| v["complete"] == false).await;
    let volumes = silent["volumes"].as_array().unwrap();
    assert_eq!(volumes.len(), 1, "{silent:#}");
    let reported = |key: &str| (volumes[0][key].clone(), silent["warnings"][0].clone());
    assert_eq!(reported("name").0, "web");
    assert_eq!(reported("source").0, "replica");
    assert_eq!((reported("state").0, reported("health").0), (json!("unknown"), json!("unknown")));
    assert!(reported("as_of").0.as_u64().is_some_and(|seconds| seconds > 1_700_000_000));
    assert!(reported("reason").0.as_str().unwrap().contains("coordinator"), "{silent:#}");
    assert!(reported("name").1.as_str().unwrap().contains("a replica here"), "{silent:#}");
    assert_eq!(nodes[1].get("/v1/volumes/web").await["volume"]["source"], "replica");
    let far = nodes[1].refused("GET", "/v1/volumes/far", Value::Null, "no-coordinator").await;
    let start = "Start the coordinator (on node a, at ";
    assert!(far["do"].as_str().unwrap().starts_with(start), "{far:#}");
    // Who has no part in it names who has.
    let web = nodes[2].refused("GET", "/v1/volumes/web", Value::Null, "no-coordinator").await;
    let ask =
        format!("Ask node b, which has a replica of it: `evenkeel volume status` there. {start}");
    assert!(web["do"].as_str().unwrap().starts_with(&ask), "{web:#}");
    assert_eq!(nodes[2].get("/v1/volumes").await["volumes"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_replica_tells_what_the_primary_says_while_the_coordinator_is_away() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 1, "on": ["b:d"]});
    nodes[0].ok("POST", "/v1/volumes", request).await;
    nodes[1].attach("web").await;
    nodes[0].crash().await;
    nodes[2].until("/v1/volumes", |v| v["complete"] == false).await;
    let reported = nodes[2].get("/v1/volumes/web").await;
    let volume = &reported["volume"];
    assert_eq!((&volume["source"], &volume["state"]), (&json!("primary"), &json!("serving")));
    assert_eq!(volume["primaries"][0]["node"]["name"], "b", "{reported:#}");
    assert_eq!(volume["primaries"][0]["here"], false, "{reported:#}");
}
