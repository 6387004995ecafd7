use super::*;
use crate::cluster::Bytes;
use crate::primary::io::parts::part::tests::{part, read, write};

const FIRST: Sequence = Sequence(1);
const SECOND: Sequence = Sequence(2);

/// A write and a read that both replicas of a mirror were asked for, the read by `0b10`.
fn parts() -> PartTable<Bytes> {
    let mut parts = PartTable::default();
    parts.add(FIRST, part(write(false)));
    let mut read = part(read());
    read.place(0b10, crate::Instant(7));
    read.send_to(0b10);
    parts.add(SECOND, read);
    parts
}

#[test]
fn only_reads_go_elsewhere() {
    let mut parts = parts();
    parts.take_reads_from(1, 0b10);
    parts.take_reads_from(0, 0b1);
    assert_eq!(parts.unplaced(), 0);
    parts.take_reads_from(0, 0b10);
    assert!(parts.is_unplaced(SECOND) && !parts.is_unplaced(FIRST));
    assert_eq!((parts.next_unplaced(), parts.next_unplaced()), (Some(SECOND), None));
}

#[test]
fn what_was_read_and_not_told_is_read_again() {
    let mut parts = parts();
    parts.read_again(|part| panic!("{part:?} was not read"));
    parts.known_mut(SECOND).expect("it is under way").written_by(0b10);
    let mut again = 0;
    parts.read_again(|_| again += 1);
    assert!(again == 1 && parts.is_unplaced(SECOND));
}

#[test]
fn an_answer_waits_once_for_the_lease() {
    let mut parts = parts();
    [SECOND, FIRST, SECOND].into_iter().for_each(|sequence| parts.await_lease(sequence));
    assert_eq!(parts.take_unconfirmed(), [SECOND, FIRST]);
    assert!(parts.take_unconfirmed().is_empty());
}

#[test]
fn what_is_over_is_found_no_more() {
    let mut parts = parts();
    assert!(parts.end(FIRST).is_some_and(|part| part.changes_data()));
    assert!(parts.get(FIRST).is_none() && parts.get_mut(FIRST).is_none());
    assert_eq!((parts.of_mirror(0).count(), parts.of_mirror(1).count()), (1, 0));
    assert!(!parts.are_over());
}
