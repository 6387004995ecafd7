use super::*;

fn told(times: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut repeated = Repeated::default();
    times.filter(|now| repeated.is_news(Duration::from_secs(*now))).collect()
}

#[test]
fn what_lasts_is_told_ever_less_often() {
    let expected = [0, 60, 180, 420, 900, 1860, 3780, 7380, 10_980];
    assert_eq!(told(0..4 * 3600), expected);
    // Nor more often if it goes well in between.
    assert_eq!(told((0..4 * 3600).step_by(30)), expected);
}

#[test]
fn what_comes_again_after_it_went_well_for_long_is_told_at_once() {
    assert_eq!(told([0, 59, 119, 178, 300, 301].into_iter()), [0, 119, 300]);
}
