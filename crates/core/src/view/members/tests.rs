use super::super::tests::view;
use super::*;

const NEW: ReplicaId = ReplicaId(50);
const SPARE: ReplicaId = ReplicaId(60);

fn new(id: ReplicaId, role: Role) -> Newcomer {
    Newcomer { id, node: NodeId(9), mirror: 0, role }
}

fn state(view: &View, id: ReplicaId) -> Option<(ReplicaState, Role)> {
    view.replica(id).map(|(_, record)| (record.state, record.role))
}

/// The next view in which a stale replica has become in-sync.
fn rebuilt(view: &View, id: ReplicaId) -> View {
    let mut next = view.successor();
    if next.replica(id).unwrap().1.state == ReplicaState::Stale {
        next.admit(id, Incarnation(2)).unwrap();
    }
    next.complete(id, Incarnation(2)).unwrap();
    assert!(next.is_valid(), "{next:?}");
    next
}

#[test]
fn an_added_replica_lacks_everything_and_rebuilds() {
    let mut view = view(2, 1);
    view.add(new(NEW, Role::Own)).unwrap();
    let (mirror, record) = view.replica(NEW).unwrap();
    assert_eq!((mirror, record.state, record.missing_since), (0, ReplicaState::Stale, None));
    let view = rebuilt(&view, NEW);
    assert_eq!(view.mirrors[0].in_sync().count(), 2);
}

#[test]
fn adding_twice_is_adding_once() {
    let mut view = view(1, 1);
    view.add(new(NEW, Role::Own)).unwrap();
    let once = view.clone();
    view.add(new(NEW, Role::Own)).unwrap();
    assert_eq!(view, once);
}

#[test]
fn a_replica_of_another_mirror_is_not_added() {
    let mut view = view(2, 1);
    let elsewhere = view.mirrors[1].replicas[0].id;
    let refused = view.add(new(elsewhere, Role::Own));
    assert_eq!(refused, Err(ViewError::WrongState(ReplicaState::InSync)));
    assert!(view.is_valid());
}

#[test]
fn a_mirror_has_a_most_of_replicas() {
    let mut full = view(1, MAX_REPLICAS);
    assert_eq!(full.add(new(ReplicaId(99), Role::Own)), Err(ViewError::TooManyReplicas));
    let beyond = Newcomer { mirror: 1, ..new(NEW, Role::Own) };
    assert_eq!(view(1, 1).add(beyond), Err(ViewError::UnknownMirror));
}

#[test]
fn a_replaced_replica_stays_until_the_new_one_is_in_sync() {
    let mut view = view(1, 2);
    view.add(new(NEW, Role::Replaces(ReplicaId(0)))).unwrap();
    assert_eq!(state(&view, ReplicaId(0)), Some((ReplicaState::InSync, Role::Own)));
    assert_eq!(view.mirrors[0].copies().count(), 2);
    let view = rebuilt(&view, NEW);
    assert_eq!(state(&view, ReplicaId(0)), None);
    assert_eq!(state(&view, NEW), Some((ReplicaState::InSync, Role::Own)));
}

#[test]
fn the_only_replica_can_be_replaced() {
    let mut view = view(1, 1);
    view.add(new(NEW, Role::Replaces(ReplicaId(0)))).unwrap();
    let view = rebuilt(&view, NEW);
    assert_eq!(view.mirrors[0].replicas.len(), 1);
}

#[test]
fn a_replica_is_replaced_by_one_at_a_time_and_only_a_copy() {
    let mut view = view(1, 2);
    view.add(new(NEW, Role::Replaces(ReplicaId(0)))).unwrap();
    let again = view.add(new(ReplicaId(51), Role::Replaces(ReplicaId(0))));
    assert_eq!(again, Err(ViewError::ReplacedAlready));
    assert_eq!(view.add(new(ReplicaId(51), Role::Replaces(NEW))), Err(ViewError::NoCopy));
    let unknown = view.add(new(ReplicaId(51), Role::Replaces(ReplicaId(77))));
    assert_eq!(unknown, Err(ViewError::UnknownReplica));
}

#[test]
fn who_replaces_one_that_is_removed_is_a_copy() {
    let mut view = view(1, 2);
    view.add(new(NEW, Role::Replaces(ReplicaId(0)))).unwrap();
    view.leave(ReplicaId(0), ReplicaState::Faulty, Cause::Medium).unwrap();
    view.remove(ReplicaId(0)).unwrap();
    assert_eq!(state(&view, NEW), Some((ReplicaState::Stale, Role::Own)));
    assert!(view.is_valid());
}

/// A mirror of two of which the second has failed, with a spare that stands in for it and is
/// in-sync.
fn with_stand_in() -> View {
    let mut view = view(1, 2);
    view.add(new(SPARE, Role::Spare(None))).unwrap();
    view.leave(ReplicaId(1), ReplicaState::Faulty, Cause::Medium).unwrap();
    view.stand_in(SPARE, Incarnation(2), ReplicaId(1)).unwrap();
    rebuilt(&view, SPARE)
}

#[test]
fn a_spare_stands_in_until_the_other_is_back() {
    let mut view = with_stand_in();
    let role = Role::Spare(Some(ReplicaId(1)));
    assert_eq!(state(&view, SPARE), Some((ReplicaState::InSync, role)));
    view.readmit(ReplicaId(1)).unwrap();
    let view = rebuilt(&view, ReplicaId(1));
    let (_, spare) = view.replica(SPARE).unwrap();
    assert_eq!((spare.state, spare.role), (ReplicaState::Spare, Role::Spare(None)));
    assert_eq!(spare.missing_since, None);
}

#[test]
fn a_spare_whose_other_is_removed_is_a_copy() {
    let mut view = with_stand_in();
    view.remove(ReplicaId(1)).unwrap();
    assert_eq!(state(&view, SPARE), Some((ReplicaState::InSync, Role::Own)));
}

#[test]
fn a_spare_whose_other_is_replaced_is_a_spare_again() {
    let mut view = with_stand_in();
    view.add(new(NEW, Role::Replaces(ReplicaId(1)))).unwrap();
    let view = rebuilt(&view, NEW);
    assert_eq!(state(&view, SPARE), Some((ReplicaState::Spare, Role::Spare(None))));
    assert_eq!(state(&view, ReplicaId(1)), None);
}

#[test]
fn a_spare_stands_in_only_for_one_that_is_not_there() {
    let mut view = view(1, 2);
    view.add(new(SPARE, Role::Spare(None))).unwrap();
    view.add(new(NEW, Role::Spare(None))).unwrap();
    let there = view.stand_in(SPARE, Incarnation(2), ReplicaId(1));
    assert_eq!(there, Err(ViewError::WrongState(ReplicaState::InSync)));
    view.leave(ReplicaId(1), ReplicaState::Stale, Cause::Late).unwrap();
    view.stand_in(SPARE, Incarnation(2), ReplicaId(1)).unwrap();
    let second = view.stand_in(NEW, Incarnation(2), ReplicaId(1));
    assert_eq!(second, Err(ViewError::ReplacedAlready));
}

#[test]
fn a_spare_that_failed_returns_as_a_spare() {
    let mut view = view(1, 2);
    view.add(new(SPARE, Role::Spare(None))).unwrap();
    view.leave(SPARE, ReplicaState::Faulty, Cause::Operator).unwrap();
    view.readmit(SPARE).unwrap();
    assert_eq!(state(&view, SPARE), Some((ReplicaState::Spare, Role::Spare(None))));
}

#[test]
fn the_last_in_sync_replica_is_not_retired() {
    let mut view = view(1, 2);
    view.retire(ReplicaId(0)).unwrap();
    assert_eq!(view.retire(ReplicaId(1)), Err(ViewError::LastInSync));
    assert_eq!(view.retire(ReplicaId(0)), Err(ViewError::UnknownReplica));
}

const IDLE: Circumstances = Circumstances { answers: true, is_attached: false };

#[test]
fn what_is_not_in_sync_is_dispensed_with_first() {
    let mut view = view(1, 4);
    let dispensable = |view: &View| view.mirrors[0].dispensable(|_| IDLE);
    assert_eq!(dispensable(&view), Some(ReplicaId(3)));
    view.leave(ReplicaId(0), ReplicaState::Stale, Cause::Late).unwrap();
    assert_eq!(dispensable(&view), Some(ReplicaId(0)));
    view.leave(ReplicaId(1), ReplicaState::Faulty, Cause::Late).unwrap();
    assert_eq!(dispensable(&view), Some(ReplicaId(1)));
    for gone in [0, 1, 3] {
        view.retire(ReplicaId(gone)).unwrap();
    }
    assert_eq!(dispensable(&view), None);
}

#[test]
fn of_in_sync_copies_the_one_that_harms_least_is_dispensed_with() {
    let mut view = view(1, 4);
    let dispensable = |view: &View, attached: u128, silent: u128| {
        view.mirrors[0].dispensable(|record| Circumstances {
            answers: record.id != ReplicaId(silent),
            is_attached: record.id == ReplicaId(attached),
        })
    };
    assert_eq!(dispensable(&view, 3, 9), Some(ReplicaId(2)), "not where it is attached");
    assert_eq!(dispensable(&view, 3, 0), Some(ReplicaId(0)), "what does not answer");
    assert_eq!(dispensable(&view, 3, 3), Some(ReplicaId(3)), "even where it is attached");
    view.mirrors[0].replicas[0].node = view.mirrors[0].replicas[1].node;
    assert_eq!(dispensable(&view, 3, 9), Some(ReplicaId(1)), "one of two on a node");
    assert_eq!(dispensable(&view, 1, 9), Some(ReplicaId(0)), "the other of the two");
    view.leave(ReplicaId(3), ReplicaState::Stale, Cause::Late).unwrap();
    assert_eq!(dispensable(&view, 3, 0), Some(ReplicaId(3)), "what is not in-sync before all");
}

#[test]
fn roles_that_point_nowhere_are_not_valid() {
    let broken: [fn(&mut ReplicaRecord); 4] = [
        |r| r.role = Role::Replaces(ReplicaId(77)),
        |r| r.role = Role::Spare(Some(r.id)),
        |r| r.role = Role::Replaces(ReplicaId(1)),
        |r| (r.state, r.role) = (ReplicaState::Spare, Role::Own),
    ];
    for (number, spoil) in broken.iter().enumerate() {
        let mut view = view(1, 3);
        spoil(&mut view.mirrors[0].replicas[0]);
        assert!(!view.is_valid(), "{number}");
    }
}

#[test]
fn a_volume_grows_while_all_are_in_sync_and_never_shrinks() {
    let mut view = view(1, 2);
    let size = view.geometry.size;
    view.add(new(SPARE, Role::Spare(None))).unwrap();
    view.grow(size + 512).unwrap();
    view.grow(size + 512).unwrap();
    assert_eq!(view.geometry.size, size + 512);
    assert_eq!(view.grow(size), Err(ViewError::WrongSize));
    assert_eq!(view.grow(size + 513), Err(ViewError::WrongSize));
    view.leave(ReplicaId(1), ReplicaState::Stale, Cause::Late).unwrap();
    assert_eq!(view.grow(size + 1024), Err(ViewError::NotAllInSync));
    assert_eq!(view.grow(size + 512), Ok(()));
}

#[test]
fn growing_keeps_where_everything_lies_in_a_stripe() {
    let mut view = view(3, 1);
    let places = |view: &View, length| -> Vec<_> {
        let mirrors = view.mirrors.len();
        crate::stripe::pieces(view.geometry, mirrors, 0, length, u32::MAX).collect()
    };
    let old = view.clone();
    view.grow(old.geometry.size * 5 / 2 / 512 * 512).unwrap();
    assert_eq!(places(&old, old.geometry.size), places(&view, old.geometry.size));
    assert!(view.replica_size() > old.replica_size());
}
