use evenkeel_core::{Generation, History, ReplicaId, ReplicaState};

use super::*;
use crate::disks::tests::superblock;

/// What this node knows of a volume with two replicas: both are in-sync.
fn ours() -> Newest {
    let mut superblock = superblock(8 << 20);
    superblock.view.generation = Generation(6);
    let mut other = superblock.view.mirrors[0].replicas[0];
    (other.id, other.node) = (ReplicaId(77), NodeId(2));
    superblock.view.mirrors[0].replicas.push(other);
    Newest { superblock, node: None, placed: Vec::new(), attached: None }
}

/// What the disk of the other replica says, in this generation.
fn theirs(ours: &Newest, generation: u64, state: ReplicaState) -> Replica {
    let mut superblock = ours.superblock.clone();
    superblock.replica = ReplicaId(77);
    superblock.view.generation = Generation(generation);
    superblock.view.mirrors[0].replicas[0].state = state;
    Replica {
        superblock,
        node: NodeId(2),
        node_name: "n2".into(),
        disk: Some("slow".into()),
        path: "/slow/x".into(),
        needs: None,
    }
}

fn own_state(newest: &Newest) -> ReplicaState {
    newest.superblock.view.mirrors[0].replicas[0].state
}

#[test]
fn of_all_views_that_are_known_the_newest_is_told_and_whose_it_is() {
    let mut newest = ours();
    newest.add(&theirs(&ours(), 5, ReplicaState::Stale));
    assert_eq!((own_state(&newest), newest.node.as_deref()), (ReplicaState::InSync, None));
    let reported = theirs(&newest, 8, ReplicaState::Stale);
    newest.add(&reported);
    assert_eq!((own_state(&newest), newest.node.as_deref()), (ReplicaState::Stale, Some("n2")));
    // Where the other one is, nobody else has said.
    assert_eq!(
        (&*newest.placed[1].disk, newest.placed[1].id.clone()),
        ("slow", ReplicaId(77).to_string())
    );
}

#[test]
fn a_view_that_supersedes_another_one_is_newer_whatever_their_numbers() {
    let older = ours().superblock.view;
    let mut next = older.next_epoch(older.coordinator, History(8), 0);
    let mut grown = older.clone();
    assert!(is_newer(&next, &older) && !is_newer(&older, &next));
    // The one that was left behind went on: neither descends from the other.
    grown.generation = Generation(90);
    assert!(is_newer(&grown, &next));
    next.generation = Generation(91);
    assert!(is_newer(&next, &grown));
}
