use super::*;
use crate::nvme::command::Refusal;
use crate::nvme::connection::Transfer;
use crate::nvme::controller::tests::{Bench, LINUX, entry};
use crate::nvme::controller::{Done, Kind};

const SET: u8 = 0x09;
const GET: u8 = 0x0a;
const EVENT: u8 = 0x0c;
const MASK: u32 = 0x82;
const PERSISTENCE: u32 = 0x83;

use ReservationNotice::*;

fn ask(bench: &mut Bench, opcode: u8, words: &[u32]) -> Result<Done, Refusal> {
    bench.run(&entry(opcode, 1, words), Transfer::None)
}

/// Reads the log page: number, notice, how many more there are, namespace.
fn read(bench: &mut Bench) -> (u8, u8, u8, u8) {
    let command = entry(0x02, u32::MAX, &[15 << 16 | 0x80]);
    let Ok(Done::Data(page)) = bench.run(&command, Transfer::ToHost(64)) else { panic!() };
    assert!([1..8, 10..12, 13..64].into_iter().all(|part| page[part].iter().all(|it| *it == 0)));
    (page[0], page[8], page[9], page[12])
}

#[test]
fn notices_are_read_one_after_the_other() {
    let mut bench = Bench::enabled(Kind::Volume);
    assert_eq!(read(&mut bench), (0, 0, 0, 0));
    for _ in 0..3 {
        assert_eq!(ask(&mut bench, EVENT, &[]), Ok(Done::Kept));
    }
    bench.controller.notify_reservation(RegistrationPreempted);
    bench.controller.notify_reservation(ReservationReleased);
    let answers = bench.controller.take_answers();
    assert_eq!((answers.len(), answers[0].result), (1, 0x80_0006), "one event until it is read");
    assert_eq!(read(&mut bench), (1, 1, 1, 1));
    assert_eq!(bench.controller.take_answers().len(), 1, "there is another one");
    assert_eq!(read(&mut bench), (2, 2, 0, 1));
    assert_eq!(bench.controller.take_answers(), []);
    assert_eq!(read(&mut bench), (0, 0, 0, 0));
    bench.controller.notify_reservation(ReservationPreempted);
    assert_eq!(bench.controller.take_answers().len(), 1);
    assert_eq!(read(&mut bench), (3, 3, 0, 1));
}

#[test]
fn a_host_learns_what_it_has_not_masked() {
    let mut bench = Bench::enabled(Kind::Volume);
    assert_eq!(ask(&mut bench, GET, &[MASK]), Ok(Done::Result(0)));
    assert_eq!(ask(&mut bench, SET, &[MASK, 0b1010]), Ok(Done::Result(0)));
    assert_eq!(ask(&mut bench, GET, &[MASK]), Ok(Done::Result(0b1010)));
    for notice in [RegistrationPreempted, ReservationReleased, ReservationPreempted] {
        bench.controller.notify_reservation(notice);
    }
    assert_eq!(read(&mut bench), (1, 2, 0, 1));
    for mask in [1, 1 << 4, u32::MAX] {
        assert_eq!(ask(&mut bench, SET, &[MASK, mask]), Err(Status::InvalidField.into()));
    }
    // All namespaces are this one; there is no other.
    let all = entry(SET, u32::MAX, &[MASK, 0]);
    assert_eq!(bench.run(&all, Transfer::None), Ok(Done::Result(0)));
    for (opcode, namespace) in [(GET, 0), (GET, 2), (GET, u32::MAX), (SET, 0), (SET, 2)] {
        for feature in [MASK, PERSISTENCE] {
            let result = bench.run(&entry(opcode, namespace, &[feature, 0]), Transfer::None);
            assert_eq!(result, Err(Status::InvalidNamespace.into()), "{opcode} {namespace}");
        }
    }
}

#[test]
fn who_does_not_read_misses_the_oldest_and_sees_that() {
    let mut bench = Bench::enabled(Kind::Volume);
    for _ in 0..40 {
        bench.controller.notify_reservation(ReservationReleased);
        bench.controller.check_invariants();
    }
    assert_eq!(read(&mut bench), (9, 2, 31, 1));
    // What another controller of the host missed is nobody's after a reset.
    assert_eq!(bench.run(&entry(0x7f, 0, &[0, 0x14, 0]), Transfer::None), Ok(Done::Result(0)));
    bench.controller.notify_reservation(ReservationReleased);
    assert_eq!(bench.run(&entry(0x7f, 0, &[0, 0x14, LINUX]), Transfer::None), Ok(Done::Result(0)));
    assert_eq!(read(&mut bench), (0, 0, 0, 0));
}

#[test]
fn the_volume_says_whether_reservations_persist() {
    let mut bench = Bench::enabled(Kind::Volume);
    assert_eq!(ask(&mut bench, GET, &[PERSISTENCE]), Ok(Done::Result(0)));
    bench.volume.reservations_persist = true;
    assert_eq!(ask(&mut bench, GET, &[PERSISTENCE]), Ok(Done::Result(1)));
    // Slots 3 to 6, and one too many.
    for value in [0, 1, 0, 1] {
        assert_eq!(ask(&mut bench, SET, &[PERSISTENCE, value]), Ok(Done::Kept));
    }
    assert_eq!(ask(&mut bench, SET, &[PERSISTENCE, 0]), Err(Status::Interrupted.into()));
    assert_eq!(bench.controller.take_persisting(), [(1, false), (2, true), (3, false), (4, true)]);
    assert_eq!(bench.controller.take_persisting(), []);
    bench.controller.persisted(2, Status::Success);
    bench.controller.persisted(1, Status::InternalPath);
    bench.controller.persisted(1, Status::Success);
    let answer = |tag, status| AdminAnswer { tag: Tag::of(tag), status, result: 0 };
    let expected = [answer(4, Status::Success), answer(3, Status::InternalPath)];
    assert_eq!(bench.controller.take_answers(), expected);
    // A reset ends those that are left, and what is said of them then is said of nothing.
    assert_eq!(bench.run(&entry(0x7f, 0, &[0, 0x14, 0]), Transfer::None), Ok(Done::Result(0)));
    let expected = [answer(5, Status::AbortRequested), answer(6, Status::AbortRequested)];
    assert_eq!(bench.controller.take_answers(), expected);
    bench.controller.persisted(3, Status::Success);
    assert_eq!(bench.controller.take_answers(), []);
}

#[test]
fn without_reservations_there_are_no_features_of_them() {
    let mut bench = Bench::enabled(Kind::Volume);
    bench.volume.namespace.has_reservations = false;
    for feature in [MASK, PERSISTENCE] {
        for opcode in [GET, SET] {
            assert_eq!(ask(&mut bench, opcode, &[feature]), Err(Status::InvalidField.into()));
        }
    }
}
