mod hostile;

use super::*;
use crate::nvme::command::{Entry, Refusal};
use crate::nvme::connection::Transfer;
use crate::nvme::discovery::Directory;

/// What Linux sets to enable a controller, and to shut it down.
pub(super) const LINUX: u32 = 0x0046_0001;
const NORMAL: u32 = 0x4000;

const IDENTIFY: u8 = 0x06;
const ABORT: u8 = 0x08;
const SET: u8 = 0x09;
const GET: u8 = 0x0a;
const EVENT: u8 = 0x0c;
const KEEP_ALIVE: u8 = 0x18;

pub(super) const VOLUME: Volume = Volume {
    namespace: Namespace {
        identifier: [0xa5; 16],
        size: 1 << 30,
        block_size: 4096,
        best_write: 4096,
        is_read_only: false,
        has_reservations: true,
    },
    path: Path { state: PathState::Optimized, changes: 7 },
    health: Health {
        is_degraded: true,
        is_read_only: false,
        read: 1_024_001,
        written: 512_000,
        reads: 3,
        writes: 4,
        media_errors: 5,
    },
    reservations_persist: false,
};

/// A command with this namespace (or, of Fabrics commands, type) and dwords from 10 on.
pub(super) fn entry(opcode: u8, namespace: u32, words: &[u32]) -> Entry {
    let mut bytes = [0; 64];
    (bytes[0], bytes[1]) = (opcode, 0x40);
    bytes[4..8].copy_from_slice(&namespace.to_le_bytes());
    for (index, word) in words.iter().enumerate() {
        bytes[40 + index * 4..][..4].copy_from_slice(&word.to_le_bytes());
    }
    Entry::read(&bytes)
}

/// A controller of the first host, which asks for one thing after another.
pub(super) struct Bench {
    pub(super) controller: Controller,
    pub(super) volume: Volume,
    pub(super) directory: Directory,
    pub(super) now: Instant,
    tag: u16,
}

impl Bench {
    pub(super) fn new(kind: Kind, keep_alive: Duration) -> Self {
        let host = Host { identifier: [9; 16], name: "nqn.host".to_owned() };
        let now = Instant(1 << 40);
        let limits = Limits::default();
        Self {
            controller: Controller::new(0x102, kind, limits, host, keep_alive, now),
            volume: VOLUME,
            directory: Directory::default(),
            now,
            tag: 0,
        }
    }

    /// One that the host has enabled.
    pub(super) fn enabled(kind: Kind) -> Self {
        let mut bench = Self::new(kind, Duration::from_secs(5));
        bench.configure(LINUX);
        assert!(bench.controller.is_ready());
        bench
    }

    /// What becomes of a command; its slot is the next one.
    pub(super) fn run(&mut self, entry: &Entry, transfer: Transfer) -> Result<Done, Refusal> {
        let subject = match self.controller.kind {
            Kind::Volume => Subject::Volume(&self.volume),
            Kind::Discovery => Subject::Discovery(&self.directory, [127, 0, 0, 1].into()),
        };
        let facts = Facts { serial: "a5", firmware: "1.2", subsystem: "nqn.disk", subject };
        let tag = Tag::of(self.tag);
        self.tag += 1;
        // The host calls each command as its slot is called.
        let find = |identifier| Some(Tag::of(identifier));
        let command = AdminCommand { tag, entry, transfer, find: &find };
        let result = self.controller.admin(&command, &facts, self.now);
        self.controller.check_invariants();
        result
    }

    fn ask(&mut self, opcode: u8, words: &[u32]) -> Result<Done, Refusal> {
        self.run(&entry(opcode, 0, words), Transfer::None)
    }

    fn get(&mut self, offset: u32) -> Result<Done, Refusal> {
        self.run(&entry(0x7f, 4, &[0, offset]), Transfer::None)
    }

    fn configure(&mut self, value: u32) {
        let result = self.run(&entry(0x7f, 0, &[0, 0x14, value]), Transfer::None);
        assert_eq!(result, Ok(Done::Result(0)));
    }

    fn after(&mut self, seconds: u64) -> Option<Duration> {
        self.now = self.now + Duration::from_secs(seconds);
        self.controller.expires().map(|moment| moment.since(self.now))
    }
}

fn refused<T>(status: Status) -> Result<T, Refusal> {
    Err(status.into())
}

#[test]
fn nothing_but_fabrics_commands_comes_before_enabling_and_after_a_shutdown() {
    let mut bench = Bench::new(Kind::Volume, Duration::ZERO);
    assert_eq!(bench.ask(KEEP_ALIVE, &[]), refused(Status::Sequence));
    // Even what isn't known at all.
    assert_eq!(bench.ask(0xff, &[]), refused(Status::Sequence));
    assert_eq!(bench.get(0x1c), Ok(Done::Result(0)));
    bench.configure(LINUX);
    assert_eq!(bench.get(0x1c), Ok(Done::Result(1)));
    assert_eq!(bench.ask(KEEP_ALIVE, &[]), Ok(Done::Result(0)));
    assert_eq!(bench.ask(EVENT, &[]), Ok(Done::Kept));
    bench.configure(LINUX | NORMAL);
    let answer = AdminAnswer { tag: Tag::of(6), status: Status::AbortRequested, result: 0 };
    assert_eq!(bench.controller.take_answers(), [answer]);
    assert_eq!(bench.ask(KEEP_ALIVE, &[]), refused(Status::Sequence));
    assert_eq!(bench.get(0x1c), Ok(Done::Result(0b0101)));
    assert!(bench.controller.wants_flush());
    bench.controller.shut_down();
    assert_eq!(bench.get(0x1c), Ok(Done::Result(0b1001)));
}

#[test]
fn a_shutdown_waits_for_the_queues() {
    let mut bench = Bench::enabled(Kind::Volume);
    bench.controller.queues.add(1).unwrap();
    bench.configure(LINUX | NORMAL);
    assert_eq!(bench.controller.take_closing(), [1]);
    bench.controller.shut_down();
    assert!(!bench.controller.wants_flush());
    assert_eq!(bench.get(0x1c), Ok(Done::Result(0b0101)));
    bench.controller.gone(1);
    assert!(bench.controller.wants_flush());
    bench.controller.shut_down();
    assert_eq!(bench.get(0x1c), Ok(Done::Result(0b1001)));
    // A discovery controller has nothing to wait for.
    let mut bench = Bench::enabled(Kind::Discovery);
    bench.configure(LINUX | NORMAL);
    assert_eq!(bench.get(0x1c), Ok(Done::Result(0b1001)));
}

#[test]
fn linux_closes_its_queues_before_it_shuts_down() {
    let mut bench = Bench::enabled(Kind::Volume);
    bench.controller.queues.add(1).unwrap();
    bench.controller.queues.add(2).unwrap();
    bench.controller.gone(1);
    assert_eq!(bench.ask(KEEP_ALIVE, &[]), Ok(Done::Result(0)));
    bench.configure(LINUX | NORMAL);
    assert!(!bench.controller.wants_flush());
    bench.controller.gone(2);
    assert!(bench.controller.wants_flush());
    bench.controller.shut_down();
    assert_eq!(bench.get(0x1c), Ok(Done::Result(0b1001)));
}

#[test]
fn a_reset_is_done_when_the_queues_are_gone() {
    let mut bench = Bench::enabled(Kind::Volume);
    bench.controller.queues.add(1).unwrap();
    bench.ask(SET, &[0x0b, 1 << 8]).unwrap();
    bench.configure(0);
    assert_eq!(bench.controller.take_closing(), [1]);
    assert_eq!(bench.get(0x1c), Ok(Done::Result(1)));
    assert_eq!(bench.ask(KEEP_ALIVE, &[]), refused(Status::Sequence));
    bench.controller.gone(1);
    assert_eq!(bench.get(0x1c), Ok(Done::Result(0)));
    bench.configure(LINUX);
    // What was set is forgotten.
    assert_eq!(bench.ask(GET, &[0x0b]), Ok(Done::Result(0)));
}

#[test]
fn commands_that_have_no_place_are_refused() {
    let mut bench = Bench::enabled(Kind::Volume);
    // A second Connect, and Disconnect of the admin queue.
    let connect = entry(0x7f, 1, &[0, 31]);
    assert_eq!(bench.run(&connect, Transfer::InCapsule(1024)), refused(Status::Sequence));
    let disconnect = entry(0x7f, 8, &[]);
    assert_eq!(bench.run(&disconnect, Transfer::None), refused(Status::QueueType));
    for opcode in [0x00, 0x01, 0x04, 0x05, 0x0d, 0x10, 0x15, 0x80, 0x81, 0x82, 0xc0] {
        assert_eq!(bench.ask(opcode, &[]), refused(Status::InvalidOpcode), "{opcode:x}");
    }
    let mut bytes = [0; 64];
    (bytes[0], bytes[1]) = (KEEP_ALIVE, 0x41);
    let half = bench.run(&Entry::read(&bytes), Transfer::None);
    assert_eq!(half, refused(Status::InvalidField));
}

#[test]
fn identify_needs_room_for_its_page() {
    let mut bench = Bench::enabled(Kind::Volume);
    let ask = entry(IDENTIFY, 0, &[1]);
    let Ok(Done::Data(page)) = bench.run(&ask, Transfer::ToHost(4096)) else { panic!() };
    assert_eq!((page.len(), page[78], page[79]), (4096, 2, 1));
    assert_eq!((&page[768..776], page[514]), (&b"nqn.disk"[..], 128));
    for transfer in [Transfer::None, Transfer::ToHost(4092), Transfer::ToHost(8192)] {
        assert_eq!(bench.run(&ask, transfer), refused(Status::DataLength));
    }
}

#[test]
fn a_host_that_is_silent_for_its_time_is_given_up() {
    let mut bench = Bench::new(Kind::Volume, Duration::from_millis(4001));
    // Before it is enabled, and afterwards, it has two minutes.
    assert_eq!(bench.after(100), Some(Duration::from_secs(20)));
    bench.configure(LINUX);
    assert_eq!(bench.after(4), Some(Duration::from_secs(1)));
    assert_eq!(bench.ask(KEEP_ALIVE, &[]), Ok(Done::Result(0)));
    assert_eq!(bench.after(2), Some(Duration::from_secs(3)));
    // Only Keep Alive counts (CTRATT has no TBKAS), and that its time is set.
    bench.ask(GET, &[0x0b]).unwrap();
    assert_eq!(bench.after(2), Some(Duration::from_secs(1)));
    bench.ask(SET, &[0x0f, 2000]).unwrap();
    assert_eq!(bench.after(1), Some(Duration::from_secs(1)));
    assert!(!bench.controller.expire(bench.now));
    bench.controller.queues.add(1).unwrap();
    bench.ask(EVENT, &[]).unwrap();
    assert_eq!(bench.after(1), Some(Duration::ZERO));
    assert!(bench.controller.expire(bench.now) && bench.controller.has_ended());
    assert_eq!(bench.controller.take_closing(), [0, 1]);
    assert_eq!((bench.controller.take_answers(), bench.controller.expires()), (vec![], None));
    assert_eq!(bench.ask(KEEP_ALIVE, &[]), refused(Status::Sequence));
    assert_eq!(bench.get(0x1c), refused(Status::Sequence));
}

#[test]
fn a_host_that_sets_no_time_is_kept_unless_it_only_discovers() {
    let mut bench = Bench::new(Kind::Volume, Duration::ZERO);
    bench.configure(LINUX);
    assert_eq!(bench.after(10_000), None);
    bench.configure(0);
    assert_eq!(bench.after(0), Some(IDLE_TIME));
    let mut bench = Bench::new(Kind::Discovery, Duration::ZERO);
    bench.configure(LINUX);
    assert_eq!(bench.after(100), Some(Duration::from_secs(20)));
    // There, any command counts.
    bench.ask(GET, &[0x0b]).unwrap();
    assert_eq!(bench.after(0), Some(IDLE_TIME));
    bench.ask(SET, &[0x0f, 60_000]).unwrap();
    assert_eq!(bench.after(10), Some(Duration::from_secs(50)));
    bench.ask(GET, &[0x0b]).unwrap();
    assert_eq!(bench.after(0), Some(Duration::from_secs(50)));
}

#[test]
fn features_are_those_that_there_are() {
    let mut bench = Bench::enabled(Kind::Volume);
    for (feature, result) in [(0x06, 1), (0x07, 0x000f_000f), (0x0b, 0), (0x0f, 5000)] {
        assert_eq!(bench.ask(GET, &[feature]), Ok(Done::Result(result)), "{feature:x}");
        // A default, what is saved, what can be done.
        for select in 1..8 {
            let result = bench.ask(GET, &[feature | select << 8]);
            assert_eq!(result, refused(Status::InvalidField));
        }
        assert_eq!(bench.ask(SET, &[feature | 1 << 31, 1]), refused(Status::NotSaveable));
    }
    for feature in [0x00, 0x01, 0x03, 0x05, 0x08, 0x10, 0x80, 0x84, 0xff] {
        assert_eq!(bench.ask(GET, &[feature]), refused(Status::InvalidField), "{feature:x}");
        assert_eq!(bench.ask(SET, &[feature]), refused(Status::InvalidField), "{feature:x}");
    }
    assert_eq!(bench.ask(SET, &[0x06, 1]), Ok(Done::Result(0)));
    assert_eq!(bench.ask(SET, &[0x06, 0]), refused(Status::NotChangeable));
    assert_eq!(bench.ask(SET, &[0x0b, 1 << 8 | 1 << 11]), Ok(Done::Result(0)));
    assert_eq!(bench.ask(SET, &[0x0b, 1 << 31]), refused(Status::InvalidField));
    assert_eq!(bench.ask(GET, &[0x0b]), Ok(Done::Result(1 << 8 | 1 << 11)));
    assert_eq!(bench.ask(SET, &[0x0f, 1]), Ok(Done::Result(0)));
    assert_eq!(bench.ask(GET, &[0x0f]), Ok(Done::Result(1000)));
    let with_data = bench.run(&entry(SET, 0, &[0x0f, 1]), Transfer::OnRequest(8));
    assert_eq!(with_data, refused(Status::DataLength));
}

#[test]
fn the_number_of_queues_is_set_once_before_they_come() {
    let mut bench = Bench::enabled(Kind::Volume);
    assert_eq!(bench.ask(SET, &[0x07, 0x0003_0007]), Ok(Done::Result(0x0003_0003)));
    assert_eq!(bench.ask(GET, &[0x07]), Ok(Done::Result(0x0003_0003)));
    assert_eq!(bench.ask(SET, &[0x07, 0x00ff_00ff]), Ok(Done::Result(0x000f_000f)));
    for value in [0xffff_0000, 0x0000_ffff] {
        assert_eq!(bench.ask(SET, &[0x07, value]), refused(Status::InvalidField));
    }
    bench.controller.queues.add(1).unwrap();
    assert_eq!(bench.ask(SET, &[0x07, 0]), refused(Status::Sequence));
}

#[test]
fn the_identifier_of_the_host_is_that_of_connect() {
    let mut bench = Bench::enabled(Kind::Volume);
    let long = entry(GET, 0, &[0x81, 1]);
    assert_eq!(bench.run(&long, Transfer::ToHost(16)), Ok(Done::Data(vec![9; 16])));
    assert_eq!(bench.run(&long, Transfer::ToHost(8)), refused(Status::DataLength));
    let short = entry(GET, 0, &[0x81]);
    assert_eq!(bench.run(&short, Transfer::ToHost(8)), refused(Status::InvalidField));
    let set = entry(SET, 0, &[0x81, 1]);
    assert_eq!(bench.run(&set, Transfer::OnRequest(16)), refused(Status::Sequence));
    for feature in [0x06, 0x07, 0x81] {
        let result = Bench::enabled(Kind::Discovery).ask(GET, &[feature, 1]);
        assert_eq!(result, refused(Status::InvalidField));
    }
}

#[test]
fn events_are_held_and_reported_and_aborted() {
    let mut bench = Bench::enabled(Kind::Volume);
    bench.ask(SET, &[0x0b, 1 << 8 | 1 << 11]).unwrap();
    // Slots 2 to 5, and one too many.
    for _ in 0..4 {
        assert_eq!(bench.ask(EVENT, &[]), Ok(Done::Kept));
    }
    assert_eq!(bench.ask(EVENT, &[]), refused(Status::EventLimit));
    bench.controller.notify(Notice::Path);
    let answer = AdminAnswer { tag: Tag::of(2), status: Status::Success, result: 0x0c_0302 };
    assert_eq!(bench.controller.take_answers(), [answer]);
    // Abort names the queue and the command.
    assert_eq!(bench.ask(ABORT, &[4 << 16]), Ok(Done::Result(0)));
    let answer = AdminAnswer { tag: Tag::of(4), status: Status::AbortRequested, result: 0 };
    assert_eq!(bench.controller.take_answers(), [answer]);
    // One of another queue, one that was answered, one that never was.
    for what in [3 << 16 | 1, 2 << 16, 99 << 16] {
        assert_eq!(bench.ask(ABORT, &[what]), Ok(Done::Result(1)));
    }
    assert_eq!(bench.controller.take_answers(), []);
}

#[test]
fn an_abort_in_a_queue_for_io_is_answered_when_that_queue_has() {
    let mut bench = Bench::enabled(Kind::Volume);
    bench.controller.queues.add(1).unwrap();
    assert_eq!(bench.ask(ABORT, &[7 << 16 | 1]), Ok(Done::Kept));
    assert_eq!(bench.ask(ABORT, &[8 << 16 | 1]), Ok(Done::Kept));
    assert_eq!(bench.ask(ABORT, &[7 << 16 | 2]), Ok(Done::Result(1)), "there is no such queue");
    assert_eq!(bench.controller.take_aborts(), [(1, 7), (1, 8)]);
    bench.controller.aborted(1, 7, true);
    let answer = |tag, result| AdminAnswer { tag: Tag::of(tag), status: Status::Success, result };
    assert_eq!(bench.controller.take_answers(), [answer(1, 0)]);
    bench.controller.disconnect(1);
    assert_eq!(bench.ask(ABORT, &[9 << 16 | 1]), Ok(Done::Kept), "its commands are under way");
    assert_eq!(bench.controller.take_answers(), []);
    bench.controller.gone(1);
    assert_eq!(bench.controller.take_answers(), [answer(2, 1), answer(4, 1)]);
}

#[test]
fn an_abort_ends_with_a_reset_and_says_nothing_of_what_comes_after_it() {
    for how in [0, LINUX | NORMAL] {
        let mut bench = Bench::enabled(Kind::Volume);
        bench.controller.queues.add(1).unwrap();
        assert_eq!(bench.ask(ABORT, &[7 << 16 | 1]), Ok(Done::Kept));
        bench.configure(how);
        let answer = AdminAnswer { tag: Tag::of(1), status: Status::AbortRequested, result: 0 };
        assert_eq!(bench.controller.take_answers(), [answer]);
        assert_eq!(bench.controller.take_aborts(), [], "its queue ends in any case");
        // The queue says what became of it when it ends.
        bench.controller.aborted(1, 7, false);
        bench.controller.gone(1);
        assert_eq!(bench.controller.take_answers(), []);
    }
}
