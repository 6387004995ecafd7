use super::*;

#[test]
fn mount_points_are_found_by_device_number() {
    let text = "24 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
                30 24 7:10 / /mnt/a\\040b rw - xfs /dev/loop10 rw\n";
    assert_eq!(
        mount_point(text, DeviceNumber { major: 7, minor: 10 }).as_deref(),
        Some("/mnt/a b")
    );
    assert_eq!(mount_point(text, DeviceNumber { major: 7, minor: 1 }), None);
}

#[test]
fn a_directory_is_no_block_device() {
    assert_eq!(device_number(Path::new("/")).unwrap(), None);
    assert!(device_number(Path::new("/does/not/exist")).is_err());
}

#[test]
fn nobody_uses_a_device_that_does_not_exist() {
    assert_eq!(user_of(DeviceNumber { major: 4095, minor: 1 }).unwrap(), None);
}

/// Where there are block devices at all: each disk has a number, and its partitions have it, too.
#[test]
fn partitions_have_the_number_of_their_disk() {
    let entries = fs::read_dir("/sys/dev/block").into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.path().join("diskseq").exists()) {
        let disk = read_number(&entry.path().join("dev")).expect("major and minor number");
        let sequence = disk_sequence(disk).expect("a number");
        for partition in partitions(disk) {
            assert_eq!(disk_sequence(partition), Some(sequence));
        }
    }
    assert_eq!(disk_sequence(DeviceNumber { major: 4095, minor: 1 }), None);
}
