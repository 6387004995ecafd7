use super::*;

#[test]
fn latencies_fall_into_their_buckets() {
    let mut histogram = Histogram::default();
    for microseconds in [1, 8, 9, 16, 17, 100_000_000] {
        histogram.note(Duration::from_micros(microseconds));
    }
    assert_eq!(histogram.buckets[..3], [2, 2, 1]);
    assert_eq!(histogram.buckets[LATENCY_BUCKETS - 1], 1);
    assert_eq!(histogram.count(), 6);
    assert!((Histogram::bound(0) - 8e-6).abs() < 1e-12);
}

#[test]
fn the_longest_turn_and_how_many_were_long_are_kept() {
    let mut counters = WorkerCounters::default();
    for milliseconds in [3, 40, 10, 25] {
        counters.note_turn(Duration::from_millis(milliseconds));
    }
    assert_eq!(counters.longest_turn, Duration::from_millis(40));
    assert_eq!(counters.long_turns, 2, "of more than 10 ms");
}
