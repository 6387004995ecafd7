use serde_json::json;

use super::*;

fn said(method: Method, path: &str) -> String {
    sentence(&Asked::new(&method, path), None, Duration::from_secs(3))
}

#[test]
fn it_is_said_what_the_node_was_asked_for() {
    let waiting = |deed: &str| format!("waiting for the node to {deed} (3 s)");
    for (method, path, deed) in [
        (Method::GET, "/v1/volumes", "answer"),
        (Method::POST, "/v1/volumes", "create the volume"),
        (Method::POST, "/v1/volumes/music/attach", "attach volume music"),
        (Method::POST, "/v1/volumes/music/detach", "detach volume music"),
        (Method::PATCH, "/v1/volumes/music", "change volume music"),
        (Method::DELETE, "/v1/volumes/music?removes=0", "delete volume music"),
        (Method::POST, "/v1/volumes/music/replicas", "add a replica to volume music"),
        (
            Method::POST,
            "/v1/volumes/music/replicas/0badcafe/fail",
            "fail a replica of volume music",
        ),
        (Method::DELETE, "/v1/volumes/music/exports/nbd", "change the exports of volume music"),
        (Method::POST, "/v1/assemble", "put volumes together from their disks"),
        (Method::POST, "/v1/node/join", "join the cluster"),
        (Method::DELETE, "/v1/nodes/n3?removes=", "remove node n3"),
        (Method::POST, "/v1/disks", "add the disk"),
    ] {
        assert_eq!(said(method, path), waiting(deed), "{path}");
    }
}

#[test]
fn it_is_said_what_holds_it_up() {
    let asked = Asked::new(&Method::POST, "/v1/volumes/music/attach");
    let reason = Some("the coordinator does not answer");
    let expected =
        "waiting for the node to attach volume music (2 min 5 s): the coordinator does not answer";
    assert_eq!(sentence(&asked, reason, Duration::from_secs(125)), expected);
}

#[test]
fn nodes_that_send_no_heartbeats_are_named() {
    let node = |name: &str, alive: bool, seen: u64| {
        json!({"id": "", "name": name, "addresses": [], "here": false, "coordinator": false,
            "alive": alive, "last_seen": seen, "software": ""})
    };
    let nodes = |list: Vec<serde_json::Value>| -> NodesAnswer {
        serde_json::from_value(json!({"version": 1, "cluster": "home", "nodes": list})).unwrap()
    };
    let all = nodes(vec![node("n1", true, 100), node("n2", true, 93), node("n3", false, 50)]);
    assert_eq!(silent(&all, 101).as_deref(), Some("nodes n2, n3 do not answer"));
    let all = nodes(vec![node("n1", true, 100), node("n3", false, 50)]);
    assert_eq!(silent(&all, 101).as_deref(), Some("node n3 does not answer"));
    assert_eq!(silent(&nodes(vec![node("n1", true, 98)]), 101), None);
}

#[test]
fn a_line_on_a_terminal_never_begins_another_one() {
    assert_eq!(fitting("waiting", 20), "waiting");
    let cut = fitting("waiting for the node to attach volume music", 20);
    assert_eq!(cut, "waiting for the no…");
    assert!(cut.chars().count() < 20);
}
