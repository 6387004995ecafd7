use super::*;

/// A volume of `mirrors` mirrors of `replicas` replicas, all in-sync.
pub(crate) fn view(mirrors: usize, replicas: usize) -> View {
    let mirror = |m: usize| MirrorView {
        replicas: (0..replicas)
            .map(|r| ReplicaRecord {
                incarnation: Incarnation(1),
                ..ReplicaRecord::first(ReplicaId((m * 100 + r) as u128), NodeId(r as u128))
            })
            .collect(),
    };
    View::first(
        VolumeId(7),
        History(3),
        CoordinatorId(4),
        Geometry { size: 1 << 20, block_size: 512, chunk: 65536 },
        (0..mirrors).map(mirror).collect(),
    )
}

#[test]
fn a_mirror_keeps_its_last_in_sync_replica() {
    let mut view = view(2, 2);
    view.leave(ReplicaId(0), ReplicaState::Stale, Cause::Late).unwrap();
    for state in [ReplicaState::Stale, ReplicaState::Faulty] {
        assert_eq!(view.leave(ReplicaId(1), state, Cause::Operator), Err(ViewError::LastInSync));
    }
    view.leave(ReplicaId(100), ReplicaState::Stale, Cause::Late).unwrap();
    assert!(view.is_valid());
}

#[test]
fn a_replica_returns_by_rebuilding_only() {
    let mut view = view(1, 2);
    view.leave(ReplicaId(1), ReplicaState::Faulty, Cause::Operator).unwrap();
    assert!(view.complete(ReplicaId(1), Incarnation(1)).is_err());
    view.readmit(ReplicaId(1)).unwrap();
    view.admit(ReplicaId(1), Incarnation(2)).unwrap();
    assert_eq!(view.complete(ReplicaId(1), Incarnation(1)), Err(ViewError::WrongIncarnation));
    view.complete(ReplicaId(1), Incarnation(2)).unwrap();
    assert_eq!(view.replica(ReplicaId(1)).unwrap().1.state, ReplicaState::InSync);
}

/// Who fails it once more does not say that its disk is in order.
#[test]
fn what_a_failing_disk_has_is_copied_as_a_whole_whoever_fails_it_again() {
    let mut view = view(1, 2);
    view.leave(ReplicaId(1), ReplicaState::Faulty, Cause::Medium).unwrap();
    let failed = *view.replica(ReplicaId(1)).unwrap().1;
    let mut next = view.successor();
    next.leave(ReplicaId(1), ReplicaState::Faulty, Cause::Operator).unwrap();
    assert_eq!(*next.replica(ReplicaId(1)).unwrap().1, failed);
    next.readmit(ReplicaId(1)).unwrap();
    assert_eq!(next.replica(ReplicaId(1)).unwrap().1.missing_since, None);
}

/// A disk that turns out to be a stale clone, or of another branch, is not relied upon, faulty or
/// not.
#[test]
fn a_faulty_replica_that_is_another_one_is_copied_as_a_whole() {
    let mut view = view(1, 2);
    view.leave(ReplicaId(1), ReplicaState::Faulty, Cause::Operator).unwrap();
    assert!(view.replica(ReplicaId(1)).unwrap().1.missing_since.is_some());
    view.leave(ReplicaId(1), ReplicaState::Faulty, Cause::OtherHistory).unwrap();
    assert_eq!(view.replica(ReplicaId(1)).unwrap().1.missing_since, None);
}

#[test]
fn a_member_is_not_removed() {
    let mut view = view(1, 2);
    assert!(view.remove(ReplicaId(1)).is_err());
    view.leave(ReplicaId(1), ReplicaState::Faulty, Cause::Operator).unwrap();
    view.remove(ReplicaId(1)).unwrap();
    assert_eq!(view.mirrors[0].replicas.len(), 1);
    assert_eq!(view.remove(ReplicaId(1)), Err(ViewError::UnknownReplica));
}

#[test]
fn what_is_out_of_bounds_is_not_valid() {
    let good = view(2, 3);
    assert!(good.is_valid());
    let broken: [fn(&mut View); 9] = [
        |v| v.geometry.block_size = 1024,
        |v| v.geometry.size += 1,
        |v| v.geometry.chunk = 5000,
        |v| v.mirrors.clear(),
        |v| v.mirrors[1].replicas[0].id = ReplicaId(0),
        |v| v.mirrors[0].replicas.iter_mut().for_each(|r| r.state = ReplicaState::Stale),
        // What a disk and a frame can't tell from something else.
        |v| v.rebuild_limit = RebuildLimit::BytesPerSecond(u64::MAX),
        |v| v.mirrors[0].replicas[0].missing_since = Some(Generation(0)),
        |v| v.mirrors[0].replicas[0].missing_since = Some(Generation(1 << 48)),
    ];
    for (number, spoil) in broken.iter().enumerate() {
        let mut view = good.clone();
        spoil(&mut view);
        assert!(!view.is_valid(), "{number}");
    }
}
