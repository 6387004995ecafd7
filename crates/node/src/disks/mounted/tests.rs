use std::process::Command;

use super::*;

fn shown() -> Shown {
    let boot = "one".to_owned();
    Shown { boot, device: 2049, disk: Some(6886), sequence: Some(9), filesystem: Some(31028) }
}

/// Whether a disk of which this was seen is of the same mount still when that is.
fn is_same(before: Option<Shown>, now: Option<Shown>, kind: DiskKind) -> bool {
    let mut mount = Mount { number: 5, seen: before.clone() };
    mount.see(now.clone(), kind);
    assert_eq!(mount.seen, now.or(before), "the next look compares with this one");
    mount.number() == 5
}

#[test]
fn it_is_another_mount_if_the_kernel_shows_so() {
    let (device, directory) = (DiskKind::Device, DiskKind::Directory);
    for kind in [device, directory] {
        assert!(is_same(Some(shown()), Some(shown()), kind));
        assert!(is_same(None, Some(shown()), kind), "older software has not looked");
        let others = [
            Shown { device: 2065, ..shown() },
            Shown { disk: Some(7001), ..shown() },
            Shown { sequence: Some(10), ..shown() },
            Shown { filesystem: Some(31075), ..shown() },
            Shown { filesystem: None, ..shown() },
        ];
        for other in others {
            assert!(!is_same(Some(shown()), Some(other.clone()), kind), "{other:?}");
            let rebooted = Shown { boot: "two".to_owned(), ..other };
            assert!(is_same(Some(shown()), Some(rebooted), kind), "the boot counts by itself");
        }
        assert!(!is_same(Some(shown()), None, kind), "it is not known");
        assert!(!is_same(None, None, kind), "it was never known");
    }
}

/// Whatever was the matter when it could not be looked at: that it is another one is not missed.
#[test]
fn a_look_that_shows_nothing_hides_no_other_mount() {
    let look = |mount: &mut Mount, now: Option<Shown>| {
        mount.see(now, DiskKind::Device);
        mount.number()
    };
    let mut mount = Mount { number: 5, seen: Some(shown()) };
    let unknown = look(&mut mount, None);
    assert_ne!(unknown, 5);
    assert_eq!(look(&mut mount, Some(shown())), unknown, "it has been there all the time");
    let again = look(&mut mount, None);
    let other = look(&mut mount, Some(Shown { sequence: Some(10), ..shown() }));
    assert!(other != again && again != unknown);
}

/// A loss that has happened while it belonged to nobody is not known.
#[test]
fn a_disk_that_is_added_again_is_of_another_mount() {
    let (first, second) = (Mount::new(), Mount::new());
    assert!(first.number() != 0 && first.number() != second.number());
}

#[test]
fn a_device_that_is_not_told_from_others_counts_as_pulled_out() {
    let hidden = || Some(Shown { disk: None, sequence: None, filesystem: None, ..shown() });
    assert!(!is_same(hidden(), hidden(), DiskKind::Device));
    // A file system without a device, such as one in memory.
    assert!(is_same(hidden(), hidden(), DiskKind::Directory));
    // Linux before 5.15.
    let unnumbered = || Some(Shown { sequence: None, ..shown() });
    assert!(is_same(unnumbered(), unnumbered(), DiskKind::Device));
}

#[test]
fn what_older_software_has_remembered_is_the_first_mount() {
    let text = r#"{"name": "d", "path": "/srv/d", "kind": "directory"}"#;
    let record: super::super::Record = serde_json::from_str(text).unwrap();
    assert_eq!(record.mount, Mount::default());
}

fn run(program: &str, arguments: &[&Path]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|done| done.status.success())
}

/// Unmounts it at the end.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    /// `None`: this needs root, loop devices and ext4.
    fn new(image: &Path, at: &'a Path) -> Option<Self> {
        let is_mounted = run("mount", &["-o".as_ref(), "loop".as_ref(), image, at]);
        is_mounted.then_some(Self(at))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        assert!(run("umount", &[self.0]));
    }
}

#[test]
fn a_file_system_that_was_mounted_again_is_of_another_mount() {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let (image, at) = (place.path().join("image"), place.path().join("at"));
    fs::create_dir(&at).unwrap();
    fs::File::create_new(&image).unwrap().set_len(16 << 20).unwrap();
    let is_made = run("mkfs.ext4", &["-q".as_ref(), &image]);
    let mut mount = Mount::default();
    let mut seen = |times: u32| {
        (0..times).for_each(|_| mount.look(&at, DiskKind::Directory));
        mount.number()
    };
    let Some(first) = Mounted::new(&image, &at).filter(|_| is_made) else {
        eprintln!("skipped: no file system can be mounted");
        return;
    };
    assert_eq!(seen(2), 0);
    drop(first);
    let _second = Mounted::new(&image, &at).unwrap();
    let second = seen(1);
    assert_ne!(second, 0);
    assert_eq!(seen(2), second);
}
