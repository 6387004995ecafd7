use evenkeel_coordinator::store::{Commit, Key, Space, Store as _, Write};
use evenkeel_core::VolumeId;

use super::*;

/// Else what is asked of the one would be done to the other.
#[test]
fn an_identity_means_its_volume_whatever_others_are_called() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), EXPIRY);
    let (one, _) = volume(&coordinator, "web");
    let (mut other, mut view) = volume(&coordinator, "mail");
    view.volume = VolumeId(7);
    other.record.id = view.volume.to_string();
    other.view = ViewText::encode(&view).unwrap();
    assert!(matches!(create(&coordinator, &one), Answer::Done));
    // Nobody else may have it for a name.
    let id = one.record.id.clone();
    let mut called = other.clone();
    called.record.name.clone_from(&id);
    assert!(matches!(create(&coordinator, &called), Answer::NameInUse));
    assert!(matches!(create(&coordinator, &other), Answer::Done));
    let (volume, name) = (other.record.id.clone(), id.clone());
    let rename = Request::RenameVolume { volume, name, revision: None };
    assert!(matches!(coordinator.answer(rename).unwrap(), Answer::NameInUse));
    // One had it before such names were refused.
    let key = Key::new(Space::Names, &id);
    let write = Write { key, value: Some(other.record.id.clone().into_bytes()) };
    let commit = Commit { guards: vec![], writes: vec![write] };
    coordinator.inner.store.commit(&commit).unwrap();
    let found = coordinator.answer(Request::Read { volume: id.clone() }).unwrap();
    assert!(matches!(found, Answer::Volume(found) if found.record.id == id));
}

/// The same of nodes.
#[test]
fn no_node_is_called_as_another_is_identified() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), EXPIRY);
    let register = |node: NodeRecord| coordinator.answer(Request::Register(node.into())).unwrap();
    assert!(matches!(register(node(ALPHA, "alpha")), Answer::Registered { .. }));
    assert!(matches!(register(node(BETA, &ALPHA.to_string())), Answer::NameInUse));
}

const LONG: Duration = Duration::from_secs(10);

fn rename(coordinator: &Embedded, volume: &str, name: &str) -> Answer {
    let (volume, name) = (volume.to_owned(), name.to_owned());
    coordinator.answer(Request::RenameVolume { volume, name, revision: None }).unwrap()
}

fn read(coordinator: &Embedded, volume: &str) -> Option<StoredVolume> {
    match coordinator.answer(Request::Read { volume: volume.into() }).unwrap() {
        Answer::Volume(found) => Some(*found),
        Answer::NoVolume => None,
        other => panic!("{other:?}"),
    }
}

fn swap(coordinator: &Embedded, view: &View, wish: Wish) {
    let view = ViewText::encode(view).unwrap();
    let swap = Request::Swap {
        node: ALPHA.to_string(),
        view,
        replaces: None,
        in_passing: false,
        wish: Some(wish),
    };
    assert!(matches!(coordinator.answer(swap).unwrap(), Answer::Done));
}

#[test]
fn a_volume_is_known_by_its_new_name_only_and_twice_is_as_once() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), LONG);
    let (web, _) = volume(&coordinator, "web");
    create(&coordinator, &web);
    let id = &web.record.id;
    let (other, _) = volume(&coordinator, "other");
    create(&coordinator, &other);
    assert!(matches!(rename(&coordinator, id, "other"), Answer::NameInUse));
    assert!(matches!(rename(&coordinator, id, "shop"), Answer::Done));
    assert!(matches!(rename(&coordinator, id, "shop"), Answer::Done), "the answer was lost");
    drop(coordinator);

    let coordinator = open(dir.path(), LONG);
    assert!(read(&coordinator, "web").is_none());
    let renamed = read(&coordinator, "shop").unwrap();
    assert_eq!((&renamed.record.id, renamed.record.name.as_str()), (id, "shop"));
    assert_eq!(renamed.view, web.view, "its replicas have nothing to adopt");
    // The request that made it again, whose answer was lost: no second name.
    let again = coordinator.answer(Request::Create(Box::new(web.clone()))).unwrap();
    assert!(matches!(again, Answer::Done), "{again:?}");
    let Answer::Volumes(all) = coordinator.answer(Request::Volumes).unwrap() else { panic!() };
    let names: Vec<_> = all.iter().map(|stored| stored.record.name.as_str()).collect();
    assert_eq!(names, ["other", "shop"]);
    // The old name is free.
    let (second, _) = volume(&coordinator, "web");
    create(&coordinator, &second);
}

#[test]
fn a_volume_that_is_attached_or_meant_to_be_keeps_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), LONG);
    let (web, view) = volume(&coordinator, "web");
    create(&coordinator, &web);
    let id = &web.record.id;
    let used_on = |nodes: &[NodeId]| {
        let answer = rename(&coordinator, id, "shop");
        let Answer::UsedOn { nodes: reported } = answer else { panic!("{answer:?}") };
        assert_eq!(reported, nodes.iter().map(ToString::to_string).collect::<Vec<_>>());
    };
    let mut attached = view.successor();
    attached.primaries =
        vec![PrimaryRecord { id: PrimaryId { node: ALPHA, incarnation: Incarnation(1) }, slot: 0 }];
    swap(&coordinator, &attached, Wish::Here(Shown::default()));
    used_on(&[ALPHA]);
    let mut detached = attached.successor();
    detached.primaries.clear();
    swap(&coordinator, &detached, Wish::AsBefore);
    used_on(&[ALPHA]);
    let want = |node: NodeId, shown| {
        let (volume, node) = (id.clone(), node.to_string());
        coordinator.answer(Request::Want { volume, node, shown, revision: None }).unwrap()
    };
    coordinator.answer(Request::Register(node(ALPHA, "alpha").into())).unwrap();
    assert!(matches!(want(ALPHA, None), Answer::Done));
    assert!(matches!(rename(&coordinator, id, "shop"), Answer::Done));
    assert!(matches!(rename(&coordinator, &BETA.to_string(), "x"), Answer::NoVolume));
}

#[test]
fn an_assembly_that_began_before_a_rename_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), LONG);
    let (web, view) = volume(&coordinator, "web");
    create(&coordinator, &web);
    assert!(matches!(rename(&coordinator, &web.record.id, "shop"), Answer::Done));
    let next = ViewText::encode(&view.successor()).unwrap();
    let request = Request::Assemble {
        volume: Box::new(StoredVolume { view: next, ..web.clone() }),
        replaces: Some(view.generation.0),
        stands: None,
        node: ALPHA.to_string(),
    };
    assert!(matches!(coordinator.answer(request).unwrap(), Answer::Newest(_)));
    assert!(read(&coordinator, "web").is_none());
}
