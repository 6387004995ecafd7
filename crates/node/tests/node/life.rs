//! Restarts.

use serde_json::json;

use crate::support::Place;

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_node_attaches_again_what_was_attached() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    nodes[1].attach("web").await;
    nodes[1].stop().await;
    let status = nodes[0].get("/v1/volumes/web").await;
    assert_eq!(status["volume"]["state"], "detached");
    nodes[1].restart().await;
    let status = nodes[1].until("/v1/volumes/web", |v| v["volume"]["state"] == "serving").await;
    assert_eq!(status["volume"]["exports"][0]["kind"], "nbd");

    nodes[1].crash().await;
    nodes[1].restart().await;
    nodes[1]
        .until("/v1/volumes/web", |v| {
            v["volume"]["state"] == "serving" && v["volume"]["health"] == "in-sync"
        })
        .await;
    nodes[1].detach("web").await;
    nodes[1].stop().await;
    nodes[1].restart().await;
    assert_eq!(nodes[1].get("/v1/node").await["node"]["attached"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_was_put_back_is_refused_as_a_stale_clone() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a"]).await;
    nodes[0].create("web", 1).await;
    let [replica] = &nodes[0].replicas("d")[..] else { panic!("one replica") };
    let (replica, copy) = (replica.clone(), nodes[0].directory.join("copy"));
    nodes[0].stop().await;
    std::fs::copy(&replica, &copy).unwrap();
    nodes[0].restart().await;
    nodes[0].attach("web").await;
    nodes[0].detach("web").await;
    nodes[0].stop().await;
    std::fs::copy(&copy, &replica).unwrap();
    nodes[0].restart().await;
    let error = nodes[0]
        .refused("POST", "/v1/volumes/web/attach", json!({"how": "nbd"}), "stale-clone")
        .await;
    assert!(error["do"].as_str().unwrap().contains("--force"), "{error:#}");
}

/// It was made while the replica was served, so it lists each incarnation that a view names.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_replicas_file_in_its_place_does_not_count() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a"]).await;
    let (attach, nbd) = ("/v1/volumes/web/attach", json!({"how": "nbd"}));
    nodes[0].create("web", 1).await;
    nodes[0].attach("web").await;
    nodes[0].detach("web").await;
    let [replica] = &nodes[0].replicas("d")[..] else { panic!("one replica") };
    let (replica, copy) = (replica.clone(), nodes[0].directory.join("copy"));
    std::fs::copy(&replica, &copy).unwrap();
    nodes[0].stop().await;
    std::fs::remove_file(&replica).unwrap();
    std::fs::copy(&copy, &replica).unwrap();
    nodes[0].restart().await;
    nodes[0].refused("POST", attach, nbd.clone(), "stale-clone").await;
    // Who knows that it is as good as what was there says so.
    let force = json!({"volume": "web", "paths": [], "force": true});
    let answer = nodes[0].ok("POST", "/v1/assemble", force).await;
    assert_eq!(answer["volumes"][0]["outcome"], "assembled", "{answer:#}");
    nodes[0].ok("POST", attach, nbd).await;
    nodes[0].detach("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_to_be_attached_again_can_be_detached_while_it_waits() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("kept", 1).await;
    nodes[0].create("given-up", 1).await;
    nodes[1].attach("kept").await;
    nodes[1].attach("given-up").await;
    nodes[1].stop().await;
    nodes[0].stop().await;
    // Without the coordinator nothing can be attached yet.
    nodes[1].restart().await;
    let answer = nodes[1].detach("given-up").await;
    assert!(answer["message"].as_str().unwrap().contains("not attached there again"), "{answer:#}");
    nodes[0].restart().await;
    nodes[1].until("/v1/volumes/kept", |v| v["volume"]["state"] == "serving").await;
    assert_eq!(nodes[1].get("/v1/node").await["node"]["attached"], json!(["kept"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_without_data_is_changed_where_it_is_attached() {
    let place = Place::new();
    let nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    let path = "/v1/volumes/web";
    let policy = |seconds: u64| json!({"no_data": {"policy": "suspend", "seconds": seconds}});
    let same = nodes[0].ok("PATCH", path, policy(120)).await;
    assert_eq!((&same["changed"], &same["message"]), (&json!(false), &json!("it was so already")));
    nodes[0].attach("web").await;
    // Asked of another node than the one where it is attached.
    let changed = nodes[1].ok("PATCH", path, policy(600)).await;
    let message = "requests that have waited 600 s for data fail from now on";
    assert_eq!(changed["message"], message, "{changed:#}");
    assert_eq!(changed["volume"]["no_data"], policy(600)["no_data"]);
    let same = nodes[0].ok("PATCH", path, policy(600)).await;
    assert_eq!(same["changed"], false, "{same:#}");
    nodes[0].detach("web").await;
    let error = json!({"no_data": {"policy": "error"}});
    let changed = nodes[0].ok("PATCH", path, error).await;
    assert_eq!(changed["volume"]["no_data"]["policy"], "error", "{changed:#}");
    for wrong in [0, 86_401] {
        let refused = nodes[0].refused("PATCH", path, policy(wrong), "bad-request").await;
        assert_eq!(refused["do"], "Choose 1 to 86400 s, or error");
    }
}
