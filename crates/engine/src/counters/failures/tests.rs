use super::*;

const SECOND: u64 = 1_000_000_000;

#[test]
fn the_first_is_told_and_then_one_a_minute_with_the_count() {
    let mut failures = Failures::default();
    let mut note = |seconds: u64, kind, error| {
        failures.note(kind, error, Instant(seconds * SECOND)).map(|failure| failure.count)
    };
    assert_eq!(note(0, "write", RequestError::NoCoordinator), Some(1));
    assert_eq!(note(1, "write", RequestError::NoCoordinator), None);
    assert_eq!(note(2, "write", RequestError::NoData), Some(1), "another reason");
    assert_eq!(note(3, "read", RequestError::NoData), Some(1), "another kind");
    assert_eq!(note(60, "write", RequestError::NoCoordinator), Some(3));
    assert_eq!(note(61, "write", RequestError::NoCoordinator), None);
    let counts: Vec<_> = failures.iter().map(|f| (f.kind, f.error, f.count)).collect();
    let expected = [
        ("write", RequestError::NoCoordinator, 4),
        ("write", RequestError::NoData, 1),
        ("read", RequestError::NoData, 1),
    ];
    assert_eq!(counts, expected);
    assert!(failures.iter().all(|failure| failure.first <= failure.last));
}

/// A volume is detached: what came since the last line of the log is in the next one.
#[test]
fn at_the_end_the_rest_is_told_once() {
    let mut failures = Failures::default();
    for seconds in 0..5 {
        failures.note("flush", RequestError::Medium, Instant(seconds * SECOND));
    }
    let counts: Vec<_> = failures.unreported(Instant(5 * SECOND)).iter().map(|f| f.count).collect();
    assert_eq!(counts, [5]);
    assert!(failures.unreported(Instant(6 * SECOND)).is_empty());
}
