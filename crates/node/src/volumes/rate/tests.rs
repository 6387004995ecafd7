use super::*;

const M: u64 = 1 << 20;

/// A rebuild of `total` bytes, seen every 500 ms, which has copied `pace(second)` bytes a second.
/// Returns what was predicted at which second, and when it was done.
fn played(
    total: u64,
    limit: RebuildLimit,
    pace: impl Fn(f64) -> f64,
) -> (Vec<(f64, Option<u64>)>, f64) {
    let start = Instant::now();
    let mut rate = Rate::default();
    let (mut done, mut seconds, mut reported) = (0.0, 0.0, Vec::new());
    while done < total as f64 {
        let at = start + Duration::from_secs_f64(seconds);
        let forecast = rate.note(at, done as u64, total, limit);
        reported.push((seconds, forecast.eta_seconds));
        done += pace(seconds) * 0.5;
        seconds += 0.5;
        assert!(seconds < 10_000.0, "it never ends");
    }
    (reported, seconds)
}

/// Every prediction in this span of time is within a fifth of what it took, or a second of it.
fn must_be_right(reported: &[(f64, Option<u64>)], end: f64, from: f64) {
    for (at, eta) in reported.iter().filter(|(at, _)| *at >= from) {
        let (left, eta) = (end - at, eta.expect("a prediction") as f64);
        assert!((eta - left).abs() <= (left * 0.2).max(1.1), "at {at} s: {eta} s, and {left} s");
    }
}

#[test]
fn the_rate_is_that_of_the_last_ten_seconds() {
    let start = Instant::now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let mut rate = Rate::default();
    let mut rate_at = |second, done| rate.note(at(second), done, 1 << 40, RebuildLimit::None).rate;
    assert_eq!(rate_at(0, 10), None, "it is measured yet");
    assert_eq!(rate_at(1, 1010), Some(1000));
    for second in 2..=30 {
        rate_at(second, 1010 + (second - 1) * 500);
    }
    assert_eq!(rate_at(31, 1010 + 30 * 500), Some(500));
    assert_eq!(rate_at(32, 5), None, "it began anew");
}

#[test]
fn a_steady_one_is_predicted_from_the_fifth_second_on() {
    for total in [2000 * M, 20_000 * M] {
        let (reported, end) = played(total, RebuildLimit::None, |_| 100.0 * M as f64);
        must_be_right(&reported, end, 5.0);
    }
}

/// Connecting, learning and counting take their time once, not again and again.
#[test]
fn a_late_beginning_is_not_held_against_it() {
    let pace = |second: f64| if second < 4.0 { 0.0 } else { 100.0 * M as f64 };
    let (reported, end) = played(3000 * M, RebuildLimit::None, pace);
    must_be_right(&reported, end, 6.0);
}

#[test]
fn an_uneven_one_is_predicted_by_its_mean() {
    let pace = |second: f64| if second % 2.0 < 1.0 { 120.0 * M as f64 } else { 80.0 * M as f64 };
    let (reported, end) = played(6000 * M, RebuildLimit::None, pace);
    must_be_right(&reported, end, 5.0);
}

#[test]
fn a_limit_counts_from_the_first_moment() {
    let limit = RebuildLimit::BytesPerSecond(10 * M);
    let (reported, end) = played(600 * M, limit, |_| 10.0 * M as f64);
    must_be_right(&reported, end, 0.5);
    // A region, and a pause of four seconds.
    let slow = RebuildLimit::BytesPerSecond(M / 4);
    let pace = |second: f64| if second % 4.0 == 0.0 { 2.0 * M as f64 } else { 0.0 };
    let (reported, end) = played(64 * M, slow, pace);
    let until = reported.iter().position(|(at, _)| *at > end - 30.0).unwrap();
    must_be_right(&reported[..until], end, 5.0);
}

/// The disk does not give what the limit allows.
#[test]
fn a_limit_that_is_not_reached_does_not_count() {
    let limit = RebuildLimit::BytesPerSecond(1000 * M);
    let (reported, end) = played(2000 * M, limit, |_| 50.0 * M as f64);
    must_be_right(&reported, end, 5.0);
}

#[test]
fn one_that_slows_down_is_believed_ten_seconds_later() {
    let pace = |second: f64| if second < 20.0 { 100.0 * M as f64 } else { 20.0 * M as f64 };
    let (reported, end) = played(4000 * M, RebuildLimit::None, pace);
    must_be_right(&reported, end, 31.0);
}

#[test]
fn one_that_pauses_or_does_not_progress_is_not_predicted() {
    let start = Instant::now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let mut rate = Rate::default();
    for second in 0..=10 {
        rate.note(at(second), (second + 1) * M, 100 * M, RebuildLimit::None);
    }
    let paused = rate.note(at(11), 11 * M, 100 * M, RebuildLimit::Paused);
    assert_eq!(paused, Forecast { rate: None, eta_seconds: None });
    let on = rate.note(at(12), 11 * M, 100 * M, RebuildLimit::BytesPerSecond(M));
    assert_eq!(on.eta_seconds, Some(89), "what the new limit gives");
    for second in 13..40 {
        rate.note(at(second), 11 * M, 100 * M, RebuildLimit::None);
    }
    let stuck = rate.note(at(40), 11 * M, 100 * M, RebuildLimit::None);
    assert_eq!(stuck, Forecast { rate: Some(0), eta_seconds: None });
}

#[test]
fn nothing_is_predicted_before_all_is_counted() {
    let start = Instant::now();
    let mut rate = Rate::default();
    for second in 0..10 {
        let at = start + Duration::from_secs(second);
        let forecast = rate.note(at, 0, 0, RebuildLimit::BytesPerSecond(M));
        assert_eq!(forecast, Forecast { rate: None, eta_seconds: None });
    }
}
