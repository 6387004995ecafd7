//! Requests that are given up, and paths that are drained.

use std::time::Duration;

use crate::cluster::{Cluster, replica};
use evenkeel_core::primary::Command;
use evenkeel_core::*;

const A_WHILE: Duration = Duration::from_secs(30);
const BLOCK: usize = 4096;
const PATH: PathNumber = PathNumber(1);

/// A mirror of two, attached on one node.
fn mirror(protocol: Protocol) -> Cluster {
    let mut cluster = Cluster::new(1, 2, protocol);
    cluster.attach(0);
    cluster.pass(A_WHILE);
    cluster
}

fn is_cancelled(cluster: &Cluster, request: RequestId) -> bool {
    matches!(cluster.replies.get(&request), Some(Err(RequestError::Cancelled)))
}

fn is_nowhere(cluster: &Cluster, value: u8) -> bool {
    (0..2).all(|r| !cluster.data(replica(0, r)).contains(&value))
}

#[test]
fn what_was_sent_runs_and_what_waits_for_its_range_is_cancelled() {
    let mut cluster = mirror(Protocol::C);
    cluster.frozen.insert(replica(0, 1));
    let sent = cluster.write(0, 0, 1, BLOCK);
    let waits = cluster.write(0, 0, 2, BLOCK);
    let behind = cluster.write(0, 0, 3, BLOCK);
    cluster.cancel(0, sent);
    cluster.cancel(0, waits);
    assert!(!cluster.replies.contains_key(&sent), "it has its own answer");
    assert!(is_cancelled(&cluster, waits));
    cluster.drain(0, PATH);
    assert_eq!(cluster.drained, []);
    cluster.thaw(replica(0, 1));
    assert!(cluster.is_acknowledged(sent) && cluster.is_acknowledged(behind));
    assert_eq!(cluster.drained, [PATH]);
    assert!(is_nowhere(&cluster, 2));
    assert_eq!(cluster.read(0, 0, BLOCK as u32), Some(vec![3; BLOCK]));
}

#[test]
fn what_is_answered_and_not_everywhere_is_not_drained() {
    for protocol in [Protocol::A, Protocol::B] {
        let mut cluster = mirror(protocol);
        cluster.frozen.insert(replica(0, 1));
        let write = cluster.write(0, 0, 1, BLOCK);
        assert!(cluster.is_acknowledged(write), "{protocol:?}");
        cluster.path = PathNumber(2);
        cluster.write(0, 8 << 10, 2, BLOCK);
        cluster.drain(0, PATH);
        assert_eq!(cluster.drained, []);
        cluster.thaw(replica(0, 1));
        assert_eq!(cluster.drained, [PATH]);
        assert_eq!(cluster.data(replica(0, 1))[0], 1);
    }
}

#[test]
fn who_does_not_answer_leaves_and_then_nothing_is_under_way() {
    let mut cluster = mirror(Protocol::C);
    cluster.frozen.insert(replica(0, 1));
    let write = cluster.write(0, 0, 1, BLOCK);
    cluster.drain(0, PATH);
    assert_eq!(cluster.drained, []);
    cluster.pass(A_WHILE);
    assert!(cluster.is_acknowledged(write));
    assert_ne!(cluster.state(replica(0, 1)), ReplicaState::InSync);
    assert_eq!(cluster.drained, [PATH]);
}

#[test]
fn what_was_asked_over_another_path_does_not_count() {
    let mut cluster = mirror(Protocol::C);
    cluster.frozen.insert(replica(0, 1));
    cluster.path = PathNumber(2);
    cluster.write(0, 0, 1, BLOCK);
    cluster.drain(0, PATH);
    assert_eq!(cluster.drained, [PATH]);
}

#[test]
fn what_nobody_could_be_sent_is_withdrawn() {
    let mut cluster = mirror(Protocol::C);
    (0..2).for_each(|r| cluster.kill(replica(0, r)));
    let write = cluster.write(0, 0, 1, BLOCK);
    let read = cluster.request(0, Operation::Read { offset: 0, length: BLOCK as u32 });
    let flush = cluster.request(0, Operation::Flush);
    let behind = cluster.write(0, 0, 2, BLOCK);
    cluster.drain(0, PATH);
    for request in [write, read, flush] {
        cluster.cancel(0, request);
        assert!(is_cancelled(&cluster, request));
    }
    assert_eq!(cluster.drained, [], "one more waits");
    cluster.cancel(0, behind);
    assert_eq!(cluster.drained, [PATH]);
    (0..2).for_each(|r| cluster.restart(replica(0, r), false));
    cluster.pass(A_WHILE);
    assert!(is_nowhere(&cluster, 1) && is_nowhere(&cluster, 2));
    assert_eq!(cluster.read(0, 0, BLOCK as u32), Some(vec![0; BLOCK]));
}

#[test]
fn what_only_reads_to_compare_is_cancelled() {
    let mut cluster = mirror(Protocol::C);
    (0..2).for_each(|r| _ = cluster.frozen_data.insert(replica(0, r)));
    let compare = cluster.compare_and_write(0, 0, (0, 1), BLOCK);
    cluster.cancel(0, compare);
    assert!(is_cancelled(&cluster, compare));
    cluster.drain(0, PATH);
    assert_eq!(cluster.drained, [PATH]);
    cluster.frozen_data.clear();
    (0..2).for_each(|r| cluster.thaw(replica(0, r)));
    assert!(is_nowhere(&cluster, 1));
    let write = cluster.write(0, 0, 2, BLOCK);
    assert!(cluster.is_acknowledged(write), "its range is free");
}

#[test]
fn what_waits_for_a_cluster_lock_is_cancelled() {
    let mut cluster = Cluster::shared(2, 2);
    cluster.frozen.insert(replica(0, 2));
    let write = cluster.write(0, 0, 1, BLOCK);
    let compare = cluster.compare_and_write(1, 0, (0, 2), BLOCK);
    cluster.cancel(1, compare);
    assert!(is_cancelled(&cluster, compare));
    cluster.thaw(replica(0, 2));
    cluster.pass(A_WHILE);
    assert!(cluster.is_acknowledged(write));
    let compare = cluster.compare_and_write(1, 0, (1, 2), BLOCK);
    cluster.pass(A_WHILE);
    assert!(cluster.is_acknowledged(compare));
}

#[test]
fn what_came_before_anything_is_served_is_cancelled() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    (0..2).for_each(|r| cluster.kill(replica(0, r)));
    cluster.attach(0);
    let write = cluster.write(0, 0, 1, BLOCK);
    cluster.drain(0, PATH);
    assert_eq!(cluster.drained, []);
    cluster.cancel(0, write);
    assert!(is_cancelled(&cluster, write));
    assert_eq!(cluster.drained, [PATH]);
}

#[test]
fn an_answered_one_and_an_ended_primary_are_not_asked() {
    let mut cluster = mirror(Protocol::C);
    let write = cluster.write(0, 0, 1, BLOCK);
    cluster.cancel(0, write);
    cluster.command(0, Command::Detach);
    cluster.pass(A_WHILE);
    cluster.cancel(0, write);
    cluster.drain(0, PATH);
    assert_eq!(cluster.drained, []);
    assert!(cluster.is_acknowledged(write));
}

/// One mirror has carried out its half.
#[test]
fn what_one_mirror_has_carried_out_is_not_cancelled() {
    let mut cluster = Cluster::new(2, 2, Protocol::C);
    cluster.attach(0);
    cluster.pass(A_WHILE);
    (0..2).for_each(|r| cluster.kill(replica(1, r)));
    let chunk = cluster.newest.geometry.chunk;
    let write = cluster.write(0, u64::from(chunk) - BLOCK as u64, 1, 2 * BLOCK);
    cluster.cancel(0, write);
    assert!(!cluster.replies.contains_key(&write), "half of it is written");
    (0..2).for_each(|r| cluster.restart(replica(1, r), false));
    cluster.pass(A_WHILE);
    assert!(cluster.is_acknowledged(write));
    let read = cluster.read(0, u64::from(chunk) - BLOCK as u64, 2 * BLOCK as u32);
    assert_eq!(read, Some(vec![1; 2 * BLOCK]));
}

#[test]
fn what_has_failed_and_was_never_sent_holds_up_no_drain() {
    let mut cluster = mirror(Protocol::C);
    (0..2).for_each(|r| cluster.kill(replica(0, r)));
    let write = cluster.write(0, 0, 1, BLOCK);
    cluster.pass(Duration::from_secs(150));
    assert!(matches!(cluster.replies.get(&write), Some(Err(RequestError::NoData))));
    cluster.drain(0, PATH);
    assert_eq!(cluster.drained, [PATH]);
    (0..2).for_each(|r| cluster.restart(replica(0, r), false));
    cluster.pass(A_WHILE);
    assert!(is_nowhere(&cluster, 1));
}
