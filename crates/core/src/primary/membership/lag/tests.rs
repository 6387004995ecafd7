use super::*;
use crate::settings::Pauses;

const SETTINGS: LagSettings = LagSettings {
    window: Duration::from_secs(5),
    times: 16,
    least: Duration::from_millis(100),
    pause: Pauses::new(Duration::from_secs(30), Duration::from_secs(100)),
};
const FAST: Option<Duration> = Some(Duration::from_millis(1));

fn window(speed: &mut Speed, milliseconds: u64, others: Option<Duration>) -> bool {
    (0..20).for_each(|_| speed.wrote(Duration::from_millis(milliseconds)));
    speed.judge(others, &SETTINGS).is_some()
}

#[test]
fn a_median_is_told_from_enough_writes() {
    let mut latencies = Latencies::default();
    (0..LEAST_WRITES - 1).for_each(|_| latencies.note(Duration::from_millis(3)));
    assert_eq!(latencies.median(), None);
    latencies.note(Duration::from_secs(1000));
    assert_eq!(latencies.median(), Some(Duration::from_micros(4096)));
}

#[test]
fn a_disk_that_becomes_slow_leaves_after_several_windows() {
    let mut speed = Speed::default();
    assert!(!window(&mut speed, 1, FAST));
    assert!(!window(&mut speed, 400, FAST) && !window(&mut speed, 400, FAST));
    assert!(window(&mut speed, 400, FAST));
}

#[test]
fn one_good_window_begins_the_count_anew() {
    let mut speed = Speed::default();
    window(&mut speed, 1, FAST);
    for _ in 0..5 {
        assert!(!window(&mut speed, 400, FAST) && !window(&mut speed, 400, FAST));
        assert!(!window(&mut speed, 2, FAST));
    }
}

#[test]
fn slow_is_only_who_is_slower_than_its_peers_than_before_and_at_all() {
    let slow = Some(Duration::from_millis(300));
    let far_away = |first: u64, then: u64, others| {
        let mut speed = Speed::default();
        window(&mut speed, first, others);
        (0..10).any(|_| window(&mut speed, then, others))
    };
    assert!(!far_away(1, 400, slow), "all of them are slow: they share a disk");
    assert!(!far_away(200, 400, FAST), "it has always been slow: it is far away");
    assert!(!far_away(1, 40, FAST), "nobody notices");
    assert!(!far_away(1, 400, None), "there is nobody to compare with");
    assert!(far_away(1, 400, FAST));
}

#[test]
fn it_stays_away_for_longer_each_time() {
    let mut speed = Speed::default();
    let pauses: Vec<_> = (0..4).map(|_| speed.pause(&SETTINGS).as_secs()).collect();
    assert_eq!(pauses, [30, 60, 100, 100]);
}

#[test]
#[should_panic(expected = "I11: ")]
fn no_pause_is_longer_than_the_longest() {
    let mut speed = Speed::default();
    (0..4).for_each(|_| {
        speed.pause(&SETTINGS);
    });
    speed.check_invariants(&SETTINGS);
    speed.next_pause = Some(SETTINGS.pause.longest * 2);
    speed.check_invariants(&SETTINGS);
}

#[test]
#[should_panic(expected = "V2: ")]
fn slow_is_only_who_was_faster_before() {
    let mut speed = Speed::default();
    window(&mut speed, 1, FAST);
    window(&mut speed, 400, FAST);
    speed.check_invariants(&SETTINGS);
    speed.best = None;
    speed.check_invariants(&SETTINGS);
}
