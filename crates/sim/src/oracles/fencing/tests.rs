use super::*;

#[test]
fn older_work_must_end_before_the_answer() {
    let mut fence = Fence::default();
    assert!(fence.answers(0, Generation(3), [Generation(3)].into_iter()).is_ok());
    assert!(fence.answers(0, Generation(4), [Generation(3)].into_iter()).is_err());
}

#[test]
fn nothing_of_a_lower_generation_is_served_or_applied() {
    let mut fence = Fence::default();
    assert!(fence.answers(0, Generation(3), [].into_iter()).is_ok());
    assert!(fence.reads(0, Generation(3), Generation(3)).is_ok());
    assert!(fence.reads(0, Generation(2), Generation(2)).is_err());
    assert!(fence.reads(0, Generation(3), Generation(4)).is_err());
    assert!(fence.changes(0, Generation(3), Generation(3)).is_ok());
    assert!(fence.changes(0, Generation(2), Generation(3)).is_err());
    assert!(fence.starts(0, Generation(3)).is_ok());
    assert!(fence.starts(0, Generation(2)).is_err());
}
