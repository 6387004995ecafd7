//! What bytes mean doesn't depend on how they are cut; and no bytes do harm.

use proptest::prelude::*;

use super::super::{Connection, Event, Status, Tag, Transfer};
use super::host::{Host, IN_CAPSULE, ON_REQUEST, SIZE, entry};
use crate::nvme::command::{Entry, Fabrics};

/// A target that answers by fixed rules, and keeps a record.
#[derive(Default)]
struct Target {
    connection: Connection,
    out: Vec<u8>,
    /// The record, with adjacent data of a command joined.
    log: Vec<Record>,
    requested: [(u32, u32); SIZE as usize],
}

#[derive(Debug, PartialEq)]
enum Record {
    Command(Tag, Entry, Transfer),
    Data(Tag, u32, Vec<u8>),
    Other(String),
}

impl Target {
    fn feed(&mut self, mut bytes: &[u8]) {
        loop {
            let before = self.out.len();
            let (used, event) = self.connection.receive(bytes, &mut self.out);
            assert!(self.out.len() - before <= used + 152, "answers are in proportion");
            bytes = &bytes[used..];
            match event {
                Some(event) => self.event(event),
                None => break assert!(bytes.is_empty()),
            }
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Command { tag, entry, transfer } => {
                self.log.push(Record::Command(tag, entry, transfer));
                self.command(tag, &entry, transfer);
            }
            Event::Data { tag, offset, bytes } => {
                assert!(!bytes.is_empty());
                match self.log.last_mut() {
                    Some(Record::Data(last, start, data))
                        if *last == tag && *start as usize + data.len() == offset as usize =>
                    {
                        data.extend_from_slice(bytes);
                    }
                    _ => self.log.push(Record::Data(tag, offset, bytes.to_vec())),
                }
            }
            event => {
                self.log.push(Record::Other(format!("{event:?}")));
                if let Event::Received(tag) = event {
                    self.received(tag);
                }
            }
        }
    }

    fn command(&mut self, tag: Tag, entry: &Entry, transfer: Transfer) {
        let out = &mut self.out;
        match transfer {
            Transfer::OnRequest(length) => {
                self.requested[tag.index()] = (0, length);
                self.request(tag);
            }
            // Some are refused before their data is here.
            Transfer::InCapsule(_) if entry.identifier.is_multiple_of(5) => {
                self.connection.answer(tag, Status::OutOfRange, 0, out).unwrap();
            }
            Transfer::InCapsule(_) => self.requested[tag.index()] = (0, 0),
            Transfer::None => self.connection.answer(tag, Status::Success, 0, out).unwrap(),
            Transfer::ToHost(length) => {
                let data = vec![7; length as usize];
                let (mut before, mut after) = (Vec::new(), Vec::new());
                self.connection.answer_with(tag, 0, &[&data], &mut before, &mut after).unwrap();
                // The data itself would make the record long.
                before.append(&mut after);
                self.log.push(Record::Data(tag, 0, before));
            }
        }
        if entry.opcode == Fabrics::OPCODE {
            let _ = self.connection.connected(SIZE, false);
        }
    }

    /// Requests the next part, of at most 1 KiB.
    fn request(&mut self, tag: Tag) {
        let (done, all) = self.requested[tag.index()];
        let part = (all - done).min(1024);
        self.connection.request(tag, part, &mut self.out).unwrap();
        self.requested[tag.index()].0 += part;
    }

    fn received(&mut self, tag: Tag) {
        let (done, all) = self.requested[tag.index()];
        if done < all {
            return self.request(tag);
        }
        self.connection.answer(tag, Status::Success, 0, &mut self.out).unwrap();
    }
}

/// A host's part of a conversation: what it sends depends on the target only by the tags, which are
/// known. Slot 0 has each command that waits for nothing; writes on request have it too.
fn conversation(mut host: Host) -> Vec<u8> {
    let mut bytes = [host.initialize(), host.connect()].concat();
    for identifier in 2..8 {
        bytes.extend(host.flush(identifier));
        bytes.extend(host.capsule(&entry(1, identifier, IN_CAPSULE, 96), &[identifier as u8; 96]));
        bytes.extend(host.capsule(&entry(2, identifier, ON_REQUEST, 64), &[]));
        bytes.extend(host.capsule(&entry(1, identifier, 0x20, 64), &[3; 64]));
    }
    bytes.extend(host.capsule(&entry(1, 9, ON_REQUEST, 1100), &[]));
    bytes.extend(host.data(9, 0, 0, &[1; 500], false));
    bytes.extend(host.data(9, 0, 500, &[2; 524], true));
    bytes.extend(host.data(9, 0, 1024, &[3; 76], true));
    let mut damaged = host.capsule(&entry(1, 11, IN_CAPSULE, 40), &[4; 40]);
    damaged[host.capsule(&entry(1, 11, IN_CAPSULE, 40), &[]).len() + 1] ^= 1;
    bytes.extend(damaged);
    bytes.extend(host.flush(12));
    bytes.extend(host.initialize());
    bytes
}

fn play(bytes: &[u8], cuts: &[usize]) -> Target {
    let mut target = Target::default();
    let mut start = 0;
    for cut in cuts.iter().copied().chain([bytes.len()]) {
        target.feed(&bytes[start..cut]);
        start = cut;
    }
    target
}

#[test]
fn every_cut_gives_the_same_events_and_answers() {
    for host in Host::all() {
        let bytes = conversation(host);
        let whole = play(&bytes, &[]);
        assert!(whole.log.len() > 40 && format!("{:?}", whole.log).contains("Sequence"));
        let is_damaged = whole.log.contains(&Record::Other("Damaged(Tag(0))".into()));
        assert_eq!(is_damaged, host.data_digest);
        for cut in 0..=bytes.len() {
            let cut = play(&bytes, &[cut]);
            assert!(cut.log == whole.log && cut.out == whole.out);
        }
        let single = play(&bytes, &(1..bytes.len()).collect::<Vec<_>>());
        assert!(single.log == whole.log && single.out == whole.out);
    }
}

proptest! {
    #[test]
    fn changed_bytes_mean_the_same_however_they_are_cut(
        bits in 0..4usize,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..20),
    ) {
        let mut bytes = conversation(Host::all().nth(bits).unwrap());
        for (index, value) in changes {
            let index = index.index(bytes.len());
            bytes[index] = value;
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.sort_unstable();
        let (whole, cut) = (play(&bytes, &[]), play(&bytes, &cuts));
        prop_assert_eq!(cut.log, whole.log);
        prop_assert_eq!(cut.out, whole.out);
    }

    #[test]
    fn any_bytes_are_understood_or_refused(
        is_open: bool,
        bytes in proptest::collection::vec(prop_oneof![0..8u8, any::<u8>()], 0..600),
    ) {
        let mut host = Host::default();
        let mut target = Target::default();
        if is_open {
            target.feed(&[host.initialize(), host.connect()].concat());
        }
        target.feed(&bytes);
        prop_assert!(target.log.len() <= bytes.len() + 4);
    }
}
