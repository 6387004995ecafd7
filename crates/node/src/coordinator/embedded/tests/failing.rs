//! The disk of the database fails, and works again.

use std::sync::atomic::Ordering;

use evenkeel_coordinator::store::{Commit, Key, Outcome, Space, Store as _, Write};
use evenkeel_core::VolumeId;

use super::super::database::disk::{Disk, Fails};
use super::*;
use crate::state::start::StartId;

fn on(disk: &Disk) -> Embedded {
    let disk = disk.clone();
    let store = RedbStore::over(Duration::ZERO, move |_| Ok(disk.clone())).unwrap();
    Embedded::over(store, "test", ALPHA, EXPIRY).unwrap()
}

/// Whichever call of the disk it is: the request is carried out, or refused as not done.
#[test]
fn a_request_is_carried_out_although_a_call_of_the_disk_fails() {
    for calls in 0.. {
        let disk = Disk::default();
        let coordinator = on(&disk);
        let (stored, _) = volume(&coordinator, "web");
        assert!(matches!(draft(&coordinator, &stored), Answer::Done));
        disk.fail_after(calls, Fails::Whole);
        let answer = coordinator.answer(Request::Create(Box::new(stored.clone())));
        let is_over = disk.heal();
        match answer {
            Ok(Answer::Done) => {}
            Err(StoreError::Unusable(_)) => {
                let there = coordinator.answer(Request::Volumes).unwrap();
                assert!(matches!(there, Answer::Volumes(volumes) if volumes.is_empty()));
            }
            other => panic!("call {calls}: {other:?}"),
        }
        let again = coordinator.answer(Request::Create(Box::new(stored.clone())));
        assert!(matches!(again, Ok(Answer::Done)), "call {calls}: {again:?}");
        let there = on(&disk.after_power_cut()).answer(Request::Volumes).unwrap();
        assert!(matches!(there, Answer::Volumes(volumes) if volumes.len() == 1), "call {calls}");
        if is_over {
            return;
        }
    }
}

/// Whoever takes it for a refusal does not ask again.
#[tokio::test]
async fn a_full_disk_is_no_refusal() {
    let disk = Disk::default();
    let coordinator = on(&disk);
    let (stored, _) = volume(&coordinator, "web");
    draft(&coordinator, &stored);
    disk.fail_always();
    let create = || coordinator.call(Request::Create(Box::new(stored.clone())));
    for _ in 0..2 {
        assert!(matches!(create().await, Err(CallError::Unreachable(_))));
    }
    disk.heal();
    assert!(matches!(create().await, Ok(Answer::Done)));
}

/// Nobody could note what they sent: else volumes that are in use would be taken over.
#[test]
fn no_node_dies_of_an_outage_of_the_database() {
    let disk = Disk::default();
    let coordinator = on(&disk);
    coordinator.answer(Request::Register(node(BETA, "beta").into())).unwrap();
    let beat = || coordinator.answer(Request::Heartbeat { node: BETA.to_string() });
    let nodes = || {
        let Answer::Nodes(nodes) = coordinator.answer(Request::Nodes).unwrap() else { panic!() };
        let beta = nodes.iter().find(|member| member.node.name == "beta").unwrap();
        (beta.alive, beta.may_live)
    };
    beat().unwrap();
    pass(&coordinator, EXPIRY.as_secs() / 2);
    beat().unwrap();
    assert_eq!(nodes(), (true, true));
    disk.fail_always();
    let (node, volume) = (ALPHA.to_string(), VolumeId(7).to_string());
    coordinator.answer(Request::Draft { node, incarnation: 1, volume }).unwrap_err();
    for _ in 0..=EXPIRY.as_secs() / LOOK {
        coordinator.inner.ahead.fetch_add(LOOK, Ordering::Relaxed);
        beat().unwrap_err();
    }
    disk.heal();
    assert_eq!(nodes(), (false, true), "not known to be alive, nor dead");
    // From now on its silence counts.
    listen(&coordinator, EXPIRY.as_secs());
    assert_eq!(nodes(), (false, false));
}

fn own_beat(coordinator: &Embedded) -> Result<Answer, StoreError> {
    coordinator.answer(Request::Heartbeat { node: ALPHA.to_string() })
}

/// So many seconds pass in which nobody but the coordinator's own node is heard.
fn listen(coordinator: &Embedded, seconds: u64) {
    for _ in 0..=seconds.div_ceil(LOOK) {
        coordinator.inner.ahead.fetch_add(LOOK, Ordering::Relaxed);
        own_beat(coordinator).unwrap();
    }
}

/// The one start of beta's daemon, which registers when it was not answered, as a daemon does.
struct Beta {
    caller: Caller,
    is_registered: bool,
}

impl Beta {
    fn new() -> Self {
        let start = StartId { counter: 1, incarnation: Incarnation(1) };
        let (name, at) = ("beta".to_owned(), "x".to_owned());
        let caller = Caller { node: BETA, name, start: Some(start), at };
        Self { caller, is_registered: false }
    }

    fn registration() -> Request {
        Request::Register(NodeRecord { counter: 1, ..node(BETA, "beta") }.into())
    }

    fn speak(&mut self, coordinator: &Embedded) -> bool {
        let request = match self.is_registered {
            true => Request::Heartbeat { node: BETA.to_string() },
            false => Self::registration(),
        };
        let answer = coordinator.handle(&self.caller, request);
        self.is_registered = answer.is_ok();
        self.is_registered
    }
}

/// A volume that is attached on beta; and its next view, with alpha in beta's place.
fn taken_over(coordinator: &Embedded) -> View {
    let (stored, view) = volume(coordinator, "web");
    create(coordinator, &stored);
    let held = with(&view, &[BETA]);
    assert!(matches!(swap(coordinator, BETA, &held), Answer::Done));
    with(&held, &[ALPHA])
}

/// The database can be read, and opened anew; but no commit fits on its disk, so each time it is
/// closed for a moment, in which nobody is answered.
#[test]
fn no_node_dies_while_nothing_new_fits_on_the_disk_of_the_database() {
    const PAUSE: Duration = Duration::from_millis(20);
    let disk = Disk::default();
    let there = disk.clone();
    let store = RedbStore::over(PAUSE, move |_| Ok(there.clone())).unwrap();
    let coordinator = Embedded::over(store, "test", ALPHA, EXPIRY).unwrap();
    let mut beta = Beta::new();
    coordinator.answer(Request::Register(node(ALPHA, "alpha").into())).unwrap();
    assert!(beta.speak(&coordinator));
    let takeover = taken_over(&coordinator);
    disk.refuse_changes();
    let (mut reported, mut answered) = (0, 0);
    for second in (0..=EXPIRY.as_secs()).step_by(LOOK as usize) {
        coordinator.inner.ahead.fetch_add(LOOK, Ordering::Relaxed);
        // Somebody wants what can't be committed.
        if second.is_multiple_of(LOOK * 8) {
            let (node, volume) = (ALPHA.to_string(), VolumeId(7).to_string());
            let draft = Request::Draft { node, incarnation: 1, volume };
            coordinator.answer(draft).unwrap_err();
        }
        reported += u64::from(beta.speak(&coordinator));
        answered += u64::from(coordinator.answer(Request::Nodes).is_ok());
        let _ = own_beat(&coordinator);
        std::thread::sleep(PAUSE / 3);
    }
    let looks = EXPIRY.as_secs() / LOOK;
    assert!(answered > looks / 4, "{answered} of {looks} questions were answered");
    assert!(reported > looks / 4, "beta was answered {reported} times of {looks}");
    disk.free();
    std::thread::sleep(PAUSE);
    let swap = || swap(&coordinator, ALPHA, &takeover);
    assert!(matches!(swap(), Answer::NotExpired { .. }), "beta has sent something all the time");
    // And it dies as every node does.
    listen(&coordinator, EXPIRY.as_secs() - 2 * LOOK);
    assert!(matches!(swap(), Answer::NotExpired { .. }), "it has its whole time again");
    listen(&coordinator, 10 * LOOK);
    assert!(matches!(swap(), Answer::Done));
}

/// It can't be admitted meanwhile.
#[test]
fn a_node_that_was_started_again_does_not_die_while_commits_fail() {
    let disk = Disk::default();
    let coordinator = on(&disk);
    let mut beta = Beta::new();
    coordinator.answer(Request::Register(node(ALPHA, "alpha").into())).unwrap();
    assert!(beta.speak(&coordinator));
    let takeover = taken_over(&coordinator);
    listen(&coordinator, EXPIRY.as_secs() - 20 * LOOK);
    disk.refuse_changes();
    let start = StartId { counter: 2, incarnation: Incarnation(2) };
    let caller = Caller { start: Some(start), ..beta.caller.clone() };
    let record = NodeRecord { counter: 2, incarnation: 2, ..node(BETA, "beta") };
    let register = || coordinator.handle(&caller, Request::Register(follows_1(record.clone())));
    for _ in 0..=EXPIRY.as_secs() / LOOK {
        coordinator.inner.ahead.fetch_add(LOOK, Ordering::Relaxed);
        register().unwrap_err();
        own_beat(&coordinator).unwrap();
    }
    disk.free();
    coordinator.inner.ahead.fetch_add(LOOK, Ordering::Relaxed);
    own_beat(&coordinator).unwrap();
    let swapped = swap(&coordinator, ALPHA, &takeover);
    assert!(matches!(swapped, Answer::NotExpired { .. }), "it had no time to register");
    assert!(matches!(register(), Ok(Answer::Registered { .. })));
}

/// All that changes something waits for a sync that takes half a minute; the rest is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_started_again_does_not_die_while_a_commit_hangs() {
    let disk = Disk::default();
    let coordinator = on(&disk);
    let mut beta = Beta::new();
    coordinator.answer(Request::Register(node(ALPHA, "alpha").into())).unwrap();
    assert!(beta.speak(&coordinator));
    let takeover = taken_over(&coordinator);
    disk.hang();
    let asked = |request: Request| {
        let coordinator = coordinator.clone();
        tokio::spawn(async move { coordinator.call(request).await })
    };
    let drafts: Vec<_> = (7..17)
        .map(|number| {
            let (node, volume) = (ALPHA.to_string(), VolumeId(number).to_string());
            asked(Request::Draft { node, incarnation: 1, volume })
        })
        .collect();
    let waiting = disk.clone();
    tokio::task::spawn_blocking(move || waiting.wait_for_a_sync()).await.unwrap();
    let start = StartId { counter: 2, incarnation: Incarnation(2) };
    let caller = Caller { start: Some(start), ..beta.caller.clone() };
    let record = NodeRecord { counter: 2, incarnation: 2, ..node(BETA, "beta") };
    let register = Request::Register(follows_1(record));
    let mut registered = Box::pin(coordinator.asked(caller, register));
    let short = tokio::time::timeout(Duration::from_millis(20), &mut registered).await;
    assert!(short.is_err(), "it does not wait");
    for _ in 0..=EXPIRY.as_secs() / LOOK {
        coordinator.inner.ahead.fetch_add(LOOK, Ordering::Relaxed);
        coordinator.answer(Request::Nodes).unwrap();
    }
    let Answer::Nodes(nodes) = coordinator.answer(Request::Nodes).unwrap() else { panic!() };
    assert!(nodes.iter().all(|member| member.may_live), "{nodes:?}");
    disk.go_on();
    let swapped = swap(&coordinator, ALPHA, &takeover);
    assert!(matches!(swapped, Answer::NotExpired { .. }), "it waits all the time: {swapped:?}");
    assert!(matches!(registered.await, Ok(Ok(Answer::Registered { .. }))));
    for draft in drafts {
        assert!(matches!(draft.await.unwrap(), Ok(Answer::Done)));
    }
}

/// Else its node would send no other, and so be silent itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_heard_does_not_wait_until_it_is_stored_who_is_silent() {
    let disk = Disk::default();
    let coordinator = on(&disk);
    assert!(Beta::new().speak(&coordinator));
    coordinator.answer(Request::Register(node(ALPHA, "alpha").into())).unwrap();
    disk.hang();
    for _ in 0..8 {
        coordinator.inner.ahead.fetch_add(LOOK, Ordering::Relaxed);
        let beat = coordinator.call(Request::Heartbeat { node: ALPHA.to_string() });
        let answer = tokio::time::timeout(Duration::from_secs(20), beat).await;
        assert!(matches!(answer, Ok(Ok(Answer::Heard { .. }))), "{answer:?}");
    }
    let waiting = disk.clone();
    tokio::task::spawn_blocking(move || waiting.wait_for_a_sync()).await.unwrap();
    disk.go_on();
}

/// The present start of a node is known from what it sent before.
#[test]
fn who_speaks_while_nothing_can_be_read_is_heard() {
    let disk = Disk::default();
    let coordinator = on(&disk);
    let mut beta = Beta::new();
    assert!(beta.speak(&coordinator));
    let answer = || {
        let memory = coordinator.inner.memory.lock().unwrap();
        memory.liveness.last_seen(&BETA.to_string()).unwrap().steady
    };
    disk.fail_always();
    coordinator.inner.store.open_anew();
    for _ in 0..3 {
        let before = answer();
        coordinator.inner.ahead.fetch_add(LOOK, Ordering::Relaxed);
        assert!(!beta.speak(&coordinator));
        assert!(answer() >= before + Duration::from_secs(LOOK));
    }
    // Another one that speaks in its name proves nothing.
    let other = StartId { counter: 2, incarnation: Incarnation(2) };
    let other = Caller { start: Some(other), ..beta.caller.clone() };
    let before = answer();
    coordinator.inner.ahead.fetch_add(LOOK, Ordering::Relaxed);
    coordinator.handle(&other, Request::Heartbeat { node: BETA.to_string() }).unwrap_err();
    assert_eq!(answer(), before);
}

/// A node does so after each heartbeat that was not answered.
#[test]
fn who_registers_again_as_it_was_commits_nothing() {
    let disk = Disk::default();
    let coordinator = on(&disk);
    let mut beta = Beta::new();
    assert!(beta.speak(&coordinator));
    let before = coordinator.inner.store.changes();
    disk.fail_always();
    for _ in 0..2 {
        let answer = coordinator.handle(&beta.caller, Beta::registration());
        assert!(matches!(answer, Ok(Answer::Registered { .. })), "{answer:?}");
    }
    assert_eq!(coordinator.inner.store.changes(), before);
    disk.heal();
    let moved = NodeRecord { counter: 1, addresses: vec!["unix:/y".into()], ..node(BETA, "beta") };
    coordinator.handle(&beta.caller, Request::Register(moved.into())).unwrap();
    assert_ne!(coordinator.inner.store.changes(), before);
}

/// Whoever asked again would be answered so again.
#[tokio::test]
async fn what_does_not_fit_together_is_refused() {
    let coordinator = on(&Disk::default());
    let (mut stored, _) = volume(&coordinator, "web");
    stored.record.id = VolumeId(7).to_string();
    let answer = coordinator.call(Request::Create(Box::new(stored))).await;
    assert!(matches!(answer, Err(CallError::Refused(_))), "{answer:?}");
}

/// Whoever took it for a refusal would not ask again: where a volume is not wanted any more would
/// be forgotten, and nobody would learn who was removed.
#[tokio::test]
async fn what_is_damaged_in_the_database_is_no_refusal() {
    let coordinator = on(&Disk::default());
    let (stored, _) = volume(&coordinator, "web");
    coordinator.answer(Request::Register(node(BETA, "beta").into())).unwrap();
    for (space, name) in [(Space::Volumes, &stored.record.id), (Space::Nodes, &BETA.to_string())] {
        let writes = vec![Write { key: Key::new(space, name), value: Some(b"{".to_vec()) }];
        let commit = Commit { guards: Vec::new(), writes };
        assert_eq!(coordinator.inner.store.commit(&commit), Ok(Outcome::Committed));
    }
    let (node, volume) = (BETA.to_string(), stored.record.id.clone());
    let want = Request::Want { volume, node, shown: None, revision: None };
    for request in [want, Request::Membership, Request::Nodes] {
        let answer = coordinator.call(request.clone()).await;
        let Err(CallError::Unreachable(why)) = answer else { panic!("{request:?}: {answer:?}") };
        assert!(why.contains("is damaged"), "{why}");
    }
}
