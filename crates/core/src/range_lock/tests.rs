use super::*;
use LockMode::{Exclusive, Shared};

fn release(locks: &mut RangeLock<u32>, holder: u32) -> Vec<u32> {
    let mut granted = Vec::new();
    locks.release(holder, &mut granted);
    granted
}

#[test]
fn readers_share_and_a_writer_waits_for_them() {
    let mut locks = RangeLock::default();
    assert!(locks.acquire(1, 0..8, Shared));
    assert!(locks.acquire(2, 4..12, Shared));
    assert!(!locks.acquire(3, 7..9, Exclusive));
    assert!(locks.acquire(4, 12..16, Exclusive));
    assert_eq!(release(&mut locks, 1), []);
    assert_eq!(release(&mut locks, 2), [3]);
}

#[test]
fn nobody_overtakes_a_waiting_writer() {
    let mut locks = RangeLock::default();
    assert!(locks.acquire(1, 0..8, Shared));
    assert!(!locks.acquire(2, 0..8, Exclusive));
    assert!(!locks.acquire(3, 0..8, Shared));
    assert_eq!(release(&mut locks, 1), [2]);
    assert_eq!(release(&mut locks, 2), [3]);
}

#[test]
fn a_waiting_lock_can_be_given_up() {
    let mut locks = RangeLock::default();
    assert!(locks.acquire(1, 0..8, Exclusive));
    assert!(!locks.acquire(2, 0..8, Exclusive));
    assert!(!locks.acquire(3, 0..8, Exclusive));
    assert_eq!(release(&mut locks, 2), []);
    assert_eq!(release(&mut locks, 1), [3]);
    assert_eq!(release(&mut locks, 3), []);
    assert!(locks.is_empty());
}

#[test]
fn a_downgraded_lock_lets_readers_pass_but_no_writer() {
    let mut locks = RangeLock::default();
    assert!(locks.acquire(1, 0..8, Exclusive));
    assert!(!locks.acquire(2, 0..4, Shared));
    assert!(!locks.acquire(3, 4..8, Exclusive));
    assert!(!locks.acquire(4, 4..8, Shared), "the writer before it waits still");
    let mut granted = Vec::new();
    locks.downgrade(1, &mut granted);
    assert_eq!(granted, [2]);
    assert!(locks.acquire(5, 0..4, Shared));
    assert_eq!(release(&mut locks, 1), [3]);
    assert_eq!(release(&mut locks, 3), [4]);
}

/// Every choice of three locks over two blocks, released in every order, is granted just as a
/// table of pairwise conflicts says.
#[test]
fn grants_follow_pairwise_conflicts() {
    let ranges = [0..1u64, 1..2, 0..2];
    let kinds: Vec<_> =
        ranges.iter().flat_map(|r| [(r.clone(), Shared), (r.clone(), Exclusive)]).collect();
    for choice in 0..kinds.len().pow(3) {
        let picked: Vec<_> =
            (0..3).map(|i| kinds[choice / kinds.len().pow(i) % kinds.len()].clone()).collect();
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            check(&picked, order);
        }
    }
}

fn check(picked: &[(Range<u64>, LockMode)], order: [usize; 3]) {
    let conflict = |a: usize, b: usize| {
        let (a, b) = (&picked[a], &picked[b]);
        a.0.start < b.0.end && b.0.start < a.0.end && (a.1 == Exclusive || b.1 == Exclusive)
    };
    let expected = |held: &[usize], i: usize| !held.iter().any(|&e| e < i && conflict(e, i));
    let mut locks = RangeLock::default();
    let mut held = vec![0, 1, 2];
    let mut granted = [false; 3];
    for i in 0..3 {
        granted[i] = locks.acquire(i as u32, picked[i].0.clone(), picked[i].1);
        assert_eq!(granted[i], expected(&held, i));
    }
    for out in order {
        held.retain(|&i| i != out);
        for holder in release(&mut locks, out as u32) {
            assert!(!core::mem::replace(&mut granted[holder as usize], true));
        }
        for &i in &held {
            assert_eq!(granted[i], expected(&held, i), "{picked:?} {order:?}");
        }
    }
}

#[test]
#[should_panic(expected = "I10: ")]
fn two_locks_that_conflict_are_not_both_granted() {
    let mut locks = RangeLock::default();
    assert!(locks.acquire(1, 0..8, Exclusive) && !locks.acquire(2, 4..12, Exclusive));
    locks.check_invariants();
    (locks.entries[1].blockers, locks.waiting) = (0, 0);
    locks.check_invariants();
}

#[test]
#[should_panic(expected = "I11: ")]
fn what_waits_is_counted() {
    let mut locks = RangeLock::default();
    assert!(locks.acquire(1, 0..8, Exclusive) && !locks.acquire(2, 4..12, Exclusive));
    locks.waiting = 0;
    locks.check_invariants();
}
