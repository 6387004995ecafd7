use super::*;
use crate::cluster::replica;
use crate::primary::invariants::tests::{accept, writing};
use crate::trips::trips;

const DATA: Waiting = Waiting::Replica(0);
const ERROR: RequestError = RequestError::NoData;

/// That second of the test.
fn at(seconds: u64) -> Instant {
    Instant(0) + Duration::from_secs(seconds)
}

/// A client waits since then, for something that has a limit.
fn since(seconds: u64) -> Waiters {
    Waiters { oldest: Some(at(seconds)), has_limit: true }
}

const NOBODY: Waiters = Waiters { oldest: None, has_limit: true };

#[test]
fn a_wait_goes_on_though_its_reason_changes_or_is_gone_for_a_moment() {
    let mut suspension = Suspension::default();
    suspension.begin(DATA, since(0), at(0));
    suspension.begin(Waiting::Coordinator, since(0), at(10));
    assert_eq!(suspension.waited(at(10)), Duration::from_secs(10));
    assert!(suspension.end(since(0), at(20)));
    suspension.begin(DATA, since(0), at(25));
    assert_eq!(suspension.waited(at(30)), Duration::from_secs(30));
}

/// What is waited for, since when, and since when that counts.
fn reported(suspension: &Suspension) -> (Waiting, Instant, Instant) {
    let wait = suspension.waiting().unwrap();
    (wait.why, wait.since, wait.counted_from)
}

#[test]
fn it_is_told_since_when_there_is_the_present_reason_whatever_was_waited_for_before() {
    let mut suspension = Suspension::default();
    suspension.begin(Waiting::Coordinator, since(0), at(0));
    suspension.begin(DATA, since(0), at(10));
    assert_eq!(reported(&suspension), (DATA, at(10), at(0)), "what was waited before counts");
    suspension.end(since(0), at(20));
    suspension.begin(DATA, since(0), at(21));
    assert_eq!(reported(&suspension), (DATA, at(10), at(0)), "nobody was answered meanwhile");
    suspension.end(since(0), at(30));
    suspension.begin(Waiting::Coordinator, since(0), at(31));
    assert_eq!(reported(&suspension), (Waiting::Coordinator, at(31), at(0)));
}

#[test]
fn an_answer_or_nobody_who_waits_ends_the_wait() {
    for waiters in [NOBODY, since(0)] {
        let mut suspension = Suspension::default();
        suspension.begin(DATA, since(0), at(0));
        suspension.end(waiters, at(20));
        suspension.answered();
        suspension.begin(DATA, since(25), at(25));
        assert_eq!(suspension.waited(at(30)), Duration::from_secs(5));
    }
}

#[test]
fn what_had_no_limit_does_not_count_towards_one() {
    let mut suspension = Suspension::default();
    suspension.begin(DATA, since(0), at(0));
    suspension.begin(Waiting::Coordinator, Waiters { has_limit: false, ..since(0) }, at(10));
    assert_eq!(suspension.waited(at(12)), Duration::from_secs(2));
    suspension.begin(DATA, Waiters { has_limit: false, ..since(0) }, at(20));
    assert_eq!(reported(&suspension), (DATA, at(20), at(20)));
}

#[test]
fn of_a_wait_for_the_coordinator_counts_what_somebody_still_waits_for() {
    let mut suspension = Suspension::default();
    suspension.begin(Waiting::Coordinator, since(0), at(0));
    suspension.begin(DATA, since(8), at(10));
    assert_eq!(suspension.waited(at(10)), Duration::from_secs(2));
}

#[test]
fn the_start_is_no_wait_of_which_anybody_is_told() {
    let mut suspension = Suspension::default();
    suspension.begin(Waiting::Start, since(0), at(0));
    assert!(!suspension.asks_again(at(60)));
    assert!(!suspension.end(since(0), at(60)));
    suspension.begin(DATA, since(0), at(60));
    assert_eq!(suspension.waited(at(60)), Duration::ZERO);
}

#[test]
fn it_asks_once_in_a_period_whether_it_still_is_a_primary() {
    let mut suspension = Suspension::default();
    suspension.begin(DATA, NOBODY, at(0));
    assert!(!suspension.asks_again(at(0)));
    assert!(suspension.asks_again(at(1)) && !suspension.asks_again(at(1)));
}

#[test]
fn requests_fail_once_and_those_after_them_at_once() {
    let mut suspension = Suspension::default();
    assert!(!suspension.fail(ERROR, at(0)), "nothing waits");
    suspension.begin(DATA, since(0), at(0));
    assert!(suspension.fail(ERROR, at(5)) && !suspension.fail(ERROR, at(6)));
    assert_eq!(suspension.failing(), Some(ERROR));
    assert!(suspension.waiting().unwrap().is_over);
    suspension.check_invariants(false);
    suspension.end(NOBODY, at(7));
    assert_eq!(suspension.failing(), None);
}

#[test]
fn nobody_waits_after_the_stated_time() {
    let mut cluster = writing();
    (0..2).for_each(|r| cluster.kill(replica(0, r)));
    cluster.pass(Duration::from_secs(600));
    let (now, primary) = (cluster.now, cluster.primary(0));
    primary.check_invariants(now);
    accept(primary, now);
    trips("V6", || primary.check_invariants(now));
}
