use std::path::PathBuf;

use evenkeel_attach::User;

use super::*;

/// To unmount it waits, too, until it is served.
#[test]
fn whoever_uses_what_waits_is_not_told_to_unmount_it_first() {
    let mounted = User::Mount { directory: PathBuf::from("/srv"), process: None };
    let used = AttachError::InUse { device: "/dev/ublkb0".into(), users: vec![mounted] };
    let error = of_waiting(device_error("cannot detach volume music", &used), "music");
    assert_eq!((error.code, error.code.exit().code()), (ErrorCode::DeviceBusy, 4));
    assert!(error.why.contains("/dev/ublkb0") && error.why.contains("mounted at /srv"), "{error}");
    assert!(error.action.starts_with("Its requests wait until the volume is attached"), "{error}");
    assert!(error.action.contains("`evenkeel umount music`"), "{error}");
    let other = device_error("x", &AttachError::Unavailable("ublk"));
    assert_eq!(of_waiting(other.clone(), "music"), other);
}
