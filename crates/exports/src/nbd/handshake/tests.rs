use evenkeel_core::VolumeId;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::nbd::Export;

struct OneExport;

impl Exports for OneExport {
    fn find(&self, name: &str) -> Option<Export> {
        matches!(name, "" | "db").then(|| self.list().remove(0))
    }

    fn list(&self) -> Vec<Export> {
        vec![Export {
            volume: VolumeId(7),
            name: "db".to_owned(),
            description: "three replicas".to_owned(),
            size: 1 << 30,
            block_size: 512,
            read_only: false,
            fast_zeroes: false,
        }]
    }
}

/// The same, with as many clients as it takes.
struct FullExport;

impl Exports for FullExport {
    fn find(&self, name: &str) -> Option<Export> {
        OneExport.find(name)
    }

    fn list(&self) -> Vec<Export> {
        OneExport.list()
    }

    fn has_room(&self, _export: &Export) -> bool {
        false
    }
}

/// The same, for other clients.
struct OthersExport;

impl Exports for OthersExport {
    fn find(&self, name: &str) -> Option<Export> {
        OneExport.find(name)
    }

    fn list(&self) -> Vec<Export> {
        Vec::new()
    }

    fn admits(&self, _export: &Export) -> bool {
        false
    }
}

/// A client that has read the greeting and sent its flags.
struct Client {
    server: Handshake,
}

impl Client {
    fn new(tls: Tls) -> Self {
        let mut out = Vec::new();
        let mut server = Handshake::new(tls, &mut out);
        assert_eq!(out, b"NBDMAGICIHAVEOPT\0\x03");
        let progress = server.receive(&[0, 0, 0, 3], &OneExport, &mut out).unwrap();
        assert_eq!(progress, Progress::More);
        Self { server }
    }

    /// Sends an option; returns how far the handshake is, and the replies as (type, data).
    fn option(&mut self, option: u32, data: &[u8]) -> (Progress, Vec<(u32, Vec<u8>)>) {
        let mut out = Vec::new();
        let progress =
            self.server.receive(&option_bytes(option, data), &OneExport, &mut out).unwrap();
        (progress, replies(&out, option))
    }

    fn only_reply(&mut self, option: u32, data: &[u8]) -> u32 {
        let (progress, replies) = self.option(option, data);
        assert_eq!((progress, replies.len()), (Progress::More, 1));
        replies[0].0
    }
}

fn option_bytes(option: u32, data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u32).to_be_bytes();
    [b"IHAVEOPT", &option.to_be_bytes()[..], &length, data].concat()
}

fn replies(mut bytes: &[u8], option: u32) -> Vec<(u32, Vec<u8>)> {
    let mut replies = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(&bytes[..8], &0x0003_e889_0455_65a9_u64.to_be_bytes());
        assert_eq!(&bytes[8..12], &option.to_be_bytes());
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        let (kind, end) = (number(12), 20 + number(16) as usize);
        replies.push((kind, bytes[20..end].to_vec()));
        bytes = &bytes[end..];
    }
    replies
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

/// The data of INFO and GO.
fn info(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.extend_from_slice(&(wanted.len() as u16).to_be_bytes());
    wanted.iter().for_each(|kind| data.extend_from_slice(&kind.to_be_bytes()));
    data
}

fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(name);
    data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    queries.iter().for_each(|query| data.extend_from_slice(&string(query)));
    data
}

const ACK: u32 = 1;
const ERR_UNSUP: u32 = 0x8000_0001;
const ERR_POLICY: u32 = 0x8000_0002;
const ERR_INVALID: u32 = 0x8000_0003;
const ERR_TLS_REQD: u32 = 0x8000_0005;
const ERR_UNKNOWN: u32 = 0x8000_0006;
const ERR_TOO_BIG: u32 = 0x8000_0009;

#[test]
fn a_modern_client_gets_all_it_asks_for() {
    let mut client = Client::new(Tls::Off);
    assert_eq!(client.only_reply(8, &[]), ACK);
    let (_, replies) = client.option(10, &contexts("db", &["base:allocation", "qemu:x"]));
    assert_eq!(replies, [(4, b"\0\0\0\x01base:allocation".to_vec()), (ACK, vec![])]);
    let (progress, replies) = client.option(7, &info("db", &[1, 2, 3]));
    let kinds: Vec<_> = replies.iter().map(|(kind, data)| (*kind, data.get(1))).collect();
    assert_eq!(kinds, [(3, Some(&0)), (3, Some(&1)), (3, Some(&2)), (3, Some(&3)), (ACK, None)]);
    assert_eq!(replies[0].1[2..10], (1u64 << 30).to_be_bytes());
    assert_eq!(replies[0].1[10..], 0b1101_1110_1101u16.to_be_bytes());
    assert_eq!(replies[3].1[2..], [0, 0, 2, 0, 0, 0, 16, 0, 2, 0, 0, 0]);
    let Progress::Ready(negotiated) = progress else { panic!("{progress:?}") };
    assert!(negotiated.structured_replies && negotiated.block_status);
    assert_eq!(negotiated.export.volume, VolumeId(7));
    assert!(negotiated.rest.is_empty());
}

#[test]
fn a_context_counts_for_its_export_only_and_is_reset_by_an_error() {
    for (second, expected) in [
        (None, true),
        (Some(contexts("db", &[])), false),
        (Some(contexts("other", &["base:allocation"])), false),
        (Some(contexts("", &["base:allocation"])), false),
    ] {
        let mut client = Client::new(Tls::Off);
        client.option(8, &[]);
        client.option(10, &contexts("db", &["base:allocation"]));
        if let Some(second) = second {
            client.option(10, &second);
        }
        let (progress, _) = client.option(7, &info("db", &[]));
        let Progress::Ready(negotiated) = progress else { panic!("{progress:?}") };
        assert_eq!(negotiated.block_status, expected);
    }
}

#[test]
fn contexts_are_listed() {
    let mut client = Client::new(Tls::Off);
    assert_eq!(client.only_reply(9, &contexts("db", &[])), ERR_INVALID);
    client.option(8, &[]);
    for (queries, found) in [(&[][..], 2), (&["base:"], 2), (&["qemu:"], 1), (&["x", "base:"], 2)] {
        assert_eq!(client.option(9, &contexts("db", queries)).1.len(), found);
    }
}

#[test]
fn exports_are_listed_and_described() {
    let mut client = Client::new(Tls::Off);
    let (_, replies) = client.option(3, &[]);
    assert_eq!(replies, [(2, b"\0\0\0\x02dbthree replicas".to_vec()), (ACK, vec![])]);
    let (progress, replies) = client.option(6, &info("", &[]));
    assert_eq!((progress, replies.len()), (Progress::More, 3));
    let (progress, replies) = client.option(2, &[]);
    assert_eq!((progress, replies[0].0), (Progress::Ended, ACK));
}

#[test]
fn the_old_way_to_choose_works() {
    for (flags, length) in [(1u8, 134), (3, 10)] {
        let mut out = Vec::new();
        let mut server = Handshake::new(Tls::Off, &mut out);
        out.clear();
        let bytes = [&[0, 0, 0, flags][..], &option_bytes(1, b"db"), b"rest"].concat();
        let progress = server.receive(&bytes, &OneExport, &mut out).unwrap();
        let Progress::Ready(negotiated) = progress else { panic!("{progress:?}") };
        assert_eq!(negotiated.rest, b"rest");
        assert_eq!(out.len(), length);
    }
    let mut client = Client::new(Tls::Off);
    let result = client.server.receive(&option_bytes(1, b"no"), &OneExport, &mut Vec::new());
    assert_eq!(result, Err(HandshakeError::NoExport));
}

#[test]
fn an_export_without_room_can_be_looked_at_but_not_chosen() {
    let mut client = Client::new(Tls::Off);
    let mut answer = |option, data: &[u8]| {
        let mut out = Vec::new();
        let progress = client.server.receive(&option_bytes(option, data), &FullExport, &mut out);
        (progress, replies(&out, option))
    };
    assert_eq!(answer(6, &info("db", &[])).1.last().unwrap().0, ACK);
    let (progress, replies) = answer(7, &info("db", &[]));
    assert_eq!((progress, replies.len()), (Ok(Progress::More), 1));
    assert_eq!(replies[0].0, ERR_POLICY);
    assert!(String::from_utf8_lossy(&replies[0].1).contains("as many clients"));
    let mut out = Vec::new();
    let old = client.server.receive(&option_bytes(1, b"db"), &FullExport, &mut out);
    assert_eq!((old, out), (Err(HandshakeError::NoRoom), Vec::new()));
}

#[test]
fn an_export_for_other_clients_is_not_even_looked_at() {
    let mut client = Client::new(Tls::Off);
    let mut answer = |option, data: &[u8]| {
        let mut out = Vec::new();
        let progress = client.server.receive(&option_bytes(option, data), &OthersExport, &mut out);
        (progress, out)
    };
    assert_eq!(replies(&answer(8, &[]).1, 8)[0].0, ACK);
    for (option, data) in
        [(6, info("db", &[])), (7, info("db", &[])), (10, contexts("db", &["base:allocation"]))]
    {
        let (progress, out) = answer(option, &data);
        let replies = replies(&out, option);
        assert_eq!((progress, replies.len(), replies[0].0), (Ok(Progress::More), 1, ERR_POLICY));
        assert!(String::from_utf8_lossy(&replies[0].1).contains("for other clients"));
    }
    assert_eq!(answer(1, b"db"), (Err(HandshakeError::NoExport), Vec::new()));
}

#[test]
fn what_is_malformed_or_unknown_gets_an_error_and_the_client_may_go_on() {
    let mut client = Client::new(Tls::Off);
    for (option, data, expected) in [
        (4, vec![], ERR_UNSUP),
        (11, vec![], ERR_UNSUP),
        (0xffff_ffff, vec![1, 2, 3], ERR_UNSUP),
        (5, vec![], ERR_UNSUP),
        (3, vec![0], ERR_INVALID),
        (8, vec![0], ERR_INVALID),
        (7, vec![], ERR_INVALID),
        (7, vec![0, 0, 0, 9, b'd', b'b', 0, 0], ERR_INVALID),
        (7, [info("db", &[1]), vec![0]].concat(), ERR_INVALID),
        (7, info("db", &[1])[..9].to_vec(), ERR_INVALID),
        (7, [&[0, 0, 0, 1, 0xff][..], &[0, 0]].concat(), ERR_INVALID),
        (7, info("nothing", &[]), ERR_UNKNOWN),
        (7, info(&"x".repeat(5000), &[]), ERR_TOO_BIG),
        (6, vec![0; MAX_OPTION_LENGTH as usize + 1], ERR_TOO_BIG),
    ] {
        assert_eq!(client.only_reply(option, &data), expected, "{option} {data:?}");
    }
    client.option(8, &[]);
    for data in [vec![0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], contexts("db", &["é"])[..9].to_vec()] {
        assert_eq!(client.only_reply(10, &data), ERR_INVALID);
    }
    assert!(matches!(client.option(7, &info("db", &[])).0, Progress::Ready(_)));
}

#[test]
fn tls_comes_first_where_it_is_required_and_forgets_what_was_agreed() {
    let mut client = Client::new(Tls::Required);
    for option in [3, 6, 7, 8, 9, 10, 99] {
        assert_eq!(client.only_reply(option, &[]), ERR_TLS_REQD);
    }
    let result = client.server.receive(&option_bytes(1, b"db"), &OneExport, &mut Vec::new());
    assert_eq!(result, Err(HandshakeError::NoExport));

    let mut client = Client::new(Tls::Optional);
    client.option(8, &[]);
    client.option(10, &contexts("db", &["base:allocation"]));
    let (progress, replies) = client.option(5, &[]);
    assert_eq!((progress, replies[0].0), (Progress::StartTls, ACK));
    client.server.tls_started();
    assert_eq!(client.only_reply(5, &[]), ERR_INVALID);
    let (progress, _) = client.option(7, &info("db", &[]));
    let Progress::Ready(negotiated) = progress else { panic!("{progress:?}") };
    assert!(!negotiated.structured_replies && !negotiated.block_status);
}

#[test]
fn data_injected_before_tls_ends_the_connection() {
    let mut client = Client::new(Tls::Required);
    let bytes = [option_bytes(5, &[]), option_bytes(8, &[])].concat();
    let result = client.server.receive(&bytes, &OneExport, &mut Vec::new());
    assert_eq!(result, Err(HandshakeError::DataBeforeTls));
}

#[test]
fn what_is_no_client_is_turned_away_at_once() {
    let fresh = || Handshake::new(Tls::Off, &mut Vec::new());
    let receive = |bytes: &[u8]| fresh().receive(bytes, &OneExport, &mut Vec::new());
    assert!(matches!(receive(b"GET / HTTP/1.1"), Err(HandshakeError::Flags(_))));
    assert_eq!(receive(b"\0\0\0\x01X"), Err(HandshakeError::Magic));
    let huge = [&[0, 0, 0, 1][..], b"IHAVEOPT\0\0\0\x07\xff\xff\xff\xff"].concat();
    assert_eq!(receive(&huge), Err(HandshakeError::OptionLength(u32::MAX)));
    let flood = [vec![0, 0, 0, 1], option_bytes(3, &[]).repeat(5000)].concat();
    assert_eq!(receive(&flood), Err(HandshakeError::TooManyOptions));
}

fn run(chunks: &[&[u8]]) -> (Vec<u8>, Result<Progress, HandshakeError>) {
    let mut out = Vec::new();
    let mut server = Handshake::new(Tls::Optional, &mut out);
    let mut progress = Ok(Progress::More);
    for chunk in chunks {
        progress = server.receive(chunk, &OneExport, &mut out);
        if progress != Ok(Progress::More) {
            break;
        }
    }
    (out, progress)
}

proptest! {
    #[test]
    fn how_the_bytes_are_cut_makes_no_difference(
        options in vec((0..12u32, vec(any::<u8>(), 0..40)), 0..12),
        size in 1..50usize,
    ) {
        let mut bytes = vec![0, 0, 0, 3];
        for (option, data) in &options {
            let data = if option % 3 == 0 { info("db", &[3]) } else { data.clone() };
            // Options after which the server waits make leftovers differ by the cut.
            if !matches!(option, 1 | 2 | 5 | 7) {
                bytes.extend_from_slice(&option_bytes(*option, &data));
            }
        }
        bytes.extend_from_slice(&option_bytes(7, &info("db", &[])));
        let chunks: Vec<_> = bytes.chunks(size).collect();
        prop_assert_eq!(run(&[&bytes]), run(&chunks));
    }

    #[test]
    fn no_input_panics(
        options in vec((0..12u32, any::<u16>(), vec(any::<u8>(), 0..64)), 0..12),
        tail in vec(any::<u8>(), 0..64),
    ) {
        let mut bytes = vec![0, 0, 0, 3];
        for (option, length, data) in &options {
            let mut option = option_bytes(*option, data);
            if length % 8 == 0 {
                option[14..16].copy_from_slice(&length.to_be_bytes());
            }
            bytes.extend_from_slice(&option);
        }
        bytes.extend_from_slice(&tail);
        let _ = run(&[&bytes]);
    }
}
