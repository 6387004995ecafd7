//! Volumes that get another name.

use serde_json::{Value, json};

use crate::support::Place;

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_renamed_while_nobody_has_it_or_waits_for_it() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("music", 2).await;
    nodes[0].create("film", 2).await;
    let rename = "/v1/volumes/music/rename";
    let to = |name: &str| json!({"name": name});
    nodes[1].refused("POST", rename, to("film"), "name-in-use").await;
    nodes[1].refused("POST", rename, to("bad/name"), "bad-request").await;
    nodes[1].refused("POST", "/v1/volumes/none/rename", to("x"), "no-such-volume").await;

    nodes[1].attach("music").await;
    let attached = nodes[0].refused("POST", rename, to("records"), "attached").await;
    assert_eq!(attached["why"], "it is attached on node b", "{attached}");
    let advice = attached["do"].as_str().unwrap();
    assert!(advice.contains("evenkeel detach music --node b"), "{attached}");
    // It comes back by itself: its node remembers it.
    nodes[1].stop().await;
    nodes[0].refused("POST", rename, to("records"), "attached").await;
    nodes[1].restart().await;
    nodes[1].until("/v1/volumes/music", |v| v["volume"]["state"] == "serving").await;
    nodes[1].detach("music").await;

    let done = nodes[0].ok("POST", rename, to("records")).await;
    assert_eq!(done["message"], "volume music is volume records now", "{done:#}");
    assert_eq!(done["volume"]["name"], "records");
    let again = nodes[0].ok("POST", "/v1/volumes/records/rename", to("records")).await;
    assert_eq!(again["changed"], false, "{again:#}");
    nodes[1].refused("GET", "/v1/volumes/music", Value::Null, "no-such-volume").await;
    let attached = nodes[1].attach("records").await;
    let uri = attached["export"]["uris"][0].as_str().unwrap();
    assert!(uri.contains("records") && !uri.contains("music"), "{attached:#}");
    nodes[1].stop().await;
    nodes[1].restart().await;
    nodes[1].until("/v1/volumes/records", |v| v["volume"]["state"] == "serving").await;
    assert_eq!(nodes[1].get("/v1/node").await["node"]["attached"], json!(["records"]));
    nodes[1].detach("records").await;
}

/// The name that a volume has now, also where its replica is closed, and what refuses a disk's
/// removal.
#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_disks_calls_a_stopped_volume_by_its_new_name() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("music", 2).await;
    nodes[0].ok("POST", "/v1/volumes/music/rename", json!({"name": "records"})).await;
    nodes[0].ok("POST", "/v1/volumes/records/stop", Value::Null).await;
    let list = nodes[0].get("/v1/disks?all=true").await;
    assert!(list["disks"].as_array().is_some_and(|disks| disks.len() == 2), "{list:#}");
    for disk in list["disks"].as_array().unwrap() {
        assert_eq!(disk["replicas"][0]["volume"], "records", "{list:#}");
        assert!(!disk.to_string().contains("music"), "{disk:#}");
    }
    let refused = nodes[1].refused("DELETE", "/v1/disks/d", Value::Null, "disk-has-replicas").await;
    let why = refused["why"].as_str().unwrap();
    assert!(why.contains("records") && !why.contains("music"), "{why}");
    // Without the coordinator it is called as it was told last.
    nodes[0].crash().await;
    nodes[1]
        .until("/v1/disks", |list| list["disks"][0]["replicas"][0]["volume"] == "records")
        .await;
}

/// Superblocks keep the name that the volume had when its replicas were made.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_two_volumes_have_had_tells_nothing_without_the_coordinator() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    let on = |name: &str| json!({"name": name, "size": 4 << 20, "replicas": 1, "on": ["b:d"]});
    let first = nodes[0].ok("POST", "/v1/volumes", on("music")).await;
    nodes[0].ok("POST", "/v1/volumes/music/rename", json!({"name": "records"})).await;
    nodes[0].ok("POST", "/v1/volumes", on("music")).await;
    // A stopped volume is assembled by the name that it has now.
    nodes[0].ok("POST", "/v1/volumes/records/stop", Value::Null).await;
    let assembled = nodes[1].ok("POST", "/v1/assemble", json!({"volume": "records"})).await;
    assert_eq!(assembled["volumes"][0]["outcome"], "assembled", "{assembled:#}");
    assert_eq!(assembled["volumes"][0]["id"], first["plan"]["id"]);

    nodes[0].crash().await;
    nodes[1].until("/v1/volumes", |all| all["complete"] == false).await;
    nodes[1].refused("GET", "/v1/volumes/music", Value::Null, "no-coordinator").await;
    let id = first["plan"]["id"].as_str().unwrap();
    let known = nodes[1].get(&format!("/v1/volumes/{id}")).await;
    assert_eq!(known["volume"]["source"], "replica", "{known:#}");
}
