//! Each invariant of requests and of what they have is broken by hand, and found by its label.

use crate::ids::*;
use crate::primary::Phase;
use crate::primary::invariants::tests::breaks;
use crate::primary::io::requests::RequestNumber;
use crate::time::Instant;

#[test]
fn a_change_of_reservations_keeps_others_out() {
    breaks("I13", |primary| {
        let requests = &mut primary.informed().io.requests;
        requests.exclusions.clear(RequestNumber(99), CommandId(1), Instant(0));
    });
}

#[test]
fn a_path_that_is_drained_is_told() {
    breaks("I11", |primary| primary.informed().io.requests.drain_path(PathNumber(99)));
}

#[test]
fn nobody_waits_for_one_that_has_ended() {
    breaks("I11", |primary| primary.informed().phase = Phase::Ended);
}
