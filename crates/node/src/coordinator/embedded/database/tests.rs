use evenkeel_coordinator::store::Write;

use super::*;

mod failing;

fn open(dir: &Path) -> RedbStore {
    RedbStore::open(&dir.join("x.redb")).unwrap()
}

fn write(space: Space, name: &str, value: Option<&str>) -> Write {
    Write { key: Key::new(space, name), value: value.map(|value| value.as_bytes().to_vec()) }
}

fn commit(store: &RedbStore, guards: Vec<Guard>, writes: Vec<Write>) -> Outcome {
    store.commit(&Commit { guards, writes }).unwrap()
}

fn read(store: &RedbStore, range: Range) -> Entries {
    let mut snapshot = store.snapshot().unwrap();
    store.read(&mut snapshot, &range).unwrap()
}

#[test]
fn each_space_gives_back_what_it_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let writes: Vec<_> = Space::ALL.map(|space| write(space, "a", Some("17"))).into();
    assert_eq!(commit(&open(dir.path()), vec![], writes), Outcome::Committed);
    let store = open(dir.path());
    for space in Space::ALL {
        assert_eq!(read(&store, Range::Space(space))["a"], entry(b"17"), "{space:?}");
        assert_eq!(read(&store, Range::Key(Key::new(space, "a"))).len(), 1);
        assert!(read(&store, Range::Key(Key::new(space, "b"))).is_empty());
        commit(&store, vec![], vec![write(space, "a", None)]);
        assert!(read(&store, Range::Space(space)).is_empty());
    }
}

#[test]
fn a_guard_that_does_not_hold_keeps_all_writes_out() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let key = Key::new(Space::Views, "v");
    let absent = Guard::Key(key.clone(), None);
    let first = vec![write(Space::Views, "v", Some("1"))];
    assert_eq!(commit(&store, vec![absent.clone()], first), Outcome::Committed);
    let second = vec![write(Space::Names, "n", Some("x")), write(Space::Views, "v", Some("2"))];
    let conflict = Outcome::Conflict(Range::Key(key.clone()));
    assert_eq!(commit(&store, vec![absent], second.clone()), conflict);
    let other = Guard::Key(key.clone(), Some(entry(b"0")));
    assert_eq!(commit(&store, vec![other], second.clone()), conflict);
    assert!(read(&store, Range::Space(Space::Names)).is_empty());
    let same = Guard::Key(key, Some(entry(b"1")));
    assert_eq!(commit(&store, vec![same], second), Outcome::Committed);
}

#[test]
fn the_guard_of_a_space_sees_what_comes_and_what_changes() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let put = |name, value| write(Space::Volumes, name, Some(value));
    commit(&store, vec![], vec![put("a", "1"), put("b", "1")]);
    let was = read(&store, Range::Space(Space::Volumes));
    let guarded = || {
        let guard = Guard::Space(Space::Volumes, was.clone());
        commit(&store, vec![guard], vec![write(Space::Names, "n", Some("x"))])
    };
    assert_eq!(guarded(), Outcome::Committed);
    commit(&store, vec![], vec![put("c", "1")]);
    assert_eq!(guarded(), Outcome::Conflict(Range::Space(Space::Volumes)));
    commit(&store, vec![], vec![write(Space::Volumes, "c", None), put("a", "2")]);
    assert_eq!(guarded(), Outcome::Conflict(Range::Space(Space::Volumes)));
}

/// Else every node would ask for all nodes each second that one is silent.
#[test]
fn nodes_are_not_told_that_silence_was_counted() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let before = store.changes();
    commit(&store, vec![], vec![write(Space::Silent, "a", Some("3000"))]);
    assert_eq!(store.changes(), before);
    commit(&store, vec![], vec![write(Space::Names, "a", Some("v"))]);
    assert_ne!(store.changes(), before);
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    commit(&store, vec![], vec![write(Space::Names, "a", Some("v"))]);
    let mut snapshot = store.snapshot().unwrap();
    commit(&store, vec![], vec![write(Space::Names, "a", Some("w"))]);
    let range = Range::Key(Key::new(Space::Names, "a"));
    assert_eq!(store.read(&mut snapshot, &range).unwrap()["a"], entry(b"v"));
    assert_eq!(read(&store, range)["a"], entry(b"w"));
}
