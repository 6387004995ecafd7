use evenkeel_core::{Incarnation, PrimaryId, PrimaryRecord, View};

use super::*;
use crate::coordinator::{
    Fate, FoundReplica, Maker, NoData, NodeRecord, PlacedReplica, Registration, Shown, Standing,
    StoredVolume, ViewText, VolumeRecord, WantedOn, Wish,
};
use crate::disks::tests::superblock;
use crate::state::start::Lineage;

mod assembly;
mod conditions;
mod drafts;
mod failing;
mod fates;
mod old_file;
mod placements;
mod removal;
mod rename;
mod starts;

const ALPHA: NodeId = NodeId(1);
const BETA: NodeId = NodeId(2);

fn open(dir: &Path, expiry: Duration) -> Embedded {
    Embedded::open(&dir.join("coordinator.redb"), "test", ALPHA, expiry).unwrap()
}

/// Longer than all stalls that a test may meet: of each at most [`LOOK`] counts.
const EXPIRY: Duration = Duration::from_secs(600);
/// The most that counts between two looks at the clock.
const LOOK: u64 = 2;

/// So many seconds pass in which the coordinator listens, and hears nothing.
fn pass(coordinator: &Embedded, seconds: u64) {
    for _ in 0..seconds.div_ceil(LOOK) {
        coordinator.inner.ahead.fetch_add(LOOK, std::sync::atomic::Ordering::Relaxed);
        coordinator.answer(Request::Nodes).unwrap();
    }
}

fn node(id: NodeId, name: &str) -> NodeRecord {
    NodeRecord {
        id: id.to_string(),
        name: name.into(),
        addresses: vec!["unix:/x".into()],
        software: "0".into(),
        incarnation: 1,
        counter: 0,
    }
}

/// A start after the one with incarnation 1, which has provably ended.
fn follows_1(node: NodeRecord) -> Registration {
    let lineage = Lineage { before: vec![1], before_ended: true };
    Registration { lineage, ..node.into() }
}

fn draft(coordinator: &Embedded, stored: &StoredVolume) -> Answer {
    let (node, volume) = (ALPHA.to_string(), stored.record.id.clone());
    coordinator.answer(Request::Draft { node, incarnation: 1, volume }).unwrap()
}

/// Makes a volume as a node does: first its draft.
fn create(coordinator: &Embedded, stored: &StoredVolume) -> Answer {
    draft(coordinator, stored);
    coordinator.answer(Request::Create(Box::new(stored.clone()))).unwrap()
}

fn volume(coordinator: &Embedded, name: &str) -> (StoredVolume, View) {
    let mut view = superblock(1 << 20).view;
    view.coordinator = coordinator.id();
    let replica = view.mirrors[0].replicas[0].id.to_string();
    let placed = PlacedReplica {
        id: replica,
        mirror: 0,
        node: ALPHA.to_string(),
        disk: "d".into(),
        removed: false,
        maker: None,
    };
    let record = VolumeRecord {
        id: view.volume.to_string(),
        name: name.into(),
        no_data: NoData::Error,
        replicas: vec![placed],
        stopped: false,
        checksums: true,
        used_on: None,
        wanted_on: WantedOn::default(),
        verified: None,
        revision: 0,
        lost: Vec::new(),
    };
    (StoredVolume { record, view: ViewText::encode(&view).unwrap() }, view)
}

fn swap(coordinator: &Embedded, by: NodeId, view: &View) -> Answer {
    let view = ViewText::encode(view).unwrap();
    coordinator
        .answer(Request::Swap {
            node: by.to_string(),
            view,
            replaces: None,
            in_passing: false,
            wish: None,
        })
        .unwrap()
}

/// Asks for a volume to be deleted by the number of its view, as older software does.
fn delete(coordinator: &Embedded, by: NodeId, view: &View, force: bool) -> Answer {
    let (node, volume, generation) = (by.to_string(), view.volume.to_string(), view.generation.0);
    coordinator
        .answer(Request::Delete { node, volume, generation, view: None, revision: None, force })
        .unwrap()
}

fn primary(node: NodeId, incarnation: u64) -> PrimaryRecord {
    PrimaryRecord { id: PrimaryId { node, incarnation: Incarnation(incarnation) }, slot: 0 }
}

#[test]
fn of_two_swaps_from_one_parent_one_is_committed() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_secs(10));
    let (stored, view) = volume(&coordinator, "web");
    assert!(matches!(create(&coordinator, &stored), Answer::Done));
    let mut one = view.successor();
    one.primaries.push(primary(ALPHA, 1));
    let mut other = view.successor();
    other.primaries.push(primary(BETA, 2));
    assert!(matches!(swap(&coordinator, ALPHA, &one), Answer::Done));
    let Answer::Newest(newest) = swap(&coordinator, BETA, &other) else { panic!("committed") };
    assert_eq!(newest.decode().unwrap(), one);
    // The same again is the answer that got lost.
    assert!(matches!(swap(&coordinator, ALPHA, &one), Answer::Done));
}

#[test]
fn all_is_there_after_a_restart_and_for_the_same_cluster_only() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_secs(10));
    let id = coordinator.id();
    let (stored, view) = volume(&coordinator, "web");
    create(&coordinator, &stored);
    coordinator.answer(Request::Register(node(ALPHA, "alpha").into())).unwrap();
    let next = view.successor();
    swap(&coordinator, ALPHA, &next);
    drop(coordinator);

    let coordinator = open(dir.path(), Duration::from_secs(10));
    assert_eq!(coordinator.id(), id);
    let read = coordinator.answer(Request::Read { volume: "web".into() }).unwrap();
    let Answer::Volume(stored) = read else { panic!("{read:?}") };
    assert_eq!(stored.view.decode().unwrap(), next);
    let Answer::Nodes(nodes) = coordinator.answer(Request::Nodes).unwrap() else { panic!() };
    assert_eq!((nodes.len(), nodes[0].alive, nodes[0].coordinator), (1, false, true));
    assert!(nodes[0].may_live, "not heard of yet is not dead");
    drop(coordinator);
    let path = dir.path().join("coordinator.redb");
    let other = Embedded::open(&path, "other", ALPHA, Duration::from_secs(10));
    assert!(matches!(other, Err(EmbeddedError::Founding(FoundingError::OtherCluster { .. }))));
}

#[test]
fn a_primary_is_replaced_by_its_own_node_or_after_its_nodes_death() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), EXPIRY);
    let (stored, view) = volume(&coordinator, "web");
    create(&coordinator, &stored);
    let mut held = view.successor();
    held.primaries = vec![primary(ALPHA, 1)];
    swap(&coordinator, ALPHA, &held);
    let mut own = held.successor();
    own.primaries = vec![primary(ALPHA, 2)];
    assert!(matches!(swap(&coordinator, ALPHA, &own), Answer::Done));

    coordinator.answer(Request::Heartbeat { node: ALPHA.to_string() }).unwrap();
    let mut takeover = own.successor();
    takeover.primaries = vec![primary(BETA, 3)];
    assert!(matches!(swap(&coordinator, BETA, &takeover), Answer::NotExpired { .. }));
    pass(&coordinator, EXPIRY.as_secs());
    assert!(matches!(swap(&coordinator, BETA, &takeover), Answer::Done));
}

#[test]
fn names_are_taken_once() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_secs(10));
    let named = |name| create(&coordinator, &volume(&coordinator, name).0);
    assert!(matches!(named("web"), Answer::Done));
    assert!(matches!(named("web"), Answer::NameInUse));
    let register = |id, name| coordinator.answer(Request::Register(node(id, name).into())).unwrap();
    assert!(matches!(register(ALPHA, "a"), Answer::Registered { .. }));
    assert!(matches!(register(BETA, "a"), Answer::NameInUse));
    assert!(matches!(register(ALPHA, "b"), Answer::Registered { .. }));
    assert!(matches!(register(BETA, "a"), Answer::Registered { .. }));
}

#[test]
fn a_deleted_volume_is_remembered_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_secs(10));
    let (stored, view) = volume(&coordinator, "web");
    let found = FoundReplica {
        volume: stored.record.id.clone(),
        replica: stored.record.replicas[0].id.clone(),
    };
    let fate = || match coordinator.answer(Request::Fates(vec![found.clone()])).unwrap() {
        Answer::Fates(fates) => fates[0],
        other => panic!("{other:?}"),
    };
    assert_eq!(fate(), Fate::Unknown);
    create(&coordinator, &stored);
    assert_eq!(fate(), Fate::Belongs);

    let delete = |view: &View| delete(&coordinator, BETA, view, false);
    let mut attached = view.successor();
    attached.primaries.push(primary(ALPHA, 1));
    swap(&coordinator, ALPHA, &attached);
    assert!(matches!(delete(&view), Answer::Newest(_)));
    assert!(matches!(delete(&attached), Answer::Newest(_)));
    let mut detached = attached.successor();
    detached.primaries.clear();
    swap(&coordinator, ALPHA, &detached);
    assert!(matches!(delete(&detached), Answer::Done));
    assert!(matches!(delete(&detached), Answer::Done));
    assert_eq!(fate(), Fate::Deleted);
    let read = coordinator.answer(Request::Read { volume: "web".into() }).unwrap();
    assert!(matches!(read, Answer::NoVolume));
}

#[test]
fn restarts_of_the_coordinator_do_not_begin_the_wait_for_a_dead_node_anew() {
    let dir = tempfile::tempdir().unwrap();
    let may_live = |coordinator: &Embedded| {
        // Each heartbeat has stored who was silent.
        coordinator.answer(Request::Heartbeat { node: ALPHA.to_string() }).unwrap();
        let Answer::Nodes(nodes) = coordinator.answer(Request::Nodes).unwrap() else { panic!() };
        nodes.iter().find(|member| member.node.name == "beta").unwrap().may_live
    };
    let step = EXPIRY.as_secs() / 10;
    {
        let coordinator = open(dir.path(), EXPIRY);
        for record in [node(ALPHA, "alpha"), node(BETA, "beta")] {
            coordinator.answer(Request::Register(record.into())).unwrap();
        }
        for _ in 0..5 {
            pass(&coordinator, step);
            assert!(may_live(&coordinator), "too early");
        }
    }
    let coordinator = open(dir.path(), EXPIRY);
    assert!(may_live(&coordinator), "it has not had the time to be heard");
    let is_dead = (0..8).any(|_| {
        pass(&coordinator, step);
        !may_live(&coordinator)
    });
    assert!(is_dead, "the wait began anew");
}

#[test]
fn a_volume_is_not_deleted_beneath_a_primary_that_is_only_silent() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), EXPIRY);
    let (stored, view) = volume(&coordinator, "web");
    create(&coordinator, &stored);
    let mut held = view.successor();
    held.primaries = vec![primary(BETA, 1)];
    coordinator.answer(Request::Heartbeat { node: BETA.to_string() }).unwrap();
    swap(&coordinator, BETA, &held);
    let delete = |by: NodeId, force| delete(&coordinator, by, &held, force);
    assert!(matches!(delete(ALPHA, true), Answer::Newest(_)), "its node lives");
    pass(&coordinator, EXPIRY.as_secs());
    assert!(matches!(delete(ALPHA, false), Answer::Newest(_)), "it may serve all the same");
    assert!(matches!(delete(ALPHA, true), Answer::Done));
}

#[test]
fn who_attached_a_volume_last_is_noted_unless_in_passing() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_millis(100));
    let (stored, view) = volume(&coordinator, "web");
    create(&coordinator, &stored);
    let used_on = || {
        let read = coordinator.answer(Request::Read { volume: "web".into() }).unwrap();
        let Answer::Volume(stored) = read else { panic!("{read:?}") };
        stored.record.used_on
    };
    let mut held = view.successor();
    held.primaries = vec![primary(ALPHA, 1)];
    swap(&coordinator, ALPHA, &held);
    assert_eq!(used_on(), Some(ALPHA.to_string()));
    let mut ended = held.successor();
    ended.primaries.clear();
    swap(&coordinator, ALPHA, &ended);
    assert_eq!(used_on(), Some(ALPHA.to_string()), "it has been used since by nobody else");
    let mut passing = ended.successor();
    passing.primaries = vec![primary(BETA, 2)];
    let text = ViewText::encode(&passing).unwrap();
    let swap = Request::Swap {
        node: BETA.to_string(),
        view: text,
        replaces: None,
        in_passing: true,
        wish: None,
    };
    assert!(matches!(coordinator.answer(swap), Ok(Answer::Done)));
    assert_eq!(used_on(), Some(ALPHA.to_string()));
}

/// Swaps with a wish.
fn swap_with(coordinator: &Embedded, by: NodeId, view: &View, wish: Option<Wish>) {
    let view = ViewText::encode(view).unwrap();
    let request =
        Request::Swap { node: by.to_string(), view, replaces: None, in_passing: false, wish };
    assert!(matches!(coordinator.answer(request), Ok(Answer::Done)));
}

fn wanted_on(coordinator: &Embedded) -> Vec<(String, Option<Shown>)> {
    let read = coordinator.answer(Request::Read { volume: "web".into() }).unwrap();
    let Answer::Volume(stored) = read else { panic!("{read:?}") };
    stored.record.wanted_on.into_iter().collect()
}

/// The view in which these have the volume attached.
fn with(view: &View, nodes: &[NodeId]) -> View {
    let mut next = view.successor();
    next.primaries.retain(|held| nodes.contains(&held.id.node));
    for node in nodes.iter().filter(|node| !view.primaries.iter().any(|p| p.id.node == **node)) {
        let slot = next.primaries.len() as u8;
        let incarnation = next.generation.0;
        next.primaries.push(PrimaryRecord { slot, ..primary(*node, incarnation) });
    }
    next
}

const BY_DEVICE: Shown = Shown { device: true, nbd: None, nvme: None, mount: None };

#[test]
fn a_takeover_takes_back_where_a_volume_was_wanted_before() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_millis(100));
    let (stored, view) = volume(&coordinator, "web");
    create(&coordinator, &stored);
    let (alpha, beta) = (ALPHA.to_string(), BETA.to_string());
    let held = with(&view, &[ALPHA]);
    swap_with(&coordinator, ALPHA, &held, Some(Wish::Here(BY_DEVICE)));
    assert_eq!(wanted_on(&coordinator), [(alpha.clone(), Some(BY_DEVICE))]);
    // A daemon that ends detaches it, and means to come back.
    let ended = with(&held, &[]);
    swap_with(&coordinator, ALPHA, &ended, Some(Wish::AsBefore));
    assert_eq!(wanted_on(&coordinator), [(alpha.clone(), Some(BY_DEVICE))]);
    let taken = with(&ended, &[BETA]);
    swap_with(&coordinator, BETA, &taken, Some(Wish::Here(Shown::default())));
    let both = [(alpha.clone(), None), (beta.clone(), Some(Shown::default()))];
    assert_eq!(wanted_on(&coordinator), both);
    for (id, name) in [(ALPHA, "alpha"), (BETA, "beta")] {
        coordinator.answer(Request::Register(node(id, name).into())).unwrap();
    }
    // How it is shown is news of a node that has it attached only.
    for node in [&alpha, &beta] {
        let (volume, node) = (stored.record.id.clone(), node.clone());
        let want = Request::Want { volume, node, shown: Some(BY_DEVICE), revision: None };
        assert!(matches!(coordinator.answer(want), Ok(Answer::Done)));
    }
    assert_eq!(wanted_on(&coordinator), [(alpha.clone(), None), (beta.clone(), Some(BY_DEVICE))]);
    swap_with(&coordinator, BETA, &with(&taken, &[]), Some(Wish::NoMore));
    assert_eq!(wanted_on(&coordinator), [(alpha, None), (beta, None)]);
}

#[test]
fn who_shares_a_volume_takes_it_from_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_secs(10));
    let (stored, mut view) = volume(&coordinator, "web");
    view.intents.slots = 2;
    let stored = StoredVolume { view: ViewText::encode(&view).unwrap(), ..stored };
    create(&coordinator, &stored);
    let one = with(&view, &[ALPHA]);
    swap_with(&coordinator, ALPHA, &one, Some(Wish::Here(BY_DEVICE)));
    let two = with(&one, &[ALPHA, BETA]);
    swap_with(&coordinator, BETA, &two, Some(Wish::Here(BY_DEVICE)));
    let both = [(ALPHA.to_string(), Some(BY_DEVICE)), (BETA.to_string(), Some(BY_DEVICE))];
    assert_eq!(wanted_on(&coordinator), both);
    // Evicted by the other one, it comes back.
    let evicted = with(&two, &[ALPHA]);
    swap_with(&coordinator, ALPHA, &evicted, Some(Wish::Here(Shown::default())));
    assert_eq!(wanted_on(&coordinator), both);
    // It may want it otherwise before it does; nobody does who is not meant to attach it.
    coordinator.answer(Request::Register(node(BETA, "beta").into())).unwrap();
    let want = |node: NodeId, shown: Shown| {
        let (volume, node) = (stored.record.id.clone(), node.to_string());
        let shown = Some(shown);
        let want = Request::Want { volume, node, shown, revision: None };
        assert!(matches!(coordinator.answer(want), Ok(Answer::Done)));
    };
    want(BETA, Shown::default());
    assert_eq!(wanted_on(&coordinator)[1], (BETA.to_string(), Some(Shown::default())));
    // A stopped volume is wanted nowhere.
    swap_with(&coordinator, ALPHA, &with(&evicted, &[]), Some(Wish::AsBefore));
    let volume = stored.record.id.clone();
    let stop = Request::Stop { volume, stopped: true, revision: None };
    assert!(matches!(coordinator.answer(stop), Ok(Answer::Done)));
    let nowhere = [(ALPHA.to_string(), None), (BETA.to_string(), None)];
    assert_eq!(wanted_on(&coordinator), nowhere);
    want(BETA, BY_DEVICE);
    assert_eq!(wanted_on(&coordinator), nowhere);
}

#[test]
fn of_software_that_does_not_say_where_it_wants_a_volume_nothing_is_noted() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_millis(100));
    let (stored, view) = volume(&coordinator, "web");
    create(&coordinator, &stored);
    let held = with(&view, &[ALPHA]);
    swap_with(&coordinator, ALPHA, &held, Some(Wish::Here(BY_DEVICE)));
    let ended = with(&held, &[]);
    // It was replaced by older software, which ends now: the next one goes by what it remembers
    // itself.
    swap_with(&coordinator, ALPHA, &ended, None);
    assert_eq!(wanted_on(&coordinator), []);
    let again = with(&ended, &[ALPHA]);
    swap_with(&coordinator, ALPHA, &again, Some(Wish::Here(BY_DEVICE)));
    swap_with(&coordinator, ALPHA, &with(&again, &[]), Some(Wish::AsBefore));
    let Answer::Volume(stored) =
        coordinator.answer(Request::Read { volume: "web".into() }).unwrap()
    else {
        panic!()
    };
    let newest = stored.view.decode().unwrap();
    // Older software takes it from who wants it all the same.
    swap_with(&coordinator, BETA, &with(&newest, &[BETA]), None);
    assert_eq!(wanted_on(&coordinator), [(ALPHA.to_string(), None)]);
}

#[test]
fn what_older_software_sends_and_stores_is_read() {
    let swap = serde_json::json!({"swap": {"node": "n", "view": "00", "in_passing": true}});
    let read: Request = serde_json::from_value(swap).unwrap();
    assert!(matches!(read, Request::Swap { in_passing: true, wish: None, .. }));
    let dir = tempfile::tempdir().unwrap();
    let (stored, _) = volume(&open(dir.path(), Duration::from_secs(10)), "web");
    let old = serde_json::to_value(&stored.record).unwrap();
    assert!(old.get("wanted_on").is_none(), "what is not known is not stored");
    assert_eq!(serde_json::from_value::<VolumeRecord>(old).unwrap(), stored.record);
}

/// The last one is kept, whatever it says, and over changes of the view.
#[test]
fn the_verdict_of_a_verify_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_millis(100));
    let (stored, view) = volume(&coordinator, "web");
    create(&coordinator, &stored);
    let keep = |volume: &str, verdict: u64| {
        let verdict = serde_json::json!({"checked": verdict, "of another": "version"});
        coordinator
            .answer(Request::Verified { volume: volume.into(), verdict, revision: None })
            .unwrap()
    };
    assert!(matches!(keep(&stored.record.id, 1), Answer::Done));
    assert!(matches!(keep(&stored.record.id, 2), Answer::Done));
    assert!(matches!(keep("5e00", 3), Answer::NoVolume));
    let mut held = view.successor();
    held.primaries = vec![primary(ALPHA, 1)];
    swap(&coordinator, ALPHA, &held);
    let read = coordinator.answer(Request::Read { volume: "web".into() }).unwrap();
    let Answer::Volume(read) = read else { panic!("{read:?}") };
    assert_eq!(read.record.verified.map(|kept| kept["checked"].clone()), Some(2.into()));
}

/// As when disks hang that others wait for.
#[test]
fn the_coordinator_answers_while_all_threads_for_blocking_work_are_taken() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = open(directory.path(), Duration::from_secs(10));
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    runtime.block_on(async {
        let taken = tokio::task::spawn_blocking(move || gone.recv());
        let within = Duration::from_secs(60);
        let register = Request::Register(node(ALPHA, "a").into());
        let registered = tokio::time::timeout(within, coordinator.call(register)).await;
        assert!(matches!(registered, Ok(Ok(Answer::Registered { .. }))), "{registered:?}");
        let start = crate::state::start::StartId { counter: 0, incarnation: Incarnation(1) };
        let caller = Caller { node: ALPHA, name: "a".into(), start: Some(start), at: "x".into() };
        let beat = coordinator.asked(caller, Request::Heartbeat { node: ALPHA.to_string() });
        let answer = tokio::time::timeout(within, beat).await.unwrap().unwrap().unwrap();
        assert!(matches!(answer, Answer::Heard { .. }), "{answer:?}");
        drop(go);
        assert!(taken.await.unwrap().is_err());
    });
}
