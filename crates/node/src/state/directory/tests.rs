use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn a_second_daemon_is_refused_and_told_who_holds_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let held = StateDirectory::open(dir.path()).unwrap();
    let error = StateDirectory::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
    drop(held);
    StateDirectory::open(dir.path()).unwrap();
}

/// As after a backup by `cp -al`.
#[test]
fn a_lock_with_other_names_is_taken_and_another_file_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    drop(StateDirectory::open(&state).unwrap());
    std::fs::hard_link(state.join("lock"), dir.path().join("backup")).unwrap();
    drop(StateDirectory::open(&state).unwrap());

    let secret = dir.path().join("secret");
    std::fs::write(&secret, "7 of somebody else").unwrap();
    std::fs::remove_file(state.join("lock")).unwrap();
    std::fs::hard_link(&secret, state.join("lock")).unwrap();
    let error = StateDirectory::open(&state).unwrap_err().to_string();
    assert!(error.contains("remove this name"), "{error}");
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "7 of somebody else");
}

#[test]
fn what_was_saved_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(&dir.path().join("a/b")).unwrap();
    assert_eq!(state.load::<Vec<u32>>("x.json").unwrap(), None);
    state.save("x.json", &vec![1, 2]).unwrap();
    state.save("x.json", &vec![3]).unwrap();
    assert_eq!(state.load::<Vec<u32>>("x.json").unwrap(), Some(vec![3]));
}

#[test]
fn what_a_killed_daemon_was_writing_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    drop(StateDirectory::open(dir.path()).unwrap());
    std::fs::write(dir.path().join("x.new"), b"{").unwrap();
    std::fs::write(dir.path().join("x.json"), b"[]").unwrap();
    drop(StateDirectory::open(dir.path()).unwrap());
    assert!(!dir.path().join("x.new").exists());
    assert!(dir.path().join("x.json").exists());
}

#[test]
fn a_damaged_file_is_reported_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(dir.path()).unwrap();
    std::fs::write(state.join("x.json"), b"{\"half\":").unwrap();
    let error = state.load::<Vec<u32>>("x.json").unwrap_err().to_string();
    assert!(error.contains("x.json") && error.contains("backup"), "{error}");
}

#[test]
fn a_directory_is_closed_to_those_who_read_and_refused_if_others_could_have_written() {
    let dir = tempfile::tempdir().unwrap();
    let set_mode = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(dir.path(), permissions).unwrap();
    };
    set_mode(0o755);
    drop(StateDirectory::open(dir.path()).unwrap());
    assert_eq!(std::fs::metadata(dir.path()).unwrap().mode() & 0o7777, 0o700);
    set_mode(0o770);
    let error = StateDirectory::open(dir.path()).unwrap_err().to_string();
    let advice = format!("run `chmod go-w {}`", dir.path().display());
    assert!(error.contains("mode 0770") && error.ends_with(&advice), "{error}");
}

#[test]
fn a_file_that_many_replace_at_once_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(dir.path()).unwrap();
    std::thread::scope(|scope| {
        for number in 1..=4_usize {
            let state = &state;
            scope.spawn(move || {
                let value = vec![number; number * 3000];
                for _ in 0..50 {
                    state.save("x.json", &value).unwrap();
                    let found: Vec<usize> = state.load("x.json").unwrap().unwrap();
                    assert_eq!(found.len(), found[0] * 3000);
                    assert!(found.iter().all(|of| *of == found[0]));
                }
            });
        }
    });
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 2, "beside the file and the lock");
}

/// Else a full disk would be fuller with each attempt.
#[test]
fn what_cannot_be_replaced_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(dir.path()).unwrap();
    std::fs::create_dir(dir.path().join("x.json")).unwrap();
    state.save("x.json", &1).unwrap_err();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}
