//! A connection whose host proves who it is, byte by byte.

use super::*;
use crate::nvme::authentication::tests::vectors::Vector;
use crate::nvme::authentication::tests::{controller, failure2, negotiate, reply, success2};
use crate::nvme::command::{COMPLETION_LENGTH, Completion};
use crate::nvme::connection::tests::host::{Host, IN_CAPSULE, ON_REQUEST, entry};
use crate::nvme::controller::QueueName;
use crate::nvme::handshake::{Handshake, Progress};

const NAME: QueueName = QueueName { controller: 0x102, queue: 0 };
/// Room that Linux has for a message.
const ROOM: u32 = 4096;
const SEND: u8 = 5;
const RECEIVE: u8 = 6;

/// A host and the connection that it has, after Connect.
struct Pair {
    host: Host,
    side: Authenticating,
    out: Vec<u8>,
}

fn command(identifier: u16, kind: u8, how: u8, length: u32) -> [u8; 64] {
    let mut bytes = entry(0x7f, identifier, how, length);
    bytes[4] = kind;
    bytes[40..44].copy_from_slice(&[0, 1, 1, 0xe9]);
    bytes[44..48].copy_from_slice(&length.to_le_bytes());
    bytes
}

impl Pair {
    fn new(mut host: Host, vector: &Vector) -> Self {
        let mut data = vec![7; 16];
        data.extend([0xff, 0xff]);
        data.resize(256, 0);
        data.extend(b"nqn.disk");
        data.resize(512, 0);
        data.extend(b"nqn.host");
        data.resize(1024, 0);
        let mut connect = entry(0x7f, 5, IN_CAPSULE, 1024);
        (connect[4], connect[44], connect[46]) = (1, 31, 1 << 2);
        let (mut handshake, mut out) = (Handshake::default(), Vec::new());
        let bytes = [host.initialize(), host.capsule(&connect, &data)].concat();
        let (used, progress) = handshake.receive(&bytes, &mut out);
        assert!(matches!(progress, Progress::Connect(_)) && used == bytes.len());
        let side = handshake.challenge(NAME, controller(vector), &mut out).unwrap();
        let mut this = Self { host, side, out };
        let answer = this.completion();
        assert_eq!((answer.status, answer.result), (Status::Success, 0x2_0102), "with ATR");
        this
    }

    /// The answer that was appended last.
    fn completion(&mut self) -> Completion {
        let trailer = if self.host.header_digest { 4 } else { 0 };
        let end = self.out.len() - trailer;
        let bytes: [u8; COMPLETION_LENGTH] =
            self.out[end - COMPLETION_LENGTH..end].try_into().unwrap();
        self.out.clear();
        Completion::read(&bytes).unwrap()
    }

    /// Gives bytes one after another; the first step that isn't to wait.
    fn feed(&mut self, bytes: &[u8]) -> ProofProgress {
        for (at, byte) in bytes.iter().enumerate() {
            let (used, step) = self.side.receive(&[*byte], &mut self.out);
            assert_eq!(used, 1);
            if !matches!(step, ProofProgress::Wait) {
                assert_eq!(at + 1, bytes.len(), "{step:?}");
                return step;
            }
        }
        ProofProgress::Wait
    }

    /// Sends a message in a capsule, and computes what is to be computed.
    fn send(&mut self, message: &[u8]) -> ProofProgress {
        let entry = command(6, SEND, IN_CAPSULE, message.len() as u32);
        let capsule = self.host.capsule(&entry, message);
        let step = self.feed(&capsule);
        let ProofProgress::Compute(computation) = step else { return step };
        self.side.computed(computation.run(), &mut self.out);
        ProofProgress::Wait
    }

    fn receive(&mut self) -> ProofProgress {
        let capsule = self.host.capsule(&command(7, RECEIVE, ON_REQUEST, ROOM), &[]);
        self.feed(&capsule)
    }

    /// The message that was appended last. Its PDU says that the command has succeeded.
    fn message(&mut self) -> Vec<u8> {
        let trailer = if self.host.data_digest { 4 } else { 0 };
        let end = self.out.len() - trailer;
        let message = self.out[end - ROOM as usize..end].to_vec();
        self.out.clear();
        message
    }
}

#[test]
fn a_host_is_let_in_however_its_bytes_are_cut() {
    for (hash, group) in [(1, 0), (3, 1)] {
        let vector = Vector::of(hash, group);
        for host in Host::all() {
            let mut pair = Pair::new(host, &vector);
            let offer = negotiate(vector.transaction, &[hash], &[group]);
            assert!(matches!(pair.send(&offer), ProofProgress::Wait));
            assert_eq!(pair.completion().status, Status::Success);
            assert!(matches!(pair.receive(), ProofProgress::Wait));
            let challenge = pair.message();
            assert_eq!(challenge[16..16 + vector.c1.len()], vector.c1);
            let message = reply(vector.transaction, &vector.host_response, None, &vector.theirs);
            assert!(matches!(pair.send(&message), ProofProgress::Wait));
            assert_eq!(pair.completion().status, Status::Success);
            assert!(matches!(pair.receive(), ProofProgress::Proved));
            assert!(pair.out.is_empty(), "it hears nothing before there is a place for it");
            let Pair { side, mut out, host } = pair;
            let connection = side.finish(&mut out).unwrap();
            assert_eq!(connection.depth(), 32);
            let trailer = if host.data_digest { 4 } else { 0 };
            let message = &out[out.len() - trailer - ROOM as usize..];
            assert_eq!((message[0], message[1], message[8]), (1, 3, 0));
        }
    }
}

#[test]
fn both_sides_prove_themselves() {
    let vector = Vector::of(2, 1);
    let mut pair = Pair::new(Host::default(), &vector);
    pair.send(&negotiate(vector.transaction, &[2], &[1]));
    pair.receive();
    let challenge = Some((&vector.c2[..], vector.s2));
    pair.send(&reply(vector.transaction, &vector.host_response, challenge, &vector.theirs));
    assert!(matches!(pair.receive(), ProofProgress::Wait));
    assert_eq!(pair.message()[16..16 + 48], vector.controller_response);
    assert!(matches!(pair.send(&success2(vector.transaction)), ProofProgress::Proved));
    assert!(pair.out.is_empty());
    pair.side.finish(&mut pair.out).unwrap();
    let answer: [u8; COMPLETION_LENGTH] = pair.out[8..24].try_into().unwrap();
    assert_eq!(Completion::read(&answer).unwrap().status, Status::Success);
}

#[test]
fn who_is_refused_hears_why_and_the_connection_ends() {
    let vector = Vector::of(1, 0);
    let mut pair = Pair::new(Host::default(), &vector);
    pair.send(&negotiate(vector.transaction, &[1], &[0]));
    pair.receive();
    pair.send(&reply(vector.transaction, &[1; 32], None, &[]));
    assert_eq!(pair.completion().status, Status::Success, "the message has come");
    assert_eq!(pair.side.machine().fault(), Some(Fault::Key));
    assert!(matches!(pair.receive(), ProofProgress::Failed(Fault::Key)));
    let message = pair.message();
    assert_eq!((message[0], message[1], message[7]), (0, 0xf1, 1));
    assert!(pair.side.finish(&mut pair.out).is_err());

    let mut pair = Pair::new(Host::default(), &vector);
    pair.send(&negotiate(vector.transaction, &[1], &[0]));
    pair.receive();
    let step = pair.send(&failure2(vector.transaction, 1));
    assert!(matches!(step, ProofProgress::Failed(Fault::Disbelieved(1))));
    assert_eq!(pair.completion().status, Status::Success);
}

#[test]
fn there_may_be_no_place_any_more() {
    let vector = Vector::of(1, 0);
    let mut pair = Pair::new(Host::default(), &vector);
    pair.send(&negotiate(vector.transaction, &[1], &[0]));
    pair.receive();
    pair.send(&reply(vector.transaction, &vector.host_response, None, &[]));
    assert!(matches!(pair.receive(), ProofProgress::Proved));
    let Pair { side, .. } = pair;
    let mut out = Vec::new();
    side.refuse(Status::ControllerBusy.into(), &mut out);
    let answer = Completion::read(&out[8..24].try_into().unwrap()).unwrap();
    assert_eq!((answer.status, answer.is_final), (Status::ControllerBusy, false));
}

#[test]
fn other_commands_wait_until_the_host_is_known() {
    let vector = Vector::of(1, 0);
    let mut pair = Pair::new(Host::default(), &vector);
    let with = |kind, at: usize, byte| {
        let mut entry = command(8, kind, IN_CAPSULE, 64);
        entry[at] = byte;
        (entry, 64)
    };
    let mut property = command(8, 4, IN_CAPSULE, 0);
    property[40] = 0;
    let long = MAX_MESSAGE + 4;
    for ((entry, length), expected) in [
        ((entry(0x06, 8, ON_REQUEST, 4096), 0), Status::AuthenticationRequired),
        ((entry(0x01, 8, IN_CAPSULE, 512), 512), Status::AuthenticationRequired),
        ((property, 0), Status::AuthenticationRequired),
        (with(SEND, 43, 0xea), Status::InvalidField),
        (with(SEND, 42, 0), Status::InvalidField),
        (with(SEND, 41, 2), Status::InvalidField),
        (with(SEND, 44, 0), Status::InvalidField),
        (with(SEND, 44, 63), Status::DataLength),
        ((command(8, SEND, IN_CAPSULE, long as u32), long), Status::InvalidField),
        ((command(8, SEND, ON_REQUEST, 1 << 20), 0), Status::InvalidField),
        ((command(8, RECEIVE, ON_REQUEST, MAX_ROOM + 4), 0), Status::InvalidField),
        ((command(8, RECEIVE, ON_REQUEST, 4), 0), Status::InvalidField),
    ] {
        let capsule = pair.host.capsule(&entry, &vec![1; length]);
        assert!(matches!(pair.feed(&capsule), ProofProgress::Wait));
        let answer = pair.completion();
        assert_eq!((answer.identifier, answer.status), (8, expected), "{entry:x?}");
    }
    assert_eq!(pair.side.machine().fault(), None);
}

#[test]
fn one_message_is_under_way_at_a_time() {
    let vector = Vector::of(1, 0);
    let mut pair = Pair::new(Host::default(), &vector);
    let offer = negotiate(vector.transaction, &[1], &[0]);
    let capsule = pair.host.capsule(&command(6, SEND, ON_REQUEST, offer.len() as u32), &[]);
    pair.feed(&capsule);
    assert_eq!(pair.out[0], 9, "its data is requested");
    for kind in [SEND, RECEIVE] {
        let capsule = pair.host.capsule(&command(7, kind, ON_REQUEST, 64), &[]);
        pair.feed(&capsule);
        assert_eq!(pair.completion().status, Status::Sequence);
    }
    // The first command has the slot that it was given.
    let tag = u16::from(pair.side.connection.find(6).unwrap().index() as u8);
    let data = pair.host.data(6, tag, 0, &offer, true);
    assert!(matches!(pair.feed(&data), ProofProgress::Wait));
    assert_eq!(pair.completion().status, Status::Success);
    assert!(matches!(pair.receive(), ProofProgress::Wait));
    assert_eq!(pair.message()[1], 1, "the challenge");
}

#[test]
fn a_damaged_message_may_come_again() {
    let vector = Vector::of(1, 0);
    let host = Host { header_digest: true, data_digest: true, ..Host::default() };
    let mut pair = Pair::new(host, &vector);
    let offer = negotiate(vector.transaction, &[1], &[0]);
    let sent = command(6, SEND, IN_CAPSULE, offer.len() as u32);
    let mut damaged = pair.host.capsule(&sent, &offer);
    *damaged.last_mut().unwrap() ^= 1;
    pair.feed(&damaged);
    assert_eq!(pair.completion().status, Status::TransientTransport);
    pair.send(&offer);
    assert_eq!(pair.completion().status, Status::Success);
    pair.receive();
    assert_eq!(pair.message()[1], 1);
}
