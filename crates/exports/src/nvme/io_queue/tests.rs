mod aborting;
mod fused;
mod reserving;

use std::ops::{Deref, DerefMut};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};

use evenkeel_core::{Operation, Reply, RequestError};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::nvme::command::{COMPLETION_LENGTH, Completion, Status};
use crate::nvme::connection::tests::host::{Host, IN_CAPSULE, ON_REQUEST, SIZE, entry, open};
use crate::nvme::reservation::Wanted;
use crate::stream::bench::{Streaming, pattern};
use crate::stream::{self, RECEIVE_BUFFER};

const NAMESPACE: Namespace = Namespace {
    identifier: [7; 16],
    size: 64 << 20,
    block_size: 512,
    best_write: 4096,
    is_read_only: false,
    has_reservations: true,
};

impl Streaming for Queue {
    fn stream(&self) -> &Stream {
        &self.stream
    }
}

/// A queue of a host.
struct Bench {
    bench: stream::bench::Bench<Queue>,
    host: Host,
    is_deleted: Arc<AtomicBool>,
    /// What it says of the commands that were to be aborted.
    aborted: Receiver<(u16, bool)>,
    /// What it asks about reservations, where the answers go, and whether its host may not write.
    asked: Receiver<(u16, Wanted)>,
    reservations: ReservationAnswers,
    excluded: Arc<AtomicBool>,
    /// How far the bytes that were sent have been looked at.
    seen: usize,
}

impl Deref for Bench {
    type Target = stream::bench::Bench<Queue>;

    fn deref(&self) -> &Self::Target {
        &self.bench
    }
}

impl DerefMut for Bench {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.bench
    }
}

impl Bench {
    fn new(memory: usize) -> Self {
        Self::of(Host::default(), memory, Vec::new())
    }

    fn of(host: Host, memory: usize, rest: Vec<u8>) -> Self {
        let (socket, _) = UnixStream::pair().unwrap();
        let is_deleted = Arc::new(AtomicBool::new(false));
        let deleted = is_deleted.clone();
        let (reported, aborted) = channel();
        let (asks, asked) = channel();
        let (reservations, excluded) =
            (ReservationAnswers::default(), Arc::<AtomicBool>::default());
        let reserving = Reserving {
            ask: Box::new(move |number, wanted| asks.send((number, wanted)).unwrap()),
            answers: reservations.clone(),
            excluded: excluded.clone(),
        };
        let queue = IoQueue {
            connection: open(&host, true),
            namespace: NAMESPACE,
            size: Arc::new(AtomicU64::new(NAMESPACE.size)),
            host: HostId(5),
            rest,
            deleted: Box::new(move || deleted.store(true, Ordering::Relaxed)),
            aborted: Box::new(move |command, is_aborted| {
                // The bench may be gone.
                let _ = reported.send((command, is_aborted));
            }),
            reserving: Some(reserving),
        };
        let queue = Queue::new(socket.into(), queue);
        let bench = stream::bench::Bench::new(queue, Some(HostId(5)), memory);
        Self { bench, host, is_deleted, aborted, asked, reservations, excluded, seen: 0 }
    }

    fn command(&mut self, entry: &[u8; 64], data: &[u8]) {
        let capsule = self.host.capsule(entry, data);
        assert!(self.receive(&capsule, 99_999).is_empty());
    }

    fn reply(&mut self, result: Result<Reply<Buffer>, RequestError>) {
        let (token, _) = self.submitted.remove(0);
        self.event(FrontendEvent::Reply { token, result });
    }

    /// The host wants a command aborted.
    fn abort(&mut self, command: u16) {
        self.event(FrontendEvent::Reported { what: abort(command) });
    }

    /// What was said of those since the last call.
    fn said(&self) -> Vec<(u16, bool)> {
        self.aborted.try_iter().collect()
    }

    fn data(&mut self, bytes: &[u8]) -> Result<Reply<Buffer>, RequestError> {
        // In pieces that don't end where blocks do.
        let mut pieces = Vec::new();
        for (index, piece) in bytes.chunks(300).enumerate() {
            pieces.push(((index * 300) as u32, self.buffer(piece)));
        }
        Ok(Reply::Data(pieces))
    }

    /// PDUs since the last call: type and the bytes behind the common header.
    fn pdus(&mut self) -> Vec<(u8, Vec<u8>)> {
        let mut pdus = Vec::new();
        while self.seen < self.sent.len() {
            let pdu = &self.sent[self.seen..];
            let length = u32::from_le_bytes(pdu[4..8].try_into().unwrap()) as usize;
            pdus.push((pdu[0], pdu[8..length].to_vec()));
            self.seen += length;
        }
        pdus
    }

    /// The answers since the last call; there is nothing else.
    fn answers(&mut self) -> Vec<(u16, Status)> {
        let pdus = self.pdus().into_iter();
        pdus.map(|(kind, bytes)| {
            assert_eq!(kind, 5);
            let completion: [u8; COMPLETION_LENGTH] = bytes[..16].try_into().unwrap();
            let completion = Completion::read(&completion).unwrap();
            (completion.identifier, completion.status)
        })
        .collect()
    }

    /// The tag of the one request for data since the last call.
    fn requested(&mut self) -> u16 {
        let pdus = self.pdus();
        assert_eq!((pdus.len(), pdus[0].0), (1, 9));
        u16::from_le_bytes(pdus[0].1[2..4].try_into().unwrap())
    }
}

/// A command on so many blocks from block 8 on.
fn on_blocks(opcode: u8, identifier: u16, kind: u8, length: u32, count: u16) -> [u8; 64] {
    let mut bytes = entry(opcode, identifier, kind, length);
    bytes[40] = 8;
    bytes[48..50].copy_from_slice(&(count - 1).to_le_bytes());
    bytes
}

fn read(identifier: u16, count: u16) -> [u8; 64] {
    on_blocks(0x02, identifier, ON_REQUEST, u32::from(count) * 512, count)
}

fn write(identifier: u16, kind: u8, count: u16) -> [u8; 64] {
    on_blocks(0x01, identifier, kind, u32::from(count) * 512, count)
}

fn disconnect(identifier: u16) -> [u8; 64] {
    let mut bytes = entry(0x7f, identifier, ON_REQUEST, 0);
    bytes[4] = 8;
    bytes
}

/// The data of a write that the volume was given.
fn written(operation: &Operation<Buffer>) -> (u64, Vec<u8>, bool) {
    let Operation::Write { offset, payload, durable } = operation else { panic!("{operation:?}") };
    (*offset, payload.to_vec(), *durable)
}

#[test]
fn a_read_is_answered_with_all_its_pieces() {
    for host in Host::all() {
        let mut bench = Bench::of(host, 1 << 20, Vec::new());
        bench.command(&read(3, 4), &[]);
        assert!(matches!(bench.submitted[0].1, Operation::Read { offset: 4096, length: 2048 }));
        let data = bench.data(&pattern(2048));
        bench.reply(data);
        let pdus = bench.pdus();
        let start = 16 + if host.header_digest { 4 } else { 0 };
        assert_eq!((pdus.len(), pdus[0].0), (1, 7));
        assert_eq!(pdus[0].1[start..start + 2048], pattern(2048));
        assert_eq!(pdus[0].1.len(), start + 2048 + host.trailer());
    }
}

#[test]
fn a_write_is_acknowledged_when_the_volume_has_it() {
    for host in Host::all() {
        let mut bench = Bench::of(host, 1 << 20, Vec::new());
        let mut durable = write(3, IN_CAPSULE, 4);
        durable[51] = 0x40;
        bench.command(&durable, &pattern(2048));
        bench.command(&write(4, ON_REQUEST, 8), &[]);
        let tag = bench.requested();
        bench.command(&entry(0x00, 5, ON_REQUEST, 0), &[]);
        let data = host.data(4, tag, 0, &pattern(4096), true);
        assert!(bench.receive(&data, 999).is_empty());
        assert_eq!(written(&bench.submitted[0].1), (4096, pattern(2048), true));
        assert!(matches!(bench.submitted[1].1, Operation::Flush));
        assert_eq!(written(&bench.submitted[2].1), (4096, pattern(4096), false));
        (0..3).for_each(|_| bench.reply(Ok(Reply::Done)));
        assert_eq!(bench.answers(), [3, 5, 4].map(|identifier| (identifier, Status::Success)));
    }
}

#[test]
fn zeroes_need_no_data() {
    let mut bench = Bench::new(1 << 20);
    let mut zero = on_blocks(0x08, 3, ON_REQUEST, 0, 16);
    zero[51] = 0x42;
    bench.command(&zero, &[]);
    let (_, Operation::Zero { offset, length, unmap, durable }) = bench.submitted[0] else {
        panic!()
    };
    assert_eq!((offset, length, unmap, durable), (4096, 8192, true, true));
    bench.reply(Err(RequestError::Reserved));
    assert_eq!(bench.answers(), [(3, Status::ReservationConflict)]);
}

#[test]
fn ranges_are_deallocated_one_after_another() {
    let mut bench = Bench::new(1 << 20);
    let mut manage = entry(0x09, 3, IN_CAPSULE, 48);
    (manage[40], manage[44]) = (2, 4);
    let mut list = vec![0; 48];
    (list[4], list[8], list[24], list[36], list[40]) = (1, 9, 5, 2, 7);
    bench.command(&manage, &list);
    for (first, count) in [(7, 2), (9, 1)] {
        let (_, Operation::Zero { offset, length, unmap: true, durable: false }) =
            bench.submitted[0]
        else {
            panic!()
        };
        assert_eq!((offset, length, bench.submitted.len()), (first * 512, count * 512, 1));
        bench.reply(Ok(Reply::Done));
    }
    assert_eq!(bench.answers(), [(3, Status::Success)]);
    // Nothing is done if one of them is wrong, or if none may be deallocated.
    list[15] = 1;
    bench.command(&manage, &list);
    (list[15], manage[44]) = (0, 1);
    bench.command(&manage, &list);
    assert_eq!(bench.answers(), [(3, Status::OutOfRange), (3, Status::Success)]);
    assert!(bench.submitted.is_empty());
}

#[test]
fn data_is_compared_as_it_comes() {
    for (differs, at) in [(false, 0), (true, 0), (true, 299), (true, 300), (true, 4095)] {
        for kind in [IN_CAPSULE, ON_REQUEST] {
            let status = if differs { Status::CompareFailure } else { Status::Success };
            let mut bench = Bench::new(4096);
            let mut data = pattern(4096);
            let stored = bench.data(&data);
            data[at] ^= u8::from(differs);
            let compare = on_blocks(0x05, 3, kind, 4096, 8);
            if kind == IN_CAPSULE {
                bench.command(&compare, &data);
                bench.reply(stored);
            } else {
                bench.command(&compare, &[]);
                assert_eq!(bench.pdus(), []);
                bench.reply(stored);
                let tag = bench.requested();
                let host = bench.host;
                bench.receive(&host.data(3, tag, 0, &data, true), 77);
            }
            assert_eq!(bench.answers(), [(3, status)]);
        }
    }
}

#[test]
fn a_compare_that_cannot_be_read_lets_the_stream_go_on() {
    let mut bench = Bench::new(1 << 20);
    let host = bench.host;
    let compare = host.capsule(&on_blocks(0x05, 3, IN_CAPSULE, 512, 1), &[1; 512]);
    bench.receive(&[compare, host.flush(4)].concat(), 9999);
    assert_eq!(bench.submitted.len(), 1, "what follows waits");
    bench.reply(Err(RequestError::Medium));
    assert!(matches!(bench.submitted[0].1, Operation::Flush));
    bench.reply(Ok(Reply::Done));
    assert_eq!(bench.answers(), [(3, Status::Unrecovered), (4, Status::Success)]);
}

#[test]
fn a_verify_gives_no_data() {
    let mut bench = Bench::new(1 << 20);
    bench.command(&on_blocks(0x0c, 3, ON_REQUEST, 0, 8), &[]);
    let data = bench.data(&pattern(4096));
    bench.reply(data);
    bench.command(&on_blocks(0x0c, 4, ON_REQUEST, 0, 8), &[]);
    bench.reply(Err(RequestError::Medium));
    assert_eq!(bench.answers(), [(3, Status::Success), (4, Status::Unrecovered)]);
}

#[test]
fn what_is_refused_never_reaches_the_volume() {
    let mut bench = Bench::new(1 << 20);
    let mut out_of_range = write(3, IN_CAPSULE, 1);
    out_of_range[47] = 1;
    bench.command(&out_of_range, &[1; 512]);
    let mut other = read(4, 1);
    other[4] = 2;
    bench.command(&other, &[]);
    bench.command(&entry(0x19, 5, IN_CAPSULE, 16), &[0; 16]);
    bench.command(&write(6, ON_REQUEST, 2049), &[]);
    // A second Connect, Property Get.
    bench.command(&bench.host.connect()[8..72].try_into().unwrap(), &[0; 1024]);
    let mut get = entry(0x7f, 8, ON_REQUEST, 0);
    get[4] = 4;
    bench.command(&get, &[]);
    let expected = [
        (3, Status::OutOfRange),
        (4, Status::InvalidNamespace),
        (5, Status::InvalidOpcode),
        (6, Status::InvalidField),
        (1, Status::ConnectParameters),
        (8, Status::InvalidOpcode),
    ];
    assert_eq!(bench.answers(), expected);
    assert!(bench.submitted.is_empty());
}

#[test]
fn a_volume_that_has_grown_takes_more() {
    let mut bench = Bench::new(1 << 20);
    let mut behind = read(3, 1);
    behind[40..44].copy_from_slice(&((NAMESPACE.size / 512) as u32).to_le_bytes());
    bench.command(&behind, &[]);
    assert_eq!(bench.answers(), [(3, Status::OutOfRange)]);
    bench.front_end.queue.size.fetch_add(512, Ordering::Relaxed);
    bench.command(&behind, &[]);
    assert!(matches!(bench.submitted[0].1, Operation::Read { offset, .. } if offset == 64 << 20));
}

#[test]
fn an_answer_that_does_not_fit_becomes_an_error() {
    let mut bench = Bench::new(1 << 20);
    bench.command(&read(3, 2), &[]);
    let short = bench.data(&[1; 512]);
    bench.reply(short);
    bench.command(&read(4, 2), &[]);
    bench.reply(Ok(Reply::Done));
    assert_eq!(bench.answers(), [(3, Status::Internal), (4, Status::Internal)]);
    for token in [1, 99, u64::MAX].map(evenkeel_engine::RequestToken) {
        bench.event(FrontendEvent::Reply { token, result: Ok(Reply::Done) });
    }
    assert_eq!(bench.answers(), []);
}

#[test]
fn a_write_on_request_that_waits_for_memory_keeps_no_other_waiting() {
    let mut bench = Bench::new(8192);
    bench.command(&write(1, ON_REQUEST, 16), &[]);
    let tag = bench.requested();
    bench.command(&write(2, ON_REQUEST, 16), &[]);
    bench.command(&read(3, 1), &[]);
    bench.command(&entry(0x00, 4, ON_REQUEST, 0), &[]);
    // A flush needs no memory; the read is behind the write.
    assert!(matches!(bench.submitted[..], [(_, Operation::Flush)]));
    bench.reply(Ok(Reply::Done));
    assert_eq!(bench.answers(), [(4, Status::Success)]);
    let host = bench.host;
    bench.receive(&host.data(1, tag, 0, &pattern(8192), true), 9999);
    bench.submitted[0].1 = Operation::Flush;
    bench.reply(Ok(Reply::Done));
    // Its memory is free now.
    let pdus = bench.pdus();
    let kinds: Vec<u8> = pdus.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [5, 9]);
    assert!(bench.submitted.is_empty());
}

#[test]
fn a_write_in_a_capsule_stops_the_stream_until_there_is_memory() {
    let mut bench = Bench::new(4096);
    let host = bench.host;
    let capsules = [1, 2, 3].map(|id| host.capsule(&write(id, IN_CAPSULE, 8), &pattern(4096)));
    bench.receive(&[capsules.concat(), host.flush(4)].concat(), 99_999);
    // One by the volume's memory, one by the queue's own.
    assert_eq!(bench.submitted.len(), 2);
    assert!(bench.lent.is_none());
    bench.reply(Ok(Reply::Done));
    assert_eq!(written(&bench.submitted[1].1).1, pattern(4096));
    assert!(matches!(bench.submitted[2].1, Operation::Flush));
    assert!(bench.lent.is_some());
}

/// Data that would free memory may come behind a capsule.
#[test]
fn a_capsule_is_taken_while_others_wait_for_memory() {
    let list = pattern(16);
    for (command, data) in [
        (write(3, IN_CAPSULE, 16), pattern(8192)),
        (on_blocks(0x05, 3, IN_CAPSULE, 8192, 16), pattern(8192)),
        (entry(0x09, 3, IN_CAPSULE, 16), list),
    ] {
        let mut bench = Bench::new(8192);
        let host = bench.host;
        bench.command(&write(1, ON_REQUEST, 16), &[]);
        let tag = bench.requested();
        // These wait, and the first one's data comes last.
        bench.command(&write(2, ON_REQUEST, 16), &[]);
        let capsule = host.capsule(&command, &data);
        let rest = [host.flush(5), host.data(1, tag, 0, &pattern(8192), true)].concat();
        bench.receive(&[capsule.clone(), capsule, rest].concat(), 99_999);
        while !bench.submitted.iter().any(|(_, it)| matches!(it, Operation::Flush)) {
            assert_eq!(bench.submitted.len(), 1, "one capsule at a time is taken");
            let result = match &bench.submitted[0].1 {
                Operation::Read { .. } => bench.data(&pattern(8192)),
                _ => Ok(Reply::Done),
            };
            bench.reply(result);
        }
        let last = bench.submitted.last().unwrap();
        assert_eq!(written(&last.1).1, pattern(8192), "the data behind has come");
    }
}

#[test]
fn the_host_learns_that_it_broke_the_protocol_and_begun_writes_are_awaited() {
    let mut bench = Bench::new(1 << 20);
    bench.command(&write(1, IN_CAPSULE, 1), &[1; 512]);
    bench.command(&write(2, ON_REQUEST, 1), &[]);
    bench.requested();
    bench.receive(&[0x55; 8], 9999);
    let pdus = bench.pdus();
    assert_eq!((pdus.len(), pdus[0].0), (1, 3));
    bench.drain();
    assert!(bench.ended.is_none(), "the volume has not done what it began");
    bench.reply(Ok(Reply::Done));
    assert!(bench.ended.is_none(), "replicas may write it still");
    bench.drained();
    assert!(bench.ended.is_some());
    assert_eq!(bench.pdus(), []);
}

#[test]
fn a_host_that_is_gone_is_forgotten_when_its_writes_are_done() {
    for result in [Ok(0), Err(io_error())] {
        let mut bench = Bench::new(1 << 20);
        bench.command(&write(1, IN_CAPSULE, 1), &[1; 512]);
        bench.command(&write(2, ON_REQUEST, 1), &[]);
        let (memory, _) = bench.lent.take().unwrap();
        let descriptor = bench.front_end.stream.descriptor();
        bench.event(FrontendEvent::Received { descriptor, memory, result });
        let sending = Err(io_error());
        bench.event(FrontendEvent::Sent { descriptor, result: sending });
        assert!(bench.ended.is_none());
        bench.requested();
        bench.reply(Ok(Reply::Done));
        bench.drained();
        assert!(bench.ended.is_some());
        assert_eq!(bench.pdus(), []);
    }
}

fn io_error() -> std::io::Error {
    std::io::ErrorKind::ConnectionReset.into()
}

#[test]
fn a_deleted_queue_ends_after_what_the_volume_has_begun() {
    let mut bench = Bench::new(1 << 20);
    bench.command(&write(1, IN_CAPSULE, 1), &[1; 512]);
    bench.command(&write(2, ON_REQUEST, 1), &[]);
    bench.requested();
    bench.command(&disconnect(3), &[]);
    assert!(bench.is_deleted.load(Ordering::Relaxed));
    // The second one has not begun: its data is still on its way, and is not awaited.
    assert_eq!(bench.answers(), []);
    assert_eq!(bench.cancelled.len(), 1);
    bench.reply(Ok(Reply::Done));
    assert_eq!(bench.answers(), [(1, Status::Success)], "replicas may write it still");
    bench.drained();
    assert_eq!(bench.answers(), [(3, Status::Success)]);
    assert!(bench.ended.is_none());
    bench.drain();
    assert_eq!(bench.ended.as_deref(), Some("the host has deleted the queue"));
}

#[test]
fn what_no_replica_was_sent_is_cancelled_with_the_queue() {
    let mut bench = Bench::new(1 << 20);
    bench.command(&write(1, IN_CAPSULE, 1), &[1; 512]);
    bench.command(&disconnect(3), &[]);
    bench.reply(Err(RequestError::Cancelled));
    bench.drained();
    assert_eq!(bench.answers(), [(1, Status::QueueDeleted), (3, Status::Success)]);
}

#[test]
fn a_queue_that_does_not_receive_learns_that_it_is_closed() {
    let mut bench = Bench::new(1 << 20);
    bench.command(&on_blocks(0x05, 3, IN_CAPSULE, 512, 1), &[1; 512]);
    assert!(bench.lent.is_none(), "first it reads what it compares with");
    bench.event(FrontendEvent::Reported { what: CLOSED });
    assert_eq!(bench.cancelled, [bench.submitted[0].0]);
    bench.reply(Err(RequestError::Cancelled));
    assert!(bench.ended.is_none());
    bench.drained();
    assert!(bench.ended.is_some() && bench.answers().is_empty());
}

#[test]
fn what_was_read_for_a_host_that_is_lost_is_not_sent() {
    let mut bench = Bench::new(1 << 20);
    bench.command(&read(3, 16), &[]);
    bench.event(FrontendEvent::Reported { what: CLOSED });
    let data = bench.data(&pattern(8192));
    bench.reply(data);
    assert!(bench.sent.is_empty(), "not without its header either");
    bench.drained();
    assert!(bench.ended.is_some());
}

#[test]
fn the_end_of_the_volume_is_told() {
    let mut bench = Bench::new(1 << 20);
    bench.command(&read(1, 1), &[]);
    bench.command(&entry(0x00, 2, ON_REQUEST, 0), &[]);
    bench.event(FrontendEvent::Stopping);
    assert_eq!(bench.answers(), [(1, Status::InternalPath), (2, Status::InternalPath)]);
}

#[test]
fn the_end_of_the_volume_is_told_to_who_waits_for_memory() {
    let mut bench = Bench::new(8192);
    bench.command(&write(1, ON_REQUEST, 16), &[]);
    bench.requested();
    bench.command(&write(2, ON_REQUEST, 16), &[]);
    bench.event(FrontendEvent::Stopping);
    // The first one's data is on its way: its answer would come behind that.
    assert_eq!(bench.answers(), [(2, Status::InternalPath)]);
}

#[test]
#[should_panic(expected = "nobody waits who is not tried again")]
fn a_command_that_is_forgotten_is_noticed() {
    let mut bench = Bench::new(8192);
    bench.command(&write(1, ON_REQUEST, 16), &[]);
    bench.command(&write(2, ON_REQUEST, 16), &[]);
    bench.front_end.waiting.clear();
    bench.event(FrontendEvent::MemoryAvailable);
}

#[test]
#[should_panic(expected = "each command that came is answered or kept")]
fn a_command_that_nobody_answers_is_noticed() {
    let mut bench = Bench::new(1 << 20);
    bench.command(&write(1, ON_REQUEST, 16), &[]);
    bench.front_end.open.iter_mut().for_each(|open| *open = None);
    bench.event(FrontendEvent::MemoryAvailable);
}

#[test]
fn a_host_that_stalls_ends_when_it_keeps_others_waiting() {
    for (memory, ends) in [(1 << 20, false), (8192, true)] {
        let mut bench = Bench::new(memory);
        assert!(!bench.wake());
        bench.command(&write(1, ON_REQUEST, 16), &[]);
        bench.drain();
        assert!(bench.wake());
        assert_eq!(bench.drains, ends);
        assert_eq!(bench.wake(), !ends);
        if ends {
            bench.drained();
        }
        assert_eq!(bench.ended.is_some(), ends);
    }
    let mut bench = Bench::new(8192);
    bench.command(&read(1, 16), &[]);
    assert!(!bench.wake(), "this is not the host's fault");
    let data = bench.data(&pattern(8192));
    bench.reply(data);
    let room = bench.context.allocate(8192);
    assert!(bench.wake());
    bench.drained();
    assert!(bench.ended.is_some());
    drop(room);
}

#[test]
fn a_host_that_takes_no_answers_is_not_served_on() {
    let mut bench = Bench::new(64 << 20);
    let mut served = 0;
    loop {
        let host = bench.host;
        bench.receive(&host.capsule(&read(1, 2048), &[]), 9999);
        if bench.submitted.is_empty() {
            break;
        }
        let data = bench.data(&pattern(1 << 20));
        bench.reply(data);
        served += 1;
    }
    assert_eq!(served, 4);
    bench.drain();
    assert_eq!(bench.submitted.len(), 1);
}

#[test]
fn commands_that_came_with_connect_are_served() {
    let host = Host::default();
    let bench = Bench::of(host, 1 << 20, host.flush(2));
    assert_eq!(bench.submitted.len(), 1);
    assert!(Bench::of(host, 1 << 20, vec![0; RECEIVE_BUFFER + 1]).ended.is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the sizes, and however the kernel cuts the stream, each write arrives whole.
    #[test]
    fn writes_arrive_whole(
        digests in 0..4usize,
        counts in vec((1..400u16, any::<bool>()), 1..SIZE as usize),
        most in prop_oneof![1..600usize, 1..200_000usize],
        size in prop_oneof![Just(1 << 20), (1..64usize).prop_map(|dwords| dwords * 4096)],
    ) {
        let host = Host::all().nth(digests).unwrap();
        let mut bench = Bench::of(host, 64 << 20, Vec::new());
        let payloads: Vec<_> = counts.iter().map(|(count, _)| pattern(usize::from(*count) * 512)).collect();
        for (index, (count, in_capsule)) in counts.iter().enumerate() {
            let in_capsule = *in_capsule && *count <= 16;
            let kind = if in_capsule { IN_CAPSULE } else { ON_REQUEST };
            let data: &[u8] = if in_capsule { &payloads[index] } else { &[] };
            let capsule = host.capsule(&write(index as u16, kind, *count), data);
            prop_assert!(bench.receive(&capsule, most).is_empty());
        }
        for (kind, ready) in bench.pdus() {
            prop_assert_eq!(kind, 9);
            let identifier = u16::from_le_bytes([ready[0], ready[1]]);
            let tag = u16::from_le_bytes([ready[2], ready[3]]);
            let payload = &payloads[usize::from(identifier)];
            let mut offset = 0;
            for piece in payload.chunks(size) {
                let is_last = offset + piece.len() == payload.len();
                let pdu = host.data(identifier, tag, offset as u32, piece, is_last);
                prop_assert!(bench.receive(&pdu, most).is_empty());
                offset += piece.len();
            }
        }
        let mut found: Vec<_> =
            bench.submitted.iter().map(|(_, operation)| written(operation).1).collect();
        let mut expected = payloads;
        found.sort();
        expected.sort();
        prop_assert!(found == expected);
    }

    #[test]
    fn no_input_panics(
        commands in vec((0..16u8, any::<[u8; 24]>(), 0..9000u32, any::<bool>(), 0..6u8), 1..60),
        most in 1..5000usize,
    ) {
        let mut bench = Bench::new(1 << 16);
        for (opcode, bytes, mut length, in_capsule, reply) in commands {
            let kind = if in_capsule { IN_CAPSULE } else { ON_REQUEST };
            let mut entry = entry(opcode, u16::from(bytes[0] % 16), kind, length);
            entry[40..64].copy_from_slice(&bytes);
            entry[42..48].fill(0);
            entry[49..56].fill(0);
            // Parts of fused operations, right and wrong; and halves that belong together.
            entry[1] |= bytes[1] & 3;
            if bytes[3] & 3 != 0 && matches!(bytes[1] & 3, 1 | 2) {
                entry[0] = if bytes[1] & 3 == 1 { 0x05 } else { 0x01 };
                entry[32..36].copy_from_slice(&512u32.to_le_bytes());
                entry[40..64].fill(0);
                length = 512;
            }
            if opcode == 15 {
                entry[..8].copy_from_slice(&disconnect(9)[..8]);
            }
            let data = if in_capsule { pattern(length.min(8192) as usize) } else { Vec::new() };
            let capsule = bench.host.capsule(&entry, &data);
            bench.receive(&capsule, most);
            if bytes[4] & 3 == 0 {
                bench.abort(u16::from(bytes[5] % 16));
            }
            while bench.submitted.len() > usize::from(reply) {
                let is_cancelled = bench.cancelled.contains(&bench.submitted[0].0);
                let result = match &bench.submitted[0].1 {
                    _ if is_cancelled && bytes[2] & 2 == 0 => Err(RequestError::Cancelled),
                    Operation::Read { length, .. } => bench.data(&pattern(*length as usize)),
                    Operation::CompareAndWrite { .. } if bytes[2] & 1 == 0 => {
                        Ok(Reply::Miscompare { at: 0 })
                    }
                    _ => Ok(Reply::Done),
                };
                bench.reply(result);
            }
            if bench.drains && bench.submitted.is_empty() {
                bench.drained();
            }
            bench.event(FrontendEvent::MemoryAvailable);
            if bench.ended.is_some() {
                break;
            }
            bench.drain();
        }
    }
}
