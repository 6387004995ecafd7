use super::*;

const REQUEST: RequestNumber = RequestNumber(7);
const OTHER: PrimaryId = PrimaryId { node: NodeId(2), incarnation: Incarnation(1) };
const FIRST: ClusterLockNumber = ClusterLockNumber(1);
const LOCK: YieldLock = YieldLock::numbered(3);

fn locking() -> ClusterLocks {
    let mut cluster_locks = ClusterLocks::default();
    cluster_locks.want(REQUEST, 0..8);
    cluster_locks.begin_next();
    cluster_locks
}

#[test]
fn one_cluster_lock_follows_the_other() {
    let mut cluster_locks = locking();
    cluster_locks.want(RequestNumber(8), 8..9);
    cluster_locks.begin_next();
    assert!(cluster_locks.are_unreported());
    assert_eq!(cluster_locks.report(), (FIRST, Some(0..8)));
    assert!(!cluster_locks.are_unreported());
    assert_eq!(cluster_locks.granted(FIRST), Some(REQUEST));
    assert_eq!(cluster_locks.granted(FIRST), None, "it is said twice");
    assert!(
        cluster_locks.are_granted_to(REQUEST) && !cluster_locks.are_granted_to(RequestNumber(8))
    );
    cluster_locks.end(REQUEST);
    cluster_locks.begin_next();
    assert_eq!(cluster_locks.report(), (FIRST.next(), Some(8..9)));
    assert_eq!(cluster_locks.granted(FIRST), None, "that one is over");
}

#[test]
fn the_end_of_a_cluster_lock_is_told_and_that_of_one_that_was_only_wanted_is_not() {
    let mut cluster_locks = locking();
    cluster_locks.want(RequestNumber(8), 8..9);
    cluster_locks.report();
    cluster_locks.end(RequestNumber(8));
    assert!(!cluster_locks.are_unreported());
    cluster_locks.end(REQUEST);
    cluster_locks.begin_next();
    assert!(cluster_locks.are_unreported());
    assert_eq!(cluster_locks.report(), (FIRST, None));
}

#[test]
fn a_view_asks_anew_for_what_was_not_granted_and_ends_the_cluster_locks_of_the_dead() {
    let mut cluster_locks = locking();
    cluster_locks.report();
    cluster_locks.honour(OTHER, FIRST, LOCK);
    assert_eq!(cluster_locks.follow(|_| true), []);
    assert_eq!(cluster_locks.report(), (FIRST.next(), Some(0..8)));
    cluster_locks.granted(FIRST.next());
    assert_eq!(cluster_locks.follow(|id| id != OTHER), [LOCK]);
    assert_eq!(
        cluster_locks.report(),
        (FIRST, None),
        "what came before the one that is granted is over"
    );
    assert!(!cluster_locks.are_honoured_by(LOCK));
}

#[test]
fn a_cluster_lock_is_honoured_once_however_often_it_is_told() {
    let mut cluster_locks = ClusterLocks::default();
    assert_eq!(cluster_locks.learn(OTHER, FIRST.next(), false), Learned::New(None));
    cluster_locks.honour(OTHER, FIRST.next(), LOCK);
    assert_eq!(cluster_locks.learn(OTHER, FIRST.next(), false), Learned::Nothing);
    assert_eq!(cluster_locks.yield_range(LOCK), Some((OTHER, FIRST.next())));
    assert_eq!(cluster_locks.learn(OTHER, FIRST.next(), false), Learned::Missed(LOCK));
    assert_eq!(cluster_locks.learn(OTHER, FIRST, true), Learned::Nothing, "an older one is over");
    assert_eq!(cluster_locks.learn(OTHER, FIRST.next(), true), Learned::New(Some(LOCK)));
    assert_eq!(cluster_locks.yield_range(LOCK), None);
}
