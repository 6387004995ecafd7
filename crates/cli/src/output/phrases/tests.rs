use super::*;

#[test]
fn a_rebuild_is_not_at_100_percent_before_it_is_done() {
    assert_eq!(percent(999, 1000), 99);
    assert_eq!(percent(1000, 1000), 100);
    assert_eq!(percent(0, 0), 100);
    assert_eq!(percent(u64::MAX, u64::MAX), 100);
}
