//! One primary alone: what it makes of replicas that do not say what they should.

use std::collections::VecDeque;
use std::time::Duration;

use evenkeel_core::message::{Failure, OperationId, ReplicaReport, SlotBits};
use evenkeel_core::primary::{
    Command, CommandError, CoordinatorAnswer, Earlier, Mismatch, Note, PrimaryConfig,
};
use evenkeel_core::view::{Change, PrimaryRecord, ViewError};
use evenkeel_core::*;

use crate::harness::Blank;

const ME: PrimaryId = PrimaryId { node: NodeId(9), incarnation: Incarnation(1) };
const SOURCE: ReplicaId = ReplicaId(1);
const STALE: ReplicaId = ReplicaId(2);
const OTHER: ReplicaId = ReplicaId(3);

fn view() -> View {
    let record = |id, state, missing_since| ReplicaRecord {
        state,
        incarnation: Incarnation(1),
        missing_since,
        ..ReplicaRecord::first(id, NodeId(id.0))
    };
    let replicas = vec![
        record(SOURCE, ReplicaState::InSync, None),
        record(STALE, ReplicaState::Stale, Some(Generation(1))),
    ];
    View::first(
        VolumeId(1),
        History(1),
        CoordinatorId(1),
        Geometry { size: 1 << 20, block_size: 512, chunk: 65536 },
        vec![MirrorView { replicas }],
    )
}

/// What was asked of a replica and not answered with more than a word.
fn asked(messages: &[Message]) -> OperationId {
    let mut ids = messages.iter().filter_map(|message| match message {
        Message::Write { id, .. } => Some(*id),
        _ => None,
    });
    ids.next().expect("a write")
}

/// A primary with a coordinator and replicas that answer at once whatever is not about data.
struct Bench {
    primary: Primary<Blank>,
    newest: View,
    now: Instant,
    /// Whether replicas answer when they are to adopt a view.
    adopts: bool,
    /// A view that somebody else commits just before this primary's next one.
    overtaken_by: Option<View>,
    /// Whether the stale replica cannot be reached.
    is_stale_away: bool,
    /// Whether nothing comes of attempts to reach it, nor an answer of it.
    is_silent: bool,
    /// Whether the coordinator takes its time, and what it will say.
    is_slow: bool,
    late: Option<PrimaryEvent<Blank>>,
    /// Whether the coordinator does not answer, and what it was asked meanwhile.
    is_away: bool,
    unanswered: Vec<CoordinatorCall>,
}

impl Bench {
    fn serving() -> Self {
        let bench = Self::serving_in(view());
        assert_eq!(bench.newest.mirrors[0].replicas[1].state, ReplicaState::Rebuilding);
        bench
    }

    fn serving_in(newest: View) -> Self {
        let mut bench = Self::idle(newest);
        bench.step(PrimaryEvent::Start);
        for _ in 0..40 {
            bench.tick();
        }
        bench
    }

    fn idle(newest: View) -> Self {
        let config = PrimaryConfig {
            id: ME,
            volume: VolumeId(1),
            settings: Settings::default(),
            earlier: Earlier::Ended,
        };
        let primary = Primary::new(config, Instant(0));
        Self {
            primary,
            newest,
            now: Instant(0),
            adopts: true,
            overtaken_by: None,
            is_stale_away: false,
            is_silent: false,
            is_slow: false,
            late: None,
            is_away: false,
            unanswered: Vec::new(),
        }
    }

    fn tick(&mut self) -> Vec<PrimaryEffect<Blank>> {
        self.now = self.primary.next_wakeup().expect("it goes on");
        self.step(PrimaryEvent::Tick)
    }

    /// Replicas are reached over the links with their numbers. Returns what clients and replicas
    /// are told.
    fn step(&mut self, event: PrimaryEvent<Blank>) -> Vec<PrimaryEffect<Blank>> {
        let mut events = VecDeque::from([event]);
        let mut rest = Vec::new();
        while let Some(event) = events.pop_front() {
            let mut effects = Vec::new();
            self.primary.step(self.now, event, &mut effects);
            for effect in effects {
                match self.answer(&effect) {
                    Some(event) => events.push_back(event),
                    None => rest.push(effect),
                }
            }
        }
        rest
    }

    fn answer(&mut self, effect: &PrimaryEffect<Blank>) -> Option<PrimaryEvent<Blank>> {
        Some(match effect {
            PrimaryEffect::ReadView { call } | PrimaryEffect::SwapView { call, .. }
                if self.is_away =>
            {
                self.unanswered.push(*call);
                return None;
            }
            PrimaryEffect::ReadView { call } => {
                let answer = CoordinatorAnswer::Newest(Box::new(self.newest.clone()));
                PrimaryEvent::Coordinator { call: *call, answer }
            }
            PrimaryEffect::SwapView { call, .. } if self.overtaken_by.is_some() => {
                self.newest = self.overtaken_by.take()?;
                let answer = CoordinatorAnswer::Newest(Box::new(self.newest.clone()));
                PrimaryEvent::Coordinator { call: *call, answer }
            }
            PrimaryEffect::SwapView { call, view, .. } => {
                self.newest = (**view).clone();
                let answer = CoordinatorAnswer::Committed;
                let said = PrimaryEvent::Coordinator { call: *call, answer };
                if self.is_slow {
                    self.late = Some(said);
                    return None;
                }
                said
            }
            PrimaryEffect::Connect { replica: STALE, .. } if self.is_silent => return None,
            PrimaryEffect::Send { link: LinkId(2), .. } if self.is_silent => return None,
            PrimaryEffect::Connect { replica: STALE, .. } if self.is_stale_away => {
                PrimaryEvent::LinkDown { replica: STALE, link: None }
            }
            PrimaryEffect::Connect { replica, .. } => {
                PrimaryEvent::LinkUp { replica: *replica, link: LinkId(replica.0 as u64) }
            }
            PrimaryEffect::Send { link, message, .. } => {
                let message = self.reply(ReplicaId(link.0.into()), message)?;
                PrimaryEvent::Message { link: *link, message, payload: None }
            }
            _ => return None,
        })
    }

    fn reply(&self, replica: ReplicaId, message: &Message) -> Option<Message> {
        Some(match *message {
            Message::OpenSession { session, .. } => {
                let report = ReplicaReport {
                    replica,
                    incarnation: Incarnation(1),
                    is_stale_clone: false,
                    boot: BootId(1),
                    generation: Generation(1),
                    history: History(1),
                    size: 1 << 20,
                    state: Some(ReplicaState::InSync),
                    slots: SlotBits::default(),
                };
                Message::SessionOpened { session, report: Box::new(report) }
            }
            Message::Adopt { ref view } if self.adopts => {
                Message::Adopted { generation: view.generation }
            }
            Message::Ping { generation, number } => {
                Message::Pong { generation, number, slots: SlotBits::default() }
            }
            _ => return None,
        })
    }

    /// The coordinator's answer comes, if one is late.
    fn learn_late(&mut self) -> Vec<PrimaryEffect<Blank>> {
        let answer = self.late.take();
        answer.map_or_else(Vec::new, |answer| self.step(answer))
    }

    fn say(&mut self, replica: ReplicaId, message: Message) -> Vec<PrimaryEffect<Blank>> {
        let link = LinkId(replica.0 as u64);
        self.step(PrimaryEvent::Message { link, message, payload: None })
    }

    /// A client asks for something; what replicas are told.
    fn request(&mut self, operation: Operation<Blank>) -> Vec<Message> {
        self.request_as(1, operation)
    }

    fn request_as(&mut self, request: u64, operation: Operation<Blank>) -> Vec<Message> {
        said(&self.step(PrimaryEvent::Request {
            request: RequestId(request),
            host: HostId(1),
            path: PathNumber(1),
            operation,
        }))
    }
}

fn said(effects: &[PrimaryEffect<Blank>]) -> Vec<Message> {
    let said = effects.iter().filter_map(|effect| match effect {
        PrimaryEffect::Send { message, .. } => Some(message.clone()),
        _ => None,
    });
    said.collect()
}

#[test]
fn a_map_is_answered_by_extents_and_not_by_a_word() {
    let mut bench = Bench::serving();
    let asked = bench.request(Operation::Map { offset: 0, length: 512 });
    let [Message::Map { id, .. }] = asked[..] else { panic!("{asked:?}") };
    assert!(bench.say(SOURCE, Message::Done { id, result: Ok(()) }).is_empty());
    let extents = vec![Extent { length: 512, allocated: true }];
    let effects = bench.say(SOURCE, Message::Extents { id, extents: extents.clone() });
    let [PrimaryEffect::Reply { result: Ok(Reply::Extents(reported)), .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(*reported, extents);
}

#[test]
fn a_primary_tells_when_it_tries_to_reach_a_stale_replica_again() {
    let mut bench = Bench::idle(view());
    bench.is_stale_away = true;
    bench.step(PrimaryEvent::Start);
    while bench.now < Instant(30_000_000_000) {
        bench.tick();
    }
    let retry = |bench: &Bench| {
        let status = bench.primary.status(bench.now);
        let stale = status.replicas.iter().find(|peer| peer.replica == STALE);
        stale.and_then(|peer| peer.retry_in)
    };
    let reported = retry(&bench).expect("it is stale and has no session");
    assert!(reported <= Settings::default().retry_pause.longest, "{reported:?}");
    bench.now = Instant(bench.now.0 + reported.as_nanos() as u64);
    bench.is_stale_away = false;
    bench.step(PrimaryEvent::Tick);
    assert_eq!(bench.newest.mirrors[0].replicas[1].state, ReplicaState::Rebuilding);
    assert_eq!(retry(&bench), None);
}

/// A replica that is removed and added again while it is being connected to is connected to twice.
/// That the first attempt fails says nothing of the session that came of the second one.
#[test]
fn a_connection_outlives_the_failure_of_an_earlier_attempt() {
    let mut bench = Bench::idle(view());
    bench.is_stale_away = true;
    bench.step(PrimaryEvent::Start);
    let connects = |effects: &[PrimaryEffect<Blank>]| {
        let to_stale = |effect: &PrimaryEffect<Blank>| {
            matches!(effect, PrimaryEffect::Connect { replica: STALE, .. })
        };
        effects.iter().any(to_stale)
    };
    bench.is_silent = true;
    while !connects(&bench.tick()) {}
    let (replica, link) = (STALE, LinkId(STALE.0 as u64));
    let opened = said(&bench.step(PrimaryEvent::LinkUp { replica, link }));
    let [Message::OpenSession { .. }] = opened[..] else { panic!("{opened:?}") };
    let effects = bench.step(PrimaryEvent::LinkDown { replica, link: None });
    assert!(effects.is_empty(), "{effects:?}");
    let answer = bench.reply(STALE, &opened[0]).expect("it answers");
    bench.is_stale_away = false;
    bench.is_silent = false;
    bench.say(STALE, answer);
    assert_eq!(bench.newest.mirrors[0].replicas[1].state, ReplicaState::Rebuilding);
}

/// Its disk answers pings, and no write: it leaves as late, returns, leaves again. From the third
/// time on it stays away longer and longer, and the status says so and until when.
#[test]
fn a_replica_that_returns_in_vain_stays_away_longer_and_longer() {
    let mut bench = Bench::serving();
    let is_member = |bench: &Bench| bench.newest.mirrors[0].replicas[1].state.takes_writes();
    const TICK: Duration = Duration::from_millis(500);
    let mut away = Vec::new();
    for _ in 0..8 {
        let write = Operation::Write { offset: 0, payload: Blank::of(4096), durable: false };
        let id = asked(&bench.request(write));
        while is_member(&bench) {
            bench.tick();
        }
        bench.say(SOURCE, Message::Done { id, result: Ok(()) });
        let left = bench.now;
        let status = bench.primary.status(left);
        let peer = *status.replicas.iter().find(|peer| peer.replica == STALE).expect("it is known");
        let announced = left + peer.retry_in.expect("it is stale and has no session");
        while !is_member(&bench) {
            assert!(bench.now <= announced + TICK, "it was to return at {announced:?}");
            bench.tick();
        }
        away.push((peer.left_again, bench.now.since(left).as_secs()));
    }
    let expected =
        [(None, 0), (None, 0), (Some(3), 5), (Some(4), 10), (Some(5), 20), (Some(6), 40)];
    assert_eq!(away[..6], expected);
    assert_eq!(away[6..], [(Some(7), 60), (Some(8), 60)]);
}

#[test]
fn of_too_many_ranges_to_drain_the_oldest_are_forgotten() {
    let mut bench = Bench::serving();
    let write = Operation::Write { offset: 0, payload: Blank::of(4096), durable: false };
    let sent = bench.request(write);
    let [Message::Write { id, .. }, Message::Write { .. }] = sent[..] else { panic!("{sent:?}") };
    let generation = id.generation;
    for token in (1..=1000).map(CopyToken) {
        let (offset, length, source) = (0, 4096, SOURCE);
        bench.say(STALE, Message::Drain { generation, token, offset, length, source });
    }
    let effects = said(&bench.say(SOURCE, Message::Done { id, result: Ok(()) }));
    let drained = |message: &Message| match message {
        Message::Drained { token, .. } => Some(token.0),
        _ => None,
    };
    let drained: Vec<_> = effects.iter().filter_map(drained).collect();
    assert_eq!(drained, (937..=1000).collect::<Vec<_>>());
}

#[test]
fn over_a_closed_link_nothing_is_drained() {
    let mut bench = Bench::serving();
    let write = Operation::Write { offset: 0, payload: Blank::of(4096), durable: false };
    let sent = bench.request(write);
    let [Message::Write { id, .. }, Message::Write { .. }] = sent[..] else { panic!("{sent:?}") };
    let (generation, token, source) = (id.generation, CopyToken(1), SOURCE);
    bench.say(STALE, Message::Drain { generation, token, offset: 0, length: 4096, source });
    let link = Some(LinkId(STALE.0 as u64));
    bench.step(PrimaryEvent::LinkDown { replica: STALE, link });
    let effects = said(&bench.say(SOURCE, Message::Done { id, result: Ok(()) }));
    assert!(!effects.iter().any(|message| matches!(message, Message::Drained { .. })));
}

/// The view that admits a third replica is on its way when the second says that it has copied all;
/// then the source fails a write that the second has.
#[test]
fn who_joins_gets_a_failed_write_once_a_replica_that_has_it_is_in_sync() {
    let mut three = view();
    let mut other = three.mirrors[0].replicas[1];
    (other.id, other.node, other.state) = (OTHER, NodeId(OTHER.0), ReplicaState::Faulty);
    three.mirrors[0].replicas.push(other);
    let mut bench = Bench::serving_in(three);
    bench.is_slow = true;
    bench.step(PrimaryEvent::Command { id: CommandId(1), command: Command::ReAdd(OTHER) });
    while bench.newest.mirrors[0].replicas[2].state != ReplicaState::Rebuilding {
        bench.learn_late();
        bench.tick();
    }
    let generation = bench.newest.parent;
    bench.say(STALE, Message::RebuildDone { generation });

    let write = Operation::Write { offset: 4096, payload: Blank::of(4096), durable: false };
    let sent = bench.request(write);
    let [Message::Write { id, .. }, Message::Write { .. }] = sent[..] else { panic!("{sent:?}") };
    let failed = bench.say(SOURCE, Message::Done { id, result: Err(DiskError::Medium.into()) });
    let reported = bench.say(STALE, Message::Done { id, result: Ok(()) });
    let mut reported = failed.iter().chain(&reported);
    assert!(reported.any(|effect| matches!(effect, PrimaryEffect::Reply { result: Err(_), .. })));

    let mut effects = Vec::new();
    while bench.newest.mirrors[0].replicas[1].state != ReplicaState::InSync || bench.late.is_some()
    {
        effects.extend(bench.learn_late());
    }
    let states: Vec<_> = bench.newest.mirrors[0].replicas.iter().map(|r| r.state).collect();
    assert_eq!(states[..2], [ReplicaState::Faulty, ReplicaState::InSync]);
    let link = LinkId(OTHER.0 as u64);
    let is_reported = |effect: &PrimaryEffect<Blank>| {
        let PrimaryEffect::Send { link: to, message: Message::Write { id: sent, .. }, .. } = effect
        else {
            return false;
        };
        *to == link && sent.sequence == id.sequence
    };
    assert!(effects.iter().any(is_reported), "its source could not tell it of that write");
}

/// A replica that has left told of work in the last slots of its intent log, or could not read
/// them. They can't be taken away then; nothing else waits for them.
#[test]
fn open_slots_of_a_replica_that_is_away_hold_up_no_other_change() {
    let mut several = view();
    several.intents.slots = 4;
    let mut bench = Bench::serving_in(several);
    let command = |bench: &mut Bench, command| {
        let effects = bench.step(PrimaryEvent::Command { id: CommandId(1), command });
        let result = effects.into_iter().find_map(|effect| match effect {
            PrimaryEffect::CommandDone { result, .. } => Some(result),
            _ => None,
        });
        result.expect("it is done at once")
    };
    let slots = SlotBits { open: !0 << 3, seen: 0 };
    let generation = bench.newest.generation;
    bench.say(STALE, Message::Pong { generation, number: PingNumber(0), slots });
    assert_eq!(command(&mut bench, Command::Fail(STALE)), Ok(()));
    let bits = |slots| Command::Change(Change::Bitmap { bitmap: Bitmap::Internal, slots });
    let paused = Command::Change(Change::RebuildLimit(RebuildLimit::Paused));
    let refused = Err(CommandError::View(ViewError::SlotOpen(3)));
    assert_eq!(command(&mut bench, bits(3)), refused);
    assert_eq!(command(&mut bench, paused), Ok(()));
    assert_eq!(command(&mut bench, bits(2)), refused, "again");
}

#[test]
fn a_read_goes_to_the_replica_that_has_the_fewest_to_answer() {
    let mut both = view();
    let slow = &mut both.mirrors[0].replicas[1];
    (slow.state, slow.missing_since) = (ReplicaState::InSync, None);
    let mut bench = Bench::serving_in(both);
    let mut asked = Vec::new();
    for request in (1..=20).map(RequestId) {
        let operation = Operation::Map { offset: 0, length: 512 };
        let (host, path) = (HostId(1), PathNumber(1));
        let effects = bench.step(PrimaryEvent::Request { request, host, path, operation });
        let [PrimaryEffect::Send { link, message: Message::Map { id, .. }, .. }] = effects[..]
        else {
            panic!("{effects:?}")
        };
        let replica = ReplicaId(link.0.into());
        asked.push(replica);
        if replica == SOURCE {
            let extents = vec![Extent { length: 512, allocated: true }];
            bench.say(SOURCE, Message::Extents { id, extents });
        }
    }
    // The other one answers nothing: it is asked once, and not again.
    assert_eq!(asked.iter().filter(|replica| **replica == STALE).count(), 1, "{asked:?}");
}

#[test]
fn a_comparison_that_is_failed_before_it_is_made_lets_go_of_its_range() {
    let mut bench = Bench::serving();
    let (expected, payload) = (Blank::of(512), Blank::of(512));
    let compare = Operation::CompareAndWrite { offset: 0, expected, payload, durable: false };
    let sent = bench.request(compare);
    let [Message::Read { id, .. }] = sent[..] else { panic!("{sent:?}") };

    // What there is has been read, but nothing may be sent until the next view is adopted.
    bench.adopts = false;
    bench.step(PrimaryEvent::Command { id: CommandId(1), command: Command::Fail(STALE) });
    let (link, message) = (LinkId(SOURCE.0 as u64), Message::Data { id, is_unverified: false });
    let sent =
        said(&bench.step(PrimaryEvent::Message { link, message, payload: Some(Blank::of(512)) }));
    assert!(!sent.iter().any(|message| matches!(message, Message::Write { .. })), "{sent:?}");
    let has_failed = |effects: Vec<PrimaryEffect<Blank>>| {
        let failed = |effect: &_| {
            matches!(effect, PrimaryEffect::Reply { result: Err(RequestError::NoData), .. })
        };
        effects.iter().any(failed)
    };
    assert!((0..10_000).any(|_| has_failed(bench.tick())));

    bench.adopts = true;
    let write = || Operation::Write { offset: 0, payload: Blank::of(512), durable: false };
    let is_sent = |message: &Message| matches!(message, Message::Write { .. });
    let written = (0..100).any(|_| {
        bench.tick();
        bench.request(write()).iter().any(is_sent)
    });
    assert!(written, "its range stays locked");
}

/// A primary of one replica by a first lease of so many seconds, which is then changed, unadopted
/// yet. Whether a read that was sent before is answered when the replica's data come so many
/// seconds later.
fn is_read_after_change(leases: [u64; 2], seconds: u64) -> bool {
    let lease = |seconds| Lease::new(Duration::from_secs(seconds), Duration::from_millis(500));
    let [first, second] = leases.map(|seconds| lease(seconds).expect("possible"));
    let mut alone = View { lease: first, ..view() };
    alone.mirrors[0].replicas.truncate(1);
    let mut bench = Bench::serving_in(alone);
    let asked = bench.request(Operation::Map { offset: 0, length: 512 });
    let [Message::Map { id, .. }] = asked[..] else { panic!("{asked:?}") };
    bench.adopts = false;
    let command = Command::Change(Change::Lease(second));
    bench.step(PrimaryEvent::Command { id: CommandId(1), command });
    assert_eq!(bench.newest.lease, second);
    bench.now = bench.now + Duration::from_secs(seconds);
    let extents = vec![Extent { length: 512, allocated: true }];
    let effects = bench.say(SOURCE, Message::Extents { id, extents });
    effects.iter().any(|effect| matches!(effect, PrimaryEffect::Reply { result: Ok(_), .. }))
}

#[test]
fn a_longer_lease_counts_only_when_it_is_adopted() {
    assert!(is_read_after_change([6, 60], 5));
    assert!(!is_read_after_change([6, 60], 7), "its replica promised 6 s");
}

#[test]
fn a_shorter_lease_counts_at_once() {
    assert!(is_read_after_change([60, 6], 5));
    assert!(
        !is_read_after_change([60, 6], 7),
        "its replica may promise no more than 6 s from now on"
    );
}

/// Attaches a volume whose last primary left it open; says whom it follows.
fn followed(overtaken_by: Option<View>) -> Option<PrimaryId> {
    let mut bench = Bench::idle(View { primaries: vec![primary(LAST)], ..view() });
    bench.overtaken_by = overtaken_by;
    let mut effects = bench.step(PrimaryEvent::Start);
    for _ in 0..40 {
        effects.extend(bench.tick());
    }
    let follows = effects.iter().find_map(|effect| match effect {
        PrimaryEffect::Note(Note::Serving { follows, .. }) => Some(*follows),
        _ => None,
    });
    follows.expect("it serves")
}

const LAST: PrimaryId = PrimaryId { node: ME.node, incarnation: Incarnation(0) };

fn primary(id: PrimaryId) -> PrimaryRecord {
    PrimaryRecord { id, slot: 0 }
}

#[test]
fn a_primary_tells_whom_it_follows() {
    assert_eq!(followed(None), Some(LAST));
}

#[test]
fn who_was_overtaken_while_it_started_follows_the_one_that_came_in_between() {
    let next = |primaries| View { primaries, ..view().successor() };
    let other = PrimaryId { node: NodeId(1), incarnation: Incarnation(7) };
    assert_eq!(followed(Some(next(vec![primary(other)]))), Some(other));
    assert_eq!(followed(Some(next(Vec::new()))), None, "it was detached in between");
}

#[test]
fn the_second_word_of_a_replica_on_a_write_does_not_count() {
    let mut bench = Bench::serving();
    let operation = Operation::Write { offset: 0, payload: Blank::of(4096), durable: false };
    let id = asked(&bench.request(operation));
    for result in [Ok(()), Err(Failure::Medium), Ok(())] {
        bench.say(SOURCE, Message::Done { id, result });
    }
    assert_eq!(bench.newest.replica(SOURCE).unwrap().1.state, ReplicaState::InSync);
    let effects = bench.say(STALE, Message::Done { id, result: Ok(()) });
    let is_success =
        |e: &PrimaryEffect<Blank>| matches!(e, PrimaryEffect::Reply { result: Ok(_), .. });
    assert!(effects.iter().any(is_success), "{effects:?}");
}

/// What a damaged store can hold: it is told once, and the volume goes on as if the coordinator
/// were away.
#[test]
fn a_view_that_cannot_be_of_the_volume_is_not_believed() {
    let mut striped = view();
    let other = ReplicaRecord { id: OTHER, node: NodeId(3), ..striped.mirrors[0].replicas[0] };
    striped.mirrors.push(MirrorView { replicas: vec![other] });
    let mut bench = Bench::serving_in(striped);
    let good = bench.newest.clone();
    type Damage = fn(&mut View);
    let damages: [(Mismatch, Damage); 6] = [
        (Mismatch::OtherLayout, |view| view.mirrors.truncate(1)),
        (Mismatch::OtherLayout, |view| view.mirrors.reverse()),
        (Mismatch::OtherLayout, |view| view.geometry.block_size = 4096),
        (Mismatch::OtherLayout, |view| view.geometry.size /= 2),
        (Mismatch::Invalid, |view| view.mirrors.clear()),
        (Mismatch::OtherVolume, |view| view.volume = VolumeId(9)),
    ];
    for (why, damage) in damages {
        bench.newest.generation = good.generation.next();
        damage(&mut bench.newest);
        let adopted = bench.newest.generation;
        let mut effects = bench.say(SOURCE, Message::Refused { adopted, sequence: None });
        (0..20).for_each(|_| effects.extend(bench.tick()));
        let is_reported = |effect: &&PrimaryEffect<Blank>| matches!(effect, PrimaryEffect::Note(Note::ViewRefused(generation, reported)) if (*generation, *reported) == (adopted, why));
        assert_eq!(effects.iter().filter(is_reported).count(), 1, "{why:?}: {effects:?}");
        bench.newest = good.clone();
        (0..20).for_each(|_| drop(bench.tick()));
    }
    asked(&bench.request(Operation::Write { offset: 0, payload: Blank::of(4096), durable: false }));
}

/// The number and generation of a read that a replica is told of.
fn read_in(messages: &[Message]) -> Option<(Sequence, Generation)> {
    messages.iter().find_map(|message| match message {
        Message::Read { id, .. } => Some((id.sequence, id.generation)),
        _ => None,
    })
}

/// What a replica refuses because it is just adopting the view by which the primary works tells
/// nothing of a newer one.
#[test]
fn what_is_refused_for_the_view_that_is_being_adopted_needs_no_coordinator() {
    refused_while_adopting(|before| before);
    // It has adopted it from another primary, and the answer to this one is on its way.
    refused_while_adopting(Generation::next);
}

fn refused_while_adopting(adopted: impl FnOnce(Generation) -> Generation) {
    let mut bench = Bench::serving();
    let before = bench.newest.generation;
    let adopted = adopted(before);
    let read = bench.request(Operation::Read { offset: 0, length: 4096 });
    let (sequence, generation) = read_in(&read).expect("it is sent");
    assert_eq!(generation, before);
    bench.adopts = false;
    let command = Command::Change(Change::NoData(1));
    bench.step(PrimaryEvent::Command { id: CommandId(1), command });
    assert_eq!(bench.newest.generation, before.next());
    bench.is_away = true;
    bench.say(SOURCE, Message::Refused { adopted, sequence: Some(sequence) });
    bench.tick();
    assert_eq!(bench.unanswered, [], "the coordinator is not asked");
    let generation = before.next();
    let mut effects = bench.say(SOURCE, Message::Adopted { generation });
    effects.extend(bench.say(STALE, Message::Adopted { generation }));
    assert_eq!(read_in(&said(&effects)).map(|(_, generation)| generation), Some(generation));
}

/// Two reads are refused one after the other. Of the first the coordinator says that nothing is
/// newer, of the second it says nothing any more, or tells of the past.
#[test]
fn a_read_that_waits_for_the_newest_view_fails_in_time() {
    let reports_the_past = |view: &View| CoordinatorAnswer::Newest(Box::new(view.clone()));
    for is_restored in [false, true] {
        let mut bench = Bench::serving();
        let past = bench.newest.clone();
        let policy = NoCoordinatorPolicy::from_milliseconds(20_000);
        let command = Command::Change(Change::NoCoordinator(policy));
        bench.step(PrimaryEvent::Command { id: CommandId(1), command });
        let adopted = bench.newest.generation;
        let reads = [1, 2].map(|request| {
            let offset = request * 4096;
            let read = bench.request_as(request, Operation::Read { offset, length: 4096 });
            read_in(&read).expect("it is sent").0
        });
        bench.is_away = true;
        for sequence in reads {
            bench.say(SOURCE, Message::Refused { adopted, sequence: Some(sequence) });
        }
        let call = bench.unanswered.pop().expect("the view is read");
        let answer = CoordinatorAnswer::Newest(Box::new(bench.newest.clone()));
        bench.step(PrimaryEvent::Coordinator { call, answer });
        let mut replies = Vec::new();
        let end = bench.now + Duration::from_secs(60);
        while bench.now < end {
            let mut effects = bench.tick();
            while let Some(call) = bench.unanswered.pop() {
                let answer = match is_restored {
                    true => reports_the_past(&past),
                    false => CoordinatorAnswer::Unknown,
                };
                effects.extend(bench.step(PrimaryEvent::Coordinator { call, answer }));
            }
            replies.extend(effects.into_iter().filter_map(|effect| match effect {
                PrimaryEffect::Reply { request, result } => Some((request.0, result.err())),
                _ => None,
            }));
        }
        let error = Some(RequestError::NoCoordinator);
        assert_eq!(replies, [(1, error), (2, error)], "restored: {is_restored}");
    }
}
