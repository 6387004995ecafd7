mod held;

use std::os::unix::net::UnixStream;

use evenkeel_core::{Extent, Reply, RequestError, VolumeId};
use evenkeel_engine::Descriptor;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::nbd::Export;
use crate::nbd::reply::{data_chunk, error_chunk, simple, status_chunk};
use crate::stream::bench::{Streaming, pattern};
use crate::stream::{self, RECEIVE_BUFFER};

const SIZE: u64 = 64 << 20;

fn negotiated(structured: bool) -> Negotiated {
    Negotiated {
        export: Export {
            volume: VolumeId(7),
            name: "db".to_owned(),
            description: String::new(),
            size: SIZE,
            block_size: 512,
            read_only: false,
            fast_zeroes: false,
        },
        structured_replies: structured,
        block_status: structured,
        rest: Vec::new(),
    }
}

impl Streaming for Connection {
    fn stream(&self) -> &Stream {
        &self.stream
    }
}

type Bench = stream::bench::Bench<Connection>;

/// A connection of a client that has negotiated this.
fn connected(memory: usize, negotiated: Negotiated) -> Bench {
    let (socket, client) = UnixStream::pair().unwrap();
    let mut bench = Bench::new(Connection::new(socket.into(), negotiated), None, memory);
    bench.client = Some(client);
    bench
}

impl Bench {
    /// The client closes the connection; what it has sent is in the socket still.
    fn leave(&mut self) {
        self.client = None;
    }

    /// The socket is empty, and nothing follows.
    fn end_of_stream(&mut self) {
        let (memory, _) = self.lent.take().unwrap();
        let descriptor = self.front_end.stream.descriptor();
        self.event(FrontendEvent::Received { descriptor, memory, result: Ok(0) });
    }

    fn reply(&mut self, token: RequestToken, result: Result<Reply<Buffer>, RequestError>) {
        self.event(FrontendEvent::Reply { token, result });
    }
}

fn request(command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&command.to_be_bytes());
    bytes.extend_from_slice(&cookie.to_be_bytes());
    bytes.extend_from_slice(&offset.to_be_bytes());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes
}

fn write(cookie: u64, offset: u64, payload: &[u8]) -> Vec<u8> {
    [request(1, cookie, offset, payload.len() as u32), payload.to_vec()].concat()
}

#[test]
fn answers_go_out_in_the_order_of_completion() {
    let mut bench = connected(1 << 20, negotiated(false));
    bench.receive(&[request(0, 11, 0, 512), request(3, 12, 0, 0)].concat(), 9999);
    assert_eq!(bench.submitted.len(), 2);
    let data = bench.buffer(&[7; 512]);
    bench.reply(bench.submitted[1].0, Ok(Reply::Done));
    bench.reply(bench.submitted[0].0, Ok(Reply::Data(vec![(0, data)])));
    let expected = [&simple(12, None)[..], &simple(11, None), &[7; 512]].concat();
    assert_eq!(bench.sent, expected);
}

#[test]
fn a_structured_read_is_one_chunk_of_all_its_pieces() {
    let mut bench = connected(1 << 20, negotiated(true));
    bench.receive(&request(0, 11, 4096, 1024), 9999);
    let pieces = vec![(0, bench.buffer(&[1; 512])), (512, bench.buffer(&[2; 512]))];
    bench.reply(bench.submitted[0].0, Ok(Reply::Data(pieces)));
    assert_eq!(bench.sent, [&data_chunk(11, 4096, 1024)[..], &[1; 512], &[2; 512]].concat());
}

#[test]
fn errors_carry_their_number_and_the_reason() {
    let mut bench = connected(1 << 20, negotiated(true));
    bench.receive(&[request(0, 1, 0, 512), write(2, 512, &[0; 512])].concat(), 9999);
    bench.reply(bench.submitted[0].0, Err(RequestError::NoData));
    bench.reply(bench.submitted[1].0, Err(RequestError::NoSpace));
    let expected = [
        error_chunk(1, ErrorNumber::Io, &RequestError::NoData.to_string()),
        error_chunk(2, ErrorNumber::NoSpace, &RequestError::NoSpace.to_string()),
    ];
    assert_eq!(bench.sent, expected.concat());
    assert!(bench.ended.is_none());
}

#[test]
fn an_answer_that_does_not_fit_becomes_an_error() {
    let mut bench = connected(1 << 20, negotiated(false));
    bench.receive(&request(0, 1, 0, 1024), 9999);
    let short = bench.buffer(&[1; 512]);
    bench.reply(bench.submitted[0].0, Ok(Reply::Data(vec![(0, short)])));
    assert_eq!(bench.sent, simple(1, Some(ErrorNumber::Io)));
    bench.reply(RequestToken(77), Ok(Reply::Done));
    bench.reply(RequestToken(u64::MAX), Ok(Reply::Done));
}

#[test]
fn a_refused_write_is_passed_over() {
    let mut bench = connected(1 << 20, negotiated(false));
    let bad = [write(1, 511, &pattern(600_000)), write(2, SIZE, &[1; 512]), request(3, 3, 0, 0)];
    assert!(bench.receive(&bad.concat(), 50_000).is_empty());
    let expected = [ErrorNumber::Invalid, ErrorNumber::NoSpace].map(Some);
    assert_eq!(bench.sent, [simple(1, expected[0]), simple(2, expected[1])].concat());
    assert!(matches!(bench.submitted[..], [(_, Operation::Flush)]));
}

#[test]
fn what_cannot_be_understood_ends_the_connection() {
    for bytes in [vec![0; 28], request(1, 1, 0, MAX_DRAIN + 512)] {
        let mut bench = connected(1 << 20, negotiated(false));
        bench.receive(&bytes, 9999);
        assert!(bench.ended.is_some() && bench.sent.is_empty());
    }
}

#[test]
fn a_disconnecting_client_gets_its_answers_first() {
    let mut bench = connected(1 << 20, negotiated(false));
    bench.receive(&[request(3, 1, 0, 0), request(2, 2, 0, 0), vec![9; 99]].concat(), 9999);
    assert!(bench.ended.is_none() && bench.lent.is_none());
    bench.reply(bench.submitted[0].0, Ok(Reply::Done));
    assert!(bench.ended.is_none());
    bench.drain();
    assert_eq!(bench.ended.as_deref(), Some("the client has disconnected"));
}

#[test]
fn a_client_that_goes_away_ends_the_connection() {
    for result in [Ok(0), Err(io::ErrorKind::ConnectionReset.into())] {
        let mut bench = connected(1 << 20, negotiated(false));
        let (memory, _) = bench.lent.take().unwrap();
        bench.event(FrontendEvent::Received { descriptor: Descriptor(0), memory, result });
        assert!(bench.ended.is_some());
    }
}

#[test]
fn no_more_requests_than_permitted_are_in_flight() {
    let mut bench = connected(64 << 20, negotiated(false));
    let many: Vec<u8> = (0..1000).flat_map(|cookie| request(0, cookie, 0, 512)).collect();
    let mut rest = bench.receive(&many, 9999);
    assert_eq!(bench.submitted.len(), MAX_REQUESTS);
    for answered in 0..1000 {
        let data = bench.buffer(&[0; 512]);
        bench.reply(bench.submitted[answered].0, Ok(Reply::Data(vec![(0, data)])));
        rest = bench.receive(rest, 9999);
        assert!(bench.submitted.len() <= answered + 1 + MAX_REQUESTS);
    }
    assert_eq!((bench.submitted.len(), rest.len()), (1000, 0));
}

#[test]
fn a_client_that_takes_no_answers_is_not_served_on() {
    let mut bench = connected(128 << 20, negotiated(false));
    bench.receive(&request(0, 1, 0, 1 << 20).repeat(99), 9999);
    let mut served = 0;
    while let Some((token, _)) = bench.submitted.get(served) {
        let (token, data) = (*token, bench.buffer(&pattern(1 << 20)));
        bench.reply(token, Ok(Reply::Data(vec![(0, data)])));
        served += 1;
    }
    // All of them were begun before the first answer; the client takes none of the answers.
    assert!(bench.receive(&request(0, 1, 0, 1 << 20), 9999).is_empty());
    assert!(bench.receive(&request(3, 1, 0, 0), 9999).len() == HEADER_LENGTH);
    assert_eq!(bench.submitted.len(), served);
    bench.drain();
    assert_eq!(bench.submitted.len(), served + 1);
}

#[test]
fn without_room_a_request_waits() {
    let mut bench = connected(8192, negotiated(false));
    let requests =
        [write(1, 0, &pattern(4096)), write(2, 0, &pattern(4096)), request(0, 3, 0, 4096)];
    bench.receive(&requests.concat(), 9999);
    assert_eq!(bench.submitted.len(), 2);
    assert!(bench.lent.is_none());
    for count in [3, 3] {
        bench.event(FrontendEvent::MemoryAvailable);
        let token = bench.submitted[0].0;
        bench.submitted[0].1 = Operation::Flush;
        bench.reply(token, Ok(Reply::Done));
        bench.event(FrontendEvent::MemoryAvailable);
        assert_eq!(bench.submitted.len(), count);
    }
}

#[test]
fn a_client_that_stalls_ends_when_it_keeps_others_waiting() {
    let half_a_write = write(1, 0, &pattern(8192))[..5000].to_vec();
    for (memory, ends) in [(1 << 20, false), (8192, true)] {
        let mut bench = connected(memory, negotiated(false));
        assert!(!bench.wake());
        bench.receive(&half_a_write, 9999);
        assert!(bench.wake());
        assert_eq!(bench.ended.is_some(), ends);
        assert_eq!(bench.wake(), !ends);
    }
}

#[test]
fn a_client_that_takes_no_answers_ends_when_it_keeps_others_waiting() {
    let mut bench = connected(8192, negotiated(false));
    bench.receive(&request(0, 1, 0, 8192), 9999);
    assert!(!bench.wake(), "this is not the client's fault");
    let data = bench.buffer(&pattern(8192));
    bench.reply(bench.submitted[0].0, Ok(Reply::Data(vec![(0, data)])));
    let room = bench.context.allocate(8192);
    assert!(bench.wake());
    assert!(bench.ended.is_some());
    drop(room);
}

#[test]
fn the_end_of_the_volume_is_told() {
    let mut bench = connected(1 << 20, negotiated(false));
    bench.receive(&[request(3, 1, 0, 0), request(3, 2, 0, 0)].concat(), 9999);
    bench.event(FrontendEvent::Stopping);
    let shutdown = Some(ErrorNumber::Shutdown);
    assert_eq!(bench.sent, [simple(1, shutdown), simple(2, shutdown)].concat());
}

#[test]
fn block_status_is_answered_truthfully() {
    let mut bench = connected(1 << 20, negotiated(true));
    bench.receive(&[request(7, 1, 0, 4096), request(5, 2, 0, 4096)].concat(), 9999);
    assert_eq!(bench.sent, simple(2, None));
    bench.sent.clear();
    let extents = vec![Extent { length: 4096, allocated: false }];
    bench.reply(bench.submitted[0].0, Ok(Reply::Extents(extents.clone())));
    assert_eq!(bench.sent, status_chunk(1, &extents, false));
}

#[test]
fn requests_that_came_with_the_handshake_are_served() {
    let rest = request(3, 1, 0, 0);
    let bench = connected(1 << 20, Negotiated { rest, ..negotiated(false) });
    assert_eq!(bench.submitted.len(), 1);
    let rest = vec![0; RECEIVE_BUFFER + 1];
    assert!(connected(1 << 20, Negotiated { rest, ..negotiated(false) }).ended.is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the sizes, and however the kernel cuts the stream, each write arrives whole.
    #[test]
    fn writes_arrive_whole(
        blocks in vec(1..400usize, 1..12),
        most in prop_oneof![1..600usize, 1..200_000usize],
    ) {
        let mut bench = connected(64 << 20, negotiated(false));
        let payloads: Vec<_> = blocks.iter().map(|blocks| pattern(blocks * 512)).collect();
        let stream: Vec<u8> =
            payloads.iter().zip(0..).flat_map(|(payload, n)| write(n, n * 512, payload)).collect();
        prop_assert!(bench.receive(&stream, most).is_empty());
        prop_assert_eq!(bench.submitted.len(), payloads.len());
        for ((_, operation), (payload, n)) in bench.submitted.iter().zip(payloads.iter().zip(0u64..)) {
            let Operation::Write { offset, payload: written, durable: false } = operation else {
                panic!("{operation:?}")
            };
            prop_assert_eq!(*offset, n * 512);
            prop_assert!(**written == **payload);
        }
    }

    #[test]
    fn no_input_panics(
        requests in vec((0..9u16, any::<u16>(), any::<u64>(), 0..99_999u32, any::<bool>()), 1..40),
        most in 1..5000usize,
    ) {
        let mut bench = connected(1 << 20, negotiated(true));
        for (command, flags, cookie, length, aligned) in requests {
            let length = if aligned { length / 512 * 512 } else { length };
            let mut bytes = request(command, cookie, cookie % SIZE / 512 * 512, length);
            bytes[4..6].copy_from_slice(&(flags % 32).to_be_bytes());
            bytes.extend_from_slice(&pattern(if command == 1 { length as usize } else { 0 }));
            bench.receive(&bytes, most);
            for (token, _) in std::mem::take(&mut bench.submitted) {
                bench.reply(token, Ok(Reply::Done));
            }
            if bench.ended.is_some() {
                break;
            }
            bench.drain();
        }
    }
}

/// What is left when a way through the connection does not say what follows. The bytes of a payload
/// that could be a header must not be taken for one.
#[test]
fn a_lost_place_ends_the_connection() {
    let mut bench = connected(1 << 20, negotiated(false));
    bench.front_end.expected = Expected::Poisoned;
    bench.receive(&request(0, 11, 0, 512), 9999);
    assert_eq!(bench.submitted.len(), 0);
    assert_eq!(bench.ended.as_deref(), Some(LOST_PLACE));
}

#[test]
#[should_panic(expected = "no place is lost")]
fn a_place_that_does_not_return_is_noticed() {
    let mut bench = connected(1 << 20, negotiated(false));
    bench.front_end.free.pop();
    bench.event(FrontendEvent::MemoryAvailable);
}

#[test]
#[should_panic(expected = "nothing is awaited")]
fn a_connection_that_hears_nothing_is_noticed() {
    let mut bench = connected(1 << 20, negotiated(false));
    bench.front_end.receiving = false;
    bench.front_end.expected = Expected::Drain {
        request: Request::decode(request(1, 1, 0, 512).first_chunk().unwrap()).unwrap(),
        error: ErrorNumber::Invalid,
        left: 512,
    };
    bench.front_end.check_invariants();
}
