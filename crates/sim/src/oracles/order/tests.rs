use super::*;
use crate::payload::stamp;

fn sent() -> Order {
    let mut order = Order::default();
    order.sends(0, Sequence(1), &[stamp(1, 5)], |_| false).expect("first");
    order.sends(0, Sequence(2), &[stamp(2, 5)], |_| false).expect("second");
    order
}

#[test]
fn a_disk_that_goes_back_is_found() {
    let mut order = sent();
    assert!(order.takes((0, 5), stamp(2, 5), false, |_| true, |_| false).is_ok());
    assert!(order.takes((0, 5), stamp(2, 5), false, |_| true, |_| false).is_ok(), "a repeat");
    assert!(order.takes((0, 5), stamp(1, 5), false, |_| true, |_| false).is_err());
    assert!(order.takes((1, 5), stamp(1, 5), false, |_| true, |_| false).is_ok());
    assert!(order.takes((1, 5), stamp(2, 5), false, |_| true, |_| false).is_ok());
    assert!(order.takes((1, 5), stamp(1, 5), false, |_| true, |_| false).is_ok(), "a resend");
}

#[test]
fn a_copy_may_bring_back_what_an_ended_primary_wrote() {
    let mut order = sent();
    assert!(order.takes((0, 5), stamp(2, 5), false, |_| true, |_| false).is_ok());
    assert!(order.takes((0, 5), stamp(1, 5), false, |_| false, |_| false).is_ok());
}

#[test]
fn writes_that_were_held_run_after_the_copy_that_has_them() {
    let mut order = sent();
    assert!(order.takes((0, 5), stamp(2, 5), true, |_| true, |_| false).is_ok());
    assert!(order.takes((0, 5), stamp(1, 5), false, |_| true, |_| false).is_ok());
    assert!(order.takes((0, 5), stamp(2, 5), false, |_| true, |_| false).is_ok());
    assert!(order.takes((0, 5), stamp(1, 5), true, |_| true, |_| false).is_err());
}

#[test]
fn a_resend_keeps_its_number() {
    let mut order = sent();
    assert!(order.sends(0, Sequence(1), &[stamp(1, 5)], |_| false).is_ok());
    assert!(order.sends(0, Sequence(3), &[stamp(1, 5)], |_| false).is_err());
    assert!(order.sends(0, Sequence(3), &[stamp(1, 5)], |_| true).is_ok(), "it is rewritten");
}

#[test]
fn what_another_primary_has_rewritten_keeps_its_number() {
    let mut order = sent();
    assert!(order.sends(1, Sequence(9), &[stamp(1, 5)], |_| true).is_ok(), "it is rewritten");
    assert!(order.sends(0, Sequence(1), &[stamp(1, 5)], |_| false).is_ok(), "a resend");
    assert!(order.sends(0, Sequence(3), &[stamp(1, 5)], |_| false).is_err());
}
