//! A host's admin queue from its first byte on, with all that can happen meanwhile. The first byte
//! sets the kind of controller and the digests; then come steps: a letter, and what belongs to it.
#![no_main]

use std::time::Duration;

use evenkeel_core::Instant;
use evenkeel_exports::nvme::admin_queue::AdminQueue;
use evenkeel_exports::nvme::command::{
    COMPLETION_LENGTH, Completion, Connect, ConnectData, Status,
};
use evenkeel_exports::nvme::connection::MAX_TRANSFER;
use evenkeel_exports::nvme::controller::{
    Facts, Health, Hosts, Identifiers, Kind, Limits, Namespace, Notice, Path, PathState, QueueName,
    Subject, Subsystem, Volume,
};
use evenkeel_exports::nvme::discovery::{Directory, Record, RecordKind, Security};
use evenkeel_exports::nvme::handshake::{Handshake, Progress};
use evenkeel_exports::nvme::pdu::{DataDigest, Framing, InitializeRequest, put_command};
use evenkeel_exports::nvme::reservation::ReservationNotice;
use libfuzzer_sys::fuzz_target;

const NAME: &str = "nqn.2014-08.org.nvmexpress:uuid:a5";
const HOST: &str = "nqn.host";
const VOLUME: Volume = Volume {
    namespace: Namespace {
        identifier: [7; 16],
        size: 1 << 30,
        block_size: 4096,
        best_write: 4096,
        is_read_only: false,
        has_reservations: true,
    },
    path: Path { state: PathState::Optimized, changes: 1 },
    health: Health {
        is_degraded: true,
        is_read_only: false,
        read: 1,
        written: 2,
        reads: 3,
        writes: 4,
        media_errors: 5,
    },
    reservations_persist: false,
};

struct Target {
    framing: Framing,
    subsystem: Subsystem,
    directory: Directory,
    is_discovery: bool,
    queue: AdminQueue,
    admin: QueueName,
    now: Instant,
    /// Commands that were sent and not answered.
    open: usize,
    io: Vec<QueueName>,
}

/// Connect's data.
fn data(controller: u16) -> ConnectData<'static> {
    ConnectData { host: [3; 16], controller, subsystem: NAME, host_name: HOST }
}

impl Target {
    fn new(mode: u8) -> Self {
        let framing =
            Framing { header_digest: mode & 1 != 0, data_digest: mode & 2 != 0, alignment: 0 };
        let is_discovery = mode & 4 != 0;
        let kind = if is_discovery { Kind::Discovery } else { Kind::Volume };
        let hosts = Hosts::named([HOST.to_owned()]);
        let identifiers = Identifiers::of_attachment(3);
        let mut subsystem =
            Subsystem::new(NAME.to_owned(), kind, hosts, Limits::default(), identifiers);
        let (queue, admin) = connect(&framing, &mut subsystem);
        let directory = Directory::default();
        let now = Instant(1 << 40);
        let (open, io) = (0, Vec::new());
        Self { framing, subsystem, directory, is_discovery, queue, admin, now, open, io }
    }

    /// Gives the queue bytes. Returns whether it goes on.
    fn receive(&mut self, bytes: &[u8], commands: usize) -> bool {
        let subject = match self.is_discovery {
            true => Subject::Discovery(&self.directory, [127, 0, 0, 1].into()),
            false => Subject::Volume(&VOLUME),
        };
        let facts = Facts { serial: "a5", firmware: "1.2", subsystem: NAME, subject };
        let Some(controller) = self.subsystem.controller(self.admin.controller) else {
            return false;
        };
        let was_ready = controller.is_ready();
        let mut out = Vec::new();
        let result = self.queue.receive(bytes, controller, &facts, self.now, &mut out);
        assert!(out.len() <= commands * (MAX_TRANSFER as usize + 512) + 152, "answers are bounded");
        if result.is_err() {
            return false;
        }
        self.open += commands;
        self.answered(&out, was_ready);
        true
    }

    /// One command, with so much data in its capsule.
    fn command(&mut self, entry: &[u8; 64], length: usize) -> bool {
        let mut bytes = Vec::new();
        put_command(entry, length as u32, &self.framing, &mut bytes);
        let data = vec![5; length];
        bytes.extend_from_slice(&data);
        if self.framing.data_digest && length > 0 {
            bytes.extend_from_slice(&DataDigest::of(&data));
        }
        self.receive(&bytes, 1)
    }

    /// Answers to commands that were kept.
    fn kept(&mut self) {
        let mut out = Vec::new();
        if let Some(controller) = self.subsystem.controller(self.admin.controller) {
            self.queue.answer_kept(controller, &mut out);
        }
        self.answered(&out, true);
    }

    /// Counts answers. While the controller isn't ready, no command is understood that isn't one of
    /// Fabrics.
    fn answered(&mut self, mut out: &[u8], was_ready: bool) {
        while let Some([kind, _, _, _, length @ ..]) = out.first_chunk::<8>().copied() {
            let (pdu, rest) = out.split_at(u32::from_le_bytes(length) as usize);
            out = rest;
            if kind != 5 {
                assert!(was_ready, "there is no data before the controller is ready");
                continue;
            }
            let bytes: [u8; COMPLETION_LENGTH] = pdu[8..24].try_into().expect("it is long enough");
            let completion = Completion::read(&bytes).expect("its status is known");
            assert_eq!(completion.is_final, completion.status.is_final());
            self.open = self.open.checked_sub(1).expect("each command is answered once");
        }
    }

    /// Has a queue for I/O connected.
    fn join(&mut self, queue: u16, size: u32) {
        let keep_alive = Duration::ZERO;
        let connect = Connect { queue, size, without_flow_control: false, keep_alive };
        match self.subsystem.connect(&connect, &data(self.admin.controller), self.now) {
            Ok(name) => self.io.push(name),
            Err(refusal) => {
                let is_pointed_at = refusal.status == Status::ConnectParameters;
                let is_known = matches!(
                    refusal.status,
                    Status::Sequence | Status::ControllerBusy | Status::ConnectHost
                );
                assert!(is_pointed_at || (is_known && refusal.result == 0), "{refusal:?}");
            }
        }
    }

    /// A queue for I/O is gone.
    fn gone(&mut self, which: u8) {
        if !self.io.is_empty() {
            let name = self.io.remove(usize::from(which) % self.io.len());
            self.subsystem.gone(name);
        }
    }

    fn publish(&mut self, count: u8) {
        let record = |port: u8| Record {
            kind: RecordKind::Volume,
            subsystem: NAME.to_owned(),
            port: port.into(),
            address: ([192, 0, 2, port], 4420).into(),
            security: Security::None,
            hosts: if port % 2 == 0 { Hosts::everyone() } else { Hosts::named([HOST.to_owned()]) },
        };
        let records = (0..count % 8).map(record).collect();
        let reported = self.directory.replace(records).expect("there are few");
        if reported(HOST) {
            self.subsystem.notify(Notice::Discovery);
        }
    }

    /// One step. Returns whether the queue goes on.
    fn step(&mut self, letter: u8, input: &mut &[u8]) -> bool {
        let byte = take::<1>(input)[0];
        match letter % 16 {
            // Any entry, with any data in its capsule.
            0 => {
                let entry = take::<64>(input);
                return self.command(&entry, usize::from(byte) * 4);
            }
            // One with a pointer that fits: so many dwords for the host.
            1..=6 => {
                let mut entry = take::<64>(input);
                let opcodes = [0x02, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x18, 0x7f];
                entry[0] = opcodes[usize::from(byte) % opcodes.len()];
                (entry[1], entry[39]) = (0x40, 0x5a);
                entry[34..36].fill(0);
                if entry[0] == 0x02 {
                    // NUMD says as much.
                    let dwords = u32::from(u16::from_le_bytes([entry[32], entry[33]])) / 4 + 1;
                    entry[32..36].copy_from_slice(&(dwords * 4).to_le_bytes());
                    entry[42..44].copy_from_slice(&((dwords - 1) as u16).to_le_bytes());
                    entry[44..46].fill(0);
                }
                return self.command(&entry, 0);
            }
            // Enables, disables, shuts down.
            7 | 8 => {
                let mut entry = [0; 64];
                (entry[0], entry[1], entry[44]) = (0x7f, 0x40, 0x14);
                (entry[48], entry[49], entry[50]) = (byte & 1, byte & 0xc0, 0x46);
                return self.command(&entry, 0);
            }
            9 => self.join(byte.into(), u32::from(byte) + 2),
            10 => self.gone(byte),
            11 => {
                let notices = [Notice::Namespace, Notice::Path, Notice::Discovery];
                self.subsystem.notify(notices[usize::from(byte) % 3]);
                let controller = self.subsystem.controller(self.admin.controller);
                if let Some(controller) = controller.filter(|_| byte & 0x80 != 0) {
                    controller.notify_reservation(ReservationNotice::ReservationReleased);
                }
            }
            12 => {
                self.now = self.now + Duration::from_millis(u64::from(byte) * 100);
                self.subsystem.expire(self.now);
            }
            13 => self.publish(byte),
            14 => {
                if let Some(controller) = self.subsystem.controller(self.admin.controller) {
                    match byte % 4 {
                        0 => controller.shut_down(),
                        1 => controller.disconnect(u16::from(byte) + 1),
                        2 => {
                            for (queue, command) in controller.take_aborts() {
                                controller.aborted(queue, command, byte & 4 == 0);
                            }
                            for (number, _) in controller.take_persisting() {
                                controller.persisted(number, Status::Success);
                            }
                        }
                        _ => drop(controller.take_closing()),
                    }
                }
            }
            // Whatever the host sends.
            _ => {
                let length = usize::from(byte).min(input.len());
                let (bytes, rest) = input.split_at(length);
                *input = rest;
                return self.raw(bytes);
            }
        }
        self.kept();
        true
    }

    /// Bytes that are no PDU end the queue, sooner or later.
    fn raw(&mut self, bytes: &[u8]) -> bool {
        // As many commands as there might be.
        let before = self.open;
        let goes_on = self.receive(bytes, bytes.len() / 72 + 1);
        // What is counted from now on would be wrong.
        self.open = before;
        goes_on && bytes.is_empty()
    }

    fn end(&mut self) {
        self.subsystem.gone(self.admin);
        while !self.io.is_empty() {
            self.gone(0);
            self.subsystem.check_invariants();
        }
        assert_eq!(self.subsystem.controllers().count(), 0, "all are gone with their queues");
    }
}

/// The next bytes; zeroes where there are none.
fn take<const N: usize>(input: &mut &[u8]) -> [u8; N] {
    let length = N.min(input.len());
    let (bytes, rest) = input.split_at(length);
    *input = rest;
    let mut taken = [0; N];
    taken[..length].copy_from_slice(bytes);
    taken
}

/// A host's admin queue.
fn connect(framing: &Framing, subsystem: &mut Subsystem) -> (AdminQueue, QueueName) {
    let request = InitializeRequest {
        alignment: 0,
        header_digest: framing.header_digest,
        data_digest: framing.data_digest,
        max_ready: 0,
    };
    let mut bytes = Vec::new();
    request.put(&mut bytes);
    let mut entry = [0; 64];
    (entry[0], entry[1], entry[4], entry[33], entry[39], entry[44]) = (0x7f, 0x40, 1, 4, 1, 31);
    put_command(&entry, 1024, framing, &mut bytes);
    let mut sent = vec![3; 16];
    sent.extend([0xff, 0xff]);
    sent.resize(256, 0);
    sent.extend(NAME.as_bytes());
    sent.resize(512, 0);
    sent.extend(HOST.as_bytes());
    sent.resize(1024, 0);
    bytes.extend_from_slice(&sent);
    if framing.data_digest {
        bytes.extend_from_slice(&DataDigest::of(&sent));
    }
    let (mut handshake, mut out) = (Handshake::default(), Vec::new());
    let (_, progress) = handshake.receive(&bytes, &mut out);
    let Progress::Connect(connect) = progress else { panic!("{progress:?}") };
    let named = handshake.data().expect("its data is right");
    let name = subsystem.connect(&connect, &named, Instant(1 << 40)).expect("it is permitted");
    (AdminQueue::new(handshake.accept(name, &mut out).expect("it has connected")), name)
}

fuzz_target!(|input: &[u8]| {
    let Some((mode, mut input)) = input.split_first() else { return };
    let mut target = Target::new(*mode);
    while !input.is_empty() {
        let letter = take::<1>(&mut input)[0];
        let goes_on = target.step(letter, &mut input);
        target.subsystem.check_invariants();
        if !goes_on {
            break;
        }
        // For events, for queues, and for the volume.
        assert!(target.open <= 12, "few commands are kept");
    }
    target.end();
});
