use super::*;
use crate::harness::Blank;
use ReservationKind::*;

const A: HostId = HostId(1);
const B: HostId = HostId(2);
const C: HostId = HostId(3);

/// A and B are registered with the keys 10 and 20; C is not.
fn registered() -> Reservations {
    let mut reservations = Reservations::default();
    reservations.register(A, Some(0), 10).unwrap();
    reservations.register(B, Some(0), 20).unwrap();
    assert_eq!(reservations.generation, 2);
    reservations
}

fn reserved(kind: ReservationKind) -> Reservations {
    let mut reservations = registered();
    reservations.reserve(A, kind).unwrap();
    reservations
}

/// Who of A, B and C may read, and who may write.
fn may(reservations: &Reservations) -> ([bool; 3], [bool; 3]) {
    let read = Operation::<Blank>::Read { offset: 0, length: 512 };
    let write = Operation::Write { offset: 0, payload: Blank::of(512), durable: false };
    let of = |operation: &Operation<Blank>| [A, B, C].map(|h| reservations.permit(h, operation));
    assert_eq!(of(&Operation::Flush), [true; 3]);
    (of(&read), of(&write))
}

/// SPC-4, table 64 and 65, as far as they are about reads and writes.
#[test]
fn each_kind_keeps_out_whom_it_says() {
    let (all, registrants, holder) = ([true; 3], [true, true, false], [true, false, false]);
    assert_eq!(may(&registered()), (all, all));
    assert_eq!(may(&reserved(WriteExclusive)), (all, holder));
    assert_eq!(may(&reserved(ExclusiveAccess)), (holder, holder));
    for kind in [WriteExclusiveRegistrants, WriteExclusiveAll] {
        assert_eq!(may(&reserved(kind)), (all, registrants));
    }
    for kind in [ExclusiveAccessRegistrants, ExclusiveAccessAll] {
        assert_eq!(may(&reserved(kind)), (registrants, registrants));
    }
}

#[test]
fn who_registers_states_the_key_it_has() {
    let mut reservations = registered();
    let conflict = Err(ViewError::ReservationConflict);
    assert_eq!(reservations.register(C, Some(7), 30), conflict);
    assert_eq!(reservations.register(A, Some(7), 11), conflict);
    assert_eq!(reservations.register(A, Some(10), 11), Ok(()));
    assert_eq!(reservations.register(A, Some(10), 11), Ok(()), "asked again, unanswered");
    assert_eq!(reservations.generation, 3);
    assert_eq!(reservations.register(A, None, 12), Ok(()), "whatever it was");
    assert_eq!(reservations.register(A, Some(12), 0), Ok(()));
    assert!(!reservations.is_registered(A));
    assert_eq!(reservations.register(A, Some(12), 0), Ok(()), "it is not registered");
}

#[test]
fn a_reservation_ends_with_its_holders_registration_unless_all_hold_it() {
    let mut one = reserved(WriteExclusiveRegistrants);
    one.register(A, Some(10), 0).unwrap();
    assert_eq!(one.held, None);
    let mut all = reserved(WriteExclusiveAll);
    all.register(A, Some(10), 0).unwrap();
    assert_eq!(all.held, Some(Reservation { kind: WriteExclusiveAll, holder: B }));
    all.register(B, Some(20), 0).unwrap();
    assert_eq!(all.held, None);
    assert!(one.are_valid() && all.are_valid());
}

#[test]
fn one_reservation_at_a_time() {
    let mut reservations = reserved(WriteExclusive);
    let conflict = Err(ViewError::ReservationConflict);
    assert_eq!(reservations.reserve(A, WriteExclusive), Ok(()), "asked again");
    assert_eq!(reservations.reserve(A, ExclusiveAccess), conflict);
    assert_eq!(reservations.reserve(B, WriteExclusive), conflict);
    assert_eq!(reservations.release(B, WriteExclusive), Ok(()), "it holds none");
    assert_eq!(reservations.release(A, ExclusiveAccess), Err(ViewError::WrongReservation));
    assert_eq!(reservations.release(A, WriteExclusive), Ok(()));
    assert_eq!(reservations.reserve(B, ExclusiveAccess), Ok(()));
    let mut all = reserved(ExclusiveAccessAll);
    assert_eq!(all.reserve(B, ExclusiveAccessAll), Ok(()), "it holds it already");
}

#[test]
fn who_preempts_the_holder_holds_the_reservation() {
    let mut reservations = reserved(WriteExclusiveRegistrants);
    reservations.preempt(B, 10, WriteExclusiveRegistrants).unwrap();
    let held = Reservation { kind: WriteExclusiveRegistrants, holder: B };
    assert_eq!((reservations.held, reservations.is_registered(A)), (Some(held), false));
    let again = reservations.preempt(B, 10, WriteExclusiveRegistrants);
    assert_eq!(again, Ok(()), "asked again, unanswered");
    assert_eq!(reservations.generation, 3);
}

/// Two nodes that see a third one fail: one of them wins.
#[test]
fn of_two_that_preempt_the_same_one_succeeds() {
    let mut reservations = reserved(WriteExclusiveRegistrants);
    reservations.register(C, Some(0), 30).unwrap();
    reservations.preempt(B, 10, WriteExclusiveRegistrants).unwrap();
    let late = reservations.preempt(C, 10, WriteExclusiveRegistrants);
    assert_eq!(late, Err(ViewError::ReservationConflict));
}

#[test]
fn who_is_no_holder_is_preempted_without_the_reservation() {
    let mut reservations = reserved(ExclusiveAccess);
    reservations.preempt(A, 20, WriteExclusive).unwrap();
    assert_eq!(reservations.held, Some(Reservation { kind: ExclusiveAccess, holder: A }));
    assert!(!reservations.is_registered(B));
    let nobody = reservations.preempt(A, 0, WriteExclusive);
    assert_eq!(nobody, Err(ViewError::WrongReservation), "all others, where one holds it");
}

#[test]
fn all_others_are_preempted_where_all_hold_it() {
    let mut reservations = reserved(WriteExclusiveAll);
    reservations.register(C, Some(0), 30).unwrap();
    reservations.preempt(C, 0, ExclusiveAccess).unwrap();
    assert_eq!(reservations.registrants, [Registrant { host: C, key: 30 }]);
    assert_eq!(reservations.held, Some(Reservation { kind: ExclusiveAccess, holder: C }));
}

#[test]
fn only_what_is_persistent_outlasts_the_last_primary() {
    for is_persistent in [false, true] {
        let mut reservations = Reservations { is_persistent, ..reserved(WriteExclusive) };
        let before = reservations.clone();
        reservations.begin_anew();
        let after = if is_persistent { before } else { Reservations::default() };
        assert_eq!(reservations, after);
    }
}

#[test]
fn persistence_is_changed_by_itself() {
    let mut view = crate::view::tests::view(1, 1);
    for is_persistent in [true, false] {
        let change = ReservationChange::Persist { is_persistent };
        assert_eq!(view.change_reservations(change), Ok(()));
        let expected = Reservations { is_persistent, ..Reservations::default() };
        assert_eq!(view.reservations, expected);
    }
}

#[test]
fn there_is_room_for_so_many() {
    let mut reservations = Reservations::default();
    for host in 0..MAX_REGISTRANTS as u128 {
        reservations.register(HostId(host), Some(0), 1).unwrap();
    }
    let late = reservations.register(HostId(u128::MAX), Some(0), 1);
    assert_eq!(late, Err(ViewError::TooManyRegistrants));
    assert!(reservations.are_valid());
    reservations.clear();
    assert!(reservations.are_valid() && reservations.registrants.is_empty());
}
