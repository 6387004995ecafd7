//! What people are told: by whom, of what, and what to do.

use serde_json::{Value, json};

use crate::support::{Place, TestNode};

const VOLUME: &str = "/v1/volumes/web";

async fn create_on(node: &TestNode, places: &[&str]) {
    let request = json!({"name": "web", "size": 4 << 20, "replicas": places.len(), "on": places});
    node.ok("POST", "/v1/volumes", request).await;
}

fn has(text: &Value, part: &str) -> bool {
    text.as_str().is_some_and(|text| text.contains(part))
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_a_coordinator_that_hears_nobody_is_warned_of_that() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    create_on(&nodes[0], &["a:d"]).await;
    assert_eq!(nodes[0].get(VOLUME).await["warnings"], json!([]));
    nodes[1].crash().await;
    let alone = "the coordinator receives heartbeats from no node but its own, a";
    nodes[0].until(VOLUME, |v| has(&v["warnings"][0], alone)).await;
    let attached = nodes[0].attach("web").await;
    assert!(has(&attached["warnings"][0], alone), "{attached:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_silent_primary_it_is_said_what_was_asked_and_the_way_out() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b", "c"]).await;
    create_on(&nodes[0], &["b:d", "c:d"]).await;
    nodes[2].attach("web").await;
    nodes[2].crash().await;
    let detach = "/v1/volumes/web/detach";
    let there = json!({"node": "c"});
    let refused = nodes[1].refused("POST", detach, there, "node-unreachable").await;
    assert_eq!(refused["what"], "cannot detach volume web", "{refused:#}");
    assert!(
        has(&refused["why"], "node c, which has to do it, could not be asked: "),
        "{refused:#}"
    );
    assert!(has(&refused["do"], "`evenkeel attach web` on another node"), "{refused:#}");
}

/// Whoever has another node do something is told which one has refused it.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_another_node_names_that_node() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    let create = json!({"name": "web", "size": 4 << 20, "replicas": 1});
    nodes[0].ok("POST", "/v1/volumes", create).await;
    let attach = json!({"how": "nbd", "node": "b"});
    nodes[0].ok("POST", "/v1/volumes/web/attach", attach.clone()).await;
    for (asked, place) in [(0, " on node b"), (1, "")] {
        let again = "/v1/volumes/web/attach";
        let refused = nodes[asked].refused("POST", again, attach.clone(), "attached").await;
        assert_eq!(refused["what"], format!("cannot attach volume web{place}"), "{refused:#}");
        assert_eq!(refused["why"], "it is attached on node b already", "{refused:#}");
    }
    nodes[1].detach("web").await;
}

/// So it is of every command that the node carries out which has the volume attached.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_command_names_the_node_that_was_to_carry_it_out() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    create_on(&nodes[0], &["a:d"]).await;
    nodes[1].attach("web").await;
    let mirror = json!({"mirror": 9});
    let key = json!({"action": "release", "key": "7"});
    let source = json!({"repair": false, "source": "a:d"});
    let commands = [
        ("PATCH", "", json!({"size": 1 << 20}), "cannot change volume web"),
        ("POST", "/replicas", mirror, "cannot add a replica to volume web"),
        ("POST", "/replicas/a:d/fail", Value::Null, "cannot fail the replica on a:d of volume web"),
        ("POST", "/reservation", key, "cannot change the reservation of volume web"),
        ("POST", "/verify", source, "cannot repair volume web from replica a:d"),
        ("POST", "/exports/nbd", json!({"tcp": true}), "cannot export volume web"),
    ];
    for (asked, place) in [(0, " (asked: node b)"), (1, "")] {
        for (method, path, body, what) in &commands {
            let path = format!("{VOLUME}{path}");
            let (_, refused) = nodes[asked].call(method, &path, body.clone()).await;
            assert_eq!(refused["error"]["what"], format!("{what}{place}"), "{refused:#}");
        }
    }
    let export = "/v1/volumes/web/exports/nbd";
    nodes[0].ok("DELETE", export, Value::Null).await;
    let refused = nodes[0].refused("DELETE", export, Value::Null, "no-such-export").await;
    assert_eq!(
        refused["what"], "cannot end the export of volume web (asked: node b)",
        "{refused:#}"
    );
    nodes[1].detach("web").await;
}

/// A node that was to make a replica for the one that carries a command out is named itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_told_of_the_node_that_has_refused() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    create_on(&nodes[0], &["a:d"]).await;
    nodes[1].attach("web").await;
    // No disk has so much.
    let more = json!({"size": 1u64 << 45});
    let refused = nodes[0].refused("PATCH", VOLUME, more, "disk-too-small").await;
    let what = "there is no room for more data of the replica on disk d on node a";
    assert_eq!(refused["what"], what, "{refused:#}");
    nodes[1].detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_about_a_replica_did_is_said() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    create_on(&nodes[0], &["a:d", "b:d"]).await;
    nodes[1].attach("web").await;
    let command = |action: &str| format!("/v1/volumes/web/replicas/a:d/{action}");
    for (action, reported) in [
        ("re-add", "the replica on a:d is not faulty: nothing is changed"),
        ("fail", "the replica on a:d of volume web is faulty from now on"),
        ("re-add", "the replica on a:d of volume web is brought back: it copies what it lacks"),
        ("fail", "the replica on a:d of volume web is faulty from now on"),
        ("remove", "the replica on a:d is removed from volume web"),
        ("remove", "the replica on a:d was removed before: nothing is changed"),
    ] {
        let answer = nodes[0].ok("POST", &command(action), Value::Null).await;
        assert!(has(&answer["message"], reported), "{action}: {answer:#}");
        if reported.contains("brought back") {
            nodes[0].until(VOLUME, |v| v["volume"]["health"] == "in-sync").await;
        }
    }
    let only = "/v1/volumes/web/replicas/b:d/fail";
    let refused = nodes[0].refused("POST", only, Value::Null, "last-in-sync").await;
    assert!(has(&refused["do"], "add one by `evenkeel replica add`"), "{refused:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_to_keep_that_does_not_exist_is_refused() {
    let place = Place::new();
    let nodes = place.cluster(&["a"]).await;
    create_on(&nodes[0], &["a:d"]).await;
    let keep = |keep: &str| json!({"volume": "web", "keep": keep});
    let path = "/v1/assemble";
    let answer = nodes[0].ok("POST", path, keep("n9")).await;
    let error = &answer["volumes"][0]["error"];
    assert_eq!(error["code"], "no-such-replica", "{answer:#}");
    assert!(has(&error["why"], "no replica \"n9\" of it was found; found: a:d ("), "{answer:#}");
    for known in ["a", "a:d"] {
        let answer = nodes[0].ok("POST", path, keep(known)).await;
        assert!(answer["volumes"][0]["error"].is_null(), "{answer:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_small_regions_it_is_said_what_they_need() {
    let place = Place::new();
    let nodes = place.cluster(&["a"]).await;
    let create = |size: u64, more: Value| {
        let mut request = json!({"name": "web", "size": size, "replicas": 1});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        request
    };
    let small = create(4 << 20, json!({"region_size": 128 << 10}));
    let refused = nodes[0].refused("POST", "/v1/volumes", small, "bad-request").await;
    assert!(has(&refused["do"], "`--open-regions "), "{refused:#}");
    let tiny = create(4 << 20, json!({"region_size": 64 << 10}));
    let refused = nodes[0].refused("POST", "/v1/volumes", tiny, "bad-request").await;
    // As the help of `--region-size` says.
    assert!(has(&refused["why"], "a power of two, 128 KiB to 1 GiB"), "{refused:#}");
    let vast = create(1 << 63, json!({}));
    let refused = nodes[0].refused("POST", "/v1/volumes", vast, "bad-request").await;
    assert_eq!(
        (&refused["why"], &refused["do"]),
        (&json!("the size is 8192P"), &json!("Choose one up to 1024P"))
    );
    let places = create(4 << 20, json!({"on": ["a:d", "a:e"]}));
    let refused = nodes[0].refused("POST", "/v1/volumes", places, "bad-request").await;
    assert_eq!(refused["why"], "2 places named with --on, for 1 replica", "{refused:#}");
}
