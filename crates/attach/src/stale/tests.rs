use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn place(directory: &Path) -> Place {
    Place { runtime: directory.join("run"), devices: directory.join("dev") }
}

#[test]
fn nothing_left_is_nothing_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let cleaned = clean_up_stale(&place(directory.path()), "a", Filesystems::Unmount).unwrap();
    assert_eq!(cleaned, CleanedUp::default());
}

#[test]
fn a_name_that_points_nowhere_is_removed_and_another_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let place = place(directory.path());
    fs::create_dir(&place.devices).unwrap();
    symlink("/dev/loop9999", place.link("dead")).unwrap();
    symlink("/dev/no-such-device", place.link("dangling")).unwrap();
    for name in ["dead", "dangling"] {
        clean_up_stale(&place, name, Filesystems::Leave).unwrap();
        assert_eq!(place.linked(name), None);
    }
}

#[test]
fn names_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let refused = clean_up_stale(&place(directory.path()), "../etc", Filesystems::Leave);
    assert!(matches!(refused, Err(AttachError::Name(_))));
}
