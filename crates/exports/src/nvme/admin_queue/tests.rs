use std::time::Duration;

use super::*;
use crate::nvme::command::{COMPLETION_LENGTH, Completion};
use crate::nvme::connection::tests::host::{Host, IN_CAPSULE, ON_REQUEST, entry};
use crate::nvme::controller::{
    Hosts, Identifiers, Kind, Limits, Notice, QueueName, Subject, Subsystem,
};
use crate::nvme::discovery::{Directory, Record, RecordKind, Security};
use crate::nvme::handshake::{Handshake, Progress};

const NOW: Instant = Instant(1 << 40);
const ADMIN: QueueName = QueueName { controller: 0, queue: 0 };

/// A host with one connection to the discovery subsystem of node 0.
struct Bench {
    host: Host,
    subsystem: Subsystem,
    directory: Directory,
    queue: AdminQueue,
    now: Instant,
}

impl Bench {
    fn new(host: Host) -> Self {
        let mut host = host;
        let name = Subsystem::DISCOVERY.to_owned();
        let identifiers = Identifiers::of_attachment(0);
        let limits = Limits::default();
        let mut subsystem =
            Subsystem::new(name, Kind::Discovery, Hosts::everyone(), limits, identifiers);
        let mut connect = entry(0x7f, 1, IN_CAPSULE, 1024);
        connect[44] = 31;
        let mut data = vec![0; 1024];
        data[..16].fill(3);
        data[16..18].fill(0xff);
        data[256..][..Subsystem::DISCOVERY.len()].copy_from_slice(Subsystem::DISCOVERY.as_bytes());
        data[512..517].copy_from_slice(b"nqn.a");
        let bytes = [host.initialize(), host.capsule(&connect, &data)].concat();
        let (mut handshake, mut out) = (Handshake::default(), Vec::new());
        let (_, progress) = handshake.receive(&bytes, &mut out);
        let Progress::Connect(connect) = progress else { panic!("{progress:?}") };
        let name = subsystem.connect(&connect, &handshake.data().unwrap(), NOW).unwrap();
        assert_eq!(name, ADMIN);
        let queue = AdminQueue::new(handshake.accept(name, &mut out).unwrap());
        Self { host, subsystem, directory: Directory::default(), queue, now: NOW }
    }

    /// What the queue answers to these bytes.
    fn receive(&mut self, bytes: &[u8]) -> Result<Vec<u8>, End> {
        let subject = Subject::Discovery(&self.directory, [127, 0, 0, 1].into());
        let facts = Facts { serial: "a5", firmware: "1", subsystem: Subsystem::DISCOVERY, subject };
        let controller = self.subsystem.controller(0).unwrap();
        let mut out = Vec::new();
        self.queue.receive(bytes, controller, &facts, self.now, &mut out)?;
        self.subsystem.check_invariants();
        Ok(out)
    }

    /// Asks, with these bytes of the entry; what the answer is.
    fn ask(&mut self, opcode: u8, identifier: u16, kind: u8, bytes: &[(usize, u8)]) -> Vec<u8> {
        let length = if opcode == 0x02 { 3072 } else { 0 };
        let mut entry = entry(opcode, identifier, ON_REQUEST, length);
        entry[4] = kind;
        bytes.iter().for_each(|(at, byte)| entry[*at] = *byte);
        let capsule = self.host.capsule(&entry, &[]);
        self.receive(&capsule).unwrap()
    }

    fn events(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.queue.answer_kept(self.subsystem.controller(0).unwrap(), &mut out);
        out
    }

    /// The answers in what was sent, as command, status and result.
    fn answers(&self, mut out: &[u8]) -> Vec<(u16, Status, u64)> {
        let mut answers = Vec::new();
        while !out.is_empty() {
            let length = u32::from_le_bytes(out[4..8].try_into().unwrap()) as usize;
            if out[0] == 5 {
                let bytes: [u8; COMPLETION_LENGTH] = out[8..24].try_into().unwrap();
                let completion = Completion::read(&bytes).unwrap();
                answers.push((completion.identifier, completion.status, completion.result));
            }
            out = &out[length..];
        }
        answers
    }
}

fn record(port: u16, host: &str) -> Record {
    Record {
        kind: RecordKind::Volume,
        subsystem: "nqn.disk".to_owned(),
        port,
        address: ([192, 0, 2, 1], 4420).into(),
        security: Security::None,
        hosts: Hosts::named([host.to_owned()]),
    }
}

#[test]
fn a_host_keeps_discovering() {
    for host in Host::all() {
        let mut bench = Bench::new(host);
        // Not enabled, then enabled: CSTS says so.
        let out = bench.ask(0x0c, 2, 0, &[]);
        assert_eq!(bench.answers(&out), [(2, Status::Sequence, 0)]);
        let out = bench.ask(0x7f, 3, 0, &[(44, 0x14), (48, 1), (50, 0x46)]);
        assert_eq!(bench.answers(&out), [(3, Status::Success, 0)]);
        let out = bench.ask(0x7f, 4, 4, &[(44, 0x1c)]);
        assert_eq!(bench.answers(&out), [(4, Status::Success, 1)]);
        // It wants to know about changes, with a keep-alive time of 512 ms.
        bench.ask(0x09, 5, 0, &[(40, 0x0b), (47, 0x80)]);
        bench.ask(0x09, 6, 0, &[(40, 0x0f), (45, 2)]);
        assert_eq!(bench.ask(0x0c, 7, 0, &[]), []);
        for (records, is_seen) in
            [(vec![record(1, "nqn.b")], false), (vec![record(1, "nqn.a")], true)]
        {
            let reported = bench.directory.replace(records).unwrap();
            assert_eq!(reported("nqn.a"), is_seen);
            if is_seen {
                bench.subsystem.controller(0).unwrap().notify(Notice::Discovery);
            }
            let events = bench.events();
            let expected: &[_] = if is_seen { &[(7, Status::Success, 0x70_f002)] } else { &[] };
            assert_eq!(bench.answers(&events), expected);
        }
        // 3,072 bytes of the log page: its header, one record, zeroes.
        let out = bench.ask(0x02, 8, 0, &[(40, 0x70), (42, 0xff), (43, 2)]);
        let digests = usize::from(bench.host.header_digest) * 4;
        let start = 24 + digests;
        assert_eq!((out[start], out[start + 8], out[start + 1024]), (2, 1, 3));
        assert_eq!(&out[start + 1280..start + 1289], b"nqn.disk\0");
        assert_eq!(bench.answers(&out), [(8, Status::Success, 0)]);
    }
}

#[test]
fn silence_and_the_end_close_the_connection() {
    let mut bench = Bench::new(Host::default());
    bench.now = NOW + Duration::from_secs(120);
    assert_eq!(bench.subsystem.expires(), Some(bench.now));
    bench.subsystem.expire(bench.now);
    let controller = bench.subsystem.controller(0).unwrap();
    assert_eq!(controller.take_closing(), [0]);
    bench.subsystem.gone(ADMIN);
    assert!(bench.subsystem.controller(0).is_none());
}

#[test]
fn data_of_a_command_is_nobodys_and_a_broken_one_ends_the_queue() {
    let mut bench = Bench::new(Host::default());
    // A firmware download: it is answered when its data has come, which is passed over.
    let capsule = bench.host.capsule(&entry(0x11, 9, IN_CAPSULE, 512), &[1; 512]);
    let (first, rest) = capsule.split_at(200);
    assert_eq!(bench.receive(first), Ok(vec![]));
    let out = bench.receive(rest).unwrap();
    assert_eq!(bench.answers(&out), [(9, Status::Sequence, 0)]);
    let out = bench.receive(&[0x55; 8]);
    assert!(matches!(out, Err(End::Malformed(_))), "{out:?}");
}
