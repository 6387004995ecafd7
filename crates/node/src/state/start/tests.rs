use super::*;

const HERE: LockId = LockId { device: 1, inode: 7 };

fn first() -> Start {
    Start::after(None, "boot", HERE)
}

fn next(last: &Start, boot: &str, lock: LockId) -> Start {
    Start::after(Some(last.0.clone()), boot, lock)
}

fn admitted(start: &Start) -> Start {
    Start(Saved { standing: Standing::Admitted, ..start.0.clone() })
}

#[test]
fn starts_are_counted_and_name_the_one_before() {
    let first = admitted(&first());
    let second = next(&first, "boot", HERE);
    assert!(second.id().counter > first.id().counter);
    assert_eq!(second.lineage().before, [first.0.incarnation]);
}

#[test]
fn the_lock_proves_an_end_in_the_same_boot_for_the_same_file_only() {
    let last = admitted(&first());
    assert!(next(&last, "boot", HERE).continues_admitted());
    assert!(!next(&last, "another boot", HERE).continues_admitted());
    assert!(!next(&last, "boot", LockId { inode: 8, ..HERE }).continues_admitted());
    assert!(!next(&last, "boot", LockId { device: 2, ..HERE }).continues_admitted());
}

#[test]
fn what_the_last_start_ran_has_ended_by_the_locks_proof_alone() {
    let copy = next(&admitted(&first()), "boot", LockId { inode: 8, ..HERE });
    assert!(!copy.last_has_ended(), "the original may live");
    let again = next(&copy, "boot", LockId { inode: 8, ..HERE });
    assert!(again.last_has_ended());
    assert!(!next(&again, "another boot", LockId { inode: 8, ..HERE }).last_has_ended());
    assert!(!first().last_has_ended());
}

#[test]
fn starts_without_an_answer_are_named_until_one_is_admitted() {
    let last = admitted(&first());
    let unanswered = next(&last, "boot", HERE);
    let third = next(&unanswered, "boot", HERE);
    assert_eq!(third.lineage().before, [unanswered.0.incarnation, last.0.incarnation]);
    assert!(third.continues_admitted());
    let fourth = next(&admitted(&third), "boot", HERE);
    assert_eq!(fourth.lineage().before, [third.0.incarnation]);
}

#[test]
fn a_proof_that_one_start_lacks_is_lacked_by_those_after_it() {
    let last = admitted(&first());
    let copy = next(&last, "boot", LockId { inode: 8, ..HERE });
    let again = next(&copy, "boot", LockId { inode: 8, ..HERE });
    assert!(!again.continues_admitted(), "the original may live");
}

#[test]
fn after_a_superseded_start_nothing_is_continued() {
    let superseded = Saved { standing: Standing::Superseded, ..first().0 };
    assert!(!Start::after(Some(superseded), "boot", HERE).continues_admitted());
}

#[test]
fn many_starts_without_an_answer_are_bounded() {
    let mut last = admitted(&first());
    for _ in 0..2 * MAX_BEFORE {
        last = next(&last, "boot", HERE);
    }
    assert_eq!(last.lineage().before.len(), MAX_BEFORE);
}

#[test]
fn a_copied_directory_has_no_proof_and_a_reopened_one_has() {
    let dir = tempfile::tempdir().unwrap();
    let boot = BootId(5);
    let state = StateDirectory::open(&dir.path().join("a")).unwrap();
    let last = Start::begin(&state, boot).unwrap();
    last.save_admitted(&state).unwrap();
    std::fs::create_dir(dir.path().join("b")).unwrap();
    for file in [FILE, "lock"] {
        std::fs::copy(state.join(file), dir.path().join("b").join(file)).unwrap();
    }
    drop(state);
    let begin = |name: &str| {
        Start::begin(&StateDirectory::open(&dir.path().join(name)).unwrap(), boot).unwrap()
    };
    let (original, copy) = (begin("a"), begin("b"));
    assert_eq!(original.lineage().before, copy.lineage().before);
    assert!(original.continues_admitted() && !copy.continues_admitted());
}
