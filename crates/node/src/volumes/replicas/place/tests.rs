use evenkeel_api::types::{DiskState, NodeRef};

use super::*;

const GIB: u64 = 1 << 30;

pub(super) fn disk(node: &str, name: &str, free: u64) -> Disk {
    Disk {
        name: name.into(),
        node: NodeRef { id: format!("id of {node}"), name: node.into() },
        path: "/x".into(),
        kind: DiskKind::Directory,
        size: free,
        free,
        available: None,
        block_size: 512,
        replicas: Vec::new(),
        state: DiskState::Serving,
        problem: None,
    }
}

fn request(replicas: usize, stripe: usize) -> CreateVolumeRequest {
    CreateVolumeRequest { replicas, stripe, ..CreateVolumeRequest::new("v", GIB) }
}

fn code(request: &CreateVolumeRequest, disks: &[Disk]) -> ErrorCode {
    choose(request, disks, GIB, "x").unwrap_err().code
}

#[test]
fn replicas_of_a_mirror_go_to_different_nodes() {
    let disks = [disk("a", "1", 9 * GIB), disk("a", "2", 8 * GIB), disk("b", "1", 2 * GIB)];
    assert_eq!(choose(&request(2, 1), &disks, GIB, "x").unwrap(), [[0, 2]]);
    assert_eq!(code(&request(3, 1), &disks), ErrorCode::NotEnoughDisks);
    let mut same = request(3, 1);
    same.allow_same_node = true;
    assert_eq!(choose(&same, &disks, GIB, "x").unwrap(), [[0, 2, 1]]);
}

#[test]
fn mirrors_of_a_stripe_spread_over_the_disks() {
    let disks = [disk("a", "1", 9 * GIB), disk("a", "2", 9 * GIB), disk("b", "1", 9 * GIB)];
    let placement = choose(&request(1, 3), &disks, GIB, "x").unwrap();
    let used: BTreeSet<usize> = placement.into_iter().flatten().collect();
    assert_eq!(used.len(), 3);
}

#[test]
fn disks_that_are_too_small_are_refused_unless_thin() {
    let disks = [disk("a", "1", GIB), disk("b", "1", 2 * GIB)];
    assert_eq!(code(&request(2, 1), &disks), ErrorCode::DiskTooSmall);
    let mut thin = request(2, 1);
    thin.thin = true;
    choose(&thin, &disks, GIB, "x").unwrap();
    assert_eq!(code(&request(1, 1), &[]), ErrorCode::NotEnoughDisks);
}

/// What is advised where a volume finds no place.
fn advice(request: &CreateVolumeRequest, disks: &[Disk]) -> String {
    choose(request, disks, GIB, "x").unwrap_err().action
}

#[test]
fn nothing_is_advised_that_would_be_refused() {
    let add = "Add disks (`evenkeel disk add`)";
    let share = "for trials, let replicas share a node (--same-node)";
    let thin = "promise more than there is (--thin)";
    let on = |nodes: &[&str], free| -> Vec<Disk> {
        nodes.iter().map(|node| disk(node, "1", free)).collect()
    };
    assert_eq!(advice(&request(4, 1), &[]), add);
    let three = on(&["a", "b", "c"], 9 * GIB);
    let reported = advice(&request(5, 1), &three);
    assert_eq!(reported, format!("{add}; or take 3 replicas; or {share}"));
    // A disk with a problem is none.
    let mut bad = three.clone();
    bad[1].problem = Some("it is absent".into());
    let error = choose(&request(3, 1), &bad, GIB, "x").unwrap_err();
    assert!(error.why.ends_with("there are disks that can be used on 2 (a, c)"), "{}", error.why);
    assert!(error.action.contains("take 2 replicas"), "{}", error.action);
    // Nor does it help to take fewer, or to share nodes, where no disk is large enough.
    let reported = advice(&request(2, 1), &on(&["a", "b"], GIB / 2));
    assert_eq!(reported, format!("{add}; or take a smaller size; or {thin}"));
    let same = CreateVolumeRequest { allow_same_node: true, ..request(2, 1) };
    let reported = advice(&same, &on(&["a"], GIB + GIB / 2));
    assert_eq!(reported, format!("{add}; or take 1 replica; or take a smaller size; or {thin}"));
}

#[test]
fn named_places_are_taken_as_they_are() {
    let disks = [disk("a", "1", 9 * GIB), disk("a", "2", 9 * GIB), disk("b", "1", 9 * GIB)];
    let mut named = request(2, 1);
    named.on = vec!["b:1".into(), "a:2".into()];
    assert_eq!(choose(&named, &disks, GIB, "x").unwrap(), [[2, 1]]);
    named.on = vec!["a:1".into(), "a:2".into()];
    assert_eq!(choose(&named, &disks, GIB, "x").unwrap(), [[0, 1]]);
    named.on = vec!["a:1".into(), "a:1".into()];
    assert_eq!(code(&named, &disks), ErrorCode::NotEnoughDisks);
    named.on = vec!["a:1".into()];
    assert_eq!(code(&named, &disks), ErrorCode::BadRequest);
    named.on = vec!["a:1".into(), "c:9".into()];
    assert_eq!(code(&named, &disks), ErrorCode::NoSuchDisk);
    named.on = vec!["a".into(), "b:1".into()];
    assert_eq!(code(&named, &disks), ErrorCode::BadRequest);
}

#[test]
fn a_device_holds_one_replica() {
    let mut device = disk("a", "1", 9 * GIB);
    device.kind = DiskKind::Device;
    let mut same = request(1, 2);
    same.allow_same_node = true;
    assert_eq!(code(&same, &[device]), ErrorCode::DiskTooSmall);
}
