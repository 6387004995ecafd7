use super::*;

#[test]
fn the_pause_grows_with_what_the_last_attempt_took() {
    let after = |took: f64| pause_after(PAUSE, Duration::from_secs_f64(took)).as_secs_f64();
    assert_eq!([after(0.0), after(0.5), after(30.0)], [1.0, 1.5, 31.0]);
}
