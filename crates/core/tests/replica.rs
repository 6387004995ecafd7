//! One replica alone: what it accepts, refuses, keeps apart and answers, and in which order.

use std::time::Duration;

use evenkeel_core::message::{BlockDigest, CopyContent, Failure, Opener, ReplicaReport, SlotBits};
use evenkeel_core::replica::{OpenRegions, ReplicaConfig};
use evenkeel_core::*;

use crate::harness::Blank;

const ME: ReplicaId = ReplicaId(1);
const OTHER: ReplicaId = ReplicaId(2);
const OLD: PrimaryId = PrimaryId { node: NodeId(1), incarnation: Incarnation(1) };
const NEW: PrimaryId = PrimaryId { node: NodeId(2), incarnation: Incarnation(2) };

fn view(generation: u64, primary: PrimaryId) -> View {
    let record = |id, node| ReplicaRecord {
        incarnation: Incarnation(1),
        ..ReplicaRecord::first(id, NodeId(node))
    };
    View {
        generation: Generation(generation),
        parent: Generation(generation - 1),
        primaries: vec![PrimaryRecord { id: primary, slot: 0 }],
        ..View::first(
            VolumeId(1),
            History(1),
            CoordinatorId(1),
            Geometry { size: 1 << 20, block_size: 512, chunk: 65536 },
            vec![MirrorView { replicas: vec![record(ME, 1), record(OTHER, 2)] }],
        )
    }
}

struct Bench {
    replica: Replica<Blank>,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self::in_view(view(1, OLD))
    }

    fn in_view(view: View) -> Self {
        Self::with(view, false)
    }

    fn with(view: View, has_fua: bool) -> Self {
        let config = ReplicaConfig {
            id: ME,
            incarnation: Incarnation(1),
            boot: BootId(1),
            view,
            incarnations: Incarnations::of([Incarnation(1)]),
            // All of it, so that writes begin at once.
            open_regions: vec![OpenRegions { slot: 0, region: 1 << 20, open: vec![0] }],
            missing: Vec::new(),
            settings: Settings::default(),
            has_fua,
        };
        Self { replica: Replica::new(config, Instant(0)), now: Instant(0) }
    }

    fn step(&mut self, event: ReplicaEvent<Blank>) -> Vec<ReplicaEffect<Blank>> {
        let mut effects = Vec::new();
        self.replica.step(self.now, event, &mut effects);
        effects
    }

    fn say(&mut self, link: u64, message: Message) -> Vec<ReplicaEffect<Blank>> {
        let length = match message {
            Message::Write { length, .. } => Some(Blank::of(length)),
            _ => None,
        };
        self.step(ReplicaEvent::Message { link: LinkId(link), message, payload: length })
    }

    fn open(&mut self, link: u64, session: u64, opener: Opener) -> Vec<ReplicaEffect<Blank>> {
        self.open_from(None, link, session, opener)
    }

    /// Somebody opens a session over a connection from a node.
    fn open_from(
        &mut self,
        from: Option<NodeId>,
        link: u64,
        session: u64,
        opener: Opener,
    ) -> Vec<ReplicaEffect<Blank>> {
        self.step(ReplicaEvent::LinkOpened { link: LinkId(link), from });
        self.say(
            link,
            Message::OpenSession {
                session: SessionNumber(session),
                opener,
                named_incarnations: Box::new(Incarnations::of([Incarnation(1)])),
            },
        )
    }

    fn disk_done(&mut self, ticket: DiskTicket) -> Vec<ReplicaEffect<Blank>> {
        self.step(ReplicaEvent::Disk { ticket, outcome: Ok(DiskOutcome::Done) })
    }

    fn adopt(&mut self, link: u64, view: View) -> Vec<ReplicaEffect<Blank>> {
        self.say(link, Message::Adopt { view: Box::new(view) })
    }
}

fn id(generation: u64, sequence: u64) -> OperationId {
    OperationId { generation: Generation(generation), sequence: Sequence(sequence) }
}

fn write(generation: u64, sequence: u64, offset: u64) -> Message {
    let id = id(generation, sequence);
    Message::Write { id, offset, length: 4096, durable: false, receipt: false }
}

/// The disk actions among some effects.
fn actions(effects: &[ReplicaEffect<Blank>]) -> Vec<(DiskTicket, &DiskAction<Blank>)> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            ReplicaEffect::Disk { ticket, action } => Some((*ticket, action)),
            _ => None,
        })
        .collect()
}

fn ticket(effects: &[ReplicaEffect<Blank>]) -> DiskTicket {
    let actions = actions(effects);
    assert_eq!(actions.len(), 1, "{effects:?}");
    actions[0].0
}

/// The messages among some effects.
fn said(effects: &[ReplicaEffect<Blank>]) -> Vec<Message> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            ReplicaEffect::Send { message, .. } => Some(message.clone()),
            _ => None,
        })
        .collect()
}

#[test]
fn overlapping_writes_run_one_after_the_other() {
    let mut bench = Bench::new();
    bench.open(1, 1, Opener::Primary(OLD));
    let first = ticket(&bench.say(1, write(1, 1, 0)));
    assert!(actions(&bench.say(1, write(1, 2, 0))).is_empty());
    assert_eq!(actions(&bench.say(1, write(1, 3, 8192))).len(), 1);
    let effects = bench.disk_done(first);
    assert_eq!(said(&effects), [Message::Done { id: id(1, 1), result: Ok(()) }]);
    assert_eq!(actions(&effects).len(), 1);
}

#[test]
fn another_generation_is_refused_higher_or_lower() {
    let mut bench = Bench::new();
    bench.open(1, 1, Opener::Primary(OLD));
    for generation in [0, 2] {
        let effects = bench.say(1, write(generation, 1, 0));
        let sequence = Some(Sequence(1));
        assert_eq!(said(&effects), [Message::Refused { adopted: Generation(1), sequence }]);
        assert!(actions(&effects).is_empty());
    }
}

#[test]
fn what_is_outside_the_replica_fails_and_touches_nothing() {
    let mut bench = Bench::new();
    bench.open(1, 1, Opener::Primary(OLD));
    for offset in [1 << 20, (1 << 20) - 512, u64::MAX - 100] {
        let effects = bench.say(1, write(1, 1, offset));
        let result = Err(Failure::Invalid);
        assert_eq!(said(&effects), [Message::Done { id: id(1, 1), result }]);
        assert!(actions(&effects).is_empty());
    }
}

#[test]
fn what_is_not_of_whole_blocks_fails_and_touches_nothing() {
    let mut bench = Bench::new();
    bench.open(1, 1, Opener::Primary(OLD));
    let (id, flags) = (id(1, 1), false);
    for (offset, length) in [(1, 512), (511, 4096), (0, 1), (512, 513)] {
        for message in [
            Message::Write { id, offset, length, durable: flags, receipt: flags },
            Message::Zero { id, offset, length, unmap: flags, durable: flags, receipt: flags },
            Message::Read { id, offset, length },
            Message::Map { id, offset, length },
        ] {
            let effects = bench.say(1, message);
            assert_eq!(said(&effects), [Message::Done { id, result: Err(Failure::Invalid) }]);
            assert!(actions(&effects).is_empty());
        }
    }
    bench.open(2, 1, Opener::Copier(OTHER));
    let (generation, token) = (Generation(1), CopyToken(1));
    let effects = bench.say(2, Message::Copy { generation, token, offset: 1, length: 512 });
    assert_eq!(said(&effects), [Message::Copied { token, content: CopyContent::Refused }]);
}

#[test]
fn who_asks_for_an_adoption_again_and_again_is_answered_once() {
    let mut bench = Bench::new();
    bench.open(1, 1, Opener::Primary(OLD));
    let save = ticket(&bench.adopt(1, view(2, OLD)));
    for _ in 0..9 {
        assert!(bench.adopt(1, view(2, OLD)).is_empty());
    }
    assert_eq!(said(&bench.disk_done(save)), [Message::Adopted { generation: Generation(2) }]);
}

#[test]
fn nothing_is_said_over_a_closed_link_when_an_adoption_ends() {
    for outcome in [Ok(DiskOutcome::Done), Err(DiskError::NoSpace)] {
        let mut bench = Bench::new();
        bench.open(1, 1, Opener::Primary(OLD));
        let save = ticket(&bench.adopt(1, view(2, OLD)));
        // A newer one has come over it, too.
        bench.adopt(1, view(3, OLD));
        bench.step(ReplicaEvent::LinkClosed { link: LinkId(1) });
        let effects = bench.step(ReplicaEvent::Disk { ticket: save, outcome });
        assert!(effects.is_empty(), "{effects:?}");
    }
}

#[test]
fn a_flush_begins_after_the_writes_it_covers_and_the_next_ones_share_one() {
    let mut bench = Bench::new();
    bench.open(1, 1, Opener::Primary(OLD));
    let covered = ticket(&bench.say(1, write(1, 1, 0)));
    let later = ticket(&bench.say(1, write(1, 2, 8192)));
    let flush = |n| Message::Flush { id: id(1, n), covers: Sequence(1) };
    assert!(actions(&bench.say(1, flush(3))).is_empty(), "write 1 is not on the disk yet");
    let effects = bench.disk_done(covered);
    let first = actions(&effects).into_iter().next().expect("a device flush").0;
    assert!(actions(&bench.say(1, flush(4))).is_empty(), "one flush at a time");
    assert!(actions(&bench.say(1, flush(5))).is_empty());
    let effects = bench.disk_done(first);
    assert_eq!(said(&effects), [Message::Done { id: id(1, 3), result: Ok(()) }]);
    let effects =
        bench.step(ReplicaEvent::Disk { ticket: ticket(&effects), outcome: Ok(DiskOutcome::Done) });
    let done = |n| Message::Done { id: id(1, n), result: Ok(()) };
    assert_eq!(said(&effects), [done(4), done(5)]);
    bench.disk_done(later);
}

fn durable_write(sequence: u64) -> Message {
    let id = id(1, sequence);
    Message::Write { id, offset: sequence * 4096, length: 4096, durable: true, receipt: false }
}

#[test]
fn a_durable_write_is_one_action_of_a_disk_that_can_do_it() {
    for has_fua in [false, true] {
        let mut bench = Bench::with(view(1, OLD), has_fua);
        bench.open(1, 1, Opener::Primary(OLD));
        let effects = bench.say(1, durable_write(1));
        let [(first, DiskAction::Write { durable, .. })] = actions(&effects)[..] else {
            panic!("{effects:?}")
        };
        assert_eq!(*durable, has_fua);
        let mut effects = bench.disk_done(first);
        if !has_fua {
            let [(flush, DiskAction::Flush { .. })] = actions(&effects)[..] else {
                panic!("{effects:?}")
            };
            effects = bench.disk_done(flush);
        }
        assert_eq!(said(&effects), [Message::Done { id: id(1, 1), result: Ok(()) }]);
        assert!(actions(&effects).is_empty());
    }
}

#[test]
fn a_durable_write_that_fails_as_a_flush_does_is_a_flush_that_fails() {
    // A block of which it writes a part could not be read, or there was no space: nothing was
    // written, so nothing is lost.
    let errors = [DiskError::Lost, DiskError::Medium, DiskError::Damaged, DiskError::NoSpace];
    for error in errors {
        let is_lost = error == DiskError::Lost;
        let mut bench = Bench::with(view(1, OLD), true);
        bench.open(1, 1, Opener::Primary(OLD));
        let failing = ticket(&bench.say(1, durable_write(1)));
        let beside = ticket(&bench.say(1, durable_write(2)));
        let outcome = Err(error);
        let effects = bench.step(ReplicaEvent::Disk { ticket: failing, outcome });
        let (generation, failure) = (Generation(1), error.into());
        let reported = said(&effects).contains(&Message::DiskFailed { generation, failure });
        assert_eq!(reported, is_lost);
        let failed = Message::Done { id: id(1, 1), result: Err(failure) };
        assert!(said(&effects).contains(&failed));
        // What was under way beside it is believed as little as what comes later.
        let result = if is_lost { Err(failure) } else { Ok(()) };
        let done = Message::Done { id: id(1, 2), result };
        assert_eq!(said(&bench.disk_done(beside)), [done]);
        let later = ticket(&bench.say(1, durable_write(3)));
        assert_eq!(said(&bench.disk_done(later)), [Message::Done { id: id(1, 3), result }]);
    }
}

/// The byte and length of the one read among some effects, and its ticket.
fn read(effects: &[ReplicaEffect<Blank>]) -> (DiskTicket, u64, u32) {
    match actions(effects)[..] {
        [(ticket, DiskAction::Read { offset, length })] => (ticket, *offset, *length),
        _ => panic!("{effects:?}"),
    }
}

/// A digest of 1 MiB of which some blocks can't be read.
fn digest(bench: &mut Bench) -> Vec<ReplicaEffect<Blank>> {
    bench.say(1, Message::Digest { id: id(1, 7), offset: 0, length: 1 << 20 })
}

#[test]
fn what_cannot_be_digested_at_once_is_in_pieces() {
    let mut bench = Bench::new();
    bench.open(1, 1, Opener::Primary(OLD));
    let mut effects = digest(&mut bench);
    let bad = [(40, DiskError::Damaged), (41, DiskError::Medium), (255, DiskError::Damaged)];
    let mut reads = 0;
    while let [(_, DiskAction::Read { .. })] = actions(&effects)[..] {
        let (ticket, offset, length) = read(&effects);
        let blocks = offset / 4096..(offset + u64::from(length)) / 4096;
        let found = bad.iter().find(|(block, _)| blocks.contains(block));
        let outcome =
            found.map_or(Ok(DiskOutcome::Data(Blank::of(length))), |(_, error)| Err(*error));
        effects = bench.step(ReplicaEvent::Disk { ticket, outcome });
        reads += 1;
    }
    assert_eq!(reads, 1 + 16 + 2 * 16, "down to blocks only where it has to be");
    let mut digests = vec![BlockDigest::of_content(Blank::of(4096).digest(0, 4096)); 256];
    (digests[40], digests[41]) = (BlockDigest::DAMAGED, BlockDigest::UNREADABLE);
    digests[255] = BlockDigest::DAMAGED;
    assert_eq!(said(&effects), [Message::Digests { id: id(1, 7), digests }]);
}

#[test]
fn nobody_waits_for_the_pieces_of_a_digest() {
    let mut bench = Bench::new();
    bench.open(1, 1, Opener::Primary(OLD));
    let (ticket, ..) = read(&digest(&mut bench));
    bench.adopt(1, view(2, OLD));
    let outcome = Err(DiskError::Damaged);
    let effects = bench.step(ReplicaEvent::Disk { ticket, outcome });
    let refused = Message::Refused { adopted: Generation(1), sequence: Some(Sequence(7)) };
    assert_eq!(said(&effects), [refused]);
    let is_saving = |action: &&DiskAction<Blank>| matches!(action, DiskAction::SaveView(..));
    assert!(actions(&effects).iter().map(|(_, action)| *action).all(|a| is_saving(&a)));

    let mut bench = Bench::new();
    bench.open(1, 1, Opener::Primary(OLD));
    let (ticket, ..) = read(&digest(&mut bench));
    bench.step(ReplicaEvent::LinkClosed { link: LinkId(1) });
    let outcome = Err(DiskError::Damaged);
    assert!(bench.step(ReplicaEvent::Disk { ticket, outcome }).is_empty());
}

#[test]
fn after_a_failed_flush_none_succeeds() {
    let mut bench = Bench::new();
    bench.open(1, 1, Opener::Primary(OLD));
    let flush = |n| Message::Flush { id: id(1, n), covers: Sequence(0) };
    let first = ticket(&bench.say(1, flush(1)));
    let (generation, failure) = (Generation(1), Failure::Medium);
    let reported = Message::DiskFailed { generation, failure };
    let failed = Message::Done { id: id(1, 1), result: Err(failure) };
    let outcome = Err(DiskError::Medium);
    assert_eq!(
        said(&bench.step(ReplicaEvent::Disk { ticket: first, outcome })),
        [reported, failed]
    );
    let failed = Message::Done { id: id(1, 2), result: Err(Failure::Medium) };
    assert_eq!(said(&bench.say(1, flush(2))), [failed]);
}

/// If the process ends before the next flush, the primary must not believe its next incarnation.
#[test]
fn a_failed_flush_that_nobody_here_asked_for_is_told_at_once() {
    let mut bench = Bench::new();
    bench.open(1, 1, Opener::Primary(OLD));
    let flush = |n| Message::Flush { id: id(1, n), covers: Sequence(0) };
    let running = ticket(&bench.say(1, flush(1)));
    let (generation, failure) = (Generation(1), Failure::Medium);
    let reported = Message::DiskFailed { generation, failure };
    let at_once = said(&bench.step(ReplicaEvent::FlushFailed));
    assert_eq!(at_once, std::slice::from_ref(&reported));
    let failed = |n| Message::Done { id: id(1, n), result: Err(failure) };
    let outcome = Ok(DiskOutcome::Done);
    let effects = bench.step(ReplicaEvent::Disk { ticket: running, outcome });
    assert_eq!(said(&effects), [reported, failed(1)], "it is not believed");
    assert_eq!(said(&bench.say(1, flush(2))), [failed(2)]);
}

#[test]
fn a_new_session_opens_when_the_old_ones_work_has_ended() {
    let mut bench = Bench::new();
    bench.open(1, 1, Opener::Primary(OLD));
    let begun = ticket(&bench.say(1, write(1, 1, 0)));
    bench.say(1, write(1, 2, 0));
    assert!(said(&bench.open(2, 2, Opener::Primary(OLD))).is_empty());
    let effects = bench.disk_done(begun);
    assert!(actions(&effects).is_empty(), "the write that waited is forgotten");
    assert!(matches!(said(&effects)[..], [Message::SessionOpened { .. }]));
    assert!(
        bench.open(3, 1, Opener::Primary(OLD)).contains_disconnect(3),
        "an older session does not replace a newer one"
    );
}

#[test]
fn whoever_opens_a_session_is_on_the_node_that_has_connected() {
    let mut bench = Bench::in_view(view(1, OLD));
    let as_primary = Opener::Primary(OLD);
    let effects = bench.open_from(Some(NEW.node), 1, 1, as_primary);
    assert!(effects.contains_disconnect(1), "another node's primary: {effects:?}");
    assert!(said(&effects).is_empty());
    // An impostor's session, however new, is not in the way of the real one.
    assert!(bench.open_from(Some(NEW.node), 2, 9, as_primary).contains_disconnect(2));
    let effects = bench.open_from(Some(OLD.node), 3, 1, as_primary);
    assert!(matches!(said(&effects)[..], [Message::SessionOpened { .. }]), "{effects:?}");
    let effects = bench.open_from(Some(NodeId(7)), 4, 1, Opener::Copier(OTHER));
    assert!(effects.contains_disconnect(4), "another node's replica: {effects:?}");
    let effects = bench.open_from(Some(NodeId(2)), 5, 1, Opener::Copier(OTHER));
    assert!(matches!(said(&effects)[..], [Message::SessionOpened { .. }]), "{effects:?}");
}

#[test]
fn a_copier_that_the_view_does_not_have_may_be_newer_and_copies_nothing() {
    let mut bench = Bench::in_view(view(1, OLD));
    let stranger = Opener::Copier(ReplicaId(9));
    let effects = bench.open_from(Some(NodeId(7)), 1, 1, stranger);
    assert!(matches!(said(&effects)[..], [Message::SessionOpened { .. }]), "{effects:?}");
    let copy =
        Message::Copy { generation: Generation(1), token: CopyToken(5), offset: 0, length: 4096 };
    let effects = bench.say(1, copy);
    assert!(actions(&effects).is_empty(), "{effects:?}");
    let refused = Message::Copied { token: CopyToken(5), content: CopyContent::Refused };
    assert_eq!(said(&effects), [refused]);
}

#[test]
fn a_session_that_was_opened_before_the_view_in_which_it_is_anothers_ends() {
    let without_other = View {
        mirrors: vec![MirrorView { replicas: vec![ReplicaRecord::first(ME, NodeId(1))] }],
        ..view(1, OLD)
    };
    let mut bench = Bench::in_view(without_other);
    bench.open(1, 1, Opener::Primary(OLD));
    bench.open_from(Some(NodeId(7)), 2, u64::MAX, Opener::Copier(OTHER));
    let saving = ticket(&bench.adopt(1, view(2, OLD)));
    let effects = bench.disk_done(saving);
    assert!(effects.contains_disconnect(2), "{effects:?}");
    // Its number is not in the way of the replica's own session.
    let effects = bench.open_from(Some(NodeId(2)), 3, 1, Opener::Copier(OTHER));
    assert!(matches!(said(&effects)[..], [Message::SessionOpened { .. }]), "{effects:?}");
}

/// A disk that was moved: the primary reaches it in memory if it is on its own node; elsewhere a
/// view has to say where it is now.
#[test]
fn a_replica_copies_from_where_the_view_has_it_or_from_a_primarys_node() {
    let mut bench = Bench::in_view(view(1, OLD));
    let copier = Opener::Copier(OTHER);
    let is_open = |effects: &[ReplicaEffect<Blank>]| {
        matches!(said(effects)[..], [Message::SessionOpened { .. }])
    };
    assert!(is_open(&bench.open_from(Some(OLD.node), 1, 1, copier)));
    bench.open(2, 1, Opener::Primary(OLD));
    assert!(bench.open_from(Some(NodeId(3)), 3, 2, copier).contains_disconnect(3));
    let mut moved = view(2, OLD);
    moved.relocate(OTHER, NodeId(3)).unwrap();
    let saving = ticket(&bench.adopt(2, moved));
    bench.disk_done(saving);
    assert!(is_open(&bench.open_from(Some(NodeId(3)), 4, 2, copier)));
}

trait ContainsDisconnect {
    fn contains_disconnect(&self, link: u64) -> bool;
}

impl ContainsDisconnect for Vec<ReplicaEffect<Blank>> {
    fn contains_disconnect(&self, closed: u64) -> bool {
        self.iter().any(|e| matches!(e, ReplicaEffect::Disconnect { link } if link.0 == closed))
    }
}

#[test]
fn a_takeover_waits_for_running_work_then_for_the_lease_then_for_the_superblocks() {
    let mut bench = Bench::new();
    bench.now = Instant(60_000_000_000);
    bench.open(1, 1, Opener::Primary(OLD));
    let running = ticket(&bench.say(1, write(1, 1, 0)));
    bench.open(2, 1, Opener::Primary(NEW));
    assert!(bench.adopt(2, view(2, NEW)).is_empty(), "work of the old generation runs");
    assert!(matches!(said(&bench.say(1, write(1, 2, 8192)))[..], [Message::Refused { .. }]));
    let effects = bench.disk_done(running);
    let generation = Generation(2);
    assert_eq!(
        said(&effects),
        [Message::Done { id: id(1, 1), result: Ok(()) }, Message::Fenced { generation }]
    );
    assert!(actions(&effects).is_empty(), "the old primary's lease runs");
    bench.now = bench.now + Lease::default().time();
    assert!(bench.step(ReplicaEvent::Tick).is_empty());
    bench.now = bench.replica.next_wakeup().expect("the end of the lease");
    let effects = bench.step(ReplicaEvent::Tick);
    assert!(matches!(actions(&effects)[..], [(_, DiskAction::SaveView(..))]));
    assert!(said(&effects).is_empty());
    assert_eq!(said(&bench.disk_done(ticket(&effects))), [Message::Adopted { generation }]);
    assert!(matches!(said(&bench.say(1, write(1, 3, 0)))[..], [Message::Refused { .. }]));
}

/// Adopts a view by a primary on the same node as the one before. `lives`: that one is answered
/// meanwhile.
fn is_saved_at_once(lives: bool) -> bool {
    let next = PrimaryId { node: OLD.node, incarnation: Incarnation(9) };
    let mut bench = Bench::new();
    bench.now = Instant(60_000_000_000);
    bench.open(1, 1, Opener::Primary(OLD));
    bench.say(1, Message::Ping { generation: Generation(1), number: PingNumber(1) });
    bench.now = bench.now + Duration::from_secs(1);
    bench.open(2, 1, Opener::Primary(next));
    if lives {
        bench.say(1, Message::Ping { generation: Generation(1), number: PingNumber(2) });
    }
    !actions(&bench.adopt(2, view(2, next))).is_empty()
}

#[test]
fn an_older_primary_of_the_same_node_is_waited_for_if_it_lives_on() {
    assert!(is_saved_at_once(false));
    assert!(!is_saved_at_once(true));
}

#[test]
fn an_old_primary_that_says_it_knows_is_not_waited_for() {
    let mut bench = Bench::new();
    bench.open(1, 1, Opener::Primary(OLD));
    bench.open(2, 1, Opener::Primary(NEW));
    assert!(actions(&bench.adopt(2, view(2, NEW))).is_empty());
    let effects = bench.say(1, Message::FenceConfirmed { generation: Generation(2) });
    assert!(matches!(actions(&effects)[..], [(_, DiskAction::SaveView(..))]));
}

#[test]
fn after_a_restart_the_lease_of_an_unseen_primary_is_waited_for() {
    let mut bench = Bench::new();
    bench.open(1, 1, Opener::Primary(NEW));
    assert!(actions(&bench.adopt(1, view(2, NEW))).is_empty());
    let lease = Lease::default().honoured();
    assert!(bench.replica.next_wakeup().is_some_and(|at| at <= Instant(0) + lease));
    bench.now = Instant(0) + (lease - Duration::from_nanos(1));
    assert!(actions(&bench.step(ReplicaEvent::Tick)).is_empty());
    bench.now = Instant(0) + lease;
    assert_eq!(actions(&bench.step(ReplicaEvent::Tick)).len(), 1);
}

/// A view in which both are primaries, with a lease of so many seconds.
fn shared(generation: u64, lease: u64) -> View {
    let mut view = view(generation, OLD);
    view.primaries.push(PrimaryRecord { id: NEW, slot: 1 });
    view.intents.slots = 2;
    let lease = Lease::new(Duration::from_secs(lease), Duration::from_millis(500));
    View { lease: lease.expect("possible"), ..view }
}

/// When the superblocks begin to be written, counted from the start of the replica.
fn saved_after(bench: &mut Bench) -> Duration {
    loop {
        if !actions(&bench.step(ReplicaEvent::Tick)).is_empty() {
            return bench.now.since(Instant(0));
        }
        bench.now = bench.replica.next_wakeup().expect("it waits for a lease");
    }
}

#[test]
fn a_shorter_lease_is_adopted_when_nobody_counts_on_the_longer_one() {
    let mut bench = Bench::in_view(shared(1, 60));
    bench.open(1, 1, Opener::Primary(OLD));
    bench.open(2, 1, Opener::Primary(NEW));
    assert!(actions(&bench.adopt(2, shared(2, 6))).is_empty(), "the other primary may read");
    assert_eq!(saved_after(&mut bench), Duration::from_millis(60_500));

    let mut bench = Bench::in_view(shared(1, 60));
    bench.open(1, 1, Opener::Primary(OLD));
    bench.open(2, 1, Opener::Primary(NEW));
    bench.adopt(2, shared(2, 6));
    let effects = bench.adopt(1, shared(2, 6));
    assert_eq!(actions(&effects).len(), 1, "the other one knows, too");
    bench.disk_done(ticket(&effects));
    bench.adopt(2, View { generation: Generation(3), parent: Generation(2), ..view(3, NEW) });
    assert_eq!(saved_after(&mut bench), Duration::from_millis(6500));
}

#[test]
fn a_longer_lease_is_adopted_at_once_and_honoured_from_then_on() {
    let mut bench = Bench::in_view(shared(1, 6));
    bench.open(2, 1, Opener::Primary(NEW));
    let effects = bench.adopt(2, shared(2, 60));
    assert_eq!(actions(&effects).len(), 1);
    bench.disk_done(ticket(&effects));
    bench.adopt(2, view(3, NEW));
    assert_eq!(saved_after(&mut bench), Duration::from_millis(60_500));
}

#[test]
fn a_view_of_another_history_or_of_an_older_generation_is_refused() {
    let mut bench = Bench::new();
    bench.open(1, 1, Opener::Primary(OLD));
    let foreign = View { history: History(9), ..view(2, OLD) };
    let older = View { generation: Generation(0), ..view(1, OLD) };
    let other_of_the_same_number = view(1, NEW);
    for view in [foreign, older, other_of_the_same_number] {
        assert!(matches!(said(&bench.adopt(1, view))[..], [Message::Refused { .. }]));
    }
    let same = bench.adopt(1, view(1, OLD));
    assert_eq!(said(&same), [Message::Adopted { generation: Generation(1) }]);
}

#[test]
fn a_view_of_another_coordinator_is_adopted_only_if_it_supersedes_this_ones() {
    let now = 1_800_000_000;
    let began = |from: View| {
        let next = from.next_epoch(CoordinatorId(2), History(2), now);
        View { primaries: vec![PrimaryRecord { id: NEW, slot: 0 }], ..next }
    };
    let refused = |view: View| {
        let mut bench = Bench::new();
        bench.open(1, 1, Opener::Primary(NEW));
        assert!(matches!(said(&bench.adopt(1, view))[..], [Message::Refused { .. }]));
    };
    // The same history is not enough: the old coordinator and the new one must not both be obeyed.
    refused(View { coordinator: CoordinatorId(2), ..view(2, NEW) });
    // It began from an older view than the one adopted here: this replica has gone another way.
    refused(began(View { generation: Generation(0), ..view(1, OLD) }));
    let mut late = began(view(1, OLD));
    late.generation = Generation(9);
    late.epochs[0].last = Generation(0);
    refused(late);

    let mut bench = Bench::new();
    bench.open(1, 1, Opener::Primary(NEW));
    let next = began(view(1, OLD));
    assert_eq!(next.generation, Generation(2));
    assert!(said(&bench.adopt(1, next)).iter().all(|m| !matches!(m, Message::Refused { .. })));
}

/// The same view with another generation and another state of this replica.
fn view_as(generation: u64, state: ReplicaState) -> View {
    let mut view = view(generation, OLD);
    let me = &mut view.mirrors[0].replicas[0];
    (me.state, me.since) = (state, Generation(generation.min(2)));
    view
}

fn source_report(generation: u64) -> ReplicaReport {
    ReplicaReport {
        replica: OTHER,
        incarnation: Incarnation(1),
        is_stale_clone: false,
        boot: BootId(2),
        generation: Generation(generation),
        history: History(1),
        size: 1 << 20,
        state: Some(ReplicaState::InSync),
        slots: SlotBits::default(),
    }
}

#[test]
fn a_rebuild_begins_no_copy_while_a_view_is_being_adopted() {
    let mut bench = Bench::in_view(view_as(1, ReplicaState::Stale));
    bench.open(1, 1, Opener::Primary(OLD));
    let saving = ticket(&bench.adopt(1, view_as(2, ReplicaState::Rebuilding)));
    let effects = bench.disk_done(saving);
    let asks = |e: &ReplicaEffect<Blank>| matches!(e, ReplicaEffect::ConnectSource { .. });
    assert!(effects.iter().any(asks), "{effects:?}");
    let running = ticket(&bench.say(1, write(2, 1, 0)));
    bench.adopt(1, view_as(3, ReplicaState::Rebuilding));
    // Only now the source answers.
    let link = LinkId(9);
    let session =
        match &said(&bench.step(ReplicaEvent::SourceLink { replica: OTHER, link: Some(link) }))[..]
        {
            [Message::OpenSession { session, .. }] => *session,
            other => panic!("{other:?}"),
        };
    let report = Box::new(source_report(2));
    let effects = bench.say(9, Message::SessionOpened { session, report });
    assert!(effects.is_empty(), "it would wait for what comes after the adoption: {effects:?}");
    let effects = bench.disk_done(running);
    assert!(matches!(actions(&effects)[..], [(_, DiskAction::SaveView(..))]), "{effects:?}");
    let effects = bench.disk_done(ticket(&effects));
    let drains = |m: &Message| matches!(m, Message::Drain { generation: Generation(3), .. });
    assert!(said(&effects).iter().any(drains), "then it goes on: {effects:?}");
}

#[test]
fn only_an_in_sync_replica_is_a_source() {
    let mut bench = Bench::new();
    bench.open(1, 1, Opener::Copier(OTHER));
    let ask = |generation| Message::Copy {
        generation: Generation(generation),
        token: CopyToken(5),
        offset: 0,
        length: 4096,
    };
    assert_eq!(actions(&bench.say(1, ask(1))).len(), 1);
    let refused = Message::Copied { token: CopyToken(5), content: CopyContent::Refused };
    assert_eq!(said(&bench.say(1, ask(2))), [refused]);
    assert!(bench.say(1, write(1, 1, 0)).contains_disconnect(1), "a copier does not write");
}

/// A rebuild until it has asked its primary to finish its writes, and what it said until then.
fn rebuild_until_all_is_durable() -> (Bench, Vec<Message>) {
    let mut bench = Bench::in_view(view_as(1, ReplicaState::Stale));
    bench.open(1, 1, Opener::Primary(OLD));
    let mut effects = bench.adopt(1, view_as(2, ReplicaState::Rebuilding));
    let mut messages = Vec::new();
    for _ in 0..100 {
        let done = std::mem::take(&mut effects);
        messages.extend(said(&done));
        if messages.iter().any(|m| matches!(m, Message::RebuildCopied { .. })) {
            return (bench, messages);
        }
        for effect in &done {
            effects.extend(answered(&mut bench, effect));
        }
        bench.now = bench.now + Duration::from_millis(10);
        effects.extend(bench.step(ReplicaEvent::Tick));
    }
    panic!("the rebuild stands still: {messages:?}");
}

/// What a disk, a source and a primary do about one effect.
fn answered(bench: &mut Bench, effect: &ReplicaEffect<Blank>) -> Vec<ReplicaEffect<Blank>> {
    let generation = Generation(2);
    match effect {
        ReplicaEffect::Disk { ticket, .. } => bench.disk_done(*ticket),
        ReplicaEffect::ConnectSource { replica, .. } => {
            bench.step(ReplicaEvent::SourceLink { replica: *replica, link: Some(LinkId(9)) })
        }
        ReplicaEffect::Send { message, .. } => match *message {
            Message::OpenSession { session, .. } => {
                bench.say(9, Message::SessionOpened { session, report: Box::new(source_report(2)) })
            }
            Message::AskMissing { replica, page, .. } => {
                let content = message::MissingContent::End;
                bench.say(9, Message::MissingBlocks { replica, asked: page, content })
            }
            Message::Drain { token, .. } => {
                bench.say(1, Message::Drained { generation, token, is_busy: false })
            }
            Message::Copy { token, .. } => {
                bench.say(9, Message::Copied { token, content: CopyContent::Zeroes })
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// The copy may have brought a write that another in-sync member has not written yet: as long as
/// its primary may end with that, only the bit tells of the difference (W7).
#[test]
fn bits_are_cleared_only_when_the_primary_has_finished_what_the_copy_may_have_brought() {
    let (mut bench, before) = rebuild_until_all_is_durable();
    let cleared = |m: &Message| matches!(m, Message::ClearBits { .. });
    assert!(!before.iter().any(cleared), "{before:?}");
    let Some(&Message::RebuildCopied { generation, number }) = before.last() else {
        panic!("{before:?}")
    };

    let earlier = BarrierNumber(number.0 - 1);
    let effects = bench.say(1, Message::WritesFinished { generation, number: earlier });
    assert!(said(&effects).is_empty(), "an answer to another question: {effects:?}");
    let messages = said(&bench.say(1, Message::WritesFinished { generation, number }));
    let runs = messages.iter().filter_map(|m| match m {
        Message::ClearBits { offset, length, .. } => Some((*offset, *length)),
        _ => None,
    });
    assert_eq!(runs.collect::<Vec<_>>(), [(0, 1 << 20)]);
    assert!(messages.contains(&Message::RebuildDone { generation }), "{messages:?}");
}
