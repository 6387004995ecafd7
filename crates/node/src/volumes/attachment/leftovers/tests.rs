use std::path::{Path, PathBuf};

use super::*;

#[test]
fn what_is_told_of_a_dead_device_is_who_uses_it_and_what_to_do() {
    let users = ["mounted at /srv/music".to_owned()];
    let reported = sentence("n1", Path::new("/dev/loop3"), &users);
    assert_eq!(
        reported,
        "device /dev/loop3 on node n1 gives errors, as the volume was taken away from it, and is in use still (mounted at /srv/music): unmount or close it"
    );
}

#[test]
fn a_device_that_nobody_uses_any_more_is_forgotten() {
    let leftovers = Leftovers::default();
    // No device has that name, so nobody uses it.
    let device = DeadDevice::now(Path::new("/dev/evenkeel-no-such-device"));
    let used = [StillUsed { device, users: Vec::new() }];
    leftovers.note("music", &used);
    leftovers.note("music", &used);
    assert_eq!(lock(&leftovers.0).len(), 1);
    assert_eq!(leftovers.reported("n1"), []);
    assert!(lock(&leftovers.0).is_empty());
}

#[test]
fn a_device_that_is_made_under_the_name_of_a_dead_one_is_not_told_as_dead() {
    let leftovers = Leftovers::default();
    let used = ["/dev/loop7", "/dev/loop8"]
        .map(|device| StillUsed { device: DeadDevice::now(Path::new(device)), users: Vec::new() });
    leftovers.note("music", &used);
    leftovers.made(Path::new("/dev/loop7"));
    let left: Vec<_> = lock(&leftovers.0).iter().map(|it| it.device.path().to_owned()).collect();
    assert_eq!(left, [PathBuf::from("/dev/loop8")]);
}
