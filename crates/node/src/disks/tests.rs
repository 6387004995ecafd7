use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;

use evenkeel_core::*;
use evenkeel_format::{COPY_B_OFFSET, DATA_OFFSET};

use super::*;

pub(super) fn node() -> NodeRef {
    NodeRef { id: "n".into(), name: "alpha".into() }
}

pub(crate) fn superblock(size: u64) -> Superblock {
    let replica = ReplicaId(crate::random::random_u128());
    let volume = VolumeId(crate::random::random_u128());
    let record = ReplicaRecord::first(replica, NodeId(1));
    let view = View {
        intents: IntentLayout::for_size(1 << 30),
        ..View::first(
            volume,
            History(7),
            CoordinatorId(9),
            Geometry { size, block_size: 4096, chunk: 65536 },
            vec![MirrorView { replicas: vec![record] }],
        )
    };
    Superblock {
        sequence: 1,
        volume,
        name: "web".into(),
        replica,
        mirror: 0,
        data_offset: DATA_OFFSET,
        data_length: size,
        incarnations: Incarnations::default(),
        saved: 0,
        metadata_offset: evenkeel_format::metadata_offset(size),
        has_checksums: false,
        view,
    }
}

pub(super) struct Place {
    _dir: tempfile::TempDir,
    pub(super) state: Arc<StateDirectory>,
    pub(super) disk: PathBuf,
}

pub(super) fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let state = Arc::new(StateDirectory::open(&dir.path().join("state")).unwrap());
    let disk = dir.path().join("disk1");
    std::fs::create_dir(&disk).unwrap();
    Place { _dir: dir, state, disk }
}

pub(crate) fn new(size: u64) -> NewReplica {
    NewReplica { superblock: superblock(size), thin: false }
}

/// The disks of a node that has this one.
fn with_disk(place: &Place) -> Disks {
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    disks.add(&place.disk, None, false).unwrap();
    disks
}

/// Makes a replica on the disk, and closes it. Returns its file.
fn closed_replica(place: &Place) -> PathBuf {
    with_disk(place).create_replica("disk1", &new(1 << 20)).unwrap().path
}

#[test]
fn a_replica_is_made_found_again_and_deleted() {
    let place = place();
    let disks = with_disk(&place);
    let made = disks.create_replica("disk1", &new(1 << 20)).unwrap();
    let id = made.newest.superblock.replica;
    drop((made, disks));

    let (disks, opened) = Disks::open(place.state.clone(), node()).unwrap();
    assert_eq!(opened.len(), 1);
    assert_eq!(opened[0].newest.superblock.replica, id);
    assert_eq!(disks.disk_of(id).as_deref(), Some("disk1"));
    // A sparse file has little space yet; the file system has what it was promised, and more.
    let listed = &disks.list()[0];
    let (needed, free) = (listed.replicas[0].unallocated.unwrap(), listed.available.unwrap());
    assert!(needed > 0 && free >= listed.free + needed, "{listed:?}");
    let error = disks.remove("disk1", &BTreeSet::new()).unwrap_err();
    assert_eq!(error.code, ErrorCode::DiskHasReplicas);
    drop(opened);
    assert!(disks.delete_replica(id).unwrap());
    assert!(!disks.delete_replica(id).unwrap());
    disks.remove("disk1", &BTreeSet::new()).unwrap();
    assert!(disks.list().is_empty());
}

/// What others put into a disk's directory must not have the node write to another file.
#[test]
fn no_link_in_a_disks_directory_is_followed() {
    use std::os::unix::fs::symlink;
    let place = place();
    let secret = place.disk.with_file_name("secret");
    std::fs::write(&secret, "of somebody else").unwrap();
    for name in [".evenkeel.probe", ".evenkeel.new", "x.replica"] {
        symlink(&secret, place.disk.join(name)).unwrap();
    }
    let disks = with_disk(&place);
    assert_eq!(disks.list()[0].state, evenkeel_api::types::DiskState::Serving);
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "of somebody else");
    drop(disks);

    let lock = place.disk.join(".evenkeel.lock");
    std::fs::remove_file(&lock).unwrap();
    symlink(&secret, &lock).unwrap();
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    let problem = disks.list()[0].problem.clone().unwrap();
    assert!(problem.contains("symbolic link"), "{problem}");
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "of somebody else");
}

/// A backup by `cp -al` gives each file of the directory another name.
#[test]
fn a_replica_with_another_name_is_served_and_that_is_told() {
    let place = place();
    let disks = with_disk(&place);
    let made = disks.create_replica("disk1", &new(1 << 20)).unwrap();
    assert_eq!(disks.list()[0].replicas[0].warning, None);
    let (path, backup) = (made.path.clone(), place.disk.with_file_name("backup"));
    drop((made, disks));
    std::fs::create_dir(&backup).unwrap();
    for file in std::fs::read_dir(&place.disk).unwrap().map(|file| file.unwrap()) {
        std::fs::hard_link(file.path(), backup.join(file.file_name())).unwrap();
    }
    // In the directory itself such a name is not mistaken for the replica.
    for name in ["a.replica", "z.replica"] {
        std::fs::hard_link(&path, place.disk.join(name)).unwrap();
    }
    let (disks, opened) = Disks::open(place.state.clone(), node()).unwrap();
    assert_eq!(opened.len(), 1, "{:?}", disks.list());
    assert_eq!(opened[0].path, path);
    let listed = disks.list().remove(0);
    assert_eq!((listed.state, listed.replicas.len()), (evenkeel_api::types::DiskState::Serving, 3));
    for replica in listed.replicas {
        let is_it = Path::new(&replica.path) == path;
        assert_eq!((replica.warning.is_some(), replica.problem.is_none()), (is_it, is_it));
        let problem = replica.problem.unwrap_or_default();
        assert!(is_it || problem.contains("remove this name"), "{problem}");
    }
}

#[test]
fn a_pipe_in_the_place_of_a_marker_is_refused_without_a_wait() {
    let place = place();
    let (cwd, kind) = (rustix::fs::CWD, rustix::fs::FileType::Fifo);
    let path = place.disk.join(".evenkeel.disk");
    rustix::fs::mknodat(cwd, &path, kind, rustix::fs::Mode::RWXU, 0).unwrap();
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    let error = disks.add(&place.disk, None, false).unwrap_err();
    assert!(error.why.contains("no plain file"), "{error}");
}

#[test]
fn why_nothing_can_be_written_to_a_directory_is_told() {
    let place = place();
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    let error = disks.add(Path::new("/sys"), None, false).unwrap_err();
    assert!(!error.why.contains("No such file"), "that is not so: {error}");
}

#[test]
fn replicas_and_their_directory_are_for_the_node_alone() {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let place = place();
    let disks = with_disk(&place);
    let made = disks.create_replica("disk1", &new(1 << 20)).unwrap();
    let file = made.path.clone();
    assert_eq!((mode(&place.disk), mode(&file)), (0o700, 0o600));
    drop((made, disks));

    // As they were before that was so.
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    std::fs::set_permissions(&place.disk, Permissions::from_mode(0o755)).unwrap();
    let (_disks, opened) = Disks::open(place.state.clone(), node()).unwrap();
    assert_eq!(opened.len(), 1);
    assert_eq!((mode(&place.disk), mode(&file)), (0o700, 0o600));
}

#[test]
fn a_directory_in_which_others_put_files_becomes_no_disk() {
    use std::os::unix::fs::PermissionsExt;
    let place = place();
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    std::fs::set_permissions(&place.disk, std::fs::Permissions::from_mode(0o1777)).unwrap();
    let error = disks.add(&place.disk, None, false).unwrap_err();
    assert_eq!(error.code, ErrorCode::NotSupported);
    assert!(error.why.contains("mode 1777"), "{error}");
    assert!(std::fs::read_dir(&place.disk).unwrap().next().is_none(), "nothing was put there");
}

/// As when a request is sent again because its answer was lost.
#[test]
fn a_replica_that_is_asked_for_twice_is_made_once() {
    let place = place();
    let disks = with_disk(&place);
    let asked = new(1 << 20);
    let made = disks.create_replica("disk1", &asked).unwrap();
    let error = disks.create_replica("disk1", &asked).unwrap_err();
    assert_eq!(error.code, ErrorCode::WrongState);
    assert!(made.path.exists());
    assert_eq!(disks.disk_of(made.newest.superblock.replica).as_deref(), Some("disk1"));
}

#[test]
fn a_damaged_superblock_is_survived_and_two_are_reported() {
    let place = place();
    let path = closed_replica(&place);
    let damage = |offset| {
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[0xff; 64], offset).unwrap();
    };

    damage(600);
    let (disks, opened) = Disks::open(place.state.clone(), node()).unwrap();
    assert_eq!(opened.len(), 1);
    drop((disks, opened));
    damage(COPY_B_OFFSET + 600);
    let (disks, opened) = Disks::open(place.state.clone(), node()).unwrap();
    assert!(opened.is_empty());
    let problem = disks.list()[0].replicas[0].problem.clone().unwrap();
    assert!(problem.contains("checksum"), "{problem}");
    assert!(path.exists());
}

#[test]
fn a_replica_of_a_later_version_is_refused_by_name() {
    let place = place();
    let path = closed_replica(&place);
    let file = File::options().write(true).open(&path).unwrap();
    // Version 9, and a length that this software cannot judge.
    file.write_all_at(&9u32.to_le_bytes(), 16).unwrap();
    file.write_all_at(&(1u32 << 20).to_le_bytes(), 20).unwrap();
    let (disks, opened) = Disks::open(place.state.clone(), node()).unwrap();
    assert!(opened.is_empty());
    let problem = disks.list()[0].replicas[0].problem.clone().unwrap();
    assert!(problem.contains("format 9"), "{problem}");
}

#[test]
fn a_disk_that_is_too_small_is_refused_unless_thin() {
    let place = place();
    let disks = with_disk(&place);
    let mut huge = new(1 << 42);
    let error = disks.create_replica("disk1", &huge).unwrap_err();
    assert_eq!(error.code, ErrorCode::DiskTooSmall);
    huge.thin = true;
    disks.create_replica("disk1", &huge).unwrap();
}

#[test]
fn names_and_paths_are_taken_once() {
    let place = place();
    let disks = with_disk(&place);
    let code = |path: &Path, name: Option<&str>| {
        disks.add(path, name.map(str::to_owned), false).unwrap_err().code
    };
    assert_eq!(code(&place.disk, Some("other")), ErrorCode::NameInUse);
    assert_eq!(code(place.disk.parent().unwrap(), Some("disk1")), ErrorCode::NameInUse);
    assert_eq!(code(place.disk.parent().unwrap(), Some("a/b")), ErrorCode::BadRequest);
    assert_eq!(code(Path::new("relative"), None), ErrorCode::BadRequest);
    assert_eq!(code(Path::new("/does/not/exist"), None), ErrorCode::BadRequest);
    assert_eq!(code(Path::new("/etc/passwd"), None), ErrorCode::BadRequest);
}

#[test]
fn a_directory_of_another_daemon_is_refused() {
    let place = place();
    let _disks = with_disk(&place);
    let other = Arc::new(StateDirectory::open(&place.disk.with_file_name("state2")).unwrap());
    let (others, _) = Disks::open(other, node()).unwrap();
    let error = others.add(&place.disk, None, true).unwrap_err();
    assert_eq!(error.code, ErrorCode::DiskInUse);
    assert!(error.why.contains("process"), "{error}");
}

#[test]
fn an_unfinished_creation_is_swept_away() {
    let place = place();
    let left = place.disk.join("x.replica-new");
    std::fs::write(&left, b"").unwrap();
    let _disks = with_disk(&place);
    assert!(!left.exists());
}
