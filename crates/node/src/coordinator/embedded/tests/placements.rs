use evenkeel_core::view::Newcomer;
use evenkeel_core::{ReplicaId, Role};

use super::*;

const NEW: ReplicaId = ReplicaId(77);

/// A coordinator with two nodes and the volume "web", and its view.
fn with_volume(dir: &Path, expiry: Duration) -> (Embedded, StoredVolume, View) {
    let coordinator = open(dir, expiry);
    coordinator.answer(Request::Register(node(ALPHA, "alpha").into())).unwrap();
    coordinator.answer(Request::Register(node(BETA, "beta").into())).unwrap();
    let (stored, view) = volume(&coordinator, "web");
    create(&coordinator, &stored);
    (coordinator, stored, view)
}

/// Beta makes a replica on this disk of its own.
fn place(coordinator: &Embedded, view: &View, id: ReplicaId, disk: &str) -> Answer {
    place_beside(coordinator, view, (id, disk), false)
}

/// The same; with `alone` only if no other one is being made.
fn place_beside(
    coordinator: &Embedded,
    view: &View,
    (id, disk): (ReplicaId, &str),
    alone: bool,
) -> Answer {
    let maker = Some(Maker { node: BETA.to_string(), incarnation: 1 });
    let replica = PlacedReplica {
        id: id.to_string(),
        mirror: 0,
        node: BETA.to_string(),
        disk: disk.into(),
        removed: false,
        maker,
    };
    let volume = view.volume.to_string();
    coordinator
        .answer(Request::Place { volume, replica, same_disk: false, alone, revision: None })
        .unwrap()
}

fn joined(view: &View, id: ReplicaId) -> View {
    let mut next = view.successor();
    next.add(Newcomer { id, node: BETA, mirror: 0, role: Role::Own }).unwrap();
    next
}

fn fate(coordinator: &Embedded, view: &View, id: ReplicaId) -> Fate {
    let found = FoundReplica { volume: view.volume.to_string(), replica: id.to_string() };
    match coordinator.answer(Request::Fates(vec![found])).unwrap() {
        Answer::Fates(fates) => fates[0],
        other => panic!("{other:?}"),
    }
}

fn forget(coordinator: &Embedded, view: &View, id: ReplicaId) {
    let (volume, replica) = (view.volume.to_string(), id.to_string());
    let answer = coordinator.answer(Request::Forget { volume, replica }).unwrap();
    assert!(matches!(answer, Answer::Done));
}

fn reborn(coordinator: &Embedded, id: NodeId, name: &str) {
    let reborn = NodeRecord { incarnation: 2, ..node(id, name) };
    coordinator.answer(Request::Register(follows_1(reborn))).unwrap();
}

#[test]
fn a_replica_that_joined_outlives_its_maker() {
    let dir = tempfile::tempdir().unwrap();
    let (coordinator, _, view) = with_volume(dir.path(), Duration::from_secs(10));
    assert!(matches!(place(&coordinator, &view, NEW, "d"), Answer::Done));
    assert_eq!(fate(&coordinator, &view, NEW), Fate::Belongs);
    assert!(matches!(swap(&coordinator, ALPHA, &joined(&view, NEW)), Answer::Done));
    reborn(&coordinator, BETA, "beta");
    assert_eq!(fate(&coordinator, &view, NEW), Fate::Belongs);
    forget(&coordinator, &view, NEW);
    assert_eq!(fate(&coordinator, &view, NEW), Fate::Belongs);
}

#[test]
fn a_replica_whose_maker_died_before_it_joined_is_given_up_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let (coordinator, _, view) = with_volume(dir.path(), Duration::from_secs(10));
    place(&coordinator, &view, NEW, "d");
    reborn(&coordinator, BETA, "beta");
    assert_eq!(fate(&coordinator, &view, NEW), Fate::NeverMade);
    assert!(matches!(swap(&coordinator, ALPHA, &joined(&view, NEW)), Answer::GivenUp));
    // Its place is free again.
    assert!(matches!(place(&coordinator, &view, ReplicaId(78), "d"), Answer::Done));
}

#[test]
fn a_view_adds_only_what_was_placed() {
    let dir = tempfile::tempdir().unwrap();
    let (coordinator, _, view) = with_volume(dir.path(), Duration::from_secs(10));
    assert!(matches!(swap(&coordinator, ALPHA, &joined(&view, NEW)), Answer::GivenUp));
    place(&coordinator, &view, NEW, "d");
    forget(&coordinator, &view, NEW);
    assert!(matches!(swap(&coordinator, ALPHA, &joined(&view, NEW)), Answer::GivenUp));
}

#[test]
fn a_place_is_taken_once() {
    let dir = tempfile::tempdir().unwrap();
    let (coordinator, _, view) = with_volume(dir.path(), Duration::from_secs(10));
    place(&coordinator, &view, NEW, "d");
    assert!(matches!(place(&coordinator, &view, NEW, "d"), Answer::Done));
    let other = place(&coordinator, &view, ReplicaId(78), "d");
    let Answer::PlacedAlready { replica } = other else { panic!("{other:?}") };
    assert_eq!(replica, NEW.to_string());
}

/// A command that is repeated while the first one is still making a replica, and has named no
/// place.
#[test]
fn one_that_is_to_be_alone_is_refused_while_another_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let (coordinator, _, view) = with_volume(dir.path(), Duration::from_secs(10));
    let alone = |id, disk| place_beside(&coordinator, &view, (ReplicaId(id), disk), true);
    assert!(matches!(alone(NEW.0, "d"), Answer::Done));
    let Answer::PlacedAlready { replica } = alone(78, "e") else { panic!("not refused") };
    assert_eq!(replica, NEW.to_string());
    // Whoever names its place means one more.
    assert!(matches!(place(&coordinator, &view, ReplicaId(79), "f"), Answer::Done));
    forget(&coordinator, &view, ReplicaId(79));
    assert!(matches!(swap(&coordinator, ALPHA, &joined(&view, NEW)), Answer::Done));
    assert!(matches!(alone(78, "e"), Answer::Done));
}

#[test]
fn a_replica_that_left_its_volume_may_be_removed_from_its_disk() {
    let dir = tempfile::tempdir().unwrap();
    let (coordinator, stored, view) = with_volume(dir.path(), Duration::from_secs(10));
    place(&coordinator, &view, NEW, "d");
    let with = joined(&view, NEW);
    swap(&coordinator, ALPHA, &with);
    let mut without = with.successor();
    without.remove(NEW).unwrap();
    assert!(matches!(swap(&coordinator, ALPHA, &without), Answer::Done));
    assert_eq!(fate(&coordinator, &view, NEW), Fate::Deleted);
    let first: ReplicaId = stored.record.replicas[0].id.parse().unwrap();
    assert_eq!(fate(&coordinator, &view, first), Fate::Belongs);
}
