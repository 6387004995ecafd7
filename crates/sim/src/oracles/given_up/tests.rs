use super::*;
use crate::payload::stamp;

const PATH: Path = (0, 1);

fn sent(write: u32, sequence: u64) -> GivenUp {
    let mut given_up = GivenUp::default();
    given_up.asks(write, PATH, 2);
    assert!(given_up.sends(0, Sequence(sequence), stamp(write, 0)).is_ok());
    given_up
}

#[test]
fn what_was_sent_cannot_be_cancelled_and_what_is_cancelled_is_not_sent() {
    let mut given_up = sent(1, 1);
    assert!(given_up.cancels(1).is_err());
    given_up.asks(2, PATH, 1);
    assert!(given_up.cancels(2).is_ok());
    assert!(given_up.sends(0, Sequence(2), stamp(2, 0)).is_err());
}

#[test]
fn what_is_drained_is_neither_sent_nor_carried_out() {
    let mut given_up = sent(1, 1);
    given_up.asks(2, PATH, 1);
    given_up.drains(PATH, vec![0]);
    assert!(given_up.sends(0, Sequence(1), stamp(1, 0)).is_err(), "again");
    assert!(given_up.sends(0, Sequence(2), stamp(2, 0)).is_err(), "late");
    assert!(given_up.sends(0, Sequence(3), stamp(1, 0)).is_ok(), "a repair");
    assert!(given_up.takes(0, (0, Sequence(1)), stamp(1, 0)).is_err());
    assert!(given_up.takes(0, (0, Sequence(3)), stamp(1, 0)).is_ok(), "a repair");
    assert!(given_up.takes(1, (0, Sequence(1)), stamp(1, 0)).is_ok(), "it has left");
    assert!(given_up.takes(0, (1, Sequence(1)), stamp(1, 0)).is_ok(), "another primary repairs");
}

#[test]
fn a_write_is_sent_in_part_until_each_mirror_was_sent_its_own() {
    let mut given_up = sent(1, 1);
    assert!(given_up.is_sent_in_part(1));
    assert!(given_up.sends(0, Sequence(1), stamp(1, 0)).is_ok() && given_up.is_sent_in_part(1));
    assert!(given_up.sends(0, Sequence(2), stamp(1, 1)).is_ok() && !given_up.is_sent_in_part(1));
    given_up.asks(2, PATH, 2);
    assert!(!given_up.is_sent_in_part(2));
}

#[test]
fn zeroes_are_those_of_whoever_may_have_asked_for_them() {
    let mut given_up = GivenUp::default();
    let whole = vec![(0, 0..4096), (1, 0..4096)];
    given_up.asks_zeroes(1, PATH, whole.clone());
    given_up.asks_zeroes(2, (0, 2), vec![(0, 0..512)]);
    let sends = |given_up: &mut GivenUp, sequence, share: Share| {
        given_up.sends_zeroes(0, Sequence(sequence), &share).is_ok()
    };
    assert!(given_up.cancels(1).is_ok());
    assert!(sends(&mut given_up, 1, (0, 0..512)), "it is of the second one");
    assert!(!sends(&mut given_up, 2, (1, 0..512)), "it is of the first one");
    given_up.drains((0, 2), vec![0]);
    assert!(!sends(&mut given_up, 1, (0, 0..512)), "again");
    assert!(sends(&mut given_up, 3, (2, 0..512)), "nobody knows of whom");
    given_up.asks_zeroes(3, (0, 3), whole);
    assert!(sends(&mut given_up, 4, (1, 0..512)));
    given_up.succeeds(0, 3);
    assert!(!sends(&mut given_up, 5, (1, 0..512)), "the last one is done");
    given_up.asks_zeroes(4, (0, 3), vec![(3, 0..512)]);
    assert!(sends(&mut given_up, 6, (3, 0..512)));
    assert!(given_up.cancels(4).is_err(), "it was sent");
}
