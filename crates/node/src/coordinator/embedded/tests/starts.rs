use evenkeel_coordinator::store::{Commit, Key, Outcome, Space, Store as _, Write};

use super::*;
use crate::state::start::{Lineage, StartId};

/// A heartbeat so many seconds later than another start's first request was sent after it.
const ON_ITS_WAY: u64 = 2;

/// Beta's start with this number.
fn caller(number: u64) -> Caller {
    let start = StartId { counter: number, incarnation: Incarnation(number) };
    let at = format!("machine-{number}");
    Caller { node: BETA, name: "beta".into(), start: Some(start), at }
}

fn register(coordinator: &Embedded, number: u64, lineage: Lineage) -> Answer {
    let node = NodeRecord { incarnation: number, counter: number, ..node(BETA, "beta") };
    let registration = Registration { node, lineage, is_chosen: false };
    coordinator.handle(&caller(number), Request::Register(registration)).unwrap()
}

fn after(before: u64, before_ended: bool) -> Lineage {
    Lineage { before: vec![before], before_ended }
}

fn beat(coordinator: &Embedded, number: u64) -> Answer {
    let request = Request::Heartbeat { node: BETA.to_string() };
    coordinator.handle(&caller(number), request).unwrap()
}

fn is_admitted(answer: &Answer) -> bool {
    matches!(answer, Answer::Registered { .. })
}

#[test]
fn a_start_waits_until_the_one_before_is_silent() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), EXPIRY);
    assert!(is_admitted(&register(&coordinator, 1, Lineage::default())));
    let waits = register(&coordinator, 2, after(1, false));
    assert!(matches!(waits, Answer::Waits { seconds: 500..=601 }), "{waits:?}");
    pass(&coordinator, EXPIRY.as_secs());
    assert!(is_admitted(&register(&coordinator, 2, after(1, false))));
}

#[test]
fn a_goodbye_or_a_proof_ends_the_wait() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_secs(60));
    register(&coordinator, 1, Lineage::default());
    assert!(is_admitted(&register(&coordinator, 2, after(1, true))));
    let goodbye = Request::Goodbye { node: BETA.to_string(), incarnation: 2 };
    coordinator.handle(&caller(2), goodbye).unwrap();
    assert!(is_admitted(&register(&coordinator, 3, after(2, false))));
}

#[test]
fn only_the_present_start_changes_anything() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_secs(60));
    register(&coordinator, 1, Lineage::default());
    let draft = |number| {
        let (stored, _) = volume(&coordinator, "web");
        let (node, volume) = (BETA.to_string(), stored.record.id);
        let request = Request::Draft { node, incarnation: number, volume };
        coordinator.handle(&caller(number), request).unwrap()
    };
    assert!(matches!(draft(1), Answer::Done));
    assert!(matches!(draft(2), Answer::NotRegistered));
    register(&coordinator, 2, after(1, true));
    assert!(matches!(draft(2), Answer::Done));
    assert!(matches!(draft(1), Answer::Superseded { at } if at == "machine-2"));
    // Whoever asks may read.
    assert!(matches!(coordinator.handle(&caller(1), Request::Nodes).unwrap(), Answer::Nodes(_)));
    let stranger = Caller { node: NodeId(9), ..caller(1) };
    let request = Request::GiveUp { volume: "x".into() };
    assert!(matches!(coordinator.handle(&stranger, request).unwrap(), Answer::NotRegistered));
}

#[test]
fn both_are_told_when_a_start_speaks_that_was_superseded() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_secs(60));
    register(&coordinator, 1, Lineage::default());
    register(&coordinator, 2, after(1, true));
    assert!(matches!(beat(&coordinator, 2), Answer::Heard { other: None, .. }));
    assert!(matches!(beat(&coordinator, 1), Answer::Superseded { at } if at == "machine-2"));
    let Answer::Heard { other, .. } = beat(&coordinator, 2) else { panic!("not heard") };
    assert_eq!(other.as_deref(), Some("machine-1"));
}

#[test]
fn a_copy_is_refused_also_after_the_originals_silence_and_a_restart_of_the_coordinator() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), EXPIRY);
    register(&coordinator, 1, Lineage::default());
    assert!(matches!(register(&coordinator, 2, after(1, false)), Answer::Waits { .. }));
    pass(&coordinator, ON_ITS_WAY + LOOK);
    beat(&coordinator, 1);
    assert!(
        matches!(register(&coordinator, 2, after(1, false)), Answer::Copy { at } if at == "machine-1")
    );
    let Answer::Heard { other, .. } = beat(&coordinator, 1) else { panic!("not heard") };
    assert_eq!(other.as_deref(), Some("machine-2"));
    drop(coordinator);

    let coordinator = open(dir.path(), EXPIRY);
    pass(&coordinator, EXPIRY.as_secs());
    let again = Lineage { before: vec![2, 1], before_ended: true };
    assert!(matches!(register(&coordinator, 3, again.clone()), Answer::Copy { .. }));
    // An operator chooses it.
    let node = NodeRecord { incarnation: 3, counter: 3, ..node(BETA, "beta") };
    let chosen = Registration { node, lineage: again, is_chosen: true };
    let answer = coordinator.handle(&caller(3), Request::Register(chosen)).unwrap();
    assert!(is_admitted(&answer));
}

#[test]
fn the_node_of_the_coordinator_never_waits_and_a_copy_of_it_does() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_secs(60));
    let start =
        |number| NodeRecord { incarnation: number, counter: number, ..node(ALPHA, "alpha") };
    let own = |number| coordinator.answer(Request::Register(start(number).into())).unwrap();
    assert!(is_admitted(&own(1)));
    assert!(is_admitted(&own(2)));
    let copy = Caller { node: ALPHA, name: "alpha".into(), ..caller(3) };
    let answer = coordinator.handle(&copy, Request::Register(start(3).into())).unwrap();
    assert!(matches!(answer, Answer::Waits { .. }));
}

#[test]
fn a_node_of_older_software_is_replaced_after_its_silence() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), EXPIRY);
    let old = Caller { node: BETA, name: "beta".into(), start: None, at: "old".into() };
    let request = Request::Register(NodeRecord { incarnation: 77, ..node(BETA, "beta") }.into());
    assert!(is_admitted(&coordinator.handle(&old, request).unwrap()));
    let request = Request::Heartbeat { node: BETA.to_string() };
    assert!(matches!(coordinator.handle(&old, request).unwrap(), Answer::Heard { .. }));
    assert!(matches!(register(&coordinator, 1, Lineage::default()), Answer::Waits { .. }));
    pass(&coordinator, EXPIRY.as_secs());
    assert!(is_admitted(&register(&coordinator, 1, Lineage::default())));
    let request = Request::Heartbeat { node: BETA.to_string() };
    assert!(matches!(coordinator.handle(&old, request).unwrap(), Answer::NotRegistered));
}

#[test]
fn a_superseded_start_commits_no_view() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_secs(60));
    register(&coordinator, 1, Lineage::default());
    let (stored, view) = volume(&coordinator, "web");
    create(&coordinator, &stored);
    register(&coordinator, 2, after(1, true));
    let next = view.successor();
    let text = ViewText::encode(&next).unwrap();
    let request = Request::Swap {
        node: BETA.to_string(),
        view: text,
        replaces: None,
        in_passing: false,
        wish: None,
    };
    let answer = coordinator.handle(&caller(1), request).unwrap();
    assert!(matches!(answer, Answer::Superseded { .. }));
    assert!(matches!(swap(&coordinator, BETA, &next), Answer::Done));
}

/// Else one member could keep a dead one alive, or have the coordinator remember any number.
#[test]
fn nobody_speaks_for_another_node() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), EXPIRY);
    register(&coordinator, 1, Lineage::default());
    let gamma = NodeId(3);
    let foreign = Caller { node: gamma, name: "gamma".into(), start: None, at: "elsewhere".into() };
    let own = Request::Register(node(gamma, "gamma").into());
    assert!(is_admitted(&coordinator.handle(&foreign, own).unwrap()));
    pass(&coordinator, EXPIRY.as_secs());
    let (stored, view) = volume(&coordinator, "web");
    let volume = stored.record.id.clone();
    let beta = BETA.to_string();
    let requests = [
        Request::Heartbeat { node: beta.clone() },
        Request::Heartbeat { node: NodeId(4).to_string() },
        Request::Goodbye { node: beta.clone(), incarnation: 1 },
        Request::Draft { node: beta.clone(), incarnation: 1, volume },
        Request::Swap {
            node: beta.clone(),
            view: ViewText::encode(&view).unwrap(),
            replaces: None,
            in_passing: false,
            wish: None,
        },
        Request::Register(node(BETA, "beta").into()),
    ];
    for request in requests {
        let answer = coordinator.handle(&foreign, request.clone()).unwrap();
        assert!(matches!(answer, Answer::NotRegistered), "{request:?}: {answer:?}");
    }
    let Answer::Nodes(nodes) = coordinator.answer(Request::Nodes).unwrap() else { panic!() };
    let beta = nodes.iter().find(|member| member.node.name == "beta").unwrap();
    assert!(!beta.alive, "it is silent");
    // A start does not register as another one of its node.
    let later = NodeRecord { incarnation: 9, counter: 9, ..node(BETA, "beta") };
    let answer = coordinator.handle(&caller(1), Request::Register(later.into())).unwrap();
    assert!(matches!(answer, Answer::NotRegistered), "{answer:?}");
}

#[test]
fn a_cluster_has_only_so_many_nodes() {
    const MOST: u128 = 1024;
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), EXPIRY);
    register(&coordinator, 1, Lineage::default());
    // Beta is one; all others but one are stored at once, which is faster.
    let write = |id: u128| {
        let record = node(NodeId(id), &format!("node-{id}"));
        let value = serde_json::to_vec(&record).unwrap();
        Write { key: Key::new(Space::Nodes, &record.id), value: Some(value) }
    };
    let writes = (BETA.0 + 1..BETA.0 + MOST - 1).map(write).collect();
    let stored = coordinator.inner.store.commit(&Commit { guards: Vec::new(), writes });
    assert_eq!(stored, Ok(Outcome::Committed));
    let newcomer = |id| {
        let registration = node(NodeId(id), &format!("new-{id}")).into();
        coordinator.answer(Request::Register(registration)).unwrap()
    };
    assert!(is_admitted(&newcomer(9001)));
    assert!(matches!(newcomer(9002), Answer::ClusterFull { most: 1024 }));
    // Its members go on.
    assert!(is_admitted(&register(&coordinator, 2, after(1, true))));
    let removed = Request::RemoveNode { node: NodeId(9001).to_string(), incarnation: None };
    assert!(matches!(coordinator.answer(removed).unwrap(), Answer::Done));
    assert!(is_admitted(&newcomer(9002)));
}

/// A token is for certain names: a member that takes another one has to be let in by another.
#[test]
fn no_member_takes_another_name_than_it_has_proved() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), EXPIRY);
    assert!(is_admitted(&register(&coordinator, 1, Lineage::default())));
    let other = NodeRecord { incarnation: 1, counter: 1, ..node(BETA, "db1") };
    let answer = coordinator.handle(&caller(1), Request::Register(other.into())).unwrap();
    assert!(matches!(answer, Answer::NotRegistered), "{answer:?}");
    let Answer::Nodes(nodes) = coordinator.answer(Request::Nodes).unwrap() else { panic!() };
    assert_eq!(nodes[0].node.name, "beta");
}

#[test]
fn no_epoch_of_the_membership_comes_again_after_an_older_database_is_put_back() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), EXPIRY);
    let epoch = || {
        let answer = coordinator.answer(Request::Membership).unwrap();
        let Answer::Membership { epoch, .. } = answer else { panic!("{answer:?}") };
        epoch
    };
    let before = unix_seconds();
    register(&coordinator, 1, Lineage::default());
    let first = epoch();
    assert!(first >= before, "{first}");
    coordinator.answer(Request::Register(node(ALPHA, "alpha").into())).unwrap();
    assert!(epoch() > first);
}

#[test]
fn what_others_have_stored_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), EXPIRY);
    let (stored, _) = volume(&coordinator, "web");
    create(&coordinator, &stored);
    let volume = stored.record.id.clone();
    let want = |node: NodeId| Request::Want {
        volume: volume.clone(),
        node: node.to_string(),
        shown: None,
        revision: None,
    };
    assert!(matches!(coordinator.answer(want(BETA)).unwrap(), Answer::NotRegistered));
    register(&coordinator, 1, Lineage::default());
    assert!(matches!(coordinator.answer(want(BETA)).unwrap(), Answer::Done));
    let is_read = |request: &Request| {
        let text = serde_json::to_string(request).unwrap();
        serde_json::from_str::<Request>(&text).is_ok()
    };
    let verdict = |length: usize| Request::Verified {
        volume: volume.clone(),
        verdict: "x".repeat(length).into(),
        revision: None,
    };
    assert!(is_read(&verdict(200 << 10)) && !is_read(&verdict(600 << 10)));
    let follows = |starts: u64| {
        let lineage = Lineage { before: (0..starts).collect(), before_ended: false };
        Request::Register(Registration { lineage, ..node(BETA, "beta").into() })
    };
    let named = crate::state::start::MAX_BEFORE as u64;
    assert!(is_read(&follows(named)) && !is_read(&follows(named * 5)));
}
