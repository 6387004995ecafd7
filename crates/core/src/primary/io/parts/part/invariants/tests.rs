//! Each invariant of a part is broken by hand, and found by its label.

use super::super::tests::{mirror, part, read, write};
use super::*;
use crate::cluster::Bytes;
use crate::primary::invariants::tests::text_of;

const FIRST: Sequence = Sequence(1);

/// That this change of a part, which two members have to carry out, breaks this rule.
fn breaks(label: &str, mut part: Part<Bytes>, change: impl FnOnce(&mut Part<Bytes>)) {
    part.check_invariants(FIRST, &mirror(2), || true);
    change(&mut part);
    let text = text_of(|| part.check_invariants(FIRST, &mirror(2), || false));
    assert!(text.starts_with(&format!("{label}: ")), "not {label}, but {text}");
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

/// What is said if a part is acknowledged by protocol C in this mirror after this change, by which
/// two members have written it but for what the change takes back.
fn acknowledged(
    action: PartAction<Bytes>,
    members: usize,
    change: impl FnOnce(&mut Part<Bytes>),
) -> String {
    let mut part = part(action);
    part.written_by(0b11);
    part.check_acknowledged(&mirror(2), Protocol::C);
    change(&mut part);
    text_of(|| part.check_acknowledged(&mirror(members), Protocol::C))
}

#[test]
fn an_answer_keeps_what_it_promises() {
    let to = |written| move |part: &mut Part<Bytes>| part.replicas.written = written;
    assert!(acknowledged(write(false), 2, to(0)).starts_with("W1: "));
    assert!(acknowledged(write(false), 2, to(1)).starts_with("W1: "));
    assert!(acknowledged(write(true), 2, to(1)).starts_with("W4: "));
    let stabilize = PartAction::Stabilize { through: FIRST };
    assert!(acknowledged(stabilize, 2, to(1)).starts_with("W4: "));
    assert!(acknowledged(write(false), 3, |_| {}).starts_with("I4: "));
}
