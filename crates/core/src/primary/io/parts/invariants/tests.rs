//! Each invariant of parts is broken by hand, and found by its label.

use super::check_acknowledged;
use crate::cluster::Bytes;
use crate::primary::invariants::tests::{breaks, writing};
use crate::primary::io::parts::part::Part;
use crate::primary::{Informed, Primary};
use crate::trips::trips;

fn part(primary: &mut Primary<Bytes>) -> &mut Part<Bytes> {
    primary.informed().io.parts.table.values_mut().next().expect("a write is under way")
}

#[test]
fn it_is_sent_to_all_that_have_to_carry_it_out() {
    breaks("W2", |primary| part(primary).forget_session(1));
}

#[test]
fn a_request_counts_its_parts() {
    breaks("I11", |primary| primary.informed().io.parts.forget());
}

#[test]
fn nothing_is_carried_out_for_a_request_that_is_over() {
    breaks("I14", |primary| primary.informed().io.requests.forget());
}

#[test]
fn nothing_is_answered_before_the_view_is_adopted() {
    let mut cluster = writing();
    part(cluster.primary(0)).written_by(0b11);
    let primary = cluster.primary(0).informed();
    let check = |primary: &Informed<Bytes>| {
        let part = primary.io.parts.table.values().next().expect("a write is under way");
        check_acknowledged(&primary.membership, &primary.views, part);
    };
    check(primary);
    primary.views.adoption_mut().confirm_by(primary.membership.ids());
    trips("V2", || check(primary));
}
