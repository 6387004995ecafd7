//! Requests that come late, or rest on what a restored database has forgotten.

use evenkeel_core::{CoordinatorId, History};

use super::*;

const LONG: Duration = Duration::from_secs(10);

fn read(coordinator: &Embedded, volume: &str) -> VolumeRecord {
    match coordinator.answer(Request::Read { volume: volume.into() }).unwrap() {
        Answer::Volume(stored) => stored.record,
        other => panic!("{other:?}"),
    }
}

/// Each of these was decided upon the record as it was at first. It is carried out once; what is
/// left of it in a socket changes nothing after the next command.
#[test]
fn a_late_request_undoes_no_later_command() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), LONG);
    let (web, _) = volume(&coordinator, "web");
    create(&coordinator, &web);
    let id = web.record.id;
    let revision = || Some(read(&coordinator, &id).revision);
    let stop = |stopped, revision| {
        coordinator.answer(Request::Stop { volume: id.clone(), stopped, revision }).unwrap()
    };
    let first = revision();
    assert!(matches!(stop(true, first), Answer::Done));
    assert!(matches!(stop(true, first), Answer::Done), "its answer was lost");
    assert!(matches!(stop(false, revision()), Answer::Done));
    let Answer::Changed(now) = stop(true, first) else { panic!("it is stopped again") };
    assert!(!now.record.stopped);

    // It was so already: what was asked before is over all the same.
    let before = revision();
    assert!(matches!(stop(false, before), Answer::Done));
    assert!(matches!(stop(true, before), Answer::Changed(_)));

    let (volume, name) = (id.clone(), "shop".to_owned());
    let rename = Request::RenameVolume { volume, name, revision: before };
    assert!(matches!(coordinator.answer(rename).unwrap(), Answer::Changed(_)));
    let (volume, verdict) = (id.clone(), serde_json::json!(1));
    let verified = Request::Verified { volume, verdict, revision: before };
    assert!(matches!(coordinator.answer(verified).unwrap(), Answer::Changed(_)));
    coordinator.answer(Request::Register(node(ALPHA, "alpha").into())).unwrap();
    let (volume, node) = (id.clone(), ALPHA.to_string());
    let want = Request::Want { volume, node, shown: None, revision: before };
    assert!(matches!(coordinator.answer(want).unwrap(), Answer::Changed(_)));
    let generation = web.view.decode().unwrap().generation.0;
    let (volume, node) = (id.clone(), ALPHA.to_string());
    let view = Some(web.view);
    let delete = Request::Delete { node, volume, generation, view, revision: before, force: false };
    assert!(matches!(coordinator.answer(delete).unwrap(), Answer::Changed(_)));
    assert!(matches!(stop(true, None), Answer::Done), "older software says no revision");
}

/// A replica that was given up before its place was noted is not placed by what comes late.
#[test]
fn a_replica_is_not_placed_after_it_was_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), LONG);
    let (web, _) = volume(&coordinator, "web");
    create(&coordinator, &web);
    let (id, revision) = (web.record.id.clone(), Some(read(&coordinator, "web").revision));
    let replica = PlacedReplica { id: "new".into(), ..web.record.replicas[0].clone() };
    let forget = Request::Forget { volume: id.clone(), replica: "new".into() };
    assert!(matches!(coordinator.answer(forget).unwrap(), Answer::Done));
    let place = Request::Place { volume: id, replica, same_disk: true, alone: false, revision };
    assert!(matches!(coordinator.answer(place).unwrap(), Answer::Changed(_)));
    assert_eq!(read(&coordinator, "web").replicas.len(), 1);
}

/// Two branches of one number, as a restored database gives it again.
fn branches(view: &View) -> [View; 2] {
    [1, 2].map(|incarnation| {
        let mut next = view.successor();
        next.primaries = vec![primary(ALPHA, incarnation)];
        next
    })
}

#[test]
fn a_volume_of_another_branch_is_neither_replaced_nor_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), LONG);
    let (web, view) = volume(&coordinator, "web");
    create(&coordinator, &web);
    let [forgotten, stored] = branches(&view);
    assert!(matches!(swap(&coordinator, ALPHA, &stored), Answer::Done));
    let text = |view: &View| ViewText::encode(view).unwrap();
    let record = read(&coordinator, "web");
    let (node, id, revision) = (ALPHA.to_string(), record.id.clone(), Some(record.revision));
    let delete = |view: &View| {
        let (node, volume) = (node.clone(), id.clone());
        let (generation, view) = (view.generation.0, Some(text(view)));
        coordinator
            .answer(Request::Delete { node, volume, generation, view, revision, force: false })
            .unwrap()
    };
    let assemble = |view: &View| {
        let next = view.next_epoch(CoordinatorId(70), History(71), 1);
        let volume = Box::new(StoredVolume { record: record.clone(), view: text(&next) });
        let stands = Some(Standing::Volume(text(view)));
        let (replaces, node) = (Some(view.generation.0), node.clone());
        coordinator.answer(Request::Assemble { volume, replaces, stands, node }).unwrap()
    };
    assert!(matches!(delete(&forgotten), Answer::Newest(_)));
    assert!(matches!(assemble(&forgotten), Answer::Newest(_)));
    assert!(matches!(assemble(&stored), Answer::Done));
    assert!(matches!(delete(&stored), Answer::Newest(_)), "that was assembled anew");
}

/// The request to assemble a volume is answered, and the volume deleted; what is left of the
/// request does not bring it back. One that is meant to begins another history, and names the
/// deletion.
#[test]
fn a_late_assembly_does_not_bring_a_deleted_volume_back() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), LONG);
    let (web, view) = volume(&coordinator, "web");
    let assemble = |history, stands| {
        let next = view.next_epoch(CoordinatorId(70), History(history), 1);
        let view = ViewText::encode(&next).unwrap();
        let volume = Box::new(StoredVolume { view, ..web.clone() });
        let (replaces, node) = (None, ALPHA.to_string());
        let stands = Some(stands);
        coordinator.answer(Request::Assemble { volume, replaces, stands, node }).unwrap()
    };
    assert!(matches!(assemble(71, Standing::Nothing), Answer::Done));
    let first = view.next_epoch(CoordinatorId(70), History(71), 1);
    assert!(matches!(delete(&coordinator, ALPHA, &first, false), Answer::Done));
    assert!(matches!(assemble(71, Standing::Nothing), Answer::NoVolume));
    // One that was never carried out: it was asked before the volume was deleted.
    let Answer::WasDeleted(last) = assemble(72, Standing::Nothing) else { panic!("it is back") };
    assert!(matches!(assemble(72, Standing::Deleted(last.clone())), Answer::Done));
    let other = ViewText::encode(&view).unwrap();
    assert_ne!(other, last);
    assert!(matches!(assemble(73, Standing::Deleted(last)), Answer::Newest(_)));
}

#[test]
fn a_cluster_and_a_node_that_are_not_what_they_were_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), LONG);
    let rename = |name: &str, replaces: Option<&str>| {
        let (name, replaces) = (name.to_owned(), replaces.map(str::to_owned));
        coordinator.answer(Request::Rename { name, replaces }).unwrap()
    };
    assert!(matches!(rename("one", Some("test")), Answer::Done));
    assert!(matches!(rename("one", Some("test")), Answer::Done), "its answer was lost");
    assert!(matches!(rename("two", Some("test")), Answer::ClusterNamed { name } if name == "one"));
    assert!(matches!(rename("two", None), Answer::Done), "older software says no name");

    coordinator.answer(Request::Register(node(BETA, "beta").into())).unwrap();
    let remove = |incarnation| {
        let node = BETA.to_string();
        coordinator.answer(Request::RemoveNode { node, incarnation }).unwrap()
    };
    assert!(matches!(remove(Some(7)), Answer::NodeInUse { .. }), "it has started again");
    assert!(matches!(remove(Some(1)), Answer::Done));
}

/// What a node of older software sends says nothing of what it was decided upon.
#[test]
fn requests_of_older_software_are_read() {
    for text in [
        r#"{"stop":{"volume":"v","stopped":true}}"#,
        r#"{"want":{"volume":"v","node":"00000000-0000-0000-0000-000000000001","shown":null}}"#,
        r#"{"verified":{"volume":"v","verdict":1}}"#,
        r#"{"rename":{"name":"n"}}"#,
        r#"{"rename-volume":{"volume":"v","name":"n"}}"#,
        r#"{"remove-node":{"node":"n"}}"#,
        r#"{"delete":{"node":"n","volume":"v","generation":1}}"#,
    ] {
        let read: Request = serde_json::from_str(text).unwrap();
        let again = serde_json::to_string(&read).unwrap();
        assert!(again.contains("null"), "{again}");
    }
}
