use std::time::Duration;

use evenkeel_core::Instant;

use super::{MAX_CREDIT, Polling};

const MAX: Duration = Duration::from_micros(100);
const SHORT: Duration = Duration::from_micros(40);
const LONG: Duration = Duration::from_micros(400);

fn at(microseconds: u64) -> Instant {
    Instant(1_000_000_000 + microseconds * 1_000)
}

fn expecting() -> Polling {
    let mut polling = Polling::new(MAX);
    polling.peer_spoke(at(0));
    polling.waited(SHORT);
    polling
}

#[test]
fn polls_while_peers_answer_soon() {
    assert_eq!(expecting().bound(at(10)), MAX);
}

#[test]
fn sleeps_when_no_peer_has_spoken() {
    let mut polling = Polling::new(MAX);
    polling.waited(SHORT);
    assert_eq!(polling.bound(at(10)), Duration::ZERO);
    assert_eq!(expecting().bound(at(2_000)), Duration::ZERO, "it spoke long ago");
}

#[test]
fn sleeps_when_waits_take_longer_than_polling_would() {
    let mut polling = expecting();
    for _ in 0..MAX_CREDIT {
        polling.waited(LONG);
    }
    assert_eq!(polling.bound(at(10)), Duration::ZERO);
    polling.waited(SHORT);
    assert_eq!(polling.bound(at(10)), MAX, "and polls again when one was short");
}

#[test]
fn one_long_wait_in_four_does_not_end_it() {
    let mut polling = expecting();
    for _ in 0..100 {
        for wait in [SHORT, SHORT, SHORT, LONG] {
            polling.waited(wait);
            assert_eq!(polling.bound(at(10)), MAX);
        }
    }
}

#[test]
fn sleeps_under_load() {
    let mut polling = expecting();
    for _ in 0..100 {
        polling.handled(16);
    }
    assert_eq!(polling.bound(at(10)), Duration::ZERO);
    for _ in 0..100 {
        polling.handled(2);
    }
    assert_eq!(polling.bound(at(10)), MAX);
}

#[test]
fn never_polls_if_it_must_not() {
    let mut polling = Polling::new(Duration::ZERO);
    polling.peer_spoke(at(0));
    polling.waited(Duration::ZERO);
    assert_eq!(polling.bound(at(0)), Duration::ZERO);
}
