use evenkeel_core::{CoordinatorId, History, VolumeId};

use super::*;

const LONG: Duration = Duration::from_secs(10);

fn stored(stored: &StoredVolume, view: &View) -> StoredVolume {
    StoredVolume { view: ViewText::encode(view).unwrap(), ..stored.clone() }
}

fn assemble(coordinator: &Embedded, volume: &StoredVolume, replaces: Option<u64>) -> Answer {
    let volume = Box::new(volume.clone());
    let node = ALPHA.to_string();
    coordinator.answer(Request::Assemble { volume, replaces, stands: None, node }).unwrap()
}

fn next(view: &View) -> View {
    view.next_epoch(CoordinatorId(70), History(71), 1)
}

#[test]
fn a_stopped_volume_is_not_attached_and_its_replicas_are_kept_closed() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), LONG);
    let (web, view) = volume(&coordinator, "web");
    create(&coordinator, &web);
    let volume = web.record.id.clone();
    let stop = |stopped| {
        let volume = volume.clone();
        coordinator.answer(Request::Stop { volume, stopped, revision: None }).unwrap()
    };
    let fate = || {
        let replica = web.record.replicas[0].id.clone();
        let found = FoundReplica { volume: volume.clone(), replica };
        match coordinator.answer(Request::Fates(vec![found])).unwrap() {
            Answer::Fates(fates) => fates[0],
            other => panic!("{other:?}"),
        }
    };
    let mut attached = view.successor();
    attached.primaries =
        vec![PrimaryRecord { id: PrimaryId { node: ALPHA, incarnation: Incarnation(1) }, slot: 0 }];
    let attach = || {
        let view = ViewText::encode(&attached).unwrap();
        coordinator
            .answer(Request::Swap {
                node: ALPHA.to_string(),
                view,
                replaces: None,
                in_passing: false,
                wish: None,
            })
            .unwrap()
    };
    assert!(matches!(stop(true), Answer::Done));
    assert!(matches!(stop(true), Answer::Done));
    assert_eq!(fate(), Fate::Stopped);
    assert!(matches!(attach(), Answer::NoVolume));
    assert!(matches!(stop(false), Answer::Done));
    assert_eq!(fate(), Fate::Belongs);
    assert!(matches!(attach(), Answer::Done));
    assert!(matches!(stop(true), Answer::Newest(_)), "it is attached");
}

#[test]
fn a_volume_is_taken_over_once_and_only_as_it_was_expected() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), LONG);
    let (web, view) = volume(&coordinator, "web");
    let first = stored(&web, &next(&view));
    assert!(matches!(assemble(&coordinator, &first, None), Answer::Done));
    assert!(matches!(assemble(&coordinator, &first, None), Answer::Done), "the answer was lost");
    let second = stored(&web, &next(&next(&view)));
    assert!(matches!(assemble(&coordinator, &second, None), Answer::Newest(_)));
    assert!(matches!(assemble(&coordinator, &second, Some(1)), Answer::Newest(_)));
    let known = next(&view).generation.0;
    assert!(matches!(assemble(&coordinator, &second, Some(known)), Answer::Done));
    // Another volume has the name.
    let mut other = volume(&coordinator, "web").0;
    other.record.name = "web".into();
    assert!(matches!(assemble(&coordinator, &other, None), Answer::NameInUse));
}

#[test]
fn what_is_attached_on_a_live_node_is_not_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), LONG);
    coordinator.answer(Request::Register(node(BETA, "beta").into())).unwrap();
    let (web, view) = volume(&coordinator, "web");
    create(&coordinator, &web);
    let mut attached = view.successor();
    attached.primaries =
        vec![PrimaryRecord { id: PrimaryId { node: BETA, incarnation: Incarnation(1) }, slot: 0 }];
    let text = ViewText::encode(&attached).unwrap();
    coordinator
        .answer(Request::Swap {
            node: BETA.to_string(),
            view: text,
            replaces: None,
            in_passing: false,
            wish: None,
        })
        .unwrap();
    let taken = stored(&web, &next(&attached));
    let answer = assemble(&coordinator, &taken, Some(attached.generation.0));
    assert!(matches!(answer, Answer::Newest(_)));
}

fn found(web: &StoredVolume) -> FoundReplica {
    FoundReplica { volume: web.record.id.clone(), replica: web.record.replicas[0].id.clone() }
}

#[test]
fn a_daemon_that_has_ended_deletes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), LONG);
    let (web, view) = volume(&coordinator, "web");
    coordinator.answer(Request::Register(node(ALPHA, "alpha").into())).unwrap();
    create(&coordinator, &web);
    assert!(matches!(delete(&coordinator, ALPHA, &view, false), Answer::Done));
    let by = Maker { node: ALPHA.to_string(), incarnation: 1 };
    let view_on_disk = Some(web.view.clone());
    let discard = Request::Discard { by, replica: found(&web), view: view_on_disk };
    coordinator.answer(discard).unwrap();
    let again = stored(&web, &next(&view));
    assert!(matches!(assemble(&coordinator, &again, None), Answer::GivenUp));
    let restarted = NodeRecord { incarnation: 2, ..node(ALPHA, "alpha") };
    coordinator.answer(Request::Register(follows_1(restarted))).unwrap();
    assert!(matches!(assemble(&coordinator, &again, None), Answer::Done));
}

/// A node asks what is to become of a replica, and deletes it after a while.
#[test]
fn a_deleted_volume_comes_back_or_its_replicas_go_never_both() {
    let discard = |coordinator: &Embedded, web: &StoredVolume| {
        let by = Maker { node: ALPHA.to_string(), incarnation: 1 };
        let view = Some(web.view.clone());
        coordinator.answer(Request::Discard { by, replica: found(web), view }).unwrap()
    };
    for discard_first in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let coordinator = open(dir.path(), LONG);
        let (web, view) = volume(&coordinator, "web");
        coordinator.answer(Request::Register(node(ALPHA, "alpha").into())).unwrap();
        create(&coordinator, &web);
        assert!(matches!(discard(&coordinator, &web), Answer::Fates(_)), "it has its volume");
        assert!(matches!(delete(&coordinator, ALPHA, &view, false), Answer::Done));
        let again = stored(&web, &next(&view));
        if discard_first {
            assert!(matches!(discard(&coordinator, &web), Answer::Done));
            assert!(matches!(assemble(&coordinator, &again, None), Answer::GivenUp));
            assert!(matches!(discard(&coordinator, &web), Answer::Done), "the answer was lost");
            // Its file may be put back later.
            coordinator.answer(Request::Discarded(found(&web))).unwrap();
            assert!(matches!(assemble(&coordinator, &again, None), Answer::Done));
            // Its file may be put back later.
            coordinator.answer(Request::Discarded(found(&web))).unwrap();
            assert!(matches!(assemble(&coordinator, &again, None), Answer::Done));
        } else {
            assert!(matches!(assemble(&coordinator, &again, None), Answer::Done));
            assert!(matches!(discard(&coordinator, &web), Answer::Fates(_)), "it has a volume");
        }
    }
}

/// A deleted volume has come back from a disk that had not adopted the last view. A primary that
/// was cut off goes on from that one, which has the number of the new epoch's first.
#[test]
fn a_view_of_the_epoch_before_is_not_committed_after_an_assembly() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), LONG);
    let (web, first) = volume(&coordinator, "web");
    create(&coordinator, &web);
    let last = first.successor();
    assert!(matches!(swap(&coordinator, ALPHA, &last), Answer::Done));
    assert!(matches!(delete(&coordinator, ALPHA, &last, true), Answer::Done));
    let id = coordinator.id();
    let again = first.next_epoch(id, History(71), 1);
    assert_eq!((again.generation, again.coordinator), (last.generation, last.coordinator));
    assert!(matches!(assemble(&coordinator, &stored(&web, &again), None), Answer::Done));
    assert!(matches!(swap(&coordinator, ALPHA, &last.successor()), Answer::Newest(_)));
    assert!(matches!(swap(&coordinator, ALPHA, &again.successor()), Answer::Done));
}

/// It would take the place of another volume's view, and its own volume would have none.
#[test]
fn a_record_comes_with_the_view_of_its_own_volume() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), EXPIRY);
    let (web, _) = volume(&coordinator, "web");
    create(&coordinator, &web);
    let mut mixed = web.clone();
    mixed.record.id = VolumeId(7).to_string();
    mixed.record.name = "mail".into();
    draft(&coordinator, &mixed);
    let created = coordinator.answer(Request::Create(Box::new(mixed.clone())));
    assert!(matches!(created, Err(StoreError::Refused(_))), "{created:?}");
    let (volume, node) = (Box::new(mixed), ALPHA.to_string());
    let assemble = Request::Assemble { volume, replaces: Some(1), stands: None, node };
    let assembled = coordinator.answer(assemble);
    assert!(matches!(assembled, Err(StoreError::Refused(_))), "{assembled:?}");
}
