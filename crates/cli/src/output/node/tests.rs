use super::*;

#[test]
fn the_disks_stand_in_a_table_and_a_problem_below_its_disk() {
    let answer: DisksAnswer = serde_json::from_value(serde_json::json!({
        "version": 1,
        "disks": [{
            "name": "fast", "node": {"id": "", "name": "n1"}, "path": "/srv/fast",
            "kind": "directory", "size": 80u64 << 30, "free": 60u64 << 30,
            "available": 76u64 << 30, "block_size": 512,
            "replicas": [],
        }, {
            "name": "sdb1", "node": {"id": "", "name": "n2"}, "path": "/dev/sdb1",
            "kind": "device", "size": 4u64 << 40, "free": 0, "block_size": 4096, "replicas": [{
                "path": "/dev/sdb1", "problem": "its superblock is damaged",
            }],
        }],
        "warnings": ["node n3 did not answer"],
    }))
    .unwrap();
    let expected = "\
NODE  DISK  KIND       SIZE  FREE  PROMISED  REPLICAS  PATH
n1    fast  directory   80G   60G       16G         0  /srv/fast
n2    sdb1  device       4T     0         -         1  /dev/sdb1
  not served: its superblock is damaged
note: node n3 did not answer
";
    assert_eq!(disks(&answer), expected);
}

#[test]
fn a_full_disk_has_promised_what_its_replicas_lack_and_one_that_is_away_has_no_size() {
    let mut disk: Disk = serde_json::from_value(serde_json::json!({
        "name": "d", "node": {"id": "", "name": "n1"}, "path": "/d", "kind": "directory",
        "size": 80u64 << 30, "free": 0, "available": 1u64 << 30, "block_size": 512,
        "replicas": [{"path": "/d/1", "unallocated": 3u64 << 30},
            {"path": "/d/2", "unallocated": 1u64 << 30}, {"path": "/d/3"}],
    }))
    .unwrap();
    assert_eq!(promised(&disk), "4G", "more than it has");
    let too_much = "promised too much: its replicas may still take 4G, and 1G are there: one that finds none becomes faulty";
    assert_eq!(full(&disk).as_deref(), Some(too_much));
    disk.available = Some(8 << 30);
    assert_eq!(
        full(&disk).as_deref(),
        Some("nothing is free for more replicas: 8G are there, and promised to these")
    );
    disk.free = 1 << 30;
    assert_eq!(full(&disk), None);
    (disk.available, disk.free) = (Some(0), 0);
    assert_eq!(promised(&disk), "4G");
    disk.replicas.clear();
    assert_eq!(promised(&disk), "0");
    assert_eq!(disk_cells(&disk)[3], "80G");
    (disk.size, disk.problem) = (0, Some("there is nothing at /d".into()));
    assert_eq!(disk_cells(&disk)[3..5], ["-", "-"]);
}

#[test]
fn a_node_that_has_not_joined_is_of_no_cluster() {
    let mut this: NodeAnswer = serde_json::from_value(serde_json::json!({
        "version": 1,
        "node": {
            "id": "", "name": "n4", "cluster": "op", "software": "0.1.0", "pid": 7,
            "started": 0, "addresses": ["10.0.0.4:7740"], "authentication": "none",
            "coordinator": {"here": false, "reachable": false, "message": "join one"},
            "workers": 2, "memory": {"per_volume": 0, "buffers": 0, "buffers_used": 0},
            "disks": 0, "replicas": 0, "attached": [], "warnings": [],
        },
    }))
    .unwrap();
    let text = status(&this, Err("it belongs to no cluster"));
    assert!(text.starts_with("node n4 of no cluster yet, evenkeel 0.1.0, "), "{text}");
    let peers = "  peers        10.0.0.4:7740 (serves nobody before it has joined a cluster)\n";
    assert!(text.contains(peers), "{text}");
    this.node.coordinator.address = Some("10.0.0.1:7740".into());
    let text = status(&this, Err("it is away"));
    assert!(text.starts_with("node n4 of cluster op, "), "{text}");
    assert!(text.contains("10.0.0.4:7740 (no authentication (this machine only))"), "{text}");
}

#[test]
fn the_status_shows_this_node_and_the_others() {
    let this: NodeAnswer = serde_json::from_value(serde_json::json!({
        "version": 1,
        "node": {
            "id": "", "name": "n1", "cluster": "home", "software": "0.1.0", "pid": 7,
            "started": 0, "addresses": ["10.0.0.1:7740"], "authentication": "mutual-tls",
            "coordinator": {
                "id": null, "here": true, "address": null, "reachable": true,
                "unreachable_since": null, "message": "served by this node",
            },
            "workers": 2, "memory": {"per_volume": 1u64 << 26, "buffers": 1u64 << 30, "buffers_used": 0},
            "disks": 1, "replicas": 2, "attached": ["music"], "warnings": ["disk slow is full"],
        },
    }))
    .unwrap();
    let all: NodesAnswer = serde_json::from_value(serde_json::json!({
        "version": 1, "cluster": "home",
        "nodes": [
            {"id": "", "name": "n1", "addresses": ["10.0.0.1:7740"], "here": true,
             "coordinator": true, "alive": true, "last_seen": 0, "software": "0.1.0"},
            {"id": "", "name": "n2", "addresses": ["10.0.0.2:7740"], "here": false,
             "coordinator": false, "alive": false, "last_seen": null, "software": "0.1.0"},
        ],
    }))
    .unwrap();
    let rest = "
  peers        10.0.0.1:7740 (mutual TLS)
  disks        1 disk with 2 replicas
  attached     music
  memory       0 of at most 1G in buffers, at most 64M for one volume
  coordinator  served by this node
note: disk slow is full
";
    let nodes = "
  NODE  STATE  ROLE                    ADDRESS        SOFTWARE
  n1    alive  this node, coordinator  10.0.0.1:7740  0.1.0
  n2    dead   -                       10.0.0.2:7740  0.1.0
";
    let text = status(&this, Ok(&all));
    assert!(text.starts_with("node n1 of cluster home, evenkeel 0.1.0, pid 7, running for "));
    assert_eq!(text[text.find('\n').unwrap()..], format!("{rest}{nodes}"));

    let text = status(&this, Err("the coordinator does not answer: n3 is away"));
    let note = "note: the other nodes are not listed, as only the coordinator knows whether they live: the coordinator does not answer: n3 is away\n";
    assert_eq!(text[text.find('\n').unwrap()..], format!("{rest}{note}"));
}

#[test]
fn a_node_that_only_the_coordinator_hears_is_not_just_alive() {
    let node = |alive, answers| -> ClusterNode {
        serde_json::from_value(serde_json::json!({
            "id": "", "name": "n2", "addresses": [], "here": false, "coordinator": false,
            "alive": alive, "answers": answers, "last_seen": null, "software": "0.1.0",
        }))
        .unwrap()
    };
    assert_eq!(liveness(&node(true, Some(false))), "alive, no answer here");
    assert_eq!(liveness(&node(true, Some(true))), "alive");
    assert_eq!(liveness(&node(true, None)), "alive");
    assert_eq!(liveness(&node(false, None)), "dead");
    assert_eq!(liveness(&node(false, Some(false))), "dead");
    let cut_off = liveness(&node(false, Some(true)));
    assert_eq!(cut_off, "answers here, no heartbeat received by the coordinator");
    let unseen = ClusterNode { unknown: true, ..node(false, None) };
    assert_eq!(liveness(&unseen), "unknown: no heartbeat received yet");
    let paused = ClusterNode { last_seen: Some(1), ..unseen.clone() };
    let said = liveness(&paused);
    assert!(said.starts_with("unknown: last seen "), "{said}");
    assert!(said.ends_with(" ago, before the coordinator stood still"), "{said}");
    // Whoever answers does not call itself dead.
    assert_eq!(liveness(&ClusterNode { here: true, ..unseen }), "alive, no heartbeat received yet");
}

#[test]
fn no_disk_is_said_not_to_be_there_whose_node_was_not_asked() {
    let list = |warnings: &[&str]| {
        let warnings = warnings.iter().map(|text| (*text).to_owned()).collect();
        disks(&DisksAnswer { version: 1, disks: Vec::new(), warnings })
    };
    assert!(list(&[]).starts_with("No disk yet. "), "{}", list(&[]));
    let text = list(&["the coordinator does not answer"]);
    assert!(text.starts_with("Of the nodes that have answered none has a disk.\nnote: "), "{text}");
}

#[test]
fn a_note_of_the_past_is_dated() {
    let mut node = serde_json::json!({
        "id": "", "name": "n1", "cluster": "home", "software": "0.1.0", "pid": 7, "started": 0,
        "addresses": [], "authentication": "none", "workers": 2, "disks": 1, "replicas": 2,
        "coordinator": {"here": true, "reachable": true, "message": ""}, "attached": [],
        "memory": {"per_volume": 0, "buffers": 0, "buffers_used": 0},
        "warnings": ["volume music is not attached here any more", "disk slow is full"],
    });
    let old = serde_json::from_value(node.clone()).unwrap();
    assert_eq!(dated(&old)[0], "volume music is not attached here any more");
    node["warned_at"] = serde_json::json!([1_700_000_000, null]);
    let notes = dated(&serde_json::from_value(node).unwrap());
    assert!(notes[0].starts_with("2023-11-1"), "{notes:?}");
    assert!(notes[0].ends_with(" ago: volume music is not attached here any more"), "{notes:?}");
    assert_eq!(notes[1], "disk slow is full");
}

#[test]
fn a_token_is_shown_with_the_command_that_uses_it() {
    let addresses = vec!["unix:/run/x".to_owned(), "10.0.0.1:7740".to_owned()];
    let (token, names) = ("abc".to_owned(), "rack1-*".to_owned());
    let answer =
        InviteAnswer { version: 1, token, expires: 1_700_000_000, count: 5, names, addresses };
    let shown = invited(&answer);
    let who = "A token for 5 nodes with names like rack1-*, valid until ";
    assert!(shown.starts_with(who), "{shown}");
    let on = ". On each node that is to join:\n\n  evenkeel node join 10.0.0.1:7740 --token abc\n";
    assert!(shown.ends_with(on), "{shown}");
    let member = InviteAnswer { count: 1, names: "n3".into(), ..answer.clone() };
    assert!(invited(&member).starts_with("A token for node n3, valid until "));
    assert!(invited(&member).contains(". On node n3:\n"), "{}", invited(&member));
    let one = InviteAnswer { count: 1, names: "*".into(), addresses: Vec::new(), ..answer };
    assert!(invited(&one).starts_with("A token for one node of any name, valid until "));
    assert!(invited(&one).contains("On the node that is to join. ADDRESS is where others reach"));
    assert!(invited(&one).contains("node join ADDRESS --token abc"));
}
