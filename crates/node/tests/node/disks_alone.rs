//! Volumes that are stopped, and such as are put together from their disks.

use serde_json::{Value, json};

use crate::support::{Place, TestNode};

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_volume_stays_closed_until_it_is_assembled() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    nodes[0].attach("web").await;
    let stopped = nodes[1].ok("POST", "/v1/volumes/web/stop", Value::Null).await;
    assert_eq!(stopped["volume"]["state"], "stopped", "{stopped:#}");
    nodes[1].ok("POST", "/v1/volumes/web/stop", Value::Null).await;
    let attach = "/v1/volumes/web/attach";
    nodes[0].refused("POST", attach, json!({"how": "none"}), "wrong-state").await;
    nodes[1].crash().await;
    nodes[1].restart().await;
    let disks = nodes[1].get("/v1/disks").await;
    let problem = disks["disks"][0]["replicas"][0]["problem"].as_str().unwrap_or_default();
    assert!(problem.contains("stopped"), "{disks:#}");

    let request = json!({"volume": "web"});
    for outcome in ["assembled", "unchanged"] {
        let answer = nodes[0].ok("POST", "/v1/assemble", request.clone()).await;
        assert_eq!(answer["volumes"][0]["outcome"], outcome, "{answer:#}");
    }
    nodes[1].until("/v1/disks", |d| d["disks"][0]["replicas"][0]["problem"].is_null()).await;
    nodes[0].attach("web").await;
    nodes[0].until("/v1/volumes/web", |v| v["volume"]["health"] == "in-sync").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_disks_in_a_new_cluster_make_the_volume_again_if_all_that_count_are_there() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    nodes[0].attach("web").await;
    let disks = [nodes[0].disk("d"), nodes[1].disk("d")];
    for node in &mut nodes {
        node.crash().await;
    }
    let elsewhere = Place::new();
    let mut node = TestNode::new(&elsewhere, "a");
    node.start().await.unwrap();
    let assemble = |volume: Option<&str>, paths: &[std::path::PathBuf], force: bool| json!({"volume": volume, "paths": paths, "force": force});
    let one = assemble(Some("web"), &disks[..1], false);
    let refused = node.ok("POST", "/v1/assemble", one).await;
    assert_eq!(refused["volumes"][0]["error"]["code"], "incomplete", "{refused:#}");
    assert_eq!(node.get("/v1/disks").await["disks"], json!([]), "nothing was taken");
    let plan = async |force: bool| {
        let path =
            format!("/v1/assemble/plan?volume=web&force={force}&paths={}", disks[0].display());
        node.get(&path).await["volumes"][0].clone()
    };
    let same = plan(false).await;
    // How long ago a superblock was saved may have become a second more meanwhile.
    let why = |of: &Value| {
        of["error"]["why"].as_str().unwrap().split(", saved").next().map(str::to_owned)
    };
    assert_eq!(why(&same), why(&refused["volumes"][0]), "{same:#}");
    assert_eq!(same["error"]["do"], refused["volumes"][0]["error"]["do"], "{same:#}");
    let forced = plan(true).await;
    assert_eq!(forced["outcome"], "assembled", "{forced:#}");
    assert_eq!(forced["keeps"][0]["place"].as_str().unwrap().rsplit('/').nth(1), Some("d"));
    let discarded = forced["discards"].as_array().unwrap();
    assert_eq!((discarded.len(), &forced["rebuilds"]), (1, &json!([])), "{forced:#}");
    assert_eq!((&discarded[0]["loses"], &discarded[0]["generation"]), (&Value::Null, &Value::Null));
    let mut other = assemble(Some("web"), &disks[..1], true);
    other["discards"] = json!([forced["keeps"][0]["id"]]);
    let refused = node.ok("POST", "/v1/assemble", other).await;
    let error = &refused["volumes"][0]["error"];
    assert_eq!(error["code"], "wrong-state", "{refused:#}");
    let place = discarded[0]["place"].as_str().unwrap();
    assert!(error["why"].as_str().unwrap().ends_with(&format!("not agreed to: {place}")));
    assert_eq!(node.get("/v1/disks").await["disks"], json!([]), "nothing was taken");
    assert_eq!(node.get("/v1/volumes").await["volumes"], json!([]), "nothing was done");
    let all = assemble(None, &disks, false);
    let done = node.ok("POST", "/v1/assemble", all).await;
    assert_eq!(done["volumes"][0]["outcome"], "assembled", "{done:#}");
    node.attach("web").await;
    let status = node.until("/v1/volumes/web", |v| v["volume"]["health"] == "in-sync").await;
    assert_eq!(status["volume"]["mirrors"][0]["summary"], "[UU]");
    // Another volume of that name comes along: which is meant has to be said.
    let third = Place::new();
    let mut other = TestNode::new(&third, "a");
    other.start().await.unwrap();
    other.add_disk("d").await;
    other.create("web", 1).await;
    let foreign = [other.disk("d")];
    other.crash().await;
    let by_name = assemble(Some("web"), &foreign, false);
    node.refused("POST", "/v1/assemble", by_name, "bad-request").await;
    let all = node.ok("POST", "/v1/assemble", assemble(None, &foreign, false)).await;
    let codes: Vec<_> =
        all["volumes"].as_array().unwrap().iter().map(|v| &v["error"]["code"]).collect();
    assert!(codes.contains(&&json!("name-in-use")), "{all:#}");
    let disks = node.get("/v1/disks").await;
    assert_eq!(disks["disks"].as_array().unwrap().len(), 2, "no disk was taken for it");
    // Bad input.
    let bad = "bad-request";
    node.refused("POST", "/v1/assemble", assemble(None, &[], true), bad).await;
    node.refused("POST", "/v1/assemble", json!({"paths": ["d"]}), bad).await;
    let saves = json!({"volume": "web", "save_differing": "/tmp/x"});
    node.refused("POST", "/v1/assemble", saves, bad).await;
    let unknown = assemble(Some("nothing"), &[], false);
    node.refused("POST", "/v1/assemble", unknown, "no-such-volume").await;
}
