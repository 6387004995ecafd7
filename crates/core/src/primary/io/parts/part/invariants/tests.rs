//! Each invariant of a part is broken by hand, and found by its label.

use super::super::tests::{mirror, part, read, write};
use super::*;
use crate::cluster::Bytes;
use crate::trips::trips;

const FIRST: Sequence = Sequence(1);

/// That this change of a part, which two members have to carry out, breaks this rule.
fn breaks(label: &str, mut part: Part<Bytes>, change: impl FnOnce(&mut Part<Bytes>)) {
    part.check_invariants(FIRST, &mirror(2), || true);
    change(&mut part);
    trips(label, || part.check_invariants(FIRST, &mirror(2), || false));
}

#[test]
fn only_members_carry_it_out() {
    breaks("I4", part(write(false)), |part| part.replicas.targets |= 1 << 9);
}

#[test]
fn it_has_failed_or_not() {
    breaks("W1", part(write(false)), |part| {
        (part.replicas.written, part.replicas.failed) = (1, 1);
    });
}

#[test]
fn a_read_is_asked_of_one_replica_and_answered_once() {
    breaks("I11", part(read()), |_| {});
    breaks("I2", part(read()), |part| part.replicas.targets = 0b11);
    breaks("I2", part(read()), |part| {
        part.written_by(1);
        part.answer();
    });
}

/// That it breaks this rule to acknowledge a part by protocol C in this mirror after this change.
/// Two members have written it, but for what the change takes back.
fn breaks_answered(
    label: &str,
    action: PartAction<Bytes>,
    members: usize,
    change: impl FnOnce(&mut Part<Bytes>),
) {
    let mut part = part(action);
    part.written_by(0b11);
    part.check_acknowledged(&mirror(2), Protocol::C);
    change(&mut part);
    trips(label, || part.check_acknowledged(&mirror(members), Protocol::C));
}

#[test]
fn an_answer_keeps_what_it_promises() {
    let to = |written| move |part: &mut Part<Bytes>| part.replicas.written = written;
    breaks_answered("W1", write(false), 2, to(0));
    breaks_answered("W1", write(false), 2, to(1));
    breaks_answered("W4", write(true), 2, to(1));
    breaks_answered("W4", PartAction::Stabilize { through: FIRST }, 2, to(1));
    breaks_answered("I4", write(false), 3, |_| {});
}
