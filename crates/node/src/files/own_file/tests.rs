use std::os::unix::fs::symlink;

use super::*;

const SECRET: &[u8] = b"of somebody else";

/// A directory with a file that nothing may touch, and the path of something that leads to it.
fn place() -> (tempfile::TempDir, std::path::PathBuf, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (target, path) = (dir.path().join("target"), dir.path().join("link"));
    fs::write(&target, SECRET).unwrap();
    (dir, target, path)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn no_link_is_opened() {
    let (_dir, target, path) = place();
    let refused = |flags| open(&path, flags).unwrap_err().to_string();
    symlink(&target, &path).unwrap();
    assert!(refused(OFlags::empty()).contains("symbolic link"));
    assert!(refused(OFlags::CREATE).contains("symbolic link"));
    assert!(read_small(&path).unwrap_err().to_string().contains("symbolic link"));
    assert_eq!(fs::read(&target).unwrap(), SECRET);
}

#[test]
fn of_a_hard_link_it_is_told_that_there_are_other_names() {
    let (_dir, target, path) = place();
    let has_other_names = |path| has_other_names(&open(path, OFlags::empty()).unwrap()).unwrap();
    assert!(!has_other_names(&target));
    fs::hard_link(&target, &path).unwrap();
    assert!(has_other_names(&path));
}

#[test]
fn what_is_made_anew_replaces_a_link_and_is_for_its_owner() {
    let (_dir, target, path) = place();
    symlink(&target, &path).unwrap();
    make_anew(&path, OFlags::empty()).unwrap().set_len(100).unwrap();
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
    assert_eq!((mode(&path), fs::read(&target).unwrap()), (0o600, SECRET.to_vec()));
}

#[test]
fn a_pipe_or_a_directory_is_no_plain_file() {
    let (dir, ..) = place();
    let pipe = dir.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    assert!(open(&pipe, OFlags::empty()).unwrap_err().to_string().contains("no plain file"));
    // To open it for reading alone waits for who writes.
    assert!(read_small(&pipe).unwrap_err().to_string().contains("no plain file"));
    let device = read_small(Path::new("/dev/tty")).unwrap_err();
    assert!(device.to_string().contains("no plain file"), "{device}");
    assert!(read_small(dir.path()).is_err());
}

#[test]
fn whoever_reads_a_plain_file_waits_for_its_disk() {
    let (_dir, target, _) = place();
    let flags = fcntl_getfl(open(&target, OFlags::empty()).unwrap()).unwrap();
    assert!(!flags.contains(OFlags::NONBLOCK), "the engine would be told to try again");
}

#[test]
fn a_directory_is_closed_unless_it_holds_other_things() {
    let (dir, target, _) = place();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    close_directory_to_others(dir.path(), |name| name == "another");
    assert_eq!(mode(dir.path()), 0o755);
    close_directory_to_others(dir.path(), |name| name == "target");
    assert_eq!(mode(dir.path()), 0o700);
    fs::set_permissions(&target, Permissions::from_mode(0o644)).unwrap();
    close_to_others(&File::open(&target).unwrap(), &target);
    assert_eq!(mode(&target), 0o600);
}
