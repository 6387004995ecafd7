use super::*;
use crate::assembly::tests;
use crate::ids::*;
use crate::view::{Cause, ReplicaState};

fn view(generation: u64) -> View {
    View { generation: Generation(generation), ..tests::view([ReplicaState::InSync; 3]) }
}

fn forced(from: &View, mark: u128) -> View {
    from.next_epoch(CoordinatorId(mark), History(mark), 1)
}

fn heads(views: &[&View]) -> Vec<(u64, Vec<usize>)> {
    branches(views).into_iter().map(|branch| (branch.head.generation.0, branch.members)).collect()
}

#[test]
fn views_of_one_coordinator_follow_from_each_other() {
    let (old, new) = (view(3), view(5));
    assert_eq!(heads(&[&old, &new, &new]), [(5, vec![0, 1, 2])]);
    let mut other = view(5);
    other.mirrors[0].replicas[0].cause = Cause::Operator;
    assert_eq!(branches(&[&new, &other]).len(), 2, "one number, two views: both cannot be");
}

#[test]
fn what_a_new_epoch_began_from_is_older() {
    let (old, base) = (view(3), view(5));
    let next = forced(&base, 20);
    assert_eq!(heads(&[&old, &base, &next]), [(6, vec![0, 1, 2])]);
    let later = forced(&next.successor(), 21);
    assert_eq!(branches(&[&old, &base, &next, &later]).len(), 1, "over two epochs");
}

#[test]
fn replicas_that_went_apart_are_told() {
    let base = view(5);
    let (left, right) = (forced(&base, 20).successor(), forced(&base, 21));
    assert_eq!(heads(&[&left, &right, &base]), [(7, vec![0, 2]), (6, vec![1, 2])]);
    // The old coordinator went on, and the disk was assembled elsewhere from an older view.
    let stayed = view(6);
    assert_eq!(branches(&[&stayed, &forced(&base, 20)]).len(), 2);
}

#[test]
fn a_resolved_split_is_one_branch_again() {
    let base = view(5);
    let (kept, lost) = (forced(&base, 20), forced(&base, 21).successor());
    let mut resolved = kept.clone();
    resolved.supersede(lost.coordinator, lost.history, lost.generation, 2);
    let mut resolved = resolved.next_epoch(CoordinatorId(22), History(22), 2);
    resolved.generation = Generation(lost.generation.0 + 1);
    assert_eq!(branches(&[&kept, &lost, &base, &resolved]).len(), 1);
    // But not what the losing branch has written since, elsewhere.
    assert_eq!(branches(&[&resolved, &lost.successor()]).len(), 2);
    assert_eq!(resolved.mirrors[0].replicas[0].state, ReplicaState::InSync);
}
