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

/// Whoever runs the test serves no ublk device.
#[test]
fn nothing_that_waits_is_nothing_to_refuse() {
    let directory = tempfile::tempdir().unwrap();
    let place = place(directory.path());
    refuse_waiting(&place, "a").unwrap();
    fs::create_dir_all(&place.runtime).unwrap();
    let record = Record {
        name: "a".into(),
        kind: Kind::Ublk,
        device: Some("/dev/ublkb999".into()),
        size: 1 << 20,
        block_size: 512,
        daemon: 1,
        began: 1,
    };
    place.note(&record).unwrap();
    refuse_waiting(&place, "a").unwrap();
    assert!(matches!(refuse_waiting(&place, "../etc"), Err(AttachError::Name(_))));
}

#[test]
fn names_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let refused = clean_up_stale(&place(directory.path()), "../etc", Filesystems::Leave);
    assert!(matches!(refused, Err(AttachError::Name(_))));
}
