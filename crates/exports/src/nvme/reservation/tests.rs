use evenkeel_core::view::{Registrant, Reservation};
use proptest::prelude::*;

use super::*;
use ReservationKind::*;

const A: HostId = HostId(0xa);
const B: HostId = HostId(0xb);
const C: HostId = HostId(0xc);

/// A and B are registered with the keys 10 and 20, and A holds this.
fn present(held: Option<ReservationKind>) -> Reservations {
    Reservations {
        generation: 7,
        is_persistent: true,
        registrants: vec![Registrant { host: A, key: 10 }, Registrant { host: B, key: 20 }],
        held: held.map(|kind| Reservation { kind, holder: A }),
    }
}

fn entry(opcode: u8, word: u32) -> Entry {
    let mut bytes = [0; 64];
    (bytes[0], bytes[4]) = (opcode, 1);
    bytes[40..44].copy_from_slice(&word.to_le_bytes());
    Entry::read(&bytes)
}

/// What a command asks, with these keys.
fn wanted(command: Nvm, word: u32, keys: &[u64]) -> Result<Wanted, Status> {
    let data: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    let transfer = Transfer::InCapsule(data.len() as u32);
    Reserve::read(command, &entry(command as u8, word), transfer)?.with(&data)
}

#[test]
fn fields_are_where_the_specification_has_them() {
    let (register, acquire, release) =
        (Nvm::ReservationRegister, Nvm::ReservationAcquire, Nvm::ReservationRelease);
    let is_persistent = None;
    for (command, word, keys, expected) in [
        (register, 0, &[1, 2][..], Wanted::Register { key: 2, is_persistent }),
        (register, 3 << 30, &[1, 2], Wanted::Register { key: 2, is_persistent: Some(true) }),
        (register, 2 << 30 | 8, &[1, 2], Wanted::Register { key: 2, is_persistent: Some(false) }),
        (register, 1, &[1, 2], Wanted::Unregister { current: Some(1), is_persistent }),
        (register, 1 | 8, &[1, 2], Wanted::Unregister { current: None, is_persistent }),
        (register, 2, &[1, 2], Wanted::Replace { current: Some(1), key: 2, is_persistent }),
        (register, 2 | 8, &[1, 2], Wanted::Replace { current: None, key: 2, is_persistent }),
        (acquire, 1 << 8, &[1, 2], Wanted::Acquire { current: 1, kind: WriteExclusive }),
        (
            acquire,
            4 << 8 | 1,
            &[1, 2],
            Wanted::Preempt { current: 1, victim: 2, kind: ExclusiveAccessRegistrants },
        ),
        (
            acquire,
            6 << 8 | 2,
            &[1, 0],
            Wanted::Preempt { current: 1, victim: 0, kind: ExclusiveAccessAll },
        ),
        (release, 5 << 8, &[1], Wanted::Release { current: 1, kind: WriteExclusiveAll }),
        (release, 1, &[1], Wanted::Clear { current: 1 }),
    ] {
        assert_eq!(wanted(command, word, keys), Ok(expected), "{command:?} {word:x}");
    }
}

#[test]
fn what_is_reserved_or_has_another_length_is_refused() {
    let (register, acquire, release) =
        (Nvm::ReservationRegister, Nvm::ReservationAcquire, Nvm::ReservationRelease);
    for (command, word, keys) in [
        (register, 3, 2),
        (register, 1 << 30, 2),
        (acquire, 1 << 8 | 3, 2),
        (acquire, 0, 2),
        (acquire, 7 << 8, 2),
        // Only Register may ignore the key.
        (acquire, 1 << 8 | 8, 2),
        (release, 1 << 8 | 8, 1),
        (release, 0, 1),
        (release, 2, 1),
    ] {
        let result = wanted(command, word, &[1, 2][..keys]);
        assert_eq!(result, Err(Status::InvalidField), "{command:?} {word:x}");
    }
    for (word, keys) in [(0, [1, 0]), (2, [1, 0])] {
        assert_eq!(wanted(register, word, &keys), Err(Status::InvalidField), "no key");
    }
    for (command, lengths) in
        [(register, [0, 8, 15, 24]), (acquire, [0, 8, 12, 4096]), (release, [0, 4, 12, 24])]
    {
        for length in lengths {
            for transfer in [Transfer::InCapsule(length), Transfer::OnRequest(length)] {
                let result = Reserve::read(command, &entry(command as u8, 1 << 8 | 1), transfer);
                assert_eq!(result, Err(Status::DataLength));
            }
        }
        let taken = Reserve::read(command, &entry(command as u8, 1 << 8 | 1), Transfer::ToHost(16));
        assert_eq!(taken, Err(Status::DataLength));
    }
    // As Linux sends it, from its own calls (`blkpr`).
    for length in [8, 16] {
        let release = entry(release as u8, 1 << 8);
        let taken = Reserve::read(Nvm::ReservationRelease, &release, Transfer::InCapsule(length));
        let release = taken.unwrap().with(&vec![7; length as usize]).unwrap();
        assert_eq!(
            release,
            Wanted::Release { current: 0x0707_0707_0707_0707, kind: WriteExclusive }
        );
    }
    // Data that is shorter than it was said to be.
    let release = Reserve::Clear;
    assert_eq!(release.with(&[0; 7]), Err(Status::DataLength));
    let acquire = Reserve::Acquire { preempts: true, kind: WriteExclusive };
    assert_eq!(acquire.with(&[0; 15]), Err(Status::DataLength));
}

#[test]
fn what_nvme_refuses_is_refused_before_the_volume_is_asked() {
    let conflict = Err(Status::ReservationConflict);
    let change = |host, wanted: Wanted| wanted.change(host, &present(Some(WriteExclusive)));
    let is_persistent = Some(true);
    let register = |key| Wanted::Register { key, is_persistent };
    let made = |host, expected, key| {
        let expected = Some(expected);
        Ok(Some(ReservationChange::Register { host, expected, key, is_persistent }))
    };
    assert_eq!(change(C, register(30)), made(C, 0, 30));
    assert_eq!(change(A, register(10)), made(A, 10, 10), "registered already");
    assert_eq!(change(A, register(11)), conflict, "with another key");

    let unregister = |current| Wanted::Unregister { current, is_persistent };
    assert_eq!(change(A, unregister(Some(10))), made(A, 10, 0));
    assert_eq!(change(A, unregister(None)), made(A, 10, 0));
    assert_eq!(change(A, unregister(Some(20))), conflict, "the key of another one");
    assert_eq!(change(C, unregister(None)), conflict, "not registered");

    let replace = |current, key| Wanted::Replace { current, key, is_persistent };
    assert_eq!(change(B, replace(Some(20), 21)), made(B, 20, 21));
    assert_eq!(change(B, replace(Some(10), 21)), conflict);
    assert_eq!(change(C, replace(Some(0), 30)), conflict, "not registered");
    assert_eq!(change(C, replace(None, 30)), made(C, 0, 30), "whether it is or not");

    for host in [A, C] {
        assert_eq!(change(host, Wanted::Clear { current: 20 }), conflict);
        let release = Wanted::Release { current: 20, kind: WriteExclusive };
        assert_eq!(change(host, release), conflict);
    }
    let release = Wanted::Release { current: 20, kind: ExclusiveAccess };
    assert_eq!(change(B, release), Err(Status::InvalidField), "it is of another type");
    assert!(change(B, Wanted::Release { current: 20, kind: WriteExclusive }).is_ok());
    assert_eq!(change(C, Wanted::Report), Ok(None));
}

#[test]
fn a_report_names_all_registrants() {
    let page = report(&present(Some(WriteExclusive)));
    let mut expected = vec![0; 64 + 2 * 64];
    (expected[0], expected[4], expected[5], expected[9]) = (7, 1, 2, 1);
    for (at, key, holds, host) in [(64, 10, 1, 0xa), (128, 20, 0, 0xb)] {
        (expected[at], expected[at + 1], expected[at + 2]) = (0xff, 0xff, holds);
        (expected[at + 8], expected[at + 31]) = (key, host);
    }
    assert_eq!(page, expected);
    let page = report(&present(Some(ExclusiveAccessAll)));
    assert_eq!((page[4], page[66], page[130]), (6, 1, 1), "all hold it");
    assert_eq!(report(&Reservations::default()), [0; 64]);
}

#[test]
fn only_the_extended_format_holds_a_host_identifier() {
    let ask = |dwords: u32, how: u32| {
        let mut bytes = [0; 64];
        bytes[40..44].copy_from_slice(&(dwords - 1).to_le_bytes());
        bytes[44..48].copy_from_slice(&how.to_le_bytes());
        Entry::read(&bytes)
    };
    assert_eq!(report_length(&ask(16, 1), Transfer::ToHost(64)), Ok(64));
    assert_eq!(report_length(&ask(16, 0), Transfer::ToHost(64)), Err(Status::HostIdentifier));
    for transfer in [Transfer::None, Transfer::ToHost(60), Transfer::ToHost(68)] {
        assert_eq!(report_length(&ask(16, 1), transfer), Err(Status::DataLength));
    }
    let all = Entry::read(&{
        let mut bytes = [0xff; 64];
        bytes[0] = 0x0e;
        bytes
    });
    assert_eq!(report_length(&all, Transfer::ToHost(0)), Err(Status::DataLength));
}

/// Who is told of a change that leads from one to the other.
fn reported(
    change: ReservationChange,
    before: &Reservations,
    after: &Reservations,
) -> Vec<(HostId, ReservationNotice)> {
    notices(&change, before, after)
}

#[test]
fn each_host_learns_what_concerns_it() {
    use ReservationNotice::*;
    let with_c = |held| {
        let mut all = present(held);
        all.registrants.push(Registrant { host: C, key: 30 });
        all
    };
    let without = |mut from: Reservations, host| {
        from.registrants.retain(|registrant| registrant.host != host);
        from.held = from.held.filter(|held| held.holder != host);
        from
    };
    let (kind, held) = (WriteExclusiveRegistrants, Some(WriteExclusiveRegistrants));
    let preempt = ReservationChange::Preempt { host: B, key: 20, victim: 10, kind };
    let mut after = without(with_c(held), A);
    after.held = Some(Reservation { kind, holder: B });
    let expected = [(A, RegistrationPreempted), (C, ReservationReleased)];
    assert_eq!(reported(preempt, &with_c(held), &after), expected);
    // One that does not hold it: the reservation stays.
    let preempt = ReservationChange::Preempt { host: A, key: 10, victim: 20, kind };
    let after = without(with_c(held), B);
    assert_eq!(reported(preempt, &with_c(held), &after), [(B, RegistrationPreempted)]);
    assert_eq!(reported(preempt, &with_c(held), &with_c(held)), [], "it was refused");

    let nobody = Reservations::default();
    let clear = ReservationChange::Clear { host: A, key: 10 };
    let expected = [(B, ReservationPreempted), (C, ReservationPreempted)];
    assert_eq!(reported(clear, &with_c(held), &nobody), expected);
    let drop = reported(ReservationChange::Drop, &present(None), &nobody);
    assert_eq!(drop, [(A, ReservationPreempted), (B, ReservationPreempted)]);

    let release = ReservationChange::Release { host: A, key: 10, kind };
    assert_eq!(reported(release, &present(held), &present(None)), [(B, ReservationReleased)]);
    let release = ReservationChange::Release { host: A, key: 10, kind: WriteExclusive };
    assert_eq!(reported(release, &present(Some(WriteExclusive)), &present(None)), []);

    let is_persistent = None;
    let unregister =
        ReservationChange::Register { host: A, expected: Some(10), key: 0, is_persistent };
    let after = without(present(held), A);
    assert_eq!(reported(unregister, &present(held), &after), [(B, ReservationReleased)]);
    // One that all hold stays.
    let mut after = without(present(Some(WriteExclusiveAll)), A);
    after.held = Some(Reservation { kind: WriteExclusiveAll, holder: B });
    assert_eq!(reported(unregister, &present(Some(WriteExclusiveAll)), &after), []);
    let reserve = ReservationChange::Reserve { host: A, key: 10, kind };
    assert_eq!(reported(reserve, &present(None), &present(held)), []);
}

proptest! {
    #[test]
    fn no_input_panics(opcode in 0..32u8, word: u32, data: Vec<u8>, length in 0..40u32) {
        if let Some(command) = Nvm::from_number(opcode) {
            for transfer in [Transfer::InCapsule(length), Transfer::ToHost(length)] {
                if let Ok(reserve) = Reserve::read(command, &entry(opcode, word), transfer)
                    && let Ok(wanted) = reserve.with(&data)
                {
                    let _ = wanted.change(A, &present(Some(WriteExclusiveAll)));
                }
            }
        }
    }
}
