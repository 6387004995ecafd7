use super::*;
use crate::assembly::tests::{Disk, HERE, begun, disk, present, start, view};
use crate::view::ViewError;

fn states(view: &View) -> Vec<ReplicaState> {
    view.mirrors[0].replicas.iter().map(|record| record.state).collect()
}

use ReplicaState::{Faulty, InSync, Rebuilding, Stale};

#[test]
fn with_every_in_sync_replica_views_go_on_under_a_new_coordinator() {
    let newest = view([InSync, InSync, Stale]);
    let older = View { generation: Generation(8), ..newest.clone() };
    let disks = [disk(1, &newest), disk(2, &older)];
    let next = next_view(&newest, &present(&disks), &[], start(false)).unwrap();
    assert!(next.is_valid() && next.continues(&newest) && next.continues(&older));
    assert_eq!((next.generation, next.coordinator), (Generation(10), CoordinatorId(90)));
    assert_eq!(states(&next), [InSync, InSync, Stale]);
    // The stale one returns later and gets only what it lacks.
    assert_eq!(next.mirrors[0].replicas[2].missing_since, Some(Generation(7)));
    assert_eq!(next.mirrors[0].replicas[0].node, HERE);
    assert!(!newest.continues(&next), "the old coordinator is not obeyed any more");
}

#[test]
fn without_one_it_is_refused_unless_forced() {
    let newest = view([InSync, InSync, Stale]);
    let disks = [disk(1, &newest)];
    let refused = next_view(&newest, &present(&disks), &[], start(false)).unwrap_err();
    assert!(matches!(refused, Refusal::Missing(who) if who[0].id == ReplicaId(2)));
    let next = next_view(&newest, &present(&disks), &[], start(true)).unwrap();
    assert_eq!(states(&next), [InSync, Stale, Stale]);
    assert_eq!(next.mirrors[0].replicas[1].missing_since, None, "it is copied as a whole");
    // One that was rebuilding may have become in-sync since, and the only one.
    let newest = view([InSync, InSync, Rebuilding]);
    let disks = [disk(1, &newest), disk(2, &newest)];
    let refused = next_view(&newest, &present(&disks), &[], start(false)).unwrap_err();
    assert!(matches!(refused, Refusal::Missing(who) if who[0].id == ReplicaId(3)));
    // Nothing of the mirror has the data: that cannot be forced.
    let newest = view([InSync, Stale, Rebuilding]);
    let disks = [disk(2, &newest), disk(3, &newest)];
    let refused = next_view(&newest, &present(&disks), &[], start(true)).unwrap_err();
    assert_eq!(refused, Refusal::NothingOf(0));
}

#[test]
fn by_force_a_stale_replica_is_taken_as_it_was_when_it_left() {
    let newest = view([InSync, Stale, Stale]);
    let early = View { generation: Generation(5), ..view([InSync, InSync, InSync]) };
    let later = View { generation: Generation(6), ..view([InSync, InSync, Stale]) };
    let disks = [disk(2, &later), disk(3, &early)];
    let refused = next_view(&newest, &present(&disks), &[], start(false)).unwrap_err();
    assert!(matches!(refused, Refusal::Missing(who) if who[0].id == ReplicaId(1)));
    let next = next_view(&newest, &present(&disks), &[], start(true)).unwrap();
    assert!(next.is_valid());
    assert_eq!(states(&next), [Stale, InSync, Stale]);
    let lacks: Vec<_> = next.mirrors[0].replicas.iter().map(|r| r.missing_since).collect();
    assert_eq!(lacks, [None; 3], "the others are copied as a whole");
    assert!(
        next.continues(&later) && !next.continues(&newest),
        "what the missing one has is not overwritten"
    );
    // One that was cut off in its rebuild has a mixture, and is never taken.
    let mixed = View { generation: Generation(8), ..view([InSync, Rebuilding, Stale]) };
    let refused = next_view(&newest, &present(&[disk(2, &mixed)]), &[], start(true)).unwrap_err();
    assert_eq!(refused, Refusal::NothingOf(0));
}

#[test]
fn an_older_copy_of_a_disk_does_not_count_as_in_sync() {
    let newest = view([InSync, InSync, Faulty]);
    let old_incarnation =
        Disk { incarnations: Incarnations::of([Incarnation(2)]), ..disk(2, &newest) };
    let early = disk(2, &View { generation: Generation(6), ..newest.clone() });
    for second in [old_incarnation, early] {
        let disks = [disk(1, &newest), second.clone()];
        let next = next_view(&newest, &present(&disks), &[], start(false)).unwrap();
        assert_eq!(states(&next), [InSync, Stale, Faulty]);
        assert_eq!(next.mirrors[0].replicas[1].missing_since, None);
        // Alone it is no basis.
        let alone = [second];
        assert!(next_view(&newest, &present(&alone), &[], start(false)).is_err());
    }
}

#[test]
fn by_force_an_older_copy_is_named_by_an_incarnation_that_it_lists() {
    for (theirs, own) in [(InSync, InSync), (Rebuilding, InSync)] {
        let newest = view([theirs, Stale, Stale]);
        let own = View { generation: Generation(8), ..view([own, Stale, Stale]) };
        let copy = Disk { incarnations: Incarnations::of([Incarnation(2)]), ..disk(1, &own) };
        let next = next_view(&newest, &present(&[copy]), &[], start(true)).unwrap();
        assert!(next.is_valid());
        assert_eq!(states(&next), [InSync, Stale, Stale]);
        let named = next.mirrors[0].replicas[0].incarnation;
        assert_eq!(named, Incarnation(2), "else it is a stale clone to whoever attaches");
    }
}

#[test]
fn an_unclean_end_is_remembered() {
    let mut newest = view([InSync, InSync, Stale]);
    let primary =
        |node| PrimaryRecord { id: PrimaryId { node, incarnation: Incarnation(8) }, slot: 0 };
    newest.primaries = vec![primary(NodeId(7))];
    let disks = [disk(1, &newest), disk(2, &newest)];
    let next = next_view(&newest, &present(&disks), &[], start(false)).unwrap();
    assert_eq!(next.primaries, [primary(HERE)]);
}

#[test]
fn who_is_taken_by_force_as_it_was_when_it_left_ended_uncleanly() {
    let newest = view([InSync, Stale, Stale]);
    let mut early = View { generation: Generation(5), ..view([InSync, InSync, InSync]) };
    let id = PrimaryId { node: NodeId(7), incarnation: Incarnation(8) };
    early.primaries = vec![PrimaryRecord { id, slot: 3 }];
    assert!(newest.primaries.is_empty(), "the others were detached cleanly");
    let next = next_view(&newest, &present(&[disk(2, &early)]), &[], start(true)).unwrap();
    assert_eq!(next.primaries.iter().map(|last| last.slot).collect::<Vec<_>>(), [0]);
}

#[test]
fn the_branch_that_is_not_kept_is_superseded_and_copied_as_a_whole() {
    let base = view([InSync, InSync, Stale]);
    let alone = |id: u128, mark: u128| begun(&base, &[disk(id, &base)], mark);
    let (kept, lost) = (alone(1, 20), alone(2, 21).successor().successor());
    let disks = [disk(1, &kept), disk(2, &lost)];
    let branch = &Branch { head: lost.clone(), members: vec![1] };
    let next = next_view(&kept, &present(&disks), &[branch], start(false)).unwrap();
    assert_eq!(states(&next), [InSync, Stale, Stale]);
    assert_eq!(next.mirrors[0].replicas[1].missing_since, None);
    assert!(next.continues(&kept) && next.continues(&lost) && next.generation > lost.generation);
    assert!(!next.continues(&lost.successor()));
}

#[test]
fn one_that_was_not_found_may_have_gone_on_with_the_branch_that_is_not_kept() {
    let base = view([InSync, InSync, Stale]);
    let kept = begun(&base, &[disk(1, &base), disk(3, &base)], 20);
    let lost = begun(&base, &[disk(2, &base), disk(3, &base)], 21);
    assert_eq!(kept.mirrors[0].replicas[2].missing_since, Some(Generation(7)));
    let branch = &Branch { head: lost.clone(), members: vec![1] };
    let lacks = |third: &[Disk]| {
        let disks = [&[disk(1, &kept), disk(2, &lost)], third].concat();
        let next = next_view(&kept, &present(&disks), &[branch], start(false)).unwrap();
        next.mirrors[0].replicas[2].missing_since
    };
    assert_eq!(lacks(&[]), None, "nobody knows what it has");
    assert_eq!(lacks(&[disk(3, &kept)]), Some(Generation(7)), "it has what it had");
}

#[test]
fn what_the_branch_that_is_not_kept_came_from_is_superseded_too() {
    let first = view([InSync, InSync, InSync]);
    // One branch begins from a stale clone, the other one from what came later.
    let kept = begun(&first, &[disk(1, &first)], 20);
    let later = first.successor().successor();
    let lost = begun(&later, &[disk(2, &later)], 21);
    let branch = &Branch { head: lost.clone(), members: vec![1] };
    let disks = [disk(1, &kept), disk(2, &lost), disk(3, &later)];
    let next = next_view(&kept, &present(&disks), &[branch], start(false)).unwrap();
    assert!(!kept.continues(&later) && next.continues(&later) && next.continues(&lost));
    assert_eq!(next.mirrors[0].replicas[2].missing_since, None, "it is copied as a whole");
}

#[test]
fn who_counted_has_to_confirm_it_and_can_be_given_up_by_force() {
    let newest = view([InSync, Rebuilding, Stale]);
    let disks = [disk(1, &newest), disk(2, &newest), disk(3, &newest)];
    let mut next = next_view(&newest, &present(&disks), &[], start(false)).unwrap();
    assert_eq!(next.unconfirmed().collect::<Vec<_>>(), [ReplicaId(1), ReplicaId(2)]);
    let left = next.leave(ReplicaId(2), Stale, Cause::Operator);
    assert_eq!(left, Err(ViewError::Unconfirmed));
    assert_eq!(next.retire(ReplicaId(1)), Err(ViewError::Unconfirmed));
    // An older copy of a disk may have gone on, too, with the incarnation that it has now.
    let newest = view([InSync, InSync, Stale]);
    let old_incarnation =
        Disk { incarnations: Incarnations::of([Incarnation(2)]), ..disk(2, &newest) };
    let next =
        next_view(&newest, &present(&[disk(1, &newest), old_incarnation]), &[], start(false));
    let next = next.unwrap();
    assert_eq!(states(&next), [InSync, Stale, Stale]);
    assert_eq!(next.unconfirmed().count(), 2);
    // Should it be lost before it has confirmed, that is taken for a loss.
    let disks = [disk(1, &next)];
    let refused = next_view(&next, &present(&disks), &[], start(false)).unwrap_err();
    assert!(matches!(refused, Refusal::Missing(who) if who[0].id == ReplicaId(2)));
    let forced = next_view(&next, &present(&disks), &[], start(true)).unwrap();
    assert_eq!(forced.unconfirmed().collect::<Vec<_>>(), [ReplicaId(1)]);
}

#[test]
fn who_has_grown_on_a_branch_that_is_not_kept_need_not_confirm() {
    let kept = view([InSync, InSync, Stale]);
    let mut lost = View { generation: Generation(12), history: History(7), ..kept.clone() };
    lost.geometry.size *= 2;
    let branch = &Branch { head: lost.clone(), members: vec![1] };
    let disks = [disk(1, &kept), disk(2, &lost)];
    let next = next_view(&kept, &present(&disks), &[branch], start(true)).unwrap();
    assert_eq!(states(&next), [InSync, Stale, Stale]);
    assert_eq!(next.unconfirmed().collect::<Vec<_>>(), [ReplicaId(1)], "it could not adopt this");
}

#[test]
fn who_has_grown_elsewhere_is_not_taken_by_force_either() {
    let newest = view([InSync, Faulty, Stale]);
    let mut grown = View { generation: Generation(6), ..view([InSync, InSync, Stale]) };
    grown.geometry.size *= 2;
    let refused = next_view(&newest, &present(&[disk(2, &grown)]), &[], start(true)).unwrap_err();
    assert_eq!(refused, Refusal::NothingOf(0), "it could never adopt this");
}
