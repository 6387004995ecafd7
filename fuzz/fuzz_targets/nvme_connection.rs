//! A host's side of a connection of NVMe over TCP, taken whole and in pieces. The first byte sets
//! the digests, whether they are made right, flow control, and the size of the pieces.
#![no_main]

use evenkeel_exports::nvme::command::{Fabrics, Status};
use evenkeel_exports::nvme::connection::{
    Connection, Event, MAX_IN_CAPSULE, MAX_TRANSFER, Tag, Transfer,
};
use evenkeel_exports::nvme::pdu::{DataDigest, InitializeRequest};
use libfuzzer_sys::fuzz_target;

const DEPTH: u32 = 8;

/// Answers by fixed rules, and keeps a record.
struct Target {
    connection: Connection,
    without_flow_control: bool,
    out: Vec<u8>,
    /// Each event; data as single bytes, so that pieces make no difference.
    log: Vec<(u8, usize, u32)>,
    /// By slot: what is under way, and how many bytes of its data have come and may come.
    open: Vec<Option<(Transfer, u32, u32)>>,
    ended: bool,
}

impl Target {
    fn new(without_flow_control: bool) -> Self {
        let open = vec![None; DEPTH as usize];
        let (connection, out, log) = (Connection::default(), Vec::new(), Vec::new());
        Self { connection, without_flow_control, out, log, open, ended: false }
    }

    fn feed(&mut self, mut bytes: &[u8]) {
        loop {
            let before = self.out.len();
            let (used, event) = self.connection.receive(bytes, &mut self.out);
            let added = self.out.len() - before;
            assert!(added <= used + 152, "answers are in proportion");
            assert!(!self.ended || (added == 0 && event.is_none()), "nothing follows the end");
            bytes = &bytes[used..];
            let Some(event) = event else { break assert!(bytes.is_empty()) };
            self.event(event);
            self.connection.check_invariants();
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Command { tag, entry, transfer } => {
                assert!(self.open[tag.index()].is_none(), "the slot is free");
                self.log.push((0, tag.index(), transfer.length()));
                let in_capsule = match transfer {
                    Transfer::InCapsule(length) => length,
                    _ => 0,
                };
                assert!(in_capsule <= MAX_IN_CAPSULE && transfer.length() <= MAX_TRANSFER);
                self.open[tag.index()] = Some((transfer, 0, in_capsule));
                if entry.opcode == Fabrics::OPCODE {
                    let _ = self.connection.connected(DEPTH, self.without_flow_control);
                }
                self.begin(tag, entry.identifier, transfer);
            }
            Event::Data { tag, offset, bytes } => {
                let (_, come, may_come) = self.open[tag.index()].as_mut().expect("it is open");
                assert!(!bytes.is_empty() && offset == *come, "data has no gaps");
                *come += bytes.len() as u32;
                assert!(come <= may_come, "data was requested");
                self.log.extend(bytes.iter().map(|byte| (1, tag.index(), u32::from(*byte))));
            }
            Event::Received(tag) => {
                self.log.push((2, tag.index(), 0));
                self.received(tag);
            }
            Event::Damaged(tag) => {
                self.log.push((3, tag.index(), 0));
                assert!(self.open[tag.index()].take().is_some());
            }
            Event::Refused(_) => self.log.push((5, 0, 0)),
            Event::End(_) => {
                self.log.push((4, 0, 0));
                self.ended = true;
            }
        }
    }

    fn begin(&mut self, tag: Tag, identifier: u16, transfer: Transfer) {
        match transfer {
            Transfer::OnRequest(_) => self.request(tag),
            // Some are refused before their data has come, and some are never answered.
            _ if identifier % 8 == 7 => {}
            Transfer::InCapsule(_) if identifier % 8 != 6 => {}
            Transfer::ToHost(length) => {
                let data = vec![0; length as usize];
                let mut after = Vec::new();
                let result =
                    self.connection.answer_with(tag, 0, &[&data], &mut self.out, &mut after);
                assert!(result.is_ok());
                self.out.append(&mut after);
                self.open[tag.index()] = None;
            }
            Transfer::InCapsule(_) | Transfer::None => self.answer(tag),
        }
    }

    /// Requests the next part, of at most 4 KiB.
    fn request(&mut self, tag: Tag) {
        let (transfer, _, may_come) = self.open[tag.index()].as_mut().expect("it is open");
        let part = (transfer.length() - *may_come).min(4096);
        *may_come += part;
        assert!(self.connection.request(tag, part, &mut self.out).is_ok());
        assert!(self.connection.request(tag, part, &mut self.out).is_err(), "one at a time");
    }

    fn received(&mut self, tag: Tag) {
        let (transfer, come, may_come) = self.open[tag.index()].expect("it is open");
        assert_eq!(come, may_come, "all has come");
        if come < transfer.length() { self.request(tag) } else { self.answer(tag) }
    }

    fn answer(&mut self, tag: Tag) {
        assert!(self.connection.answer(tag, Status::Success, 0, &mut self.out).is_ok());
        assert!(self.connection.answer(tag, Status::Success, 0, &mut self.out).is_err());
        self.open[tag.index()] = None;
    }
}

/// Makes the digests right that the headers announce, or nothing would ever get past them.
fn correct(mut bytes: &mut [u8]) {
    while let Some([_, flags, header, offset, length @ ..]) = bytes.first_chunk::<8>().copied() {
        let (header, offset) = (usize::from(header), usize::from(offset));
        let length = u32::from_le_bytes(length) as usize;
        if length < 8 || length > bytes.len() {
            return;
        }
        let (pdu, rest) = bytes.split_at_mut(length);
        if flags & 1 != 0 && header + 4 <= length {
            let digest = DataDigest::of(&pdu[..header]);
            pdu[header..header + 4].copy_from_slice(&digest);
        }
        if flags & 2 != 0 && offset + 4 <= length {
            let digest = DataDigest::of(&pdu[offset..length - 4]);
            pdu[length - 4..].copy_from_slice(&digest);
        }
        bytes = rest;
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((mode, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if mode & 4 == 0 {
        correct(&mut bytes);
    }
    let request = InitializeRequest {
        alignment: 0,
        header_digest: mode & 1 != 0,
        data_digest: mode & 2 != 0,
        max_ready: 0,
    };
    let mut first = Vec::new();
    request.put(&mut first);
    let mut targets = [Target::new(mode & 8 != 0), Target::new(mode & 8 != 0)];
    let piece = usize::from(mode >> 4) * 16 + 1;
    targets.iter_mut().for_each(|target| target.feed(&first));
    targets[0].feed(&bytes);
    bytes.chunks(piece).for_each(|piece| targets[1].feed(piece));
    let [whole, cut] = &targets;
    assert!(whole.log == cut.log && whole.out == cut.out, "pieces make no difference");
    assert!(whole.connection.depth() <= DEPTH);
});
