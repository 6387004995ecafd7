use std::time::Duration;

use super::*;
use crate::cluster::Bytes;
use crate::view::tests::view;

const NOW: Instant = Instant(5);

/// A mirror of so many in-sync members, the first of which is local.
pub(in crate::primary) fn mirror(members: usize) -> MirrorPeers {
    let mut peers = MirrorPeers::default();
    peers.update(&view(1, members).mirrors[0], NodeId(0));
    peers
}

/// A part that two members have to carry out, or one of them to read.
pub(in crate::primary) fn part(action: PartAction<Bytes>) -> Part<Bytes> {
    let task = MirrorTask { mirror: 0, from: 0, action };
    Part::new(RequestNumber(1), task, &mirror(2), NOW)
}

pub(in crate::primary) fn write(durable: bool) -> PartAction<Bytes> {
    PartAction::Zero { offset: 4096, length: 4096, unmap: false, durable }
}

pub(in crate::primary) fn read() -> PartAction<Bytes> {
    PartAction::Read { offset: 0, length: 4096 }
}

#[test]
fn an_answer_counts_once_and_only_from_who_was_asked() {
    let mut part = part(write(false));
    assert!(!part.awaits_answer_of(1) && part.unsent() == 0b11);
    part.send_to(1);
    assert!(part.awaits_answer_of(1) && part.unsent() == 0b10 && part.unanswered() == 1);
    part.written_by(1);
    assert!(!part.awaits_answer_of(1) && part.missing() == 0b10);
    part.forget_session(1);
    assert!(!part.awaits_answer_of(1), "it has answered");
}

#[test]
fn what_nobody_was_sent_goes_to_the_members_of_the_new_view() {
    let mut part = part(write(false));
    part.retarget(&mirror(1));
    assert_eq!(part.targets(), 0b1);
    part.send_to(1);
    part.retarget(&mirror(0));
    assert_eq!(part.targets(), 0b1, "who leaves is forgotten apart");
}

#[test]
fn a_write_goes_to_those_that_join_whatever_they_did_before() {
    let mut part = part(write(false));
    part.send_to(0b11);
    part.written_by(0b10);
    part.forget_replica(0b10);
    part.retarget(&mirror(3));
    assert_eq!((part.targets(), part.missing()), (0b111, 0b111));
}

#[test]
fn a_failed_write_goes_only_where_some_source_has_it() {
    let mut failed = part(write(false));
    failed.send_to(0b11);
    failed.failed_by(0b11, Failure::Medium);
    assert!(failed.answer().is_some() && failed.has_failed() && !failed.is_acknowledged());
    failed.retarget(&mirror(3));
    assert_eq!(failed.targets(), 0b11);
    failed.forget_incarnation(0b1, true);
    failed.replicas.failed = 0b10;
    failed.written_by(0b1);
    failed.retarget(&mirror(3));
    assert_eq!(failed.targets(), 0b111);
}

#[test]
fn a_failure_of_one_that_has_left_is_no_error() {
    let mut part = part(write(false));
    part.failed_by(0b10, Failure::Medium);
    part.forget_replica(0b10);
    assert_eq!(part.answer(), None);
    assert!(part.is_acknowledged());
}

#[test]
fn a_read_goes_elsewhere_until_it_is_answered() {
    let mut part = part(read());
    assert_eq!(part.targets(), 0);
    part.place(0b10, NOW);
    part.send_to(0b10);
    assert!(!part.take_read_from(0b1) && part.take_read_from(0b10));
    part.place(0b1, NOW);
    part.send_to(0b1);
    assert!(part.refused_by(0b1, true) && part.was_refused());
    part.place(0b1, NOW);
    part.written_by(0b1);
    assert!(!part.was_refused() && !part.refused_by(0b1, true) && !part.take_read_from(0b1));
    assert!(part.read_again() && part.targets() == 0 && !part.was_written());
    assert!(!part.read_again());
}

#[test]
fn what_a_restart_loses_is_asked_for_again() {
    let mut part = part(write(false));
    part.received_by(0b11);
    part.written_by(0b11);
    part.forget_incarnation(0b10, false);
    assert_eq!((part.missing(), part.progress(&mirror(2)).received), (0, 0b01));
    part.forget_incarnation(0b10, true);
    assert_eq!(part.missing(), 0b10);
}

#[test]
fn a_range_differs_at_who_has_not_written_what_overlaps_it() {
    let mut part = part(write(false));
    part.written_by(0b1);
    assert!(part.may_differ(0b10, &(0..4097)) && !part.may_differ(0b10, &(0..4096)));
    assert!(!part.may_differ(0b1, &(0..8192)) && !part.may_differ(0b100, &(0..8192)));
}

#[test]
fn a_read_of_several_blocks_is_told_from_one() {
    let reads = |offset, length| part(PartAction::Read { offset, length }).reads_several_blocks();
    assert!(reads(0, 4097) && reads(4095, 2) && !reads(0, 4096) && !reads(4096, 1));
}

#[test]
fn what_nothing_vouches_for_has_to_do_if_nobody_else_can_be_asked() {
    let mut part = part(read());
    let bytes = |value| Bytes::of(value, 4096);
    part.take_unverified(0b10, bytes(1), NOW);
    part.take_unverified(0b1, bytes(2), NOW);
    assert!(!part.was_written() && part.failed() == 0b11);
    assert!(part.is_undecided() && part.has_unverified());
    part.forget_unverified();
    assert!(part.failed() == 0 && part.accept_unverified().is_none());
    part.take_unverified(0b10, bytes(3), NOW);
    assert_eq!(part.accept_unverified(), Some(bytes(3)));
    assert!(part.written() == 0b10 && part.failed() == 0);
    assert_eq!(part.is_vouched_for(), Some(false), "it was the answer");
    assert!(part.accept_unverified().is_none());
}

#[test]
fn a_copy_that_fits_is_looked_for_within_bounds() {
    let mut part = part(read());
    let (second, ms) = (Duration::from_secs(1), Duration::from_millis);
    let may_be_read = |part: &Part<Bytes>, at| part.may_be_read_from(NOW + at, second) & 0b111;
    part.take_unverified(0b1, Bytes::of(1, 4096), NOW);
    part.place(0b10, NOW + ms(500));
    assert_eq!(may_be_read(&part, ms(999)), 0b110);
    assert_eq!(may_be_read(&part, second), 0b100, "each other one once");
    assert_eq!(may_be_read(&part, second * 3), 0, "and that not without end");
    assert_eq!(part.waits_until(NOW + ms(999), second), Some(NOW + second));
    assert_eq!(part.waits_until(NOW + second, second), None);
    part.refused_by(0b10, false);
    assert_eq!(may_be_read(&part, second), 0b110, "it was not begun");
    for renewals in 1..=4 {
        part.place(0b10, NOW + second);
        part.search_anew(NOW + second * renewals, second);
        assert_eq!(may_be_read(&part, second * (renewals + 1)) == 0b110, renewals <= 2);
    }
}

#[test]
fn a_search_that_can_ask_nobody_ends_all_the_same() {
    let mut part = part(read());
    let second = Duration::from_secs(1);
    part.take_unverified(0b1, Bytes::of(1, 4096), NOW);
    for lapse in 1..10 {
        let now = NOW + second / 2 * lapse;
        part.search_anew(now, second);
        assert_eq!(part.waits_until(now + second / 2, second).is_some(), lapse <= 6);
    }
}

#[test]
fn a_copy_that_fits_its_checksum_vouches_for_what_was_read_before() {
    let mut part = part(read());
    assert_eq!(part.is_vouched_for(), None);
    part.take_unverified(0b10, Bytes::of(1, 4096), NOW);
    assert_eq!(part.is_vouched_for(), Some(false));
    part.written_by(0b1);
    assert_eq!(part.is_vouched_for(), Some(true));
}
