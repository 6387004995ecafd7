use std::os::unix::fs::FileExt;

use evenkeel_format::{DATA_OFFSET, SuperblockBytes};

use super::super::tests::{new, node, place};
use super::*;

#[test]
fn a_file_becomes_longer_and_what_is_zeroed_reads_so() {
    let place = place();
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    disks.add(&place.disk, None, false).unwrap();
    let made = disks.create_replica("disk1", &new(1 << 20)).unwrap();
    let (replica, end) = (made.newest.superblock.replica, DATA_OFFSET + (1 << 20));
    // What lay behind the data: old bitmaps.
    let mut bytes = Box::new(SuperblockBytes([0x5a; evenkeel_format::SUPERBLOCK_LENGTH]));
    made.file.write_all_at(&bytes.0, end).unwrap();
    let growing = disks.make_space(replica, 4 << 20, Recall::default()).unwrap();
    assert_eq!(made.file.metadata().unwrap().len(), disk_length(4 << 20));
    growing.zero(&(end..DATA_OFFSET + (4 << 20))).unwrap();
    made.file.read_exact_at(&mut bytes.0, end).unwrap();
    assert!(bytes.0.iter().all(|byte| *byte == 0));
    disks.in_engine().note_length(replica, 4 << 20);
    disks.make_space(replica, 4 << 20, Recall::default()).unwrap();
}

#[test]
fn a_disk_without_room_says_so() {
    let place = place();
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    disks.add(&place.disk, None, false).unwrap();
    let made = disks.create_replica("disk1", &new(1 << 20)).unwrap();
    let error =
        disks.make_space(made.newest.superblock.replica, 1 << 59, Recall::default()).unwrap_err();
    assert_eq!(error.code, ErrorCode::DiskTooSmall);
    assert!(error.why.ends_with("for it, and 513P are needed"), "{}", error.why);
    assert_eq!(
        disks.make_space(ReplicaId(1), 1, Recall::default()).unwrap_err().code,
        ErrorCode::NoSuchReplica
    );
}
