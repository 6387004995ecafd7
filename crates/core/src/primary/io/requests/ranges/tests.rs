use super::*;

const WRITE: RequestNumber = RequestNumber(1);
const READ: RequestNumber = RequestNumber(2);
const CLUSTER_LOCK: YieldLock = YieldLock::numbered(3);

fn ready(ranges: &mut Ranges) -> Vec<Holder> {
    core::iter::from_fn(|| ranges.next()).collect()
}

#[test]
fn a_cluster_lock_waits_for_what_is_under_way_and_requests_wait_for_the_cluster_lock() {
    let mut ranges = Ranges::default();
    ranges.lock(WRITE, 0..8, LockMode::Exclusive);
    ranges.lock_to_yield(CLUSTER_LOCK, 4..6);
    ranges.lock(RequestNumber(4), 5..9, LockMode::Shared);
    assert_eq!(ready(&mut ranges), [Holder::Request(WRITE)]);
    ranges.unlock(WRITE);
    assert_eq!(ready(&mut ranges), [Holder::ClusterLock(CLUSTER_LOCK)]);
    ranges.unlock_yielded(CLUSTER_LOCK);
    assert_eq!(ready(&mut ranges), [Holder::Request(RequestNumber(4))]);
    assert!(ranges.are_granted_to(RequestNumber(4)) && !ranges.are_granted_to(WRITE));
    ranges.check_invariants();
}

#[test]
fn readers_pass_a_write_that_is_answered_and_cluster_locks_do_not() {
    let mut ranges = Ranges::default();
    ranges.lock(WRITE, 0..8, LockMode::Exclusive);
    ranges.lock(READ, 0..4, LockMode::Shared);
    ranges.lock_to_yield(CLUSTER_LOCK, 4..8);
    ready(&mut ranges);
    ranges.let_readers_pass(WRITE);
    assert_eq!(ready(&mut ranges), [Holder::Request(READ)]);
    ranges.unlock(WRITE);
    assert_eq!(ready(&mut ranges), [Holder::ClusterLock(CLUSTER_LOCK)]);
}

#[test]
fn who_is_over_leaves_the_queue() {
    let mut ranges = Ranges::default();
    ranges.go_on(WRITE);
    ranges.restate(CLUSTER_LOCK);
    ranges.go_on(READ);
    ranges.keep_ready(|ready| ready != Holder::Request(WRITE));
    assert_eq!(ready(&mut ranges), [Holder::ClusterLock(CLUSTER_LOCK), Holder::Request(READ)]);
}
