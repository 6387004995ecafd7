use super::*;

fn mounted(source: &str, point: &str, kind: &str) -> Mount {
    Mount { source: source.into(), point: point.into(), kind: kind.into() }
}

fn volume(device: &Path) -> Option<String> {
    (device == Path::new("/dev/loop900")).then(|| "small".to_owned())
}

const NONE: fn(&Path) -> Option<String> = |_| None;

#[test]
fn a_volume_is_not_mounted_over_another_one() {
    let mounts = [mounted("/dev/loop900", "/srv/m1", "xfs")];
    let failure = refuse_covered("big", Path::new("/srv/m1"), &mounts, volume).unwrap_err();
    let expected = "evenkeel: volume `big` is not mounted on /srv/m1\n  \
                    why: volume `small` (xfs) is mounted there\n  \
                    do:  choose another directory, or unmount that: evenkeel umount small\n";
    assert_eq!(failure.render(), expected);
    assert_eq!(failure.exit, Exit::Unsafe);
    assert!(refuse_covered("small", Path::new("/srv/m1"), &mounts, volume).is_ok());
    assert!(refuse_covered("big", Path::new("/srv/m2"), &mounts, volume).is_ok());
}

#[test]
fn a_volume_is_not_mounted_over_what_is_no_volume() {
    let mounts = [mounted("/dev/sda1", "/srv/m1", "ext4"), mounted("tmpfs", "/srv/m1", "tmpfs")];
    let failure = refuse_covered("big", Path::new("/srv/m1"), &mounts, NONE).unwrap_err();
    assert_eq!(failure.why, "a tmpfs is mounted there");
    assert_eq!(failure.remedy, "choose another directory, or unmount that: umount /srv/m1");
    let failure = refuse_covered("big", Path::new("/srv/m1"), &mounts[..1], NONE).unwrap_err();
    assert_eq!(failure.why, "/dev/sda1 (ext4) is mounted there");
}

#[test]
fn umount_takes_away_the_volumes_own_mount_only() {
    let own = mounted("/dev/loop901", "/srv/m1", "xfs");
    let over = mounted("/dev/loop900", "/srv/m1", "ext4");
    let device = Path::new("/dev/loop901");
    let mounts = [own.clone(), over];
    let failure = refuse_hidden("big", device, &mounts, volume).unwrap_err();
    let expected = "evenkeel: volume `big` is not unmounted from /srv/m1\n  \
                    why: volume `small` (ext4) is mounted over it\n  \
                    do:  first unmount that: evenkeel umount small\n";
    assert_eq!(failure.render(), expected);
    assert_eq!(failure.exit, Exit::Unsafe);
    assert!(refuse_hidden("small", Path::new("/dev/loop900"), &mounts, volume).is_ok());
    assert!(refuse_hidden("big", device, &[own.clone(), own], volume).is_ok());
}

#[test]
fn nobody_is_advised_to_unmount_what_the_system_needs() {
    for (source, point, kind) in
        [("proc", "/proc", "proc"), ("/dev/sda1", "/", "ext4"), ("tmpfs", "/dev/shm", "tmpfs")]
    {
        let mounts = [mounted(source, point, kind)];
        let failure = refuse_covered("big", Path::new(point), &mounts, NONE).unwrap_err();
        assert_eq!(failure.remedy, "choose another directory");
        assert_eq!(failure.exit, Exit::Unsafe);
    }
}

/// As after a takeover: the mount outlived what it was on.
#[test]
fn of_a_dead_device_of_its_own_it_is_said_that_it_is_that() {
    let mounts = [mounted("/dev/loop904", "/srv/m1", "ext4")];
    let dead = ["/dev/loop904".to_owned()];
    let directory = Path::new("/srv/m1");
    let failure = refuse_dead("big", directory, &dead, &mounts).unwrap_err();
    let expected = "evenkeel: volume `big` is not mounted on /srv/m1\n  \
                    why: an earlier device of it (/dev/loop904) is mounted there, and gives errors: the volume was \
                    taken away from it\n  \
                    do:  unmount that: evenkeel umount big; then mount it again\n";
    assert_eq!(failure.render(), expected);
    assert_eq!(failure.exit, Exit::Unsafe);
    assert!(refuse_dead("big", directory, &[], &mounts).is_ok());
    assert!(refuse_dead("big", Path::new("/srv/m2"), &dead, &mounts).is_ok());
}
