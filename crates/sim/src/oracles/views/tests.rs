use evenkeel_core::*;

use super::*;

fn view() -> View {
    let replica = |id| ReplicaRecord {
        incarnation: Incarnation(7),
        ..ReplicaRecord::first(ReplicaId(id), NodeId(id))
    };
    View::first(
        VolumeId(1),
        History(1),
        CoordinatorId(1),
        Geometry { size: 4096, block_size: 512, chunk: 4096 },
        vec![MirrorView { replicas: vec![replica(1), replica(2)] }],
    )
}

fn step(view: &View, change: impl FnOnce(&mut View)) -> Result<View, Violation> {
    let mut next = view.successor();
    change(&mut next);
    check(view, &next).map(|()| next)
}

#[test]
fn a_replica_leaves_and_returns_by_a_rebuild() {
    let left = step(&view(), |v| v.mirrors[0].replicas[0].state = ReplicaState::Stale);
    let left = left.expect("a replica may leave");
    assert!(step(&left, |v| v.mirrors[0].replicas[0].state = ReplicaState::InSync).is_err());
    let back = step(&left, |v| v.mirrors[0].replicas[0].state = ReplicaState::Rebuilding);
    let back = back.expect("a replica may rebuild");
    assert!(step(&back, |v| v.mirrors[0].replicas[0].state = ReplicaState::InSync).is_ok());
    let other_incarnation = step(&back, |v| {
        v.mirrors[0].replicas[0].state = ReplicaState::InSync;
        v.mirrors[0].replicas[0].incarnation = Incarnation(8);
    });
    assert!(other_incarnation.is_err());
}

#[test]
fn a_view_follows_its_parent_and_keeps_an_in_sync_replica() {
    assert!(step(&view(), |v| v.generation = Generation(5)).is_err());
    assert!(step(&view(), |v| v.history = History(2)).is_err());
    let emptied = step(&view(), |v| {
        v.mirrors[0].replicas.iter_mut().for_each(|r| r.state = ReplicaState::Stale);
    });
    assert!(emptied.is_err());
}
