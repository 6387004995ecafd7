use evenkeel_coordinator::store::{Commit, Key, Outcome, Range, Space, Store as _, Write};

use super::*;

fn caller(node: NodeId) -> Caller {
    Caller { node, name: "beta".into(), start: None, at: "machine".into() }
}

fn remove(coordinator: &Embedded, id: NodeId) -> Answer {
    coordinator.answer(Request::RemoveNode { node: id.to_string(), incarnation: None }).unwrap()
}

#[test]
fn a_removed_node_is_refused_for_good_and_its_name_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_secs(10));
    coordinator.answer(Request::Register(node(ALPHA, "alpha").into())).unwrap();
    let register = || Request::Register(node(BETA, "beta").into());
    coordinator.handle(&caller(BETA), register()).unwrap();
    assert!(matches!(remove(&coordinator, NodeId(9)), Answer::NotRegistered));
    assert!(matches!(remove(&coordinator, ALPHA), Answer::NodeInUse { .. }));
    assert!(matches!(remove(&coordinator, BETA), Answer::Done));
    assert!(matches!(remove(&coordinator, BETA), Answer::Done), "it may be asked for twice");
    drop(coordinator);
    let coordinator = open(dir.path(), Duration::from_secs(10));
    let beat = Request::Heartbeat { node: BETA.to_string() };
    for request in [register(), beat, Request::Nodes, Request::Volumes] {
        let answer = coordinator.handle(&caller(BETA), request).unwrap();
        let Answer::NodeRemoved { why } = answer else { panic!("{answer:?}") };
        assert!(why.contains("beta") && why.contains("was removed from the cluster on"), "{why}");
    }
    let Answer::Nodes(nodes) = coordinator.answer(Request::Nodes).unwrap() else { panic!() };
    assert_eq!(nodes.len(), 1);
    let Answer::RemovedNodes(all) = coordinator.answer(Request::RemovedNodes).unwrap() else {
        panic!()
    };
    assert_eq!((all.len(), all[0].name.as_str()), (1, "beta"));
    let other = Request::Register(node(NodeId(3), "beta").into());
    let answer = coordinator.handle(&caller(NodeId(3)), other).unwrap();
    assert!(matches!(answer, Answer::Registered { .. }), "{answer:?}");
}

#[test]
fn each_admission_and_each_removal_is_an_epoch_and_nothing_else_is() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_secs(10));
    let membership = |coordinator: &Embedded| {
        let answer = coordinator.answer(Request::Membership).unwrap();
        let Answer::Membership { epoch, nodes, removed } = answer else { panic!("{answer:?}") };
        (epoch, nodes.len(), removed.len())
    };
    let register = |id, name| {
        coordinator.answer(Request::Register(node(id, name).into())).unwrap();
    };
    assert_eq!(membership(&coordinator), (0, 0, 0));
    register(ALPHA, "alpha");
    register(BETA, "beta");
    let (both, nodes, removed) = membership(&coordinator);
    assert!(both > 0 && (nodes, removed) == (2, 0));
    // Of another start, by another name, silent or heard.
    register(BETA, "gamma");
    coordinator.answer(Request::Heartbeat { node: BETA.to_string() }).unwrap();
    assert_eq!(membership(&coordinator), (both, 2, 0));
    remove(&coordinator, BETA);
    let one = membership(&coordinator);
    assert!(one.0 > both && (one.1, one.2) == (1, 1), "{one:?}");
    remove(&coordinator, BETA);
    register(BETA, "beta");
    assert_eq!(membership(&coordinator), one);
    drop(coordinator);
    assert_eq!(membership(&open(dir.path(), Duration::from_secs(10))), one);
}

#[test]
fn a_node_with_a_replica_stays_and_none_is_placed_on_a_removed_one() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_secs(10));
    for (id, name) in [(ALPHA, "alpha"), (BETA, "beta")] {
        coordinator.answer(Request::Register(node(id, name).into())).unwrap();
    }
    let (mut stored, mut view) = volume(&coordinator, "music");
    view.mirrors[0].replicas[0].node = BETA;
    stored.record.replicas[0].node = BETA.to_string();
    stored = StoredVolume { view: ViewText::encode(&view).unwrap(), ..stored };
    assert!(matches!(create(&coordinator, &stored), Answer::Done));
    let answer = remove(&coordinator, BETA);
    assert!(matches!(&answer, Answer::NodeInUse { why } if why.contains("music")), "{answer:?}");
    let id = NodeId(3);
    coordinator.answer(Request::Register(node(id, "gamma").into())).unwrap();
    let want = Request::Want {
        volume: stored.record.id.clone(),
        node: id.to_string(),
        shown: None,
        revision: None,
    };
    assert!(matches!(coordinator.answer(want).unwrap(), Answer::Done));
    let noted = || {
        let read = Request::Read { volume: "music".into() };
        let Answer::Volume(stored) = coordinator.answer(read).unwrap() else { panic!() };
        stored.record.wanted_on.len()
    };
    assert_eq!(noted(), 1);
    assert!(matches!(remove(&coordinator, id), Answer::Done));
    assert_eq!(noted(), 0, "no volume names it");
    let mut placed = stored.record.replicas[0].clone();
    (placed.id, placed.node) = ("x".into(), id.to_string());
    let volume = stored.record.id.clone();
    let place =
        Request::Place { volume, replica: placed, same_disk: false, alone: false, revision: None };
    assert!(matches!(coordinator.answer(place).unwrap(), Answer::NodeRemoved { .. }));
}

/// So many volumes are meant to be attached on beta, and have a replica whose making was cut off,
/// with as much stored with each as a member can store.
fn store_large(coordinator: &Embedded, volumes: u32) {
    let (stored, _) = volume(coordinator, "web");
    for number in 0..volumes {
        let mut record = stored.record.clone();
        record.id = evenkeel_core::VolumeId(u128::from(number) + 1000).to_string();
        record.wanted_on = WantedOn::from([(BETA.to_string(), Some(BY_DEVICE))]);
        let maker = Some(Maker { node: NodeId(99).to_string(), incarnation: 1 });
        record.replicas = vec![PlacedReplica { maker, ..record.replicas[0].clone() }];
        record.verified = Some("x".repeat(511 << 10).into());
        let value = Some(serde_json::to_vec(&record).unwrap());
        let writes = vec![Write { key: Key::new(Space::Volumes, &record.id), value }];
        let commit = Commit { guards: Vec::new(), writes };
        assert_eq!(coordinator.inner.store.commit(&commit), Ok(Outcome::Committed));
    }
}

/// That takes more commits than one. Else a member could prevent its own removal.
#[test]
fn a_node_is_removed_whatever_is_stored_with_the_volumes_that_were_meant_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), EXPIRY);
    coordinator.handle(&caller(BETA), Request::Register(node(BETA, "beta").into())).unwrap();
    store_large(&coordinator, 5);
    assert!(matches!(remove(&coordinator, BETA), Answer::Done));
}

/// Else the coordinator could not start.
#[test]
fn a_removal_is_kept_whatever_an_older_database_has_stored_with_its_volumes() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), EXPIRY);
    store_large(&coordinator, 5);
    let removed = RemovedNode { id: BETA.to_string(), name: "beta".into(), at: 1 };
    coordinator.stay_removed(vec![removed]).unwrap();
    let mut snapshot = coordinator.inner.store.snapshot().unwrap();
    let range = Range::Space(Space::Volumes);
    for entry in coordinator.inner.store.read(&mut snapshot, &range).unwrap().values() {
        let record: VolumeRecord = serde_json::from_slice(&entry.value).unwrap();
        assert!(record.wanted_on.is_empty());
    }
}
