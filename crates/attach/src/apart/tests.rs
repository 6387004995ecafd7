use std::fs::File;
use std::os::fd::AsRawFd;

use super::*;

/// The first three are there, others are not; those of the process stay as they are.
#[test]
fn it_has_no_descriptors_of_the_others() {
    let file = File::open("/dev/null").unwrap();
    let name = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
    let there = |name: &str| std::fs::symlink_metadata(name).is_ok();
    let inside = apart(|| [there("/proc/thread-self/fd/2"), there(&name)]);
    assert_eq!(inside.unwrap(), [true, false]);
    assert!(there(&name));
}

#[test]
fn what_fails_there_fails_here() {
    assert_eq!(apart(|| Err::<(), _>("no")).unwrap(), Err("no"));
}
