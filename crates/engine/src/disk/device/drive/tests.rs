use std::os::unix::fs::symlink;

use rustix::fs::makedev;

use super::*;

fn device(root: &Path, name: &str, number: &str) -> PathBuf {
    let place = root.join("devices").join(name);
    fs::create_dir_all(place.join("slaves")).unwrap();
    fs::write(place.join("dev"), format!("{number}\n")).unwrap();
    let listed = root.join("block");
    fs::create_dir_all(&listed).unwrap();
    symlink(&place, listed.join(number)).unwrap();
    place
}

/// A logical volume on a partition shares the cache of the whole drive; one on two drives has none
/// alone.
#[test]
fn a_device_is_followed_to_the_one_that_it_lies_on() {
    let root = tempfile::tempdir().unwrap();
    let first = device(root.path(), "sda", "8:0");
    let part = device(root.path(), "sda/sda1", "8:1");
    fs::write(part.join("partition"), "1\n").unwrap();
    let second = device(root.path(), "sdb", "8:16");
    let linear = device(root.path(), "dm-0", "254:0");
    symlink(&part, linear.join("slaves/sda1")).unwrap();
    let mirror = device(root.path(), "md0", "9:0");
    symlink(&first, mirror.join("slaves/sda")).unwrap();
    symlink(&second, mirror.join("slaves/sdb")).unwrap();
    let found = |major, minor| base(&root.path().join("block"), makedev(major, minor));
    assert_eq!(found(8, 0), makedev(8, 0));
    assert_eq!(found(8, 1), makedev(8, 0));
    assert_eq!(found(254, 0), makedev(8, 0));
    assert_eq!(found(9, 0), makedev(9, 0));
    assert_eq!(found(0, 47), makedev(0, 47), "no device has this number");
}

/// A partition is as its whole device; a device on others says itself what they all do.
#[test]
fn forced_unit_access_is_what_the_queue_says() {
    let root = tempfile::tempdir().unwrap();
    let queue = |place: &Path, fua: &str, cache: &str| {
        fs::create_dir_all(place.join("queue")).unwrap();
        fs::write(place.join("queue/fua"), format!("{fua}\n")).unwrap();
        fs::write(place.join("queue/write_cache"), format!("{cache}\n")).unwrap();
    };
    let nvme = device(root.path(), "nvme0n1", "259:0");
    queue(&nvme, "1", "write back");
    let part = device(root.path(), "nvme0n1/nvme0n1p1", "259:1");
    fs::write(part.join("partition"), "1\n").unwrap();
    let virtio = device(root.path(), "vda", "254:0");
    queue(&virtio, "0", "write back");
    let battery = device(root.path(), "sda", "8:0");
    queue(&battery, "0", "write through");
    let linear = device(root.path(), "dm-0", "253:0");
    symlink(&nvme, linear.join("slaves/nvme0n1")).unwrap();
    queue(&linear, "0", "write back");
    let found = |major, minor| has_fua(&root.path().join("block"), makedev(major, minor));
    assert!(found(259, 0));
    assert!(found(259, 1));
    assert!(!found(254, 0));
    assert!(found(8, 0));
    assert!(!found(253, 0));
    assert!(!found(0, 47), "no device has this number");
}

/// Two files of one filesystem share a drive: the failure of one's flush counts for the other.
#[test]
fn files_of_a_filesystem_share_its_drive() {
    let directory = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| fs::File::create(directory.path().join(name)).unwrap());
    assert!(Arc::ptr_eq(&Drive::of(&a).unwrap(), &Drive::of(&b).unwrap()));
    let memory = rustix::fs::memfd_create("c", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    assert!(!Arc::ptr_eq(&Drive::of(&a).unwrap(), &Drive::of(&memory).unwrap()));
}
