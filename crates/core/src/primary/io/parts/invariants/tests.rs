//! Each invariant of parts is broken by hand, and found by its label.

use crate::cluster::Bytes;
use crate::policy::ReplicaSet;
use crate::primary::Primary;
use crate::primary::invariants::tests::{breaks, text_of, writing};
use crate::primary::io::parts::Part;

fn part(primary: &mut Primary<Bytes>) -> &mut Part<Bytes> {
    primary.parts.values_mut().next().expect("a write is under way")
}

#[test]
fn only_members_carry_it_out() {
    breaks("I4", |primary| part(primary).targets |= 1 << 9);
}

#[test]
fn it_has_failed_or_not() {
    breaks("W1", |primary| (part(primary).written, part(primary).failed) = (1, 1));
}

#[test]
fn it_is_sent_to_all_that_have_to_carry_it_out() {
    breaks("W2", |primary| part(primary).sent = 0);
}

#[test]
fn a_request_counts_its_parts() {
    breaks("I11", |primary| primary.parts.clear());
}

/// What is said if the write is acknowledged after this change, by which both replicas have written it but for
/// what the change takes back.
fn acknowledged(change: impl FnOnce(&mut Primary<Bytes>)) -> String {
    let mut cluster = writing();
    let primary = cluster.primary(0);
    let check = |primary: &Primary<Bytes>| {
        let part = primary.parts.values().next().expect("a write is under way");
        primary.check_acknowledged(part);
    };
    part(primary).written = part(primary).targets;
    check(primary);
    change(primary);
    text_of(|| check(primary))
}

#[test]
fn an_answer_keeps_what_it_promises() {
    let set = |set: ReplicaSet| move |primary: &mut Primary<Bytes>| part(primary).written = set;
    assert!(acknowledged(set(0)).starts_with("W1: "));
    assert!(acknowledged(set(1)).starts_with("W1: "));
    let text = acknowledged(|primary| {
        primary.adoption.confirm_by(primary.peers.ids());
    });
    assert!(text.starts_with("V2: "), "{text}");
    let text = acknowledged(|primary| primary.mirrors[0].members |= 1 << 9);
    assert!(text.starts_with("I4: "), "{text}");
    let text = acknowledged(|primary| {
        let through = crate::Sequence(1);
        part(primary).action = crate::primary::io::parts::PartAction::Settle { through };
        part(primary).written = 1;
    });
    assert!(text.starts_with("W4: "), "{text}");
}
