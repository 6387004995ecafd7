//! Each invariant of requests is broken by hand, and found by its label.

use crate::cluster::Bytes;
use crate::operation::RequestError;
use crate::primary::Primary;
use crate::primary::invariants::tests::breaks;
use crate::primary::io::requests::table::{Request, RequestLock};

fn request(primary: &mut Primary<Bytes>) -> &mut Request<Bytes> {
    primary
        .informed()
        .io
        .requests
        .table
        .under_way
        .values_mut()
        .next()
        .expect("a write is under way")
}

#[test]
fn its_range_is_locked() {
    breaks("I10", |primary| {
        let (number, _) = primary
            .informed()
            .io
            .requests
            .table
            .under_way
            .iter()
            .next()
            .expect("a write is under way");
        let number = *number;
        primary.informed().io.requests.ranges.unlock(number);
    });
}

#[test]
fn its_range_is_locked_in_the_cluster() {
    breaks("I12", |primary| request(primary).lock = RequestLock::ClusterLock);
}

#[test]
fn it_is_answered_before_it_is_finished() {
    breaks("I4", |primary| request(primary).unanswered = 9);
}

#[test]
fn what_is_over_is_forgotten() {
    breaks("I11", |primary| (request(primary).unanswered, request(primary).unfinished) = (0, 0));
}

#[test]
fn what_is_cancelled_is_forgotten() {
    breaks("I14", |primary| request(primary).error = Some(RequestError::Cancelled));
}

#[test]
fn who_has_failed_is_told() {
    breaks("I11", |primary| {
        (request(primary).unanswered, request(primary).error) = (0, Some(RequestError::NoData));
    });
}
