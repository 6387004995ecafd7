use super::*;

#[test]
fn moments_that_are_near_have_the_same_earlier_multiple() {
    let step = Duration::from_millis(375);
    let multiple = |milliseconds: u64| Instant(milliseconds * 1_000_000).earlier_multiple_of(step);
    assert_eq!(multiple(374), Instant(0));
    assert_eq!(multiple(375), Instant(375_000_000));
    assert_eq!(multiple(749), multiple(375));
}

#[test]
fn without_a_step_every_moment_is_a_multiple() {
    assert_eq!(Instant(7).earlier_multiple_of(Duration::ZERO), Instant(7));
}
