use super::*;

fn device() -> Device {
    Device {
        names: BTreeSet::from(["loop3".to_owned(), "loop3p1".to_owned()]),
        numbers: BTreeSet::from(["7:3".to_owned(), "259:0".to_owned()]),
    }
}

fn mount(device: &str, source: &str) -> mounts::Mount {
    mounts::Mount {
        device: device.to_owned(),
        directory: PathBuf::from("/mnt"),
        filesystem_type: "btrfs".to_owned(),
        source: PathBuf::from(source),
    }
}

#[test]
fn mounts_are_found_by_number_and_by_path() {
    assert!(device().has_mount(&mount("7:3", "none")));
    assert!(device().has_mount(&mount("0:44", "/dev/loop3p1")));
    assert!(!device().has_mount(&mount("7:30", "/dev/loop30")));
    assert!(!device().has_mount(&mount("0:44", "loop3")));
}

#[test]
fn users_are_named_so_that_one_can_find_them() {
    let user = User::Mount { directory: PathBuf::from("/srv"), process: None };
    assert_eq!(user.to_string(), "mounted at /srv");
    let user = User::Process { process: 7, name: "dd".to_owned() };
    assert_eq!(user.to_string(), "open in process 7 (dd)");
}

#[test]
fn an_unknown_device_has_no_users() {
    assert_eq!(users("no-such-device").unwrap(), Vec::new());
}

#[test]
fn a_mount_that_several_namespaces_have_is_named_once() {
    let mount = |directory: &str, process| User::Mount { directory: directory.into(), process };
    let dd = User::Process { process: 9, name: "dd".to_owned() };
    let users =
        [mount("/srv", Some(40)), mount("/srv", Some(7)), mount("/mnt", Some(7)), dd.clone()];
    let reported = distinct(BTreeSet::from(users));
    assert_eq!(reported, [mount("/mnt", Some(7)), mount("/srv", Some(7)), dd]);
}
