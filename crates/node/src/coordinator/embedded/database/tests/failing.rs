//! Its disk fails: nothing is half there, nothing that was read is lost, and it goes on.

use std::sync::Arc;

use super::super::disk::{Disk, Fails};
use super::*;

fn on(disk: &Disk) -> RedbStore {
    let disk = disk.clone();
    RedbStore::over(Duration::ZERO, move |_| Ok(disk.clone())).unwrap()
}

fn set(store: &RedbStore, value: &str) -> Stored<Outcome> {
    let writes = vec![write(Space::Views, "v", Some(value)), write(Space::Names, "n", Some(value))];
    store.commit(&Commit { guards: vec![], writes })
}

fn text(entries: &Entries, name: &str) -> String {
    String::from_utf8(entries[name].value.clone()).unwrap()
}

/// What is there, all of it by the same commit.
fn found(store: &RedbStore) -> String {
    let view = text(&read(store, Range::Space(Space::Views)), "v");
    assert_eq!(text(&read(store, Range::Space(Space::Names)), "n"), view, "a mix");
    view
}

/// One call fails during a commit, the first, the second and so on, until there is none left.
fn fail_each_call(how: Fails) -> [u32; 3] {
    let mut outcomes = [0; 3];
    for calls in 0.. {
        let disk = Disk::default();
        let store = on(&disk);
        set(&store, "1").unwrap();
        disk.fail_after(calls, how);
        let outcome = set(&store, "2");
        let is_over = disk.heal();
        let now = found(&store);
        let (at, possible) = match outcome {
            Ok(_) => (0, &["2"][..]),
            Err(StoreError::Unusable(_)) => (1, &["1"][..]),
            Err(StoreError::InDoubt(_)) => (2, &["1", "2"][..]),
            Err(other) => panic!("{other}"),
        };
        outcomes[at] += 1;
        assert!(possible.contains(&now.as_str()), "call {calls}: {outcome:?}, but {now} is there");
        assert_eq!(found(&on(&disk.after_power_cut())), now, "call {calls}: read, and then lost");
        assert_eq!(set(&store, "3"), Ok(Outcome::Committed), "call {calls}");
        assert_eq!(found(&on(&disk.after_power_cut())), "3", "call {calls}");
        if is_over {
            return outcomes;
        }
    }
    unreachable!()
}

#[test]
fn a_call_that_fails_once_stops_nothing() {
    for how in [Fails::Whole, Fails::Half] {
        let [_, _, in_doubt] = fail_each_call(how);
        assert!(in_doubt > 0, "no commit was in doubt");
    }
}

#[test]
fn a_disk_that_was_full_stops_nothing_once_it_has_space() {
    let disk = Disk::default();
    let store = on(&disk);
    set(&store, "1").unwrap();
    disk.fill();
    let big = |number: u32| {
        let value = format!("{number}").repeat(100_000);
        let writes = vec![write(Space::Views, &number.to_string(), Some(&value))];
        store.commit(&Commit { guards: vec![], writes })
    };
    let failed = (0..).find(|number| big(*number).is_err()).unwrap();
    for number in failed..failed + 3 {
        let why = big(number).unwrap_err().to_string();
        assert!(why.contains("full") || why.contains("space"), "{why}");
        assert!(!why.contains("backup"), "{why}");
        assert_eq!(text(&read(&store, Range::Space(Space::Names)), "n"), "1");
    }
    disk.free();
    assert_eq!(big(failed), Ok(Outcome::Committed));
    let there = read(&on(&disk.after_power_cut()), Range::Space(Space::Views));
    assert_eq!(there.len(), usize::try_from(failed).unwrap() + 2);
}

#[test]
fn a_snapshot_of_before_an_error_is_taken_anew() {
    let disk = Disk::default();
    let store = on(&disk);
    set(&store, "1").unwrap();
    let mut snapshot = store.snapshot().unwrap();
    disk.fail_after(0, Fails::Whole);
    set(&store, "2").unwrap_err();
    assert_eq!(set(&store, "3"), Ok(Outcome::Committed));
    for space in Space::ALL {
        match store.read(&mut snapshot, &Range::Space(space)) {
            Err(StoreError::TooOld) => {}
            Ok(entries) if space == Space::Names => assert_eq!(text(&entries, "n"), "1"),
            Ok(entries) if space == Space::Views => assert_eq!(text(&entries, "v"), "1"),
            Ok(entries) => assert!(entries.is_empty()),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(found(&store), "3");
}

/// It would know no volumes, and answer so.
#[test]
fn a_file_that_was_taken_away_is_not_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (path, away) = (dir.path().join("x.redb"), dir.path().join("away"));
    let store = open(dir.path());
    set(&store, "1").unwrap();
    store.open_anew();
    for take_away in [true, false] {
        match take_away {
            true => std::fs::rename(&path, &away).unwrap(),
            false => drop(std::fs::File::create(&path).unwrap()),
        }
        assert!(store.snapshot().is_err());
        store.open_anew();
    }
    std::fs::rename(&away, &path).unwrap();
    assert_eq!(found(&store), "1");
}

/// It is from a backup, or of another cluster: only a start of the daemon compares what it says.
#[test]
fn a_file_that_was_put_in_its_place_is_not_adopted() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = dir.path().join("x.redb");
    let store = open(dir.path());
    set(&store, "1").unwrap();
    set(&open(elsewhere.path()), "2").unwrap();
    std::fs::rename(elsewhere.path().join("x.redb"), &path).unwrap();
    for _ in 0..2 {
        store.open_anew();
        let Err(error) = store.snapshot() else { panic!("another file was adopted") };
        let why = error.to_string();
        assert!(why.contains("replaced") && why.contains("restart"), "{why}");
    }
    drop(store);
    assert_eq!(found(&open(dir.path())), "2");
}

/// Its device and inode are the same then.
#[test]
fn a_backup_that_was_copied_over_the_file_is_not_adopted() {
    let disk = Disk::default();
    let store = on(&disk);
    set(&store, "1").unwrap();
    let backup = disk.after_power_cut();
    set(&store, "2").unwrap();
    disk.fail_after(0, Fails::Whole);
    set(&store, "3").unwrap_err();
    disk.copy_over(&backup);
    for _ in 0..2 {
        let Err(error) = store.snapshot() else { panic!("an older database was adopted") };
        let why = error.to_string();
        assert!(why.contains("replaced") && why.contains("restart"), "{why}");
        store.open_anew();
    }
    drop(store);
    assert_eq!(found(&on(&disk)), "1");
}

/// What changes only for how long nodes were silent is the same database.
#[test]
fn what_this_daemon_has_written_last_is_adopted_whatever_has_failed() {
    for calls in 0..32 {
        let disk = Disk::default();
        let store = on(&disk);
        for number in 0..3 {
            disk.fail_after(calls, Fails::Half);
            let _ = set(&store, &number.to_string());
            let _ = store.commit(&Commit {
                guards: vec![],
                writes: vec![write(Space::Silent, "a", Some("3000"))],
            });
            disk.heal();
            store.open_anew();
            assert!(store.snapshot().is_ok(), "call {calls}");
        }
    }
}

/// It would be written over while that process writes.
#[test]
fn a_file_that_another_process_has_open_is_not_written() {
    let disk = Disk::default();
    set(&on(&disk), "1").unwrap();
    disk.take_lock();
    let before = disk.changes();
    let there = disk.clone();
    assert!(RedbStore::over(Duration::ZERO, move |_| Ok(there.clone())).is_err());
    assert_eq!(disk.changes(), before);
}

/// The start of the daemon before may have met the error, and have been killed for it.
#[test]
fn what_a_failed_sync_left_in_the_cache_is_durable_before_another_start_reads_it() {
    let mut was_seen = false;
    for calls in 0..32 {
        let disk = Disk::default();
        let store = on(&disk);
        set(&store, "1").unwrap();
        disk.fail_after(calls, Fails::Whole);
        let _ = set(&store, "2");
        disk.heal();
        drop(store);
        let now = found(&on(&disk));
        was_seen |= now == "2";
        assert_eq!(found(&on(&disk.after_power_cut())), now, "call {calls}: read, and then lost");
    }
    assert!(was_seen);
}

#[test]
fn it_is_not_opened_anew_again_and_again() {
    let disk = Disk::default();
    let opened = Arc::new(AtomicU64::new(0));
    let (there, count) = (disk.clone(), opened.clone());
    let open = move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(there.clone())
    };
    let store = RedbStore::over(Duration::from_secs(3600), open).unwrap();
    set(&store, "1").unwrap();
    disk.fail_always();
    for _ in 0..8 {
        set(&store, "2").unwrap_err();
    }
    assert_eq!(opened.load(Ordering::Relaxed), 2);
    disk.heal();
    store.open_anew();
    assert_eq!(found(&store), "1");
}
