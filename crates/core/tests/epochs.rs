//! Volumes whose coordinator changes: who goes on, who is refused, and what is copied.

use std::time::Duration;

use crate::cluster::{Cluster, replica};
use evenkeel_core::assembly::{Present, Start, next_view};
use evenkeel_core::primary::{Command, EndReason, Note};
use evenkeel_core::view::Cause;
use evenkeel_core::*;

const A_WHILE: Duration = Duration::from_secs(30);
const BLOCK: usize = 4096;

fn detach(cluster: &mut Cluster, primary: usize) {
    let detach = cluster.command(primary, Command::Detach);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.commands[&detach], Ok(()));
}

/// Writes a block, and tells whether that was acknowledged.
fn writes(cluster: &mut Cluster, primary: usize, offset: u64, value: u8) -> bool {
    let write = cluster.write(primary, offset, value, BLOCK);
    cluster.pass(A_WHILE);
    cluster.is_acknowledged(write)
}

fn next_epoch(view: &View, mark: u128) -> View {
    view.next_epoch(CoordinatorId(mark), History(mark), 1)
}

#[test]
fn replicas_adopt_a_new_epoch_and_a_stale_one_gets_only_what_it_lacks() {
    let mut cluster = Cluster::new(1, 3, Protocol::C);
    let primary = cluster.attach(0);
    cluster.write(primary, 0, 1, 256 * BLOCK);
    cluster.request(primary, Operation::Flush);
    cluster.pass(A_WHILE);
    cluster.kill(replica(0, 2));
    cluster.pass(A_WHILE);
    cluster.write(primary, 0, 2, BLOCK);
    cluster.pass(A_WHILE);
    detach(&mut cluster, primary);

    cluster.newest = next_epoch(&cluster.newest, 2);
    let primary = cluster.attach(1);
    assert!(writes(&mut cluster, primary, 8 * BLOCK as u64, 3));
    cluster.restart(replica(0, 2), false);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(replica(0, 2)), ReplicaState::InSync);
    assert!(cluster.bytes_written(replica(0, 2)) < 16 * BLOCK as u64, "only what it lacked");
    assert_eq!(cluster.data(replica(0, 2)), cluster.data(replica(0, 0)));
}

#[test]
fn a_primary_of_the_epoch_before_changes_nothing_any_more() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let old = cluster.attach(0);
    cluster.write(old, 0, 1, BLOCK);
    cluster.newest = next_epoch(&cluster.newest, 2);
    let new = cluster.attach(1);
    cluster.pass(A_WHILE);
    assert!(writes(&mut cluster, new, 0, 2));
    // Its coordinator, if it has one still, would not say a word of the new one.
    cluster.coordinator_answers = false;
    let late = cluster.write(old, 0, 3, BLOCK);
    cluster.pass(A_WHILE);
    assert!(!cluster.is_acknowledged(late));
    for r in 0..2 {
        assert_eq!(cluster.data(replica(0, r))[..BLOCK], [2; BLOCK]);
    }
}

#[test]
fn a_replica_that_was_written_apart_is_left_alone_until_it_is_superseded() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let primary = cluster.attach(0);
    cluster.write(primary, 0, 1, BLOCK);
    let together = cluster.newest.clone();
    // Replica 1 is away; replica 0 goes on alone, and dies.
    cluster.kill(replica(0, 1));
    assert!(writes(&mut cluster, primary, 0, 2));
    detach(&mut cluster, primary);
    let apart = cluster.newest.clone();
    cluster.kill(replica(0, 0));

    // Somebody goes on with replica 1, from the view that it had adopted.
    let mut forced = next_epoch(&together, 2);
    forced.leave(replica(0, 0), ReplicaState::Stale, Cause::Unreachable).unwrap();
    forced.distrust(replica(0, 0)).unwrap();
    cluster.newest = forced;
    cluster.restart(replica(0, 1), false);
    let primary = cluster.attach(1);
    cluster.pass(A_WHILE);
    assert!(writes(&mut cluster, primary, BLOCK as u64, 3));
    cluster.restart(replica(0, 0), false);
    cluster.pass(A_WHILE);
    assert!(cluster.notes.contains(&Note::OtherHistory(replica(0, 0))));
    assert_eq!(cluster.state(replica(0, 0)), ReplicaState::Stale);
    assert_eq!(cluster.data(replica(0, 0))[..BLOCK], [2; BLOCK], "nothing of it was overwritten");

    // Somebody chooses: from then on the other branch may be overwritten.
    detach(&mut cluster, primary);
    let mut chosen = cluster.newest.clone();
    chosen.supersede(apart.coordinator, apart.history, apart.generation, 2);
    let generation = chosen.generation.max(apart.generation).next();
    cluster.newest = View { generation, ..next_epoch(&chosen, 3) };
    cluster.attach(1);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(replica(0, 0)), ReplicaState::InSync);
    assert_eq!(cluster.data(replica(0, 0)), cluster.data(replica(0, 1)));
    assert_eq!(cluster.data(replica(0, 0))[..BLOCK], [1; BLOCK]);
}

/// The first view of an epoch that somebody begins with all replicas that the newest view names.
fn assembled(cluster: &Cluster, mark: u128) -> View {
    let view = cluster.newest.clone();
    let found = view.replicas().map(|(_, record)| Present {
        replica: record.id,
        incarnations: Incarnations::of([record.incarnation]),
        view: &view,
        node: record.node,
    });
    let (coordinator, history) = (CoordinatorId(mark), History(mark));
    let start = Start { coordinator, history, now: 1, here: NodeId(9), force: false };
    next_view(&view, &found.collect::<Vec<_>>(), &[], start).unwrap()
}

#[test]
fn an_assembly_counts_when_all_that_counted_have_confirmed_it() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let primary = cluster.attach(0);
    assert!(writes(&mut cluster, primary, 0, 1));
    detach(&mut cluster, primary);
    cluster.newest = assembled(&cluster, 2);
    cluster.kill(replica(0, 1));
    let primary = cluster.attach(1);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.ended[&primary], EndReason::Unconfirmed(replica(0, 1)));
    cluster.restart(replica(0, 1), false);
    let primary = cluster.attach(1);
    cluster.pass(A_WHILE);
    assert!(writes(&mut cluster, primary, 0, 2));
    assert_eq!(cluster.newest.unconfirmed().count(), 0);
}

#[test]
fn an_old_primary_that_nobody_saw_can_not_go_on_beside_an_assembly() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let old = cluster.attach(0);
    assert!(writes(&mut cluster, old, 0, 1));
    // Somebody finds both disks. Before anybody adopts the new epoch the old primary drops one of
    // them.
    let first = assembled(&cluster, 2);
    cluster.kill(replica(0, 1));
    assert!(writes(&mut cluster, old, 0, 2));
    cluster.newest = first;
    cluster.restart(replica(0, 1), false);
    let new = cluster.attach(1);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.ended[&new], EndReason::Unconfirmed(replica(0, 0)));
    assert_eq!(cluster.data(replica(0, 0))[..BLOCK], [2; BLOCK], "it is the only one with this");
}

#[test]
fn a_replica_that_could_not_save_the_first_view_of_an_epoch_was_not_written_apart() {
    let mut cluster = Cluster::new(1, 1, Protocol::C);
    let primary = cluster.attach(0);
    assert!(writes(&mut cluster, primary, 0, 1));
    detach(&mut cluster, primary);
    let before = cluster.newest.clone();
    cluster.newest = next_epoch(&before, 2);
    cluster.failing_saves.insert(replica(0, 0));
    cluster.attach(0);
    cluster.pass(A_WHILE);
    // What somebody finds on its disk is the view before: another epoch begins from there.
    cluster.failing_saves.clear();
    let generation = cluster.newest.generation.next();
    cluster.newest = View { generation, ..next_epoch(&before, 3) };
    let primary = cluster.attach(1);
    assert!(writes(&mut cluster, primary, 0, 2));
    assert!(!cluster.notes.contains(&Note::OtherHistory(replica(0, 0))));
}
