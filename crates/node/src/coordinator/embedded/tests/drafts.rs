use super::*;

fn fate(coordinator: &Embedded, stored: &StoredVolume) -> Fate {
    let (volume, replica) = (stored.record.id.clone(), stored.record.replicas[0].id.clone());
    match coordinator.answer(Request::Fates(vec![FoundReplica { volume, replica }])).unwrap() {
        Answer::Fates(fates) => fates[0],
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_drafts_replicas_are_kept_until_its_node_begins_another_incarnation() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_secs(10));
    coordinator.answer(Request::Register(node(ALPHA, "alpha").into())).unwrap();
    let (stored, _) = volume(&coordinator, "web");
    assert_eq!(fate(&coordinator, &stored), Fate::Unknown);
    assert!(matches!(draft(&coordinator, &stored), Answer::Done));
    assert_eq!(fate(&coordinator, &stored), Fate::Belongs);

    let reborn = NodeRecord { incarnation: 2, ..node(ALPHA, "alpha") };
    coordinator.answer(Request::Register(follows_1(reborn))).unwrap();
    assert_eq!(fate(&coordinator, &stored), Fate::NeverMade);
    // The daemon that had made it was only slow: too late, once and for all.
    let late = coordinator.answer(Request::Create(Box::new(stored.clone()))).unwrap();
    assert!(matches!(late, Answer::NoVolume));
    assert!(matches!(draft(&coordinator, &stored), Answer::NoVolume));
}

#[test]
fn a_draft_of_a_node_that_is_not_heard_of_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), EXPIRY);
    coordinator.answer(Request::Register(node(ALPHA, "alpha").into())).unwrap();
    coordinator.answer(Request::Register(node(BETA, "beta").into())).unwrap();
    let (stored, _) = volume(&coordinator, "web");
    draft(&coordinator, &stored);
    pass(&coordinator, EXPIRY.as_secs());
    assert_eq!(fate(&coordinator, &stored), Fate::NeverMade);
}

#[test]
fn giving_up_takes_back_a_draft_and_never_a_volume() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_secs(10));
    coordinator.answer(Request::Register(node(ALPHA, "alpha").into())).unwrap();
    let give_up = |stored: &StoredVolume| {
        let volume = stored.record.id.clone();
        coordinator.answer(Request::GiveUp { volume }).unwrap()
    };
    let (stored, _) = volume(&coordinator, "web");
    assert!(matches!(create(&coordinator, &stored), Answer::Done));
    assert!(matches!(give_up(&stored), Answer::Done));
    assert_eq!(fate(&coordinator, &stored), Fate::Belongs);

    // One volume has the name: the other is given up by whoever wanted to make it.
    let (other, _) = volume(&coordinator, "web");
    assert_ne!(other.record.id, stored.record.id);
    assert!(matches!(create(&coordinator, &other), Answer::NameInUse));
    assert_eq!(fate(&coordinator, &other), Fate::Belongs);
    assert!(matches!(give_up(&other), Answer::Done));
    assert_eq!(fate(&coordinator, &other), Fate::NeverMade);
}

#[test]
fn a_draft_that_a_restored_database_holds_of_a_deleted_volume_goes() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = open(dir.path(), Duration::from_secs(10));
    coordinator.answer(Request::Register(node(ALPHA, "alpha").into())).unwrap();
    let (stored, view) = volume(&coordinator, "web");
    // The backup is from before the volume was made; its disks bring it back, and then it is
    // deleted.
    draft(&coordinator, &stored);
    let (volume, by) = (Box::new(stored.clone()), ALPHA.to_string());
    let assemble = Request::Assemble { volume, replaces: None, stands: None, node: by };
    assert!(matches!(coordinator.answer(assemble).unwrap(), Answer::Done));
    assert!(matches!(delete(&coordinator, ALPHA, &view, false), Answer::Done));

    let reborn = NodeRecord { incarnation: 2, ..node(ALPHA, "alpha") };
    coordinator.answer(Request::Register(follows_1(reborn))).unwrap();
    assert_eq!(fate(&coordinator, &stored), Fate::Deleted, "nobody is refused an answer by it");
}
