use std::os::unix::fs::{PermissionsExt, chown};

use super::*;

/// A user that the tests do not run as.
const SOMEBODY: u32 = 65_534;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn others_must_neither_own_a_directory_nor_write_to_it() {
    let dir = tempfile::tempdir().unwrap();
    for (mode, expected) in [
        (0o700, None),
        (0o755, None),
        (0o775, Some(Exposed::Writable(0o775))),
        (0o1777, Some(Exposed::Writable(0o1777))),
    ] {
        set_mode(dir.path(), mode);
        assert_eq!(exposed(dir.path()).unwrap(), expected, "{mode:o}");
    }
    set_mode(dir.path(), 0o700);
    if geteuid().is_root() {
        chown(dir.path(), Some(SOMEBODY), None).unwrap();
        assert_eq!(exposed(dir.path()).unwrap(), Some(Exposed::Foreign(SOMEBODY)));
    }
}

#[test]
fn a_directory_for_sockets_is_made_whatever_the_umask_is_and_held_to_the_rule() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/run");
    prepare_for_sockets("runtime", &path).unwrap();
    assert_eq!(exposed(&path).unwrap(), None);
    set_mode(&path, 0o777);
    let why = prepare_for_sockets("runtime", &path).unwrap_err();
    let advice = format!("run `chmod go-w {}`", path.display());
    assert!(why.starts_with("runtime = ") && why.contains(&advice), "{why}");
}
