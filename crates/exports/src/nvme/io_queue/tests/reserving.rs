//! Commands about reservations, which the control plane answers.

use evenkeel_core::view::ReservationKind;

use super::*;

const REGISTER: u8 = 0x0d;
const REPORT: u8 = 0x0e;
const ACQUIRE: u8 = 0x11;
const RELEASE: u8 = 0x15;

/// One with this dword 10 and so many bytes of data.
fn reserve(opcode: u8, identifier: u16, word: u32, kind: u8, length: u32) -> [u8; 64] {
    let mut bytes = entry(opcode, identifier, kind, length);
    bytes[40..44].copy_from_slice(&word.to_le_bytes());
    bytes
}

fn report(identifier: u16, length: u32) -> [u8; 64] {
    let mut bytes = reserve(REPORT, identifier, length / 4 - 1, ON_REQUEST, length);
    bytes[44] = 1;
    bytes
}

fn keys(keys: [u64; 2]) -> Vec<u8> {
    keys.iter().flat_map(|key| key.to_le_bytes()).collect()
}

impl Bench {
    /// What was asked since the last call.
    fn asks(&self) -> Vec<Wanted> {
        self.asked.try_iter().map(|(_, wanted)| wanted).collect()
    }

    /// The control plane answers what was asked first.
    fn answer_asked(&mut self, answer: Result<Vec<u8>, Status>) {
        let (number, _) = self.asked.try_recv().unwrap();
        self.reservations.answer(number, answer);
        self.event(FrontendEvent::Reported { what: RESERVATIONS_ANSWERED });
    }

    /// A queue whose host has registered, which is under way.
    fn registering() -> Self {
        let mut bench = Self::new(1 << 20);
        bench.command(&reserve(REGISTER, 3, 0, IN_CAPSULE, 16), &keys([0, 7]));
        assert_eq!((bench.answers(), bench.submitted.len()), (vec![], 0));
        bench
    }
}

#[test]
fn each_command_is_asked_with_its_keys_and_answered() {
    for host in Host::all() {
        let mut bench = Bench::of(host, 1 << 20, Vec::new());
        bench.command(&reserve(REGISTER, 3, 3 << 30, IN_CAPSULE, 16), &keys([0, 7]));
        bench.command(&reserve(ACQUIRE, 4, 1 << 8, ON_REQUEST, 16), &[]);
        let tag = bench.requested();
        bench.receive(&host.data(4, tag, 0, &keys([7, 0]), true), 5);
        bench.command(&reserve(RELEASE, 5, 1, IN_CAPSULE, 8), &7u64.to_le_bytes());
        let asked: Vec<_> = bench.asked.try_iter().collect();
        let wanted: Vec<_> = asked.iter().map(|(_, wanted)| *wanted).collect();
        let kind = ReservationKind::WriteExclusive;
        let expected = [
            Wanted::Register { key: 7, is_persistent: Some(true) },
            Wanted::Acquire { current: 7, kind },
            Wanted::Clear { current: 7 },
        ];
        assert_eq!(wanted, expected);
        // Answered in another order, all at once.
        bench.reservations.answer(asked[2].0, Err(Status::ReservationConflict));
        bench.reservations.answer(asked[0].0, Ok(Vec::new()));
        bench.event(FrontendEvent::Reported { what: RESERVATIONS_ANSWERED });
        assert_eq!(bench.answers(), [(5, Status::ReservationConflict), (3, Status::Success)]);
        bench.reservations.answer(asked[1].0, Err(Status::InvalidField));
        bench.event(FrontendEvent::Reported { what: RESERVATIONS_ANSWERED });
        assert_eq!(bench.answers(), [(4, Status::InvalidField)]);
        assert!(bench.submitted.is_empty(), "the volume has nothing to do with it");
    }
}

#[test]
fn a_report_is_as_long_as_the_host_takes() {
    for host in Host::all() {
        for length in [4, 64, 128, 4096, 1 << 20] {
            let mut bench = Bench::of(host, 2 << 20, Vec::new());
            bench.command(&report(3, length), &[]);
            bench.answer_asked(Ok(pattern(192)));
            let mut expected = pattern(192);
            expected.resize(length as usize, 0);
            let pdus = bench.pdus();
            let start = 16 + if host.header_digest { 4 } else { 0 };
            assert_eq!((pdus.len(), pdus[0].0), (1, 7));
            assert!(pdus[0].1[start..start + length as usize] == expected);
        }
    }
    let mut bench = Bench::new(1 << 20);
    bench.command(&report(3, 64), &[]);
    bench.answer_asked(Err(Status::InternalPath));
    assert_eq!(bench.answers(), [(3, Status::InternalPath)]);
}

#[test]
fn a_report_waits_for_memory() {
    let mut bench = Bench::new(8192);
    let room = bench.context.allocate(8192);
    bench.command(&report(3, 4096), &[]);
    assert_eq!(bench.asks(), []);
    drop(room);
    bench.event(FrontendEvent::MemoryAvailable);
    assert_eq!(bench.asks(), [Wanted::Report]);
}

#[test]
fn what_is_wrong_is_never_asked() {
    let mut bench = Bench::new(1 << 20);
    bench.command(&reserve(REGISTER, 1, 0, IN_CAPSULE, 16), &keys([0, 0]));
    bench.command(&reserve(ACQUIRE, 2, 9 << 8, IN_CAPSULE, 16), &keys([1, 2]));
    bench.command(&reserve(RELEASE, 3, 1, IN_CAPSULE, 12), &keys([1, 2])[..12]);
    let mut short = report(4, 64);
    short[44] = 0;
    bench.command(&short, &[]);
    let mut elsewhere = reserve(REGISTER, 5, 0, IN_CAPSULE, 16);
    elsewhere[4] = 2;
    bench.command(&elsewhere, &keys([0, 1]));
    let mut half = reserve(REGISTER, 6, 0, IN_CAPSULE, 16);
    half[1] |= 2;
    bench.command(&half, &keys([0, 1]));
    let expected = [
        (1, Status::InvalidField),
        (2, Status::InvalidField),
        (3, Status::DataLength),
        (4, Status::HostIdentifier),
        (5, Status::InvalidNamespace),
        (6, Status::FusedMissing),
    ];
    assert_eq!((bench.answers(), bench.asks()), (expected.to_vec(), vec![]));
}

#[test]
fn a_volume_without_reservations_has_no_such_commands() {
    let mut bench = Bench::new(1 << 20);
    bench.front_end.queue.namespace.has_reservations = false;
    bench.command(&reserve(REGISTER, 1, 0, IN_CAPSULE, 16), &keys([0, 1]));
    bench.command(&report(2, 64), &[]);
    assert_eq!(bench.answers(), [(1, Status::InvalidOpcode), (2, Status::InvalidOpcode)]);
}

/// As long as it is not known what becomes of it, the queue is not gone.
#[test]
fn a_queue_ends_when_its_reservations_are_answered() {
    let mut bench = Bench::registering();
    bench.command(&disconnect(9), &[]);
    bench.drained();
    assert_eq!(bench.answers(), []);
    bench.answer_asked(Ok(Vec::new()));
    assert_eq!(bench.answers(), [(3, Status::Success), (9, Status::Success)]);
    bench.drain();
    assert!(bench.ended.is_some());

    // In the other order; and the host is gone.
    let mut bench = Bench::registering();
    bench.event(FrontendEvent::Reported { what: CLOSED });
    bench.answer_asked(Ok(Vec::new()));
    assert!(bench.ended.is_none(), "the volume may have something");
    bench.drained();
    assert!(bench.ended.is_some());

    let mut bench = Bench::registering();
    bench.event(FrontendEvent::Stopping);
    assert_eq!(bench.answers(), [(3, Status::InternalPath)]);
    bench.answer_asked(Ok(Vec::new()));
    assert_eq!(bench.answers(), []);
}

#[test]
fn what_the_control_plane_has_is_not_aborted() {
    let mut bench = Bench::registering();
    bench.abort(3);
    assert_eq!((bench.said(), bench.cancelled.len()), (vec![], 0));
    bench.answer_asked(Ok(Vec::new()));
    assert_eq!(bench.said(), [(3, false)]);
    assert_eq!(bench.answers(), [(3, Status::Success)]);
    // One whose keys have not come is.
    bench.command(&reserve(ACQUIRE, 4, 1 << 8, ON_REQUEST, 16), &[]);
    let tag = bench.requested();
    bench.abort(4);
    assert_eq!(bench.said(), [(4, true)]);
    let host = bench.host;
    bench.receive(&host.data(4, tag, 0, &keys([7, 0]), true), 99);
    assert_eq!((bench.answers(), bench.asks()), (vec![(4, Status::AbortRequested)], vec![]));
}

/// They count among the commands that write, and the volume does not refuse them.
#[test]
fn a_host_that_may_not_write_neither_flushes_nor_gives_hints() {
    let mut bench = Bench::new(1 << 20);
    let flush = |identifier| entry(0x00, identifier, ON_REQUEST, 0);
    let hint = |identifier| entry(0x09, identifier, IN_CAPSULE, 16);
    bench.command(&flush(1), &[]);
    bench.reply(Ok(Reply::Done));
    bench.command(&hint(2), &[0; 16]);
    assert_eq!(bench.answers(), [(1, Status::Success), (2, Status::Success)]);
    bench.excluded.store(true, Ordering::Relaxed);
    bench.command(&flush(3), &[]);
    bench.command(&hint(4), &[0; 16]);
    let conflict = Status::ReservationConflict;
    assert_eq!(bench.answers(), [(3, conflict), (4, conflict)]);
    bench.command(&read(5, 1), &[]);
    assert_eq!(bench.submitted.len(), 1, "of others the volume decides");
}
