//! Volumes that are attached again by themselves when their node returns, and those that are not.

use serde_json::{Value, json};

use crate::support::Place;

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_was_used_elsewhere_meanwhile_is_not_attached_again() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    nodes[1].attach("web").await;
    nodes[1].crash().await;
    let is_reported = |v: &serde_json::Value| wanted_on(v).0.contains("counts as dead");
    let (why, wanted) = wanted_on(&nodes[0].until("/v1/volumes/web", is_reported).await);
    assert!(!why.contains(SILENT), "that it is silent is said once: {why}");
    assert_eq!(wanted[0]["alive"], false, "its primary is in the view still: {wanted}");
    assert_eq!(wanted_on(&nodes[0].attach("web").await).1, json!([]), "the takeover took it back");
    nodes[0].detach("web").await;
    nodes[1].restart().await;
    let node =
        nodes[1].until("/v1/node", |n| !n["node"]["warnings"].as_array().unwrap().is_empty());
    let node = node.await;
    let warning = node["node"]["warnings"].to_string();
    assert!(warning.contains("node a has attached it since this one did"), "{warning}");
    assert_eq!(node["node"]["attached"], json!([]));
    // That holds for good, and may be changed by hand.
    nodes[1].stop().await;
    nodes[1].restart().await;
    assert_eq!(nodes[1].get("/v1/node").await["node"]["attached"], json!([]));
    nodes[1].attach("web").await;
    nodes[1].detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_was_changed_elsewhere_meanwhile_is_attached_again() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].add_disk("more").await;
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 1, "on": ["a:d"]});
    nodes[0].ok("POST", "/v1/volumes", request).await;
    nodes[1].attach("web").await;
    nodes[1].stop().await;
    // Its replicas adopt this by an attachment in passing, which is no use of it.
    nodes[0].ok("PATCH", "/v1/volumes/web", json!({"size": 8 << 20})).await;
    nodes[1].restart().await;
    nodes[1].until("/v1/volumes/web", |v| v["volume"]["state"] == "serving").await;
    assert_eq!(nodes[1].get("/v1/node").await["node"]["attached"], json!(["web"]));
    nodes[1].detach("web").await;
}

/// As a boot script may: what was exported is exported, whoever comes first.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_comes_first_attaches_a_volume_as_it_was() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 1, "on": ["b:d"]});
    nodes[0].ok("POST", "/v1/volumes", request).await;
    nodes[2].attach("web").await;
    nodes[2].stop().await;
    nodes[1].stop().await;
    nodes[2].restart().await;
    // It tries again after pauses that grow.
    tokio::time::sleep(std::time::Duration::from_secs(8)).await;
    nodes[1].restart().await;
    let attach = || nodes[2].call("POST", "/v1/volumes/web/attach", json!({"how": "none"}));
    loop {
        let (status, answer) = attach().await;
        if status == 200 || answer["error"]["code"] == "attached" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let status = nodes[2].get("/v1/volumes/web").await;
    assert_eq!(status["volume"]["exports"][0]["kind"], "nbd", "{status:#}");
    assert_eq!(wanted_on(&status), (String::new(), json!([])));
    nodes[2].detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_mount_has_not_made_is_not_a_mounts_to_take_away() {
    let place = Place::new();
    let nodes = place.cluster(&["a"]).await;
    nodes[0].create("web", 1).await;
    nodes[0].attach("web").await;
    let path = "/v1/volumes/web/attach";
    nodes[0].refused("POST", path, json!({"how": "none"}), "attached").await;
    // It wants no device, so there is nothing that it could take.
    nodes[0].refused("POST", path, json!({"how": "none", "mount": "m1"}), "attached").await;
    // It has made nothing, so it takes nothing away.
    let (status, answer) =
        nodes[0].call("POST", "/v1/volumes/web/detach", json!({"failed_mount": "m1"})).await;
    assert!(status == 200 || answer["error"]["code"] == "not-attached", "{answer:#}");
    assert_eq!(nodes[0].get("/v1/node").await["node"]["attached"], json!(["web"]));
    nodes[0].detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_cannot_be_made_at_once_is_not_forgotten() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a"]).await;
    nodes[0].create("web", 1).await;
    let attached = nodes[0].attach("web").await;
    let socket = attached["volume"]["exports"][0]["socket"].as_str().unwrap().to_owned();
    nodes[0].crash().await;
    let _ = std::fs::remove_file(&socket);
    std::fs::create_dir_all(std::path::Path::new(&socket).join("in the way")).unwrap();
    let lacks = |v: &Value| wanted_on(v).0.contains("its NBD export could not be made yet: ");
    for _ in 0..2 {
        nodes[0].restart().await;
        let status = nodes[0].until("/v1/volumes/web", lacks).await;
        assert_eq!(status["volume"]["state"], "serving", "{status:#}");
        let wanted = &status["volume"]["wanted_on"][0];
        assert_eq!(wanted["nbd"], true, "{status:#}");
        let export = json!({"kind": "nbd", "tcp": false, "read_only": false});
        assert_eq!(wanted["exports"], json!([export]), "{status:#}");
        // Nor does the end of the daemon forget it.
        nodes[0].stop().await;
    }
    nodes[0].restart().await;
    nodes[0].until("/v1/volumes/web", lacks).await;
    std::fs::remove_dir_all(&socket).unwrap();
    let is_shown = |v: &Value| !v["volume"]["exports"][0].is_null();
    let status = nodes[0].until("/v1/volumes/web", is_shown).await;
    assert_eq!(wanted_on(&status), (String::new(), json!([])));
    nodes[0].detach("web").await;
}

/// Waits until the stopped daemon, which is of this process, has closed its database.
pub async fn let_go_of(database: &std::path::Path) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while let Err(error) = redb::Database::open(database) {
        assert!(std::time::Instant::now() < deadline, "{error}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// A copy of a database that nobody has open, as another file.
pub async fn copy_database(from: &std::path::Path, to: &std::path::Path) {
    let_go_of(from).await;
    let new = to.with_extension("new");
    std::fs::copy(from, &new).unwrap();
    std::fs::rename(new, to).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_database_of_the_coordinator_does_not_make_a_node_forget_its_volumes() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    let database = nodes[0].config.state.join("coordinator.redb");
    let (old, newest) = (place.path().join("old"), place.path().join("newest"));
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 1, "on": ["b:d"]});
    nodes[0].ok("POST", "/v1/volumes", request).await;
    nodes[0].stop().await;
    copy_database(&database, &old).await;
    nodes[0].restart().await;
    nodes[1].attach("web").await;
    for lease in [2000, 3000] {
        nodes[1].ok("PATCH", "/v1/volumes/web", json!({"lease_ms": lease})).await;
    }
    nodes[1].stop().await;
    nodes[0].stop().await;
    copy_database(&database, &newest).await;
    copy_database(&old, &database).await;
    nodes[0].restart().await;
    nodes[1].restart().await;
    let is_refused = |v: &Value| wanted_on(v).0.contains("restored from an old backup");
    nodes[1].until("/v1/volumes/web", is_refused).await;
    nodes[0].stop().await;
    let_go_of(&database).await;
    copy_database(&newest, &database).await;
    nodes[0].restart().await;
    nodes[1].until("/v1/volumes/web", |v| !v["volume"]["exports"][0].is_null()).await;
    nodes[1].detach("web").await;
}

/// One says that the volume is not wanted here, as it was detached then; the other one has never
/// heard of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_from_before_an_attach_does_not_end_the_wish_for_it() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    let database = nodes[0].config.state.join("coordinator.redb");
    let path = |name: &str| place.path().join(name);
    nodes[0].stop().await;
    copy_database(&database, &path("unknown")).await;
    nodes[0].restart().await;
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 1, "on": ["b:d"]});
    nodes[0].ok("POST", "/v1/volumes", request).await;
    nodes[1].attach("web").await;
    nodes[1].detach("web").await;
    nodes[0].stop().await;
    copy_database(&database, &path("detached")).await;
    nodes[0].restart().await;
    nodes[1].attach("web").await;
    nodes[1].stop().await;
    nodes[0].stop().await;
    copy_database(&database, &path("newest")).await;
    for old in ["unknown", "detached"] {
        copy_database(&path(old), &database).await;
        nodes[0].restart().await;
        nodes[1].restart().await;
        let is_reached = |n: &Value| n["node"]["coordinator"]["reachable"] == true;
        nodes[1].until("/v1/node", is_reached).await;
        // Some attempts.
        tokio::time::sleep(std::time::Duration::from_secs(4)).await;
        let warnings = nodes[1].get("/v1/node").await["node"]["warnings"].to_string();
        assert!(!warnings.contains("cannot attach volume web again"), "{old}: {warnings}");
        if old == "detached" {
            let is_reported = |v: &Value| wanted_on(v).0.contains("restored from an old backup");
            let (_, wanted) = wanted_on(&nodes[1].until("/v1/volumes/web", is_reported).await);
            assert_eq!(wanted[0]["nbd"], true, "{wanted}");
        }
        nodes[1].stop().await;
        nodes[0].stop().await;
        let_go_of(&database).await;
    }
    copy_database(&path("newest"), &database).await;
    nodes[0].restart().await;
    nodes[1].restart().await;
    nodes[1].until("/v1/volumes/web", |v| !v["volume"]["exports"][0].is_null()).await;
    nodes[1].detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_daemon_is_followed_without_a_wait_for_its_lease() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 2});
    nodes[0].ok("POST", "/v1/volumes", request).await;
    nodes[0].ok("PATCH", "/v1/volumes/web", json!({"lease_ms": 60_000})).await;
    nodes[1].attach("web").await;
    nodes[1].crash().await;
    let killed = std::time::Instant::now();
    nodes[1].restart().await;
    nodes[1].until("/v1/volumes/web", |v| v["volume"]["state"] == "serving").await;
    assert!(killed.elapsed().as_secs() < 30, "{:?}: it waited for the lease", killed.elapsed());
    nodes[1].detach("web").await;
}

const SILENT: &str = "it is wanted on node b, which does not answer";

/// Why a volume is not attached where it is wanted, and where that is.
fn wanted_on(answer: &serde_json::Value) -> (String, serde_json::Value) {
    let volume = &answer["volume"];
    (volume["reason"].as_str().unwrap_or_default().to_owned(), volume["wanted_on"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_says_where_a_volume_is_wanted_that_waits_for_its_node() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].add_disk("more").await;
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 1, "on": ["a:d"]});
    nodes[0].ok("POST", "/v1/volumes", request).await;
    assert_eq!(wanted_on(&nodes[1].attach("web").await).1, json!([]), "it is attached there");
    nodes[1].stop().await;
    let is_reported = |v: &serde_json::Value| wanted_on(v).0 == SILENT;
    let wanted = wanted_on(&nodes[0].until("/v1/volumes/web", is_reported).await).1;
    assert_eq!(
        (&wanted[0]["node"]["name"], &wanted[0]["alive"], &wanted[0]["nbd"], &wanted[0]["device"]),
        (&json!("b"), &json!(false), &json!(true), &json!(false)),
    );
    let list = nodes[0].get("/v1/volumes").await;
    assert_eq!(list["volumes"][0]["reason"], SILENT);
    // Whoever does not want it there any more says so anywhere.
    let detach = "/v1/volumes/web/detach";
    let error = nodes[0].refused("POST", detach, json!(null), "attached-elsewhere").await;
    assert_eq!(error["why"], "it is meant to be attached on node b, not on node a");
    let answer = nodes[0].ok("POST", detach, json!({"node": "b"})).await;
    assert!(
        answer["message"].as_str().unwrap().contains("is not attached there again"),
        "{answer}"
    );
    assert_eq!(wanted_on(&nodes[0].get("/v1/volumes/web").await), (String::new(), json!([])));
    nodes[1].restart().await;
    let node = nodes[1].until("/v1/node", |n| n["node"]["warnings"][0].is_string()).await;
    let warning = node["node"]["warnings"].to_string();
    assert!(warning.contains("it is not wanted here any more"), "{warning}");
    assert_eq!(node["node"]["attached"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_coordinator_knows_what_is_wanted_on_a_node_that_has_forgotten_it() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    for name in ["web", "gone"] {
        let request = json!({"name": name, "size": 4 << 20, "replicas": 1, "on": ["a:d"]});
        nodes[0].ok("POST", "/v1/volumes", request).await;
        nodes[1].attach(name).await;
    }
    nodes[1].detach("gone").await;
    nodes[1].crash().await;
    std::fs::remove_file(nodes[1].config.state.join("attached.json")).unwrap();
    nodes[1].restart().await;
    let serves = |v: &serde_json::Value| !v["volume"]["exports"][0].is_null();
    nodes[1].until("/v1/volumes/web", serves).await;
    assert_eq!(nodes[1].get("/v1/node").await["node"]["attached"], json!(["web"]));
    // Neither is an export made again that was ended, nor is that lost.
    nodes[1].ok("DELETE", "/v1/volumes/web/exports/nbd", serde_json::Value::Null).await;
    nodes[1].crash().await;
    std::fs::remove_file(nodes[1].config.state.join("attached.json")).unwrap();
    nodes[1].restart().await;
    let served = nodes[1].until("/v1/volumes/web", |v| v["volume"]["state"] == "serving").await;
    assert_eq!(served["volume"]["exports"], json!([]));
    nodes[1].detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_detached_while_the_coordinator_is_away_is_not_wanted_when_it_returns() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 1, "on": ["b:d"]});
    nodes[0].ok("POST", "/v1/volumes", request).await;
    nodes[1].attach("web").await;
    nodes[1].stop().await;
    nodes[0].crash().await;
    nodes[1].restart().await;
    // It waits for the coordinator to be admitted, and so for the volume.
    let answer = nodes[1].detach("web").await;
    assert_eq!(answer["given_up"], false, "only the coordinator knows: {answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("because the coordinator does not answer node b"), "{message}");
    nodes[1].crash().await;
    nodes[0].restart().await;
    let wanted = wanted_on(&nodes[0].get("/v1/volumes/web").await).1;
    assert_eq!(wanted[0]["node"]["name"], "b", "it has not heard of that");
    nodes[1].restart().await;
    nodes[0].until("/v1/volumes/web", |v| v["volume"]["wanted_on"] == json!([])).await;
    assert_eq!(nodes[1].get("/v1/node").await["node"]["attached"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_detach_is_begun_that_the_coordinator_cannot_commit() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    let request = json!({"name": "web", "size": 4 << 20, "replicas": 1, "on": ["b:d"]});
    nodes[0].ok("POST", "/v1/volumes", request).await;
    nodes[1].attach("web").await;
    nodes[0].crash().await;
    let path = "/v1/volumes/web/detach";
    let error = nodes[1].refused("POST", path, Value::Null, "no-coordinator").await;
    assert_eq!(error["what"], "cannot detach volume web");
    nodes[0].restart().await;
    // Nor is it detached by and by, for a command that has failed.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let status = nodes[1].until("/v1/volumes/web", |v| v["volume"]["source"] == "primary").await;
    assert_eq!(status["volume"]["state"], "serving", "{status:#}");
    nodes[1].detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_shared_volume_a_node_that_serves_says_where_else_it_is_wanted() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    let request =
        json!({"name": "web", "size": 4 << 20, "replicas": 1, "on": ["a:d"], "primaries": 2});
    nodes[0].ok("POST", "/v1/volumes", request).await;
    nodes[0].attach("web").await;
    nodes[1].attach("web").await;
    nodes[1].stop().await;
    for asked in [0, 2] {
        nodes[asked].until("/v1/volumes/web", |v| wanted_on(v).0 == SILENT).await;
    }
    // The node that attached it last has not taken it from the other one.
    nodes[0].detach("web").await;
    nodes[0].attach("web").await;
    nodes[1].restart().await;
    nodes[1].until("/v1/node", |n| n["node"]["attached"] == json!(["web"])).await;
    nodes[1].detach("web").await;
    nodes[0].detach("web").await;
}
