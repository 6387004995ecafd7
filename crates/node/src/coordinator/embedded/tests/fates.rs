//! What of a replica may be deleted, also by a database that was restored from a backup.

use evenkeel_core::view::Newcomer;
use evenkeel_core::{CoordinatorId, History as Line, ReplicaId, Role};

use super::*;

const LONG: Duration = Duration::from_secs(10);
const NEW: ReplicaId = ReplicaId(77);

/// A coordinator that has the volume "web".
fn with_volume(dir: &Path) -> (Embedded, StoredVolume, View) {
    let coordinator = open(dir, LONG);
    for record in [node(ALPHA, "alpha"), node(BETA, "beta")] {
        coordinator.answer(Request::Register(record.into())).unwrap();
    }
    let (stored, view) = volume(&coordinator, "web");
    create(&coordinator, &stored);
    (coordinator, stored, view)
}

/// What the coordinator says to deleting a replica whose disk has adopted this view last. `None`:
/// so be it.
fn refusal(coordinator: &Embedded, replica: ReplicaId, adopted: &View) -> Option<Fate> {
    let text = Some(ViewText::encode(adopted).unwrap());
    refusal_by(coordinator, adopted, replica, text)
}

fn refusal_by(
    coordinator: &Embedded,
    of: &View,
    replica: ReplicaId,
    view: Option<ViewText>,
) -> Option<Fate> {
    let by = Maker { node: BETA.to_string(), incarnation: 1 };
    let replica = FoundReplica { volume: of.volume.to_string(), replica: replica.to_string() };
    let request = Request::Discard { by, replica: replica.clone(), view };
    match coordinator.answer(request).unwrap() {
        Answer::Done => {
            coordinator.answer(Request::Discarded(replica)).unwrap();
            None
        }
        Answer::Fates(fates) => Some(fates[0]),
        other => panic!("{other:?}"),
    }
}

fn joined(view: &View) -> View {
    let mut next = view.successor();
    next.add(Newcomer { id: NEW, node: BETA, mirror: 0, role: Role::Own }).unwrap();
    next
}

fn place_new(coordinator: &Embedded, view: &View) {
    let replica = PlacedReplica {
        id: NEW.to_string(),
        mirror: 0,
        node: BETA.to_string(),
        disk: "d".into(),
        removed: false,
        maker: Some(Maker { node: BETA.to_string(), incarnation: 1 }),
    };
    let volume = view.volume.to_string();
    let place = Request::Place { volume, replica, same_disk: false, alone: false, revision: None };
    assert!(matches!(coordinator.answer(place), Ok(Answer::Done)));
}

/// The backup was made while the replica was being made. It has joined since, and may be all that
/// is left.
#[test]
fn a_replica_that_was_given_up_goes_only_if_it_has_never_been_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let (coordinator, _, view) = with_volume(dir.path());
    place_new(&coordinator, &view);
    let reborn = NodeRecord { incarnation: 2, ..node(BETA, "beta") };
    coordinator.answer(Request::Register(follows_1(reborn))).unwrap();
    // The sweep gives it up.
    let found = FoundReplica { volume: view.volume.to_string(), replica: NEW.to_string() };
    let fates = coordinator.answer(Request::Fates(vec![found])).unwrap();
    assert!(matches!(fates, Answer::Fates(fates) if fates == [Fate::NeverMade]));
    let in_use = joined(&view);
    assert_eq!(refusal(&coordinator, NEW, &in_use), Some(Fate::Unknown));
    assert_eq!(refusal_by(&coordinator, &view, NEW, None), Some(Fate::Unknown));
    // However far the volume has come without it.
    let (second, third) = (view.successor(), view.successor().successor());
    assert!(matches!(swap(&coordinator, ALPHA, &second), Answer::Done));
    assert!(matches!(swap(&coordinator, ALPHA, &third), Answer::Done));
    assert_eq!(refusal(&coordinator, NEW, &in_use), Some(Fate::Unknown));
    assert_eq!(refusal(&coordinator, NEW, &view), None, "as it was made");
}

#[test]
fn a_replica_that_was_taken_out_is_kept_if_it_has_gone_further_than_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let (coordinator, _, view) = with_volume(dir.path());
    place_new(&coordinator, &view);
    let with = joined(&view);
    swap(&coordinator, ALPHA, &with);
    let mut without = with.successor();
    without.remove(NEW).unwrap();
    swap(&coordinator, ALPHA, &without);
    let another = with.next_epoch(CoordinatorId(70), Line(71), 1);
    assert_eq!(refusal(&coordinator, NEW, &another), Some(Fate::Unknown), "assembled since");
    let later = with.successor().successor();
    assert_eq!(refusal(&coordinator, NEW, &later), Some(Fate::Unknown));
    assert_eq!(refusal(&coordinator, NEW, &with), None);
}

/// It came back from a disk that was away, and the backup is older than that.
#[test]
fn of_a_deleted_volume_only_that_goes_which_is_no_newer() {
    let dir = tempfile::tempdir().unwrap();
    let (coordinator, stored, view) = with_volume(dir.path());
    let replica = view.mirrors[0].replicas[0].id;
    let (second, third) = (view.successor(), view.successor().successor());
    swap(&coordinator, ALPHA, &second);
    swap(&coordinator, ALPHA, &third);
    assert_eq!(refusal(&coordinator, replica, &third), Some(Fate::Belongs));
    assert!(matches!(delete(&coordinator, ALPHA, &third, false), Answer::Done));
    // Its number is lower: the disk had been away for long.
    let back = view.next_epoch(CoordinatorId(70), Line(71), 1);
    assert!(back.generation < third.generation);
    assert_eq!(refusal(&coordinator, replica, &back), Some(Fate::Unknown));
    assert_eq!(refusal(&coordinator, replica, &third.successor()), Some(Fate::Unknown));
    let adopted = ViewText::encode(&volume(&coordinator, "other").1).unwrap();
    let other = refusal_by(&coordinator, &view, replica, Some(adopted));
    assert_eq!(other, Some(Fate::Unknown), "the disk is another volume's");
    assert_eq!(refusal(&coordinator, replica, &view), None);
    assert_eq!(refusal(&coordinator, replica, &third), None);

    // It comes back, and is deleted again.
    let assembled = StoredVolume { view: ViewText::encode(&back).unwrap(), ..stored };
    let node = ALPHA.to_string();
    let volume = Box::new(assembled);
    coordinator.answer(Request::Assemble { volume, replaces: None, stands: None, node }).unwrap();
    assert_eq!(refusal(&coordinator, replica, &back), Some(Fate::Belongs));
    assert!(matches!(delete(&coordinator, ALPHA, &back, false), Answer::Done));
    assert_eq!(refusal(&coordinator, replica, &third), Some(Fate::Unknown), "the other branch");
    assert_eq!(refusal(&coordinator, replica, &back), None);
}
