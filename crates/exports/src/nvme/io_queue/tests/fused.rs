//! Compare and Write: what a host may do right and wrong with its halves.

use super::*;

const FIRST: u8 = 1;
const SECOND: u8 = 2;

/// A half on so many blocks from block 8 on.
fn half(opcode: u8, identifier: u16, part: u8, kind: u8, count: u16) -> [u8; 64] {
    let mut bytes = on_blocks(opcode, identifier, kind, u32::from(count) * 512, count);
    bytes[1] |= part;
    bytes
}

pub(super) fn compare(identifier: u16, kind: u8, count: u16) -> [u8; 64] {
    half(0x05, identifier, FIRST, kind, count)
}

pub(super) fn write_behind(identifier: u16, kind: u8, count: u16) -> [u8; 64] {
    half(0x01, identifier, SECOND, kind, count)
}

/// What the volume is asked; there is nothing else.
fn asked(bench: &Bench) -> (u64, Vec<u8>, Vec<u8>, bool) {
    assert_eq!(bench.submitted.len(), 1);
    let Operation::CompareAndWrite { offset, expected, payload, durable } = &bench.submitted[0].1
    else {
        panic!("{:?}", bench.submitted)
    };
    (*offset, expected.to_vec(), payload.to_vec(), *durable)
}

/// The tags of requests for data since the last call, by command.
fn tags(bench: &mut Bench) -> Vec<(u16, u16)> {
    let number = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let pdus = bench.pdus().into_iter();
    pdus.map(|(kind, bytes)| {
        assert_eq!(kind, 9);
        (number(&bytes, 0), number(&bytes, 2))
    })
    .collect()
}

#[test]
fn both_halves_are_one_request_when_the_data_of_both_is_here() {
    let (old, new) = (pattern(1024), [7; 1024]);
    for host in Host::all() {
        for (of_first, of_second) in [
            (IN_CAPSULE, IN_CAPSULE),
            (IN_CAPSULE, ON_REQUEST),
            (ON_REQUEST, IN_CAPSULE),
            (ON_REQUEST, ON_REQUEST),
        ] {
            for second_comes_first in [false, true] {
                let mut bench = Bench::of(host, 1 << 20, Vec::new());
                let mut second = write_behind(4, of_second, 2);
                second[51] = 0x40;
                let data = |kind, data| if kind == IN_CAPSULE { data } else { &[][..] };
                bench.command(&compare(3, of_first, 2), data(of_first, &old));
                bench.command(&second, data(of_second, &new));
                let mut wanted = tags(&mut bench);
                if second_comes_first {
                    wanted.reverse();
                }
                for (command, tag) in wanted {
                    assert!(bench.submitted.is_empty(), "nothing is locked before all is here");
                    let data = if command == 3 { &old[..] } else { &new };
                    bench.receive(&host.data(command, tag, 0, data, true), 99);
                }
                assert_eq!(asked(&bench), (4096, old.clone(), new.to_vec(), true));
                bench.reply(Ok(Reply::Done));
                assert_eq!(bench.answers(), [(3, Status::Success), (4, Status::Success)]);
            }
        }
    }
}

/// A queue whose volume has been asked for commands 3 and 4.
pub(super) fn begun() -> Bench {
    let mut bench = Bench::new(1 << 20);
    bench.command(&compare(3, IN_CAPSULE, 1), &[1; 512]);
    bench.command(&write_behind(4, IN_CAPSULE, 1), &[2; 512]);
    assert_eq!(asked(&bench), (4096, vec![1; 512], vec![2; 512], false));
    bench
}

#[test]
fn what_differs_fails_the_first_half_and_aborts_the_second() {
    for (result, of_first) in [
        (Ok(Reply::Miscompare { at: 3 }), Status::CompareFailure),
        (Err(RequestError::NoData), Status::InternalPath),
        (Err(RequestError::Reserved), Status::ReservationConflict),
        (Err(RequestError::Medium), Status::WriteFault),
        (Ok(Reply::Data(Vec::new())), Status::Internal),
    ] {
        let mut bench = begun();
        bench.reply(result);
        assert_eq!(bench.answers(), [(3, of_first), (4, Status::FusedFailed)]);
        // The slots are free again.
        for round in 0..u16::try_from(SIZE).unwrap() {
            bench.command(&entry(0x00, round, ON_REQUEST, 0), &[]);
        }
        assert_eq!(bench.submitted.len(), SIZE as usize);
    }
}

#[test]
fn a_first_half_without_its_second_is_aborted() {
    let others: [(&[u8; 64], &[u8]); 3] = [
        (&entry(0x00, 4, ON_REQUEST, 0), &[]),
        (&write(4, IN_CAPSULE, 1), &[2; 512]),
        (&compare(4, IN_CAPSULE, 1), &[2; 512]),
    ];
    for kind in [IN_CAPSULE, ON_REQUEST] {
        for (other, data) in others {
            let mut bench = Bench::new(1 << 20);
            let own: &[u8] = if kind == IN_CAPSULE { &[1; 512] } else { &[] };
            bench.command(&compare(3, kind, 1), own);
            let wanted = tags(&mut bench);
            bench.command(other, data);
            let host = bench.host;
            for (command, tag) in wanted {
                // A host is not answered while it may still send.
                assert_eq!(bench.answers(), []);
                bench.receive(&host.data(command, tag, 0, &[1; 512], true), 99);
            }
            assert_eq!(bench.answers(), [(3, Status::FusedMissing)]);
            // What came instead is served, and a second half now is one of that, or of nothing.
            bench.command(&write_behind(5, IN_CAPSULE, 1), &[3; 512]);
            if other[1] & FIRST != 0 {
                assert_eq!(asked(&bench).1, [2; 512]);
            } else {
                assert_eq!(bench.submitted.len(), 1);
                assert_eq!(bench.answers(), [(5, Status::FusedMissing)]);
            }
        }
    }
}

#[test]
fn a_command_that_the_connection_refuses_stands_between_halves_too() {
    let mut bench = Bench::new(1 << 20);
    bench.command(&compare(3, IN_CAPSULE, 1), &[1; 512]);
    // A descriptor of another type.
    bench.command(&on_blocks(0x02, 9, 0x10, 512, 1), &[]);
    assert_eq!(bench.answers(), [(9, Status::DescriptorType), (3, Status::FusedMissing)]);
    bench.command(&write_behind(4, IN_CAPSULE, 1), &[2; 512]);
    assert_eq!(bench.answers(), [(4, Status::FusedMissing)]);
    assert!(bench.submitted.is_empty());
}

#[test]
fn a_half_with_a_wrong_data_pointer_fails_the_other() {
    let wrong = |opcode, identifier, part| half(opcode, identifier, part, 0x10, 1);
    let pointer = Status::DescriptorType;
    let mut bench = Bench::new(1 << 20);
    bench.command(&wrong(0x05, 3, FIRST), &[]);
    bench.command(&write_behind(4, IN_CAPSULE, 1), &[2; 512]);
    assert_eq!(bench.answers(), [(3, pointer), (4, Status::FusedFailed)]);
    bench.command(&compare(3, IN_CAPSULE, 1), &[1; 512]);
    bench.command(&wrong(0x01, 4, SECOND), &[]);
    assert_eq!(bench.answers(), [(3, Status::FusedFailed), (4, pointer)]);
    // Several at once: a second half that fails the first, and a first one that fails the next.
    bench.command(&compare(3, IN_CAPSULE, 1), &[1; 512]);
    let host = bench.host;
    let several = [
        host.capsule(&wrong(0x01, 4, SECOND), &[]),
        host.capsule(&wrong(0x05, 5, FIRST), &[]),
        host.capsule(&write_behind(6, IN_CAPSULE, 1), &[2; 512]),
    ];
    bench.receive(&several.concat(), 9999);
    let failed = Status::FusedFailed;
    assert_eq!(bench.answers(), [(3, failed), (4, pointer), (5, pointer), (6, failed)]);
    assert!(bench.submitted.is_empty());
}

#[test]
fn halves_that_do_not_belong_together_are_refused() {
    let mut elsewhere = write_behind(4, IN_CAPSULE, 1);
    elsewhere[40] = 9;
    let mut of_other = write_behind(4, IN_CAPSULE, 1);
    of_other[4] = 2;
    let invalid = Status::InvalidField;
    for (second, of_first, of_second) in [
        // Other blocks, more blocks.
        (elsewhere, invalid, invalid),
        (write_behind(4, IN_CAPSULE, 2), invalid, invalid),
        // No write, no such namespace.
        (half(0x05, 4, SECOND, IN_CAPSULE, 1), Status::FusedFailed, invalid),
        (of_other, Status::FusedFailed, Status::InvalidNamespace),
    ] {
        let mut bench = Bench::new(1 << 20);
        bench.command(&compare(3, IN_CAPSULE, 1), &[1; 512]);
        let length = usize::from(second[48] + 1) * 512;
        bench.command(&second, &vec![2; length]);
        assert_eq!(bench.answers(), [(3, of_first), (4, of_second)]);
        assert!(bench.submitted.is_empty());
        bench.command(&write_behind(5, IN_CAPSULE, 1), &[2; 512]);
        assert_eq!(bench.answers(), [(5, Status::FusedMissing)]);
    }
}

#[test]
fn a_first_half_that_is_refused_fails_the_second() {
    let mut of_other = compare(3, IN_CAPSULE, 1);
    of_other[4] = 2;
    for (first, status) in [
        (half(0x01, 3, FIRST, IN_CAPSULE, 1), Status::InvalidField),
        (of_other, Status::InvalidNamespace),
    ] {
        let mut bench = Bench::new(1 << 20);
        bench.command(&first, &[1; 512]);
        bench.command(&write_behind(4, IN_CAPSULE, 1), &[2; 512]);
        assert_eq!(bench.answers(), [(3, status), (4, Status::FusedFailed)]);
    }
    let mut bench = Bench::new(1 << 20);
    bench.command(&compare(3, ON_REQUEST, 129), &[]);
    bench.command(&write_behind(4, ON_REQUEST, 129), &[]);
    let expected = [(3, Status::AtomicUnitExceeded), (4, Status::FusedFailed)];
    assert_eq!(bench.answers(), expected);
    assert!(bench.submitted.is_empty());
}

#[test]
fn a_host_may_not_write_what_is_read_only() {
    let mut bench = Bench::new(1 << 20);
    bench.front_end.queue.namespace.is_read_only = true;
    bench.command(&compare(3, IN_CAPSULE, 1), &[1; 512]);
    bench.command(&write_behind(4, IN_CAPSULE, 1), &[2; 512]);
    assert_eq!(bench.answers(), [(3, Status::FusedFailed), (4, Status::WriteProtected)]);
    assert!(bench.submitted.is_empty());
}

#[test]
fn a_half_whose_data_is_damaged_fails_the_other() {
    let host = Host { data_digest: true, ..Host::default() }.agreed();
    let damaged = |entry: &[u8; 64], data: &[u8]| {
        let mut capsule = host.capsule(entry, data);
        *capsule.last_mut().unwrap() ^= 1;
        capsule
    };
    let (first, second) = (compare(3, IN_CAPSULE, 1), write_behind(4, IN_CAPSULE, 1));
    for is_first in [true, false] {
        let mut bench = Bench::of(host, 1 << 20, Vec::new());
        let of = |is_damaged, entry, data| {
            if is_damaged { damaged(entry, data) } else { host.capsule(entry, data) }
        };
        bench.receive(&of(is_first, &first, &[1; 512]), 9999);
        bench.receive(&of(!is_first, &second, &[2; 512]), 9999);
        let mut expected = [(3, Status::TransientTransport), (4, Status::FusedFailed)];
        if !is_first {
            expected = [(3, Status::FusedFailed), (4, Status::TransientTransport)];
        }
        assert_eq!(bench.answers(), expected);
        assert!(bench.submitted.is_empty());
        // Nothing of it is left.
        bench.command(&first, &[1; 512]);
        bench.command(&second, &[2; 512]);
        assert_eq!(asked(&bench).1, [1; 512]);
    }
}

#[test]
fn room_for_both_halves_is_made_with_the_first() {
    // For three of 16 blocks, and not for four.
    let mut bench = Bench::new(3 * 8192 + 4096);
    let (old, new) = (pattern(8192), [9; 8192]);
    bench.command(&write(1, ON_REQUEST, 16), &[]);
    let host = bench.host;
    let tag = bench.requested();
    bench.command(&compare(3, ON_REQUEST, 16), &[]);
    bench.command(&write_behind(4, ON_REQUEST, 16), &[]);
    assert_eq!(bench.pdus(), [], "there is no room for all of it");
    // The write before makes room.
    bench.receive(&host.data(1, tag, 0, &old, true), 9999);
    bench.reply(Ok(Reply::Done));
    assert_eq!(bench.pdus().len(), 3);
    bench.seen = bench.sent.len() - 2 * 24;
    for (command, tag) in tags(&mut bench) {
        let data = if command == 3 { &old[..] } else { &new };
        bench.receive(&host.data(command, tag, 0, data, true), 99_999);
    }
    assert_eq!(asked(&bench).1, old);
}

/// Its data comes next, and behind it may come what the memory is held for.
#[test]
fn a_half_in_a_capsule_without_room_is_interrupted() {
    let answers = [(3, Status::Interrupted), (4, Status::FusedFailed)];
    for of_second in [IN_CAPSULE, ON_REQUEST] {
        let mut bench = Bench::new(3 * 4096);
        let room = bench.context.allocate(4096);
        bench.command(&compare(3, IN_CAPSULE, 1), &[1; 512]);
        let data: &[u8] = if of_second == IN_CAPSULE { &[2; 512] } else { &[] };
        bench.command(&write_behind(4, of_second, 1), data);
        assert_eq!(bench.answers(), answers);
        drop(room);
        // The host tries again.
        bench.command(&compare(3, IN_CAPSULE, 1), &[1; 512]);
        bench.command(&write_behind(4, IN_CAPSULE, 1), &[2; 512]);
        assert_eq!(asked(&bench).1, [1; 512]);
    }
    let mut bench = Bench::new(3 * 4096);
    let _room = bench.context.allocate(4096);
    bench.command(&compare(3, ON_REQUEST, 1), &[]);
    assert_eq!(bench.answers(), [], "it waits");
    bench.command(&write_behind(4, IN_CAPSULE, 1), &[2; 512]);
    assert_eq!(bench.answers(), answers);
    assert!(bench.lent.is_some() && bench.submitted.is_empty());
}

/// Base 3.4.2.
#[test]
fn the_first_half_is_answered_first() {
    // One on request whose data is due, before a second one that is refused, does not match, or has
    // no sound data pointer.
    let mut elsewhere = write_behind(4, ON_REQUEST, 1);
    elsewhere[40] = 9;
    let mut of_other = write_behind(4, ON_REQUEST, 1);
    of_other[4] = 2;
    for (second, of_first, of_second) in [
        (elsewhere, Status::InvalidField, Status::InvalidField),
        (of_other, Status::FusedFailed, Status::InvalidNamespace),
        (half(0x01, 4, SECOND, 0x10, 1), Status::FusedFailed, Status::DescriptorType),
    ] {
        let mut bench = Bench::new(1 << 20);
        bench.command(&compare(3, ON_REQUEST, 1), &[]);
        let tag = bench.requested();
        bench.command(&second, &[]);
        assert_eq!(bench.answers(), []);
        let host = bench.host;
        bench.receive(&host.data(3, tag, 0, &[1; 512], true), 9999);
        assert_eq!(bench.answers(), [(3, of_first), (4, of_second)]);
        assert_eq!(bench.front_end.queue.connection.find(4), None);
    }
}

/// As in the one before, but for the order of their slots.
#[test]
fn a_second_half_with_the_lower_slot_is_answered_second() {
    let has_lower = |bench: &Bench| {
        let tag = |identifier| bench.front_end.queue.connection.find(identifier).unwrap().index();
        tag(4) < tag(3)
    };
    let of_both = |status| [(3, status), (4, status)];
    let mut bench = Bench::new(1 << 20);
    bench.command(&entry(0x00, 1, ON_REQUEST, 0), &[]);
    bench.command(&compare(3, IN_CAPSULE, 1), &[1; 512]);
    bench.reply(Ok(Reply::Done));
    bench.answers();
    bench.command(&write_behind(4, IN_CAPSULE, 1), &[2; 512]);
    assert!(has_lower(&bench));
    bench.event(FrontendEvent::Stopping);
    assert_eq!(bench.answers(), of_both(Status::InternalPath));

    let mut bench = Bench::new(3 * 4096);
    let _room = bench.context.allocate(4096);
    bench.command(&entry(0x00, 1, ON_REQUEST, 0), &[]);
    bench.command(&compare(3, ON_REQUEST, 1), &[]);
    bench.reply(Ok(Reply::Done));
    bench.answers();
    bench.command(&write_behind(4, ON_REQUEST, 1), &[]);
    assert!(has_lower(&bench));
    bench.command(&disconnect(5), &[]);
    assert_eq!(bench.answers(), of_both(Status::QueueDeleted));
    bench.drained();
    assert_eq!(bench.answers(), [(5, Status::Success)]);
}

#[test]
fn a_host_that_keeps_its_second_half_back_keeps_nobody_waiting() {
    let mut bench = Bench::new(3 * 4096);
    bench.command(&compare(3, IN_CAPSULE, 1), &[1; 512]);
    assert!(bench.wake());
    bench.drained();
    assert!(bench.ended.is_some(), "others need the memory");
    let mut bench = Bench::new(1 << 20);
    bench.command(&compare(3, IN_CAPSULE, 1), &[1; 512]);
    assert!(bench.wake() && bench.ended.is_none());
}

/// What a host holds with pairs whose data it keeps back.
#[test]
fn unfinished_pairs_hold_three_times_their_length_of_the_volumes_memory() {
    const PAIR: usize = 3 * crate::nvme::io::MAX_FUSED as usize;
    const HALF: u16 = 128;
    let mut bench = Bench::new(2 * PAIR + PAIR / 2);
    for first in [2, 4, 6] {
        bench.command(&compare(first, ON_REQUEST, HALF), &[]);
        bench.command(&write_behind(first + 1, ON_REQUEST, HALF), &[]);
    }
    let begun: Vec<_> = tags(&mut bench).into_iter().map(|(command, _)| command).collect();
    assert_eq!(begun, [2, 3, 4, 5], "the third pair waits, and holds nothing");
    assert!(bench.context.reserve([PAIR / 3]).is_some(), "of its three parts one would fit");
    // Its time is over: others need what it holds.
    assert!(bench.wake());
    bench.drained();
    assert!(bench.ended.is_some());
    assert!(bench.context.reserve([PAIR / 3; 7]).is_some(), "all of it is back");
}

#[test]
fn a_queue_ends_with_the_halves_that_have_not_begun() {
    let mut bench = Bench::new(1 << 20);
    bench.command(&compare(3, IN_CAPSULE, 1), &[1; 512]);
    bench.command(&write_behind(4, ON_REQUEST, 1), &[]);
    tags(&mut bench);
    bench.command(&disconnect(5), &[]);
    assert_eq!(bench.answers()[0], (3, Status::QueueDeleted));

    let mut bench = begun();
    bench.command(&disconnect(5), &[]);
    assert_eq!(bench.answers(), [], "what the volume has begun is awaited");
    bench.reply(Ok(Reply::Done));
    assert_eq!(bench.answers(), [(3, Status::Success), (4, Status::Success)]);
    bench.drained();
    assert_eq!(bench.answers(), [(5, Status::Success)]);

    let mut bench = begun();
    bench.event(FrontendEvent::Stopping);
    assert_eq!(bench.answers(), [(3, Status::InternalPath), (4, Status::InternalPath)]);

    let mut bench = begun();
    bench.receive(&[0x55; 8], 99);
    bench.drain();
    assert!(bench.ended.is_none());
    bench.reply(Ok(Reply::Miscompare { at: 0 }));
    assert!(bench.ended.is_none(), "replicas may read it still");
    bench.drained();
    assert!(bench.ended.is_some());
}

#[test]
fn a_first_half_without_room_does_not_wake_itself() {
    let mut bench = Bench::new(3 * 4096);
    let held = bench.context.allocate(4096);
    // Two of its three buffers would fit.
    bench.command(&compare(3, ON_REQUEST, 1), &[]);
    for _ in 0..3 {
        assert!(!bench.context.is_woken(), "nothing has returned");
        bench.event(FrontendEvent::MemoryAvailable);
    }
    assert_eq!(tags(&mut bench), []);
    drop(held);
    assert!(bench.context.is_woken());
    bench.event(FrontendEvent::MemoryAvailable);
    assert_eq!(tags(&mut bench).len(), 1);
}

#[test]
fn the_volume_reads_into_the_room_that_the_first_half_made() {
    let mut bench = Bench::new(3 * 4096);
    bench.command(&compare(3, IN_CAPSULE, 1), &[1; 512]);
    bench.command(&write_behind(4, ON_REQUEST, 1), &[]);
    let wanted = tags(&mut bench);
    bench.command(&write(5, ON_REQUEST, 1), &[]);
    assert!(!bench.context.is_woken());
    let host = bench.host;
    bench.receive(&host.data(4, wanted[0].1, 0, &[2; 512], true), 9999);
    asked(&bench);
    assert_eq!(bench.rooms.len(), 1);
    assert!(!bench.context.is_woken(), "no room has returned that another command could take");
}
