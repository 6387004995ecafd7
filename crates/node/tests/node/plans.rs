//! What commands would take away, told before, and done only as it was told.

use serde_json::{Value, json};

use crate::support::{Place, TestNode};

async fn volume_on(node: &TestNode, name: &str, on: &[&str]) {
    let request = json!({"name": name, "size": 4 << 20, "replicas": on.len(), "on": on});
    node.ok("POST", "/v1/volumes", request).await;
}

/// The places of the replicas in a list of a plan, and their identities.
fn listed(answer: &Value, list: &str) -> (Vec<String>, Vec<String>) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let place = |lost: &Value| format!("{}:{}", text(&lost["node"]["name"]), text(&lost["disk"]));
    let all = answer["plan"][list].as_array().unwrap();
    all.iter().map(|lost| (place(lost), text(&lost["id"]))).unzip()
}

/// The replicas of a volume with one mirror, by their nodes' names.
async fn homes(node: &TestNode, volume: &str) -> Vec<String> {
    let answer = node.get(&format!("/v1/volumes/{volume}")).await;
    let replicas = answer["volume"]["mirrors"][0]["replicas"].as_array().unwrap();
    let mut homes: Vec<_> =
        replicas.iter().map(|r| r["node"]["name"].as_str().unwrap().to_owned()).collect();
    homes.sort();
    homes
}

#[tokio::test(flavor = "multi_thread")]
async fn fewer_copies_spare_the_node_where_it_is_attached_and_go_as_agreed() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    volume_on(&nodes[0], "web", &["a:d", "b:d", "c:d"]).await;
    nodes[2].attach("web").await;
    nodes[2].until("/v1/volumes/web", |v| v["volume"]["state"] == "serving").await;

    let planned = nodes[0].get("/v1/volumes/web/plans/change?replicas=2").await;
    let (places, ids) = listed(&planned, "removes");
    assert_eq!(places, ["b:d"], "{planned:#}");
    let left: Vec<_> = planned["plan"]["leaves"][0]["in_sync"].as_array().unwrap().clone();
    assert!(left.contains(&json!("a:d")) && left.contains(&json!("c:d")), "{planned:#}");
    // There is no fourth node: refused whole, and so is its plan.
    let more = "/v1/volumes/web/plans/change?replicas=4";
    nodes[1].refused("GET", more, Value::Null, "not-enough-disks").await;
    let request = json!({"replicas": 4});
    nodes[1].refused("PATCH", "/v1/volumes/web", request, "not-enough-disks").await;
    let planned = nodes[1].get(&format!("{more}&same_node=true")).await;
    assert_eq!(listed(&planned, "removes").0.len(), 0);
    let message = planned["message"].as_str().unwrap();
    assert!(message.starts_with("replicas of volume web would be added on "), "{message}");
    assert!(message.ends_with(":d"), "{message}");
    assert_eq!(homes(&nodes[0], "web").await, ["a", "b", "c"], "a plan changes nothing");

    let other = "11111111-1111-1111-1111-111111111111";
    let request = json!({"replicas": 2, "protocol": "B", "removes": [other]});
    let refused = nodes[0].refused("PATCH", "/v1/volumes/web", request, "wrong-state").await;
    let why = refused["why"].as_str().unwrap();
    let short = &ids[0][..8];
    let expected = format!(
        "other replicas would be removed than were agreed to\nto be removed now: b:d of web ({short})\nnot agreed to: b:d of web ({short})"
    );
    assert_eq!(why, expected);
    let status = nodes[0].get("/v1/volumes/web").await;
    assert_eq!(status["volume"]["protocol"], "C", "nothing is half-done");
    assert_eq!(homes(&nodes[0], "web").await, ["a", "b", "c"]);

    let request = json!({"replicas": 2, "removes": ids});
    let done = nodes[0].ok("PATCH", "/v1/volumes/web", request.clone()).await;
    assert_eq!(done["message"], "removed the replicas on b:d", "{done:#}");
    assert_eq!(homes(&nodes[0], "web").await, ["a", "c"]);
    let again = nodes[0].ok("PATCH", "/v1/volumes/web", request).await;
    assert_eq!(again["changed"], false, "{again:#}");
    nodes[2].detach("web").await;
    for node in &mut nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_on_a_dead_node_goes_before_those_that_answer() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    volume_on(&nodes[0], "web", &["b:d", "a:d", "c:d"]).await;
    nodes[1].crash().await;
    let is_dead = |v: &Value| v["volume"]["health"] == "unreachable";
    nodes[0].until("/v1/volumes/web", is_dead).await;
    let planned = nodes[0].get("/v1/volumes/web/plans/change?replicas=2").await;
    assert_eq!(listed(&planned, "removes").0, ["b:d"], "{planned:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_deleted_with_the_replicas_that_were_named_or_not_at_all() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    nodes[1].attach("web").await;
    let plan = "/v1/volumes/web/plans/delete";
    for node in &nodes {
        node.refused("GET", plan, Value::Null, "attached").await;
    }
    nodes[1].detach("web").await;

    let planned = nodes[1].get(plan).await;
    let (mut places, ids) = listed(&planned, "removes");
    let unnamed = places[1].clone();
    places.sort();
    assert_eq!(places, ["a:d", "b:d"], "{planned:#}");
    let one = format!("/v1/volumes/web?removes={}", ids[0]);
    let refused = nodes[0].refused("DELETE", &one, Value::Null, "wrong-state").await;
    let other = format!("not agreed to: {} of web ({})", unnamed, &ids[1][..8]);
    assert!(refused["why"].as_str().unwrap().ends_with(&other), "{refused}");
    assert_eq!(homes(&nodes[0], "web").await, ["a", "b"]);
    let all = format!("/v1/volumes/web?removes={}", ids.join(","));
    nodes[0].ok("DELETE", &all, Value::Null).await;
    assert!(nodes.iter().all(|node| node.replicas("d").is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_replicas_command_takes_away_is_told_or_refused_as_the_command() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b", "c"]).await;
    volume_on(&nodes[0], "web", &["a:d", "b:d"]).await;
    nodes[1].attach("web").await;
    nodes[0].until("/v1/volumes/web", |v| v["volume"]["health"] == "in-sync").await;
    let plan = |action: &str| format!("/v1/volumes/web/replicas/a:d/{action}/plan");

    nodes[2].refused("GET", &plan("remove"), Value::Null, "replica-in-use").await;
    nodes[2].refused("GET", &plan("re-add"), Value::Null, "bad-request").await;
    let planned = nodes[2].get(&plan("fail")).await;
    assert_eq!(listed(&planned, "fails").0, ["a:d"], "{planned:#}");
    assert_eq!(listed(&planned, "removes").0.len(), 0, "{planned:#}");
    assert_eq!(planned["plan"]["leaves"][0]["in_sync"], json!(["b:d"]));
    let planned = nodes[2].get(&(plan("replace") + "?on=c")).await;
    assert_eq!(listed(&planned, "removes").0, ["a:d"], "{planned:#}");
    assert!(planned["message"].as_str().unwrap().contains("made on c:d"), "{planned:#}");
    nodes[2].refused("GET", &(plan("replace") + "?on=b"), Value::Null, "not-enough-disks").await;
    assert_eq!(homes(&nodes[0], "web").await, ["a", "b"], "plans change nothing");

    nodes[2].ok("POST", "/v1/volumes/web/replicas/a:d/fail", Value::Null).await;
    assert_eq!(listed(&nodes[2].get(&plan("remove")).await, "removes").0, ["a:d"]);
    let last = "/v1/volumes/web/replicas/b:d/fail/plan";
    nodes[2].refused("GET", last, Value::Null, "last-in-sync").await;
    nodes[2].ok("POST", "/v1/volumes/web/replicas/a:d/remove", Value::Null).await;
    let gone = nodes[2].get(&plan("remove")).await;
    assert!(gone["message"].as_str().unwrap().contains("already"), "{gone:#}");

    nodes[1].refused("GET", "/v1/disks/d/plan", Value::Null, "disk-has-replicas").await;
    nodes[2].get("/v1/disks/d/plan").await;
    assert_eq!(nodes[2].get("/v1/disks").await["disks"].as_array().unwrap().len(), 1);
    nodes[1].detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_is_dropped_with_the_hosts_that_were_named() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    nodes[1].attach("web").await;
    let (path, plan) = ("/v1/volumes/web/reservation", "/v1/volumes/web/plans/reservation-drop");
    let register = |host: &str, key: &str| json!({"action": "register", "host": host, "key": key, "persistent": true});
    nodes[0].ok("POST", path, register("a", "1")).await;
    let hosts = |answer: &Value| -> Vec<Value> {
        let all = answer["plan"]["unregisters"].as_array().unwrap();
        all.iter().map(|registrant| registrant["host"].clone()).collect()
    };
    let planned = hosts(&nodes[0].get(plan).await);
    assert_eq!(planned.len(), 1);
    nodes[0].ok("POST", path, register("b", "2")).await;
    let now = hosts(&nodes[1].get(plan).await);
    assert_eq!(now.len(), 2);

    let drop = |hosts: &[Value]| json!({"action": "drop", "removes": hosts});
    let refused = nodes[0].refused("POST", path, drop(&planned), "wrong-state").await;
    let why = refused["why"].as_str().unwrap();
    assert!(why.ends_with("\nnot agreed to: b"), "{why}");
    assert!(why.contains("now: a, b\n") || why.contains("now: b, a\n"), "{why}");
    assert_eq!(hosts(&nodes[0].get(plan).await).len(), 2, "nothing is half-done");
    nodes[0].ok("POST", path, drop(&now)).await;
    assert_eq!(hosts(&nodes[0].get(plan).await).len(), 0);
    nodes[1].detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_tells_from_where_it_detaches() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    volume_on(&nodes[0], "web", &["a:d"]).await;
    let idle = nodes[1].get("/v1/volumes/web/plans/stop").await;
    assert_eq!(idle["plan"]["detaches"], json!([]), "{idle:#}");
    nodes[1].attach("web").await;
    let planned = nodes[0].get("/v1/volumes/web/plans/stop").await;
    assert_eq!(planned["plan"]["detaches"][0]["name"], "b", "{planned:#}");
    let expected = "volume web would be detached from b, and have its replicas closed until it is assembled; no data go";
    assert_eq!(planned["message"], expected);
    let status = nodes[1].get("/v1/volumes/web").await;
    assert_eq!(status["volume"]["state"], "serving", "a plan changes nothing");
    nodes[0].ok("POST", "/v1/volumes/web/stop", Value::Null).await;
    let again = nodes[0].get("/v1/volumes/web/plans/stop").await;
    assert_eq!(again["message"], "volume web is stopped already");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_not_replaced_where_there_is_nothing_to_copy_from() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    volume_on(&nodes[0], "web", &["b:d"]).await;
    nodes[1].crash().await;
    let node = &nodes[0];
    node.until("/v1/volumes/web", |v| v["volume"]["health"] == "unreachable").await;
    let replace = json!({"replaces": "b:d", "on": "a:d"});
    let refused =
        node.refused("POST", "/v1/volumes/web/replicas", replace, "would-lose-data").await;
    let why = refused["why"].as_str().unwrap();
    assert!(
        why.starts_with("there is no source to copy from: no in-sync replica of mirror 0 answers (b:d: it does not answer"),
        "{why}"
    );
    let plan = "/v1/volumes/web/replicas/b:d/replace/plan?on=a:d";
    node.refused("GET", plan, Value::Null, "would-lose-data").await;
    // Nor has a new copy.
    let (add, change) = (json!({"on": "a:d"}), json!({"replicas": 2}));
    node.refused("POST", "/v1/volumes/web/replicas", add, "would-lose-data").await;
    let refused = node.refused("PATCH", "/v1/volumes/web", change, "would-lose-data").await;
    assert!(refused["why"].as_str().unwrap().starts_with("there is no source"), "{refused}");
    assert_eq!(homes(node, "web").await, ["b"], "nothing was added");
    // A spare copies nothing.
    let spare = json!({"on": "a:d", "spare": true});
    let added = node.ok("POST", "/v1/volumes/web/replicas", spare).await;
    assert_eq!(added["message"], "a spare was added on a:d", "{added:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_does_not_call_a_deleted_file_in_sync() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a"]).await;
    volume_on(&nodes[0], "web", &["a:d"]).await;
    let node = &mut nodes[0];
    node.stop().await;
    for file in node.replicas("d") {
        std::fs::remove_file(file).unwrap();
    }
    node.restart().await;
    let planned = node.until("/v1/volumes/web/plans/delete", |v| v["plan"].is_object()).await;
    assert_eq!(planned["plan"]["removes"][0]["reach"], "unreachable", "{planned:#}");
    let status = node.get("/v1/volumes/web").await;
    let reason = status["volume"]["reason"].as_str().unwrap();
    // A replacement has nothing to copy from.
    assert!(!reason.contains("replica replace"), "{reason}");
    assert!(reason.contains("put its disk in order; no other in-sync replica answers"), "{reason}");
}
