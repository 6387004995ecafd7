//! A primary that has read no view yet: whatever is asked of it is answered, kept until it serves,
//! or refused when it ends.

use std::time::Duration;

use evenkeel_core::primary::{
    Command, CommandError, CoordinatorAnswer, Earlier, EndReason, Mismatch, Note, PrimaryConfig,
    VerifyState, Waiting,
};
use evenkeel_core::view::{Cause, Change};
use evenkeel_core::*;

use crate::cluster::{Cluster, SIZE};
use crate::harness::Blank;

const BEGAN: Instant = Instant(7_000_000_000);
const PATIENCE: Duration = Duration::from_secs(60);
const CALL_PAUSE: Duration = Duration::from_millis(250);
const TICK: Duration = Duration::from_millis(125);
const LIMIT: Command = Command::Change(Change::RebuildLimit(RebuildLimit::Paused));

/// An effect, as far as a primary without a view has any.
#[derive(Debug, PartialEq)]
enum Effect {
    Refused(u64, RequestError),
    Drained(u64),
    Done(u64, Result<(), CommandError>),
    Read,
    Connect(u128),
    Disconnect(u64),
    Note(Note),
    Ended(EndReason),
}

impl From<PrimaryEffect<Blank>> for Effect {
    fn from(effect: PrimaryEffect<Blank>) -> Self {
        match effect {
            PrimaryEffect::Reply { request, result: Err(error) } => Self::Refused(request.0, error),
            PrimaryEffect::Drained { path } => Self::Drained(path.0),
            PrimaryEffect::CommandDone { id, result } => Self::Done(id.0, result),
            PrimaryEffect::ReadView { .. } => Self::Read,
            PrimaryEffect::Connect { replica, .. } => Self::Connect(replica.0),
            PrimaryEffect::Disconnect { link } => Self::Disconnect(link.0),
            PrimaryEffect::Note(note) => Self::Note(note),
            PrimaryEffect::Ended { reason } => Self::Ended(reason),
            other => panic!("{other:?} without a view"),
        }
    }
}

/// A primary, and a coordinator that answers when a test says so.
struct Bench {
    primary: Primary<Blank>,
    now: Instant,
    /// What the coordinator was asked last.
    call: CoordinatorCall,
}

impl Bench {
    fn idle() -> Self {
        let config = PrimaryConfig {
            id: PrimaryId { node: NodeId(9), incarnation: Incarnation(1) },
            volume: VolumeId(1),
            settings: Settings::default(),
            earlier: Earlier::Ended,
        };
        let (now, call) = (BEGAN, CoordinatorCall(0));
        Self { primary: Primary::new(config, now), now, call }
    }

    fn started() -> Self {
        let mut bench = Self::idle();
        assert_eq!(bench.step(PrimaryEvent::Start), [Effect::Read]);
        bench
    }

    fn step(&mut self, event: PrimaryEvent<Blank>) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.primary.step(self.now, event, &mut effects);
        let mut calls = effects.iter().filter_map(|effect| match effect {
            PrimaryEffect::ReadView { call } => Some(*call),
            _ => None,
        });
        self.call = calls.next_back().unwrap_or(self.call);
        effects.into_iter().map(Effect::from).collect()
    }

    /// Time passes, and the primary is woken whenever it wants to be.
    fn pass(&mut self, time: Duration) -> Vec<Effect> {
        let until = self.now + time;
        let mut reported = Vec::new();
        while let Some(at) = self.primary.next_wakeup().filter(|at| *at <= until) {
            assert!(at > self.now, "it is woken for nothing");
            self.now = at;
            reported.extend(self.step(PrimaryEvent::Tick));
        }
        self.now = until;
        reported
    }

    fn flush(&mut self, request: u64, path: u64) -> Vec<Effect> {
        self.step(PrimaryEvent::Request {
            request: RequestId(request),
            host: HostId(1),
            path: PathNumber(path),
            operation: Operation::Flush,
        })
    }

    fn command(&mut self, id: u64, command: Command) -> Vec<Effect> {
        self.step(PrimaryEvent::Command { id: CommandId(id), command })
    }

    fn answer(&mut self, answer: CoordinatorAnswer) -> Vec<Effect> {
        self.step(PrimaryEvent::Coordinator { call: self.call, answer })
    }

    fn drain(&mut self, path: u64) -> Vec<Effect> {
        self.step(PrimaryEvent::Drain { path: PathNumber(path) })
    }
}

/// A mirror of three: one copy in-sync, one that an assembly counted, one stale.
fn view() -> View {
    let record = |id, state, cause| ReplicaRecord {
        state,
        cause,
        missing_since: (state == ReplicaState::Stale).then_some(Generation(1)),
        ..ReplicaRecord::first(ReplicaId(id), NodeId(id))
    };
    let replicas = vec![
        record(1, ReplicaState::InSync, Cause::None),
        record(2, ReplicaState::Stale, Cause::Unconfirmed),
        record(3, ReplicaState::Stale, Cause::Unreachable),
    ];
    View::first(
        VolumeId(1),
        History(1),
        CoordinatorId(1),
        Geometry { size: 1 << 20, block_size: 512, chunk: 65536 },
        vec![MirrorView { replicas }],
    )
}

fn newest(view: View) -> CoordinatorAnswer {
    CoordinatorAnswer::Newest(Box::new(view))
}

#[test]
fn it_does_nothing_before_it_is_started() {
    let mut bench = Bench::idle();
    assert_eq!(bench.primary.next_wakeup(), None);
    assert_eq!(bench.step(PrimaryEvent::Tick), []);
    assert_eq!(bench.answer(newest(view())), []);
    assert_eq!(bench.primary.next_wakeup(), None);
    assert_eq!(bench.step(PrimaryEvent::Start), [Effect::Read]);
    assert_eq!(bench.primary.next_wakeup(), Some(BEGAN + TICK));
}

#[test]
fn it_is_started_once() {
    let mut bench = Bench::started();
    assert_eq!(bench.step(PrimaryEvent::Start), []);
    bench.pass(PATIENCE / 2);
    assert_eq!(bench.step(PrimaryEvent::Start), []);
    bench.answer(CoordinatorAnswer::Unknown);
    let reported = bench.pass(PATIENCE / 2);
    let ended = Effect::Ended(EndReason::NoCoordinator);
    assert_eq!(reported, [Effect::Read, ended], "its time began with the first start");
}

#[test]
fn its_status_says_for_what_requests_wait() {
    let mut bench = Bench::started();
    bench.flush(1, 1);
    bench.pass(PATIENCE);
    let status = bench.primary.status(bench.now);
    let waiting = status.waiting.expect("they wait");
    assert_eq!((waiting.why, waiting.since, waiting.is_over), (Waiting::Start, BEGAN, false));
    assert!(status.view.is_none() && bench.primary.view().is_none());
    assert!(!status.serving && !status.unflushed && status.replicas.is_empty());
    assert!(status.verify.is_none() && bench.primary.rebuilds().is_empty());
}

#[test]
fn requests_wait_until_it_serves() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    cluster.coordinator_answers = false;
    let primary = cluster.attach(9);
    let write = cluster.write(primary, 0, 7, 4096);
    cluster.pass(PATIENCE / 2);
    assert!(cluster.replies.is_empty());
    cluster.coordinator_answers = true;
    cluster.pass(Duration::from_secs(1));
    assert!(cluster.is_acknowledged(write));
}

#[test]
fn a_request_that_is_given_up_is_answered_at_once() {
    let mut bench = Bench::started();
    assert_eq!(bench.flush(1, 1), []);
    assert_eq!(bench.flush(2, 1), []);
    let cancel = |request| PrimaryEvent::Cancel { request: RequestId(request) };
    assert_eq!(bench.step(cancel(1)), [Effect::Refused(1, RequestError::Cancelled)]);
    assert_eq!(bench.step(cancel(1)), []);
    let ended = bench.answer(CoordinatorAnswer::NoVolume);
    let refused = Effect::Refused(2, RequestError::Detached);
    assert_eq!(ended, [refused, Effect::Ended(EndReason::NoVolume)]);
}

#[test]
fn a_path_is_drained_when_nothing_waits_that_came_over_it() {
    let mut bench = Bench::started();
    bench.flush(1, 1);
    assert_eq!(bench.drain(2), [Effect::Drained(2)]);
    assert_eq!(bench.drain(1), []);
    assert_eq!(bench.pass(PATIENCE), []);
    let reported = bench.step(PrimaryEvent::Cancel { request: RequestId(1) });
    assert_eq!(reported, [Effect::Refused(1, RequestError::Cancelled), Effect::Drained(1)]);
}

/// Before it has a view, and while it attaches.
#[test]
fn no_path_is_drained_by_the_end() {
    for has_view in [false, true] {
        let mut bench = Bench::started();
        bench.flush(1, 1);
        bench.drain(1);
        if has_view {
            bench.answer(newest(view()));
        }
        let ended = bench.command(1, Command::Detach);
        let expected = [
            Effect::Done(1, Ok(())),
            Effect::Refused(1, RequestError::Detached),
            Effect::Ended(EndReason::DetachedUnclean),
        ];
        assert_eq!(ended, expected);
    }
}

#[test]
fn a_command_waits_for_the_view_and_is_carried_out_then() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    cluster.coordinator_answers = false;
    let primary = cluster.attach(9);
    let command = cluster.command(primary, LIMIT);
    cluster.pass(PATIENCE / 2);
    assert!(cluster.commands.is_empty());
    cluster.coordinator_answers = true;
    cluster.pass(Duration::from_secs(1));
    assert_eq!(cluster.commands[&command], Ok(()));
    assert_eq!(cluster.newest.rebuild_limit, RebuildLimit::Paused);
}

/// The coordinator does not even refuse: the call is under way, so the attach goes on.
#[test]
fn commands_are_given_up_when_the_coordinator_has_been_silent_for_too_long() {
    let mut bench = Bench::started();
    assert_eq!(bench.command(1, LIMIT), []);
    assert_eq!(bench.pass(PATIENCE / 2), []);
    assert_eq!(bench.command(2, LIMIT), []);
    assert_eq!(bench.pass(PATIENCE / 2), [Effect::Done(1, Err(CommandError::NoCoordinator))]);
    assert_eq!(bench.pass(PATIENCE / 2), [Effect::Done(2, Err(CommandError::NoCoordinator))]);
    assert_eq!(bench.pass(PATIENCE), []);
    assert_eq!(bench.answer(newest(view())), [Effect::Connect(1), Effect::Connect(2)]);
}

#[test]
fn a_verify_begins_before_anything_is_known_and_runs_when_it_serves() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    cluster.coordinator_answers = false;
    let primary = cluster.attach(9);
    let command = cluster.command(primary, Command::Verify { repair: false, source: None });
    assert_eq!(cluster.commands[&command], Ok(()));
    let verify = cluster.verify(primary);
    assert_eq!((verify.state, verify.checked, verify.total), (VerifyState::Running, 0, 0));
    cluster.coordinator_answers = true;
    cluster.pass(Duration::from_secs(30));
    let verify = cluster.verify(primary);
    assert_eq!((verify.state, verify.checked, verify.total), (VerifyState::Done, SIZE, SIZE));
}

#[test]
fn a_verify_is_stopped_before_anything_is_known() {
    let mut bench = Bench::started();
    bench.command(1, Command::Verify { repair: true, source: None });
    bench.pass(TICK);
    assert_eq!(bench.command(2, Command::StopVerify), [Effect::Done(2, Ok(()))]);
    let verify = bench.primary.status(bench.now).verify.expect("it was begun");
    assert_eq!((verify.state, verify.ended), (VerifyState::Stopped, Some(bench.now)));
}

#[test]
fn a_detach_ends_it_and_answers_everybody() {
    for mut bench in [Bench::idle(), Bench::started()] {
        bench.flush(1, 1);
        bench.command(1, LIMIT);
        bench.command(2, Command::Verify { repair: false, source: None });
        let reported = bench.command(3, Command::Detach);
        let expected = [
            Effect::Done(3, Ok(())),
            Effect::Refused(1, RequestError::Detached),
            Effect::Done(1, Err(CommandError::Ended)),
            Effect::Ended(EndReason::DetachedUnclean),
        ];
        assert_eq!(reported, expected);
        assert_eq!(bench.primary.next_wakeup(), None);
    }
}

#[test]
fn after_the_end_everything_is_refused() {
    let mut bench = Bench::started();
    bench.command(1, Command::Detach);
    let up = PrimaryEvent::LinkUp { replica: ReplicaId(1), link: LinkId(4) };
    assert_eq!(bench.flush(1, 1), [Effect::Refused(1, RequestError::Detached)]);
    assert_eq!(bench.command(2, LIMIT), [Effect::Done(2, Err(CommandError::Ended))]);
    assert_eq!(bench.step(up), [Effect::Disconnect(4)]);
    assert_eq!(bench.step(PrimaryEvent::Start), []);
    assert_eq!(bench.answer(newest(view())), []);
    assert_eq!(bench.step(PrimaryEvent::Tick), []);
    let status = bench.primary.status(bench.now);
    assert!(status.view.is_none() && !status.serving && status.requests == 0);
    assert_eq!(bench.primary.next_wakeup(), None);
}

#[test]
fn links_that_nobody_asked_for_are_closed() {
    let mut bench = Bench::started();
    let (replica, link) = (ReplicaId(1), LinkId(4));
    assert_eq!(bench.step(PrimaryEvent::LinkUp { replica, link }), [Effect::Disconnect(4)]);
    assert_eq!(bench.step(PrimaryEvent::LinkDown { replica, link: Some(link) }), []);
    assert_eq!(bench.step(PrimaryEvent::LinkDown { replica, link: None }), []);
    let message = Message::Adopted { generation: Generation(1) };
    assert_eq!(bench.step(PrimaryEvent::Message { link, message, payload: None }), []);
}

#[test]
fn the_view_is_read_again_after_a_pause() {
    let mut bench = Bench::started();
    let refused = bench.call;
    assert_eq!(bench.answer(CoordinatorAnswer::Unknown), []);
    assert_eq!(bench.pass(CALL_PAUSE - Duration::from_nanos(1)), []);
    assert_eq!(bench.pass(Duration::from_nanos(1)), [Effect::Read]);
    let late = PrimaryEvent::Coordinator { call: refused, answer: newest(view()) };
    assert_eq!(bench.step(late), [], "that call is over");
    assert_eq!(bench.answer(newest(view())), [Effect::Connect(1), Effect::Connect(2)]);
}

#[test]
fn an_answer_that_tells_of_no_view_has_it_read_again() {
    let mut bench = Bench::started();
    assert_eq!(bench.answer(CoordinatorAnswer::Committed), [Effect::Read]);
    assert_eq!(bench.answer(CoordinatorAnswer::GivenUp), [Effect::Read]);
    assert_eq!(bench.answer(newest(view())), [Effect::Connect(1), Effect::Connect(2)]);
}

#[test]
fn a_view_of_another_volume_counts_as_no_answer() {
    let mut bench = Bench::started();
    let other = || newest(View { volume: VolumeId(2), ..view() });
    let note = Note::ViewRefused(Generation(1), Mismatch::OtherVolume);
    assert_eq!(bench.answer(other()), [Effect::Note(note)]);
    assert_eq!(bench.pass(CALL_PAUSE), [Effect::Read]);
    assert_eq!(bench.answer(other()), [], "it is said once");
    bench.pass(CALL_PAUSE);
    assert_eq!(bench.answer(newest(view())), [Effect::Connect(1), Effect::Connect(2)]);
}

#[test]
fn a_coordinator_that_does_not_answer_ends_it() {
    let mut bench = Bench::started();
    bench.flush(1, 1);
    bench.command(1, LIMIT);
    let mut reported = Vec::new();
    while bench.primary.next_wakeup().is_some() {
        bench.answer(CoordinatorAnswer::Unknown);
        reported = bench.pass(CALL_PAUSE);
    }
    let expected = [
        Effect::Done(1, Err(CommandError::NoCoordinator)),
        Effect::Refused(1, RequestError::NoCoordinator),
        Effect::Ended(EndReason::NoCoordinator),
    ];
    assert_eq!(reported, expected);
    assert!(bench.now.since(BEGAN) <= PATIENCE + CALL_PAUSE, "{:?}", bench.now);
}
