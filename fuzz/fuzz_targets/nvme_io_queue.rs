//! A queue for I/O, served by the front end with the fuzzer as host, kernel, volume and controller.
//! The first byte sets the digests and the memory; then come steps: a letter, and what belongs to
//! it.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{Receiver, channel};

use evenkeel_core::{HostId, Operation, Payload, Reply, RequestError};
use evenkeel_engine::frontend::FrontendAction;
use evenkeel_engine::memory::Reservation;
use evenkeel_engine::{
    Buffer, BufferMut, Descriptor, Frontend, FrontendContext, FrontendEvent, RequestToken,
};
use evenkeel_exports::nvme::command::Status;
use evenkeel_exports::nvme::controller::{Namespace, QueueName};
use evenkeel_exports::nvme::handshake::{Handshake, Progress};
use evenkeel_exports::nvme::io_queue::{
    CLOSED, IoQueue, RESERVATIONS_ANSWERED, ReservationAnswers, Reserving, abort, front_end,
};
use evenkeel_exports::nvme::pdu::{
    Data, DataDigest, Flags, Framing, InitializeRequest, Kind, put_command,
};
use libfuzzer_sys::fuzz_target;

const SIZE: u64 = 1 << 20;
const NAMESPACE: Namespace = Namespace {
    identifier: [7; 16],
    size: SIZE,
    block_size: 512,
    best_write: 4096,
    is_read_only: false,
    has_reservations: true,
};
/// Entries of the queue, less one: as Connect says it.
const DEPTH: u8 = 15;

struct Bench {
    framing: Framing,
    frontend: Box<dyn Frontend>,
    context: FrontendContext,
    lent: Option<(BufferMut, Range<usize>)>,
    /// What the volume has, with the room for what is read.
    submitted: BTreeMap<RequestToken, (Operation<Buffer>, Option<Reservation>)>,
    /// The tokens of what was given up.
    cancelled: BTreeSet<RequestToken>,
    drains: bool,
    /// What was sent and not looked at.
    sent: Vec<u8>,
    /// Bytes that the kernel has not sent.
    unsent: usize,
    /// Data that was requested: command, tag, offset, length.
    requested: Vec<Data>,
    /// Commands that were sent and not answered, as far as each had its own identifier.
    open: BTreeSet<u16>,
    /// Whether the host has kept to the protocol: only then its commands can be told apart.
    is_sound: bool,
    reported: Receiver<(u16, bool)>,
    /// What the control plane is asked about reservations, and where its answers go.
    asked: Receiver<u16>,
    answers: ReservationAnswers,
    /// How many commands were to be aborted and are not decided.
    aborts: usize,
    ended: bool,
}

impl Bench {
    fn new(mode: u8) -> Self {
        let framing =
            Framing { header_digest: mode & 1 != 0, data_digest: mode & 2 != 0, alignment: 0 };
        let memory = if mode & 4 != 0 { 8 << 10 } else { 1 << 20 };
        let (report, reported) = channel();
        let (ask, asked) = channel();
        let answers = ReservationAnswers::default();
        let reserving = Reserving {
            ask: Box::new(move |number, _| ask.send(number).expect("somebody is asked")),
            answers: answers.clone(),
            excluded: Arc::new(AtomicBool::new(mode & 8 != 0)),
        };
        let queue = IoQueue {
            connection: connect(&framing),
            namespace: NAMESPACE,
            size: Arc::new(AtomicU64::new(SIZE)),
            host: HostId(5),
            rest: Vec::new(),
            deleted: Box::new(|| {}),
            aborted: Box::new(move |command, is_aborted| {
                // Nobody hears it when the input is over.
                let _ = report.send((command, is_aborted));
            }),
            reserving: Some(reserving),
        };
        let (socket, _host) = UnixStream::pair().expect("a pair of sockets");
        let mut bench = Self {
            framing,
            frontend: front_end(socket.into(), queue)(),
            context: FrontendContext::detached(memory),
            lent: None,
            submitted: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            drains: false,
            sent: Vec::new(),
            unsent: 0,
            requested: Vec::new(),
            open: BTreeSet::new(),
            is_sound: true,
            reported,
            asked,
            answers,
            aborts: 0,
            ended: false,
        };
        bench.event(FrontendEvent::Started);
        bench
    }

    fn event(&mut self, event: FrontendEvent) {
        if self.ended {
            return;
        }
        self.frontend.handle(event, &mut self.context);
        for action in self.context.take_actions() {
            assert!(!self.ended, "nothing follows the end");
            match action {
                FrontendAction::Receive { memory, range, .. } => {
                    assert!(self.lent.is_none() && !range.is_empty() && range.end <= memory.len());
                    self.lent = Some((memory, range));
                }
                FrontendAction::Send { bytes, .. } => self.send(&bytes),
                FrontendAction::SendBuffer { buffer, .. } => self.send(&buffer),
                FrontendAction::Submit { token, operation, room, .. } => {
                    self.submit(token, operation, room);
                }
                FrontendAction::Cancel { token } => {
                    assert!(self.submitted.contains_key(&token), "the volume has it");
                    self.cancelled.insert(token);
                }
                FrontendAction::Drain => {
                    assert!(!std::mem::replace(&mut self.drains, true), "once is enough");
                }
                FrontendAction::End { .. } => self.ended = true,
                _ => {}
            }
        }
        let decided = self.reported.try_iter().count();
        self.aborts = self.aborts.checked_sub(decided).expect("each is decided once");
        self.take_reports();
    }

    fn submit(
        &mut self,
        token: RequestToken,
        operation: Operation<Buffer>,
        room: Option<Reservation>,
    ) {
        assert!(!self.drains, "nothing is begun any more");
        let (offset, length) = match &operation {
            Operation::Read { offset, length } => (*offset, u64::from(*length)),
            Operation::Write { offset, payload, .. } => (*offset, payload.length().into()),
            Operation::CompareAndWrite { offset, expected, payload, .. } => {
                assert_eq!(expected.length(), payload.length());
                (*offset, payload.length().into())
            }
            Operation::Zero { offset, length, .. } => (*offset, *length),
            Operation::Flush => (0, 0),
            operation => panic!("no command asks for {operation:?}"),
        };
        assert!(offset + length <= SIZE && (offset | length) % 512 == 0, "{operation:?}");
        self.cancelled.remove(&token);
        let before = self.submitted.insert(token, (operation, room));
        assert!(before.is_none(), "a token names one request");
        assert!(self.submitted.len() <= usize::from(DEPTH) + 1);
    }

    fn send(&mut self, bytes: &[u8]) {
        self.sent.extend_from_slice(bytes);
        self.unsent += bytes.len();
    }

    /// The host looks at what has come.
    fn take_reports(&mut self) {
        let mut sent = &self.sent[..];
        while let Some([kind, _, _, _, length @ ..]) = sent.first_chunk::<8>().copied() {
            let length = u32::from_le_bytes(length) as usize;
            assert!(length >= 8, "what is sent is PDUs");
            let Some((pdu, rest)) = sent.split_at_checked(length) else { break };
            sent = rest;
            let number = |at: usize| u16::from_le_bytes([pdu[at], pdu[at + 1]]);
            let long = |at: usize| u32::from(number(at)) | u32::from(number(at + 2)) << 16;
            match kind {
                5 if self.is_sound => {
                    assert!(self.open.remove(&number(20)), "each command is answered once");
                }
                9 => self.requested.push(Data {
                    command: number(8),
                    tag: number(10),
                    offset: long(12),
                    length: long(16),
                }),
                _ => {}
            }
        }
        let left = sent.len();
        self.sent.drain(..self.sent.len() - left);
    }

    /// The host sends bytes; as many as the queue takes.
    fn receive(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty()
            && let Some((mut memory, range)) = self.lent.take()
        {
            let count = bytes.len().min(range.len());
            memory[range.start..range.start + count].copy_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            let result = Ok(count);
            self.event(FrontendEvent::Received { descriptor: Descriptor(0), memory, result });
        }
        // The rest is lost, and with it where PDUs begin.
        self.is_sound &= bytes.is_empty();
    }

    /// A command, for blocks of which the script says where and how many.
    fn command(&mut self, [opcode, identifier, place, count, kind, fuse]: [u8; 6]) {
        const OPCODES: [u8; 9] = [0x00, 0x01, 0x01, 0x02, 0x05, 0x08, 0x09, 0x0c, 0x7f];
        const OF_RESERVATIONS: [u8; 4] = [0x0d, 0x0e, 0x11, 0x15];
        let opcode = match opcode {
            0xf0.. => OF_RESERVATIONS[usize::from(opcode) % 4],
            _ => OPCODES[usize::from(opcode) % OPCODES.len()],
        };
        let blocks = count % 32;
        let mut length = (u32::from(blocks) + 1) * 512;
        let mut entry = [0; 64];
        (entry[0], entry[1], entry[2], entry[4]) =
            (opcode, 0x40 | (fuse & 3) * (fuse >> 7), identifier, 1);
        match opcode {
            0x09 => {
                (entry[40], entry[44], length) = (blocks, 4, (u32::from(blocks) + 1) * 16);
            }
            0x0d | 0x11 | 0x15 => {
                (entry[40], entry[41]) = (place, blocks % 8);
                length = if opcode == 0x15 { 8 } else { 16 };
            }
            0x0e => (entry[40], entry[44], length) = (blocks, 1, (u32::from(blocks) + 1) * 4),
            0x7f => (entry[4], length) = (8, 0),
            0x00 | 0x08 | 0x0c => length = 0,
            _ => {}
        }
        if !matches!(opcode, 0x09 | 0x0d | 0x0e | 0x11 | 0x15 | 0x7f) {
            (entry[40], entry[48]) = (place, blocks);
        }
        let in_capsule = kind & 1 == 0 && length <= 8192 && !matches!(opcode, 0x02 | 0x0e);
        entry[39] = if in_capsule { 1 } else { 0x5a };
        entry[32..36].copy_from_slice(&length.to_le_bytes());
        let data = if in_capsule { length } else { 0 };
        let mut bytes = Vec::new();
        put_command(&entry, data, &self.framing, &mut bytes);
        self.put_data(&vec![place; data as usize], &mut bytes);
        // An identifier that is in use breaks the protocol, and so do too many commands.
        let is_new = self.open.insert(identifier.into());
        self.is_sound &= is_new && self.open.len() <= usize::from(DEPTH);
        self.receive(&bytes);
    }

    fn put_data(&self, data: &[u8], bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(data);
        if self.framing.data_digest && !data.is_empty() {
            bytes.extend_from_slice(&DataDigest::of(data));
        }
    }

    /// The host sends what was requested, or a part of it.
    fn data(&mut self, which: u8) {
        if self.requested.is_empty() {
            return;
        }
        let index = usize::from(which) % self.requested.len();
        let mut data = self.requested.remove(index);
        let all = data.length;
        if which & 0x80 != 0 && all > 512 {
            data.length = 512;
            let (offset, length) = (data.offset + 512, all - 512);
            self.requested.insert(index, Data { offset, length, ..data });
        }
        let mut bytes = Vec::new();
        let flags = Flags { last: data.length == all, success: false };
        data.put(Kind::HostData, flags, &self.framing, &mut bytes);
        self.put_data(&vec![which; data.length as usize], &mut bytes);
        self.receive(&bytes);
    }

    /// The volume answers.
    fn reply(&mut self, which: u8, how: u8) {
        let token = self.submitted.keys().nth(usize::from(which) % self.submitted.len().max(1));
        let Some(&token) = token else { return };
        let Some((operation, _room)) = self.submitted.remove(&token) else { return };
        let is_cancelled = self.cancelled.remove(&token);
        let result = match operation {
            _ if is_cancelled && how & 1 != 0 => Err(RequestError::Cancelled),
            _ if how & 6 == 6 => Err(RequestError::NoData),
            Operation::Read { length, .. } => {
                let buffer = self.context.allocate_fixed(length as usize).freeze();
                Ok(Reply::Data(vec![(0, buffer)]))
            }
            Operation::CompareAndWrite { .. } if how & 8 != 0 => Ok(Reply::Miscompare { at: 3 }),
            _ => Ok(Reply::Done),
        };
        self.event(FrontendEvent::Reply { token, result });
    }

    /// The control plane answers all that it was asked.
    fn answer(&mut self, how: u8) {
        let numbers: Vec<u16> = self.asked.try_iter().collect();
        for number in numbers {
            let report = vec![how; usize::from(how) * 16];
            let answer = if how & 1 == 0 { Ok(report) } else { Err(Status::ReservationConflict) };
            self.answers.answer(number, answer);
        }
        self.event(FrontendEvent::Reported { what: RESERVATIONS_ANSWERED });
    }

    fn drained(&mut self) {
        if self.drains && self.submitted.is_empty() {
            self.event(FrontendEvent::Drained);
        }
    }

    fn taken(&mut self) {
        let result = Ok(std::mem::take(&mut self.unsent));
        self.event(FrontendEvent::Sent { descriptor: Descriptor(0), result });
    }

    fn step(&mut self, letter: u8, input: &mut &[u8]) {
        match letter % 16 {
            0..=5 => self.command(take(input)),
            6 | 7 => self.data(take::<1>(input)[0]),
            8 | 9 => {
                let [which, how] = take(input);
                self.reply(which, how);
            }
            10 => {
                self.aborts += 1;
                let what = abort(take::<1>(input)[0].into());
                self.event(FrontendEvent::Reported { what });
            }
            11 => self.taken(),
            12 => self.event(FrontendEvent::MemoryAvailable),
            13 => {
                if let Some(moment) = self.frontend.next_wakeup() {
                    self.context.set_now(moment);
                    self.event(FrontendEvent::Tick);
                }
            }
            14 => match take::<1>(input)[0] {
                7 => self.event(FrontendEvent::Reported { what: CLOSED }),
                how @ 128.. => self.answer(how),
                _ => self.drained(),
            },
            _ => {
                let length = usize::from(take::<1>(input)[0]).min(input.len());
                let (bytes, rest) = input.split_at(length);
                *input = rest;
                self.is_sound = false;
                self.receive(bytes);
            }
        }
    }

    /// Whatever was begun, a queue that is closed ends when the volume has done with it.
    fn end(&mut self) {
        self.event(FrontendEvent::Reported { what: CLOSED });
        for _ in 0..2 {
            while !self.submitted.is_empty() && !self.ended {
                self.reply(0, 1);
            }
            self.drained();
            self.answer(0);
            self.taken();
        }
        assert!(self.ended, "it ends");
        assert_eq!(self.aborts, 0, "each abort is decided");
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

/// The connection of a host that has connected it as its first queue for I/O.
fn connect(framing: &Framing) -> evenkeel_exports::nvme::connection::Connection {
    let request = InitializeRequest {
        alignment: 0,
        header_digest: framing.header_digest,
        data_digest: framing.data_digest,
        max_ready: 0,
    };
    let mut bytes = Vec::new();
    request.put(&mut bytes);
    let mut entry = [0; 64];
    (entry[0], entry[1], entry[4], entry[33], entry[39]) = (0x7f, 0x40, 1, 4, 1);
    (entry[42], entry[44]) = (1, DEPTH);
    put_command(&entry, 1024, framing, &mut bytes);
    let mut sent = vec![3; 18];
    sent.resize(256, 0);
    sent.extend(b"nqn.volume");
    sent.resize(512, 0);
    sent.extend(b"nqn.host");
    sent.resize(1024, 0);
    bytes.extend_from_slice(&sent);
    if framing.data_digest {
        bytes.extend_from_slice(&DataDigest::of(&sent));
    }
    let (mut handshake, mut out) = (Handshake::default(), Vec::new());
    let (_, progress) = handshake.receive(&bytes, &mut out);
    let Progress::Connect(_) = progress else { panic!("{progress:?}") };
    let name = QueueName { controller: 0x0303, queue: 1 };
    handshake.accept(name, &mut out).expect("it has connected")
}

fuzz_target!(|input: &[u8]| {
    let Some((mode, mut input)) = input.split_first() else { return };
    let mut bench = Bench::new(*mode);
    while !input.is_empty() && !bench.ended {
        let letter = take::<1>(&mut input)[0];
        bench.step(letter, &mut input);
    }
    if !bench.ended {
        bench.end();
    }
});
