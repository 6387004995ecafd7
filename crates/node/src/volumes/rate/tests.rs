use super::*;

#[test]
fn the_rate_is_that_of_the_last_ten_seconds() {
    let start = Instant::now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let mut rate = Rate::default();
    assert_eq!(rate.note(at(0), 0), 0);
    assert_eq!(rate.note(at(1), 1000), 1000);
    for second in 2..=30 {
        rate.note(at(second), 1000 + (second - 1) * 500);
    }
    assert_eq!(rate.note(at(31), 1000 + 30 * 500), 500);
    assert_eq!(rate.note(at(32), 5), 0);
}
