//! Ranges for one primary alone: verifies and compare-and-writes while several run the volume.

use std::time::Duration;

use crate::cluster::{Cluster, SIZE, replica};
use evenkeel_core::primary::{Command, VerifyState};
use evenkeel_core::*;

const A_WHILE: Duration = Duration::from_secs(30);
const BLOCK: usize = 4096;

/// A mirror of three with four slots, attached on so many nodes.
fn shared(primaries: usize) -> Cluster {
    Cluster::shared(4, primaries)
}

fn is_done(cluster: &Cluster, request: RequestId) -> bool {
    matches!(cluster.replies.get(&request), Some(Ok(Reply::Done)))
}

fn miscompares_at(cluster: &Cluster, request: RequestId) -> Option<u32> {
    match cluster.replies.get(&request) {
        Some(Ok(Reply::Miscompare { at })) => Some(*at),
        _ => None,
    }
}

#[test]
fn of_two_that_expect_the_same_one_writes() {
    for primaries in 1..=3 {
        let mut cluster = shared(primaries);
        let last = primaries - 1;
        let first = cluster.compare_and_write(0, 0, (0, 1), BLOCK);
        let second = cluster.compare_and_write(last, 0, (0, 2), BLOCK);
        cluster.pass(A_WHILE);
        assert!(is_done(&cluster, first), "{:?}", cluster.replies.get(&first));
        assert_eq!(miscompares_at(&cluster, second), Some(0));
        assert_eq!(cluster.read(last, 0, BLOCK as u32), Some(vec![1; BLOCK]));
    }
}

#[test]
fn where_it_differs_is_told() {
    let mut cluster = shared(2);
    cluster.write(0, 2 * BLOCK as u64 + 512, 7, 512);
    let compare = cluster.compare_and_write(1, 0, (0, 1), 4 * BLOCK);
    assert_eq!(miscompares_at(&cluster, compare), Some(2 * BLOCK as u32 + 512));
    assert_eq!(cluster.read(0, 0, 512), Some(vec![0; 512]), "nothing is written");
}

#[test]
fn lengths_that_differ_and_ranges_that_are_too_long_are_refused() {
    let mut cluster = shared(2);
    let too_long = settings::MAX_COMPARE as usize + BLOCK;
    let compare = cluster.compare_and_write(0, 0, (0, 1), too_long);
    assert!(matches!(cluster.replies[&compare], Err(RequestError::Invalid)));
    let (expected, payload) =
        (crate::cluster::Bytes::of(0, BLOCK), crate::cluster::Bytes::of(0, 2 * BLOCK));
    let operation = Operation::CompareAndWrite { offset: 0, expected, payload, durable: false };
    let compare = cluster.request(0, operation);
    assert!(matches!(cluster.replies[&compare], Err(RequestError::Invalid)));
}

#[test]
fn a_verify_repairs_while_another_primary_writes() {
    let mut cluster = shared(2);
    for block in 0..SIZE / (1 << 20) {
        cluster.write(0, block << 20, 5, 1 << 20);
    }
    cluster.corrupt(replica(0, 1), 3 << 20);
    let verify = cluster.command(1, Command::Verify { repair: true, source: None });
    assert_eq!(cluster.commands[&verify], Ok(()));
    for _ in 0..20 {
        let write = cluster.write(0, 3 << 20 | 1 << 16, 6, BLOCK);
        cluster.pass(Duration::from_millis(20));
        assert!(cluster.is_acknowledged(write));
    }
    cluster.pass(A_WHILE);
    let found = cluster.verify(1);
    assert_eq!((found.state, found.checked), (VerifyState::Done, SIZE));
    assert_eq!((found.different, found.repaired), (4096, 4096));
    assert_eq!(cluster.data(replica(0, 0)), cluster.data(replica(0, 1)));
}

#[test]
fn what_one_that_has_died_had_locked_is_free_when_it_is_evicted() {
    let mut cluster = shared(3);
    cluster.cut_off.insert(1);
    let stuck = cluster.compare_and_write(0, 0, (0, 1), BLOCK);
    let elsewhere = cluster.write(0, 1 << 20, 2, BLOCK);
    cluster.pass(Duration::from_millis(100));
    assert!(cluster.is_acknowledged(elsewhere));
    assert!(!cluster.replies.contains_key(&stuck), "the dead one may be writing there");
    cluster.pass(A_WHILE);
    assert!(is_done(&cluster, stuck), "{:?}", cluster.replies.get(&stuck));
    assert_eq!(cluster.newest.primaries.len(), 2);
}

#[test]
fn who_joins_serves_when_the_others_know_of_it() {
    let mut cluster = shared(1);
    cluster.write(0, 0, 1, BLOCK);
    let late = cluster.attach(1);
    let write = cluster.write(late, 0, 2, BLOCK);
    let compare = cluster.compare_and_write(0, 0, (2, 3), BLOCK);
    cluster.pass(A_WHILE);
    assert!(cluster.is_acknowledged(write));
    let found = cluster.read(0, 0, 512);
    match miscompares_at(&cluster, compare) {
        Some(_) => assert_eq!(found, Some(vec![2; 512]), "it came first"),
        None => assert_eq!(found, Some(vec![3; 512])),
    }
}

#[test]
fn the_lock_manager_may_leave_at_any_moment() {
    let mut cluster = shared(2);
    let lock_manager = cluster.newest.lock_manager().unwrap();
    cluster.frozen.insert(lock_manager);
    let compare = cluster.compare_and_write(1, 0, (0, 1), BLOCK);
    cluster.kill(lock_manager);
    cluster.pass(A_WHILE);
    assert!(is_done(&cluster, compare), "{:?}", cluster.replies.get(&compare));
    assert_ne!(cluster.newest.lock_manager(), Some(lock_manager));
}

#[test]
fn a_detach_gives_back_what_was_locked() {
    let mut cluster = shared(2);
    let verify = cluster.command(0, Command::Verify { repair: false, source: None });
    let detach = cluster.command(0, Command::Detach);
    cluster.pass(A_WHILE);
    assert_eq!((cluster.commands[&verify], cluster.commands[&detach]), (Ok(()), Ok(())));
    let compare = cluster.compare_and_write(1, 0, (0, 1), BLOCK);
    cluster.pass(A_WHILE);
    assert!(is_done(&cluster, compare));
}
