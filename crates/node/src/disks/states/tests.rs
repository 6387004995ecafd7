use super::*;

/// A disk that stays away is not asked all the time, and one that comes back is not left waiting.
#[test]
fn the_pause_between_two_tries_doubles_up_to_a_bound() {
    let now = Instant::now();
    let mut retry = Retry::first(now);
    let mut pauses = vec![retry.at - now];
    for _ in 0..10 {
        retry = retry.again(now);
        pauses.push(retry.at - now);
    }
    let expected = [200, 400, 800, 1600, 3200, 6400, 12_800, 15_000, 15_000, 15_000, 15_000];
    assert_eq!(pauses, expected.map(Duration::from_millis));
}

#[test]
fn the_try_after_one_at_once_is_as_the_first() {
    let now = Instant::now();
    let retry = Retry::at_once(now);
    assert_eq!(retry.at, now);
    assert_eq!(retry.again(now), Retry::first(now));
}
