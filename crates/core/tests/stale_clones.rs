//! Disks that are not what they were: a stale clone of one is put back, or a flush has failed.

use std::time::Duration;

use crate::cluster::{Cluster, replica};
use evenkeel_core::primary::{Command, EndReason};
use evenkeel_core::view::Cause;
use evenkeel_core::*;

const A_WHILE: Duration = Duration::from_secs(30);
const BLOCK: usize = 4096;

fn detach(cluster: &mut Cluster, primary: usize) {
    let detach = cluster.command(primary, Command::Detach);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.commands[&detach], Ok(()));
}

fn cause(cluster: &Cluster, id: ReplicaId) -> Cause {
    cluster.newest.replica(id).unwrap().1.cause
}

/// A detached volume with ones, and a copy of the disk of replica 1 from before.
fn with_a_copy() -> (Cluster, crate::cluster::HostDisk) {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let primary = cluster.attach(0);
    detach(&mut cluster, primary);
    let copy = cluster.copy_of_disk(replica(0, 1));
    cluster.kill(replica(0, 1));
    cluster.restart(replica(0, 1), false);
    let primary = cluster.attach(0);
    cluster.write(primary, 0, 1, 64 * BLOCK);
    detach(&mut cluster, primary);
    (cluster, copy)
}

#[test]
fn a_stale_clone_is_not_believed_at_the_attach_and_copied_as_a_whole() {
    let (mut cluster, copy) = with_a_copy();
    cluster.kill(replica(0, 1));
    cluster.put_disk(replica(0, 1), copy);
    cluster.restart(replica(0, 1), false);
    let primary = cluster.attach(1);
    assert_eq!(cause(&cluster, replica(0, 1)), Cause::StaleClone);
    assert_eq!(cluster.read(primary, 0, 4096), Some(vec![1; BLOCK]));
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(replica(0, 1)), ReplicaState::InSync);
    assert_eq!(cluster.data(replica(0, 1)), cluster.data(replica(0, 0)));
}

#[test]
fn a_stale_clone_is_not_believed_while_the_volume_is_attached() {
    let (mut cluster, copy) = with_a_copy();
    let primary = cluster.attach(0);
    cluster.kill(replica(0, 1));
    cluster.put_disk(replica(0, 1), copy);
    cluster.restart(replica(0, 1), false);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(replica(0, 1)), ReplicaState::InSync);
    assert_eq!(cluster.data(replica(0, 1)), cluster.data(replica(0, 0)));
    assert_eq!(cluster.read(primary, 0, 4096), Some(vec![1; BLOCK]));
}

#[test]
fn with_nothing_but_a_stale_clone_nothing_is_served_however_often_it_starts() {
    let (mut cluster, copy) = with_a_copy();
    let newest = cluster.copy_of_disk(replica(0, 1));
    cluster.kill(replica(0, 0));
    cluster.kill(replica(0, 1));
    cluster.put_disk(replica(0, 1), copy);
    for _ in 0..12 {
        cluster.restart(replica(0, 1), true);
        let primary = cluster.attach(1);
        cluster.pass(A_WHILE);
        assert_eq!(cluster.ended[&primary], EndReason::StaleClone(replica(0, 1)));
        cluster.kill(replica(0, 1));
    }
    cluster.put_disk(replica(0, 1), newest);
    cluster.restart(replica(0, 1), true);
    let primary = cluster.attach(1);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.read(primary, 0, 4096), Some(vec![1; BLOCK]));
}

#[test]
fn a_disk_whose_process_starts_again_and_again_is_no_stale_clone() {
    let (mut cluster, _) = with_a_copy();
    cluster.kill(replica(0, 0));
    let primary = cluster.attach(1);
    cluster.pass(A_WHILE);
    cluster.coordinator_answers = false;
    for _ in 0..20 {
        cluster.kill(replica(0, 1));
        cluster.restart(replica(0, 1), false);
        cluster.pass(Duration::from_secs(1));
    }
    cluster.coordinator_answers = true;
    cluster.pass(A_WHILE);
    assert_eq!(cluster.ended.get(&primary), None);
    assert_eq!(cluster.read(primary, 0, 4096), Some(vec![1; BLOCK]));
}

#[test]
fn what_a_failed_flush_covered_is_not_believed_after_a_restart_of_the_process() {
    for fails in [false, true] {
        let mut cluster = Cluster::new(1, 1, Protocol::C);
        let primary = cluster.attach(9);
        cluster.write(primary, 0, 1, BLOCK);
        if fails {
            cluster.failing_flushes.insert(replica(0, 0));
        }
        let flush = cluster.request(primary, Operation::Flush);
        assert_eq!(cluster.is_acknowledged(flush), !fails);
        assert_eq!(cluster.read(primary, 0, 4096), Some(vec![1; BLOCK]), "it is served meanwhile");
        cluster.kill(replica(0, 0));
        cluster.failing_flushes.clear();
        cluster.restart(replica(0, 0), false);
        cluster.pass(A_WHILE);
        let lost = cluster.ended.get(&primary) == Some(&EndReason::LostWrites);
        assert_eq!(lost, fails);
    }
}

/// The disk flushes by itself before it saves a table that closes regions. If that fails, what
/// clients have written may be lost, and a disk says so only once: no later flush is believed.
#[test]
fn a_flush_that_fails_before_the_save_of_a_table_counts_as_one_that_a_client_asked_for() {
    let mut cluster = Cluster::new(1, 1, Protocol::C);
    let primary = cluster.attach(9);
    cluster.write(primary, 0, 1, BLOCK);
    cluster.failing_commits.insert(replica(0, 0));
    cluster.pass(A_WHILE);
    cluster.failing_commits.clear();
    cluster.write(primary, 0, 2, BLOCK);
    let flush = cluster.request(primary, Operation::Flush);
    assert!(matches!(cluster.replies[&flush], Err(RequestError::Medium)));
    cluster.kill(replica(0, 0));
    cluster.restart(replica(0, 0), false);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.ended.get(&primary), Some(&EndReason::LostWrites));
}
