use super::*;

#[test]
fn numbers_come_from_paths_of_loop_devices_alone() {
    assert_eq!(number_of(&device_path(12)), Some(12));
    assert_eq!(number_of(Path::new("/dev/loop1p1")), None);
    assert_eq!(number_of(Path::new("/dev/sda")), None);
}

#[test]
fn a_long_path_is_cut_and_still_ends() {
    let file = File::open("/dev/null").unwrap();
    let path = format!("/{}", "x".repeat(100));
    let configuration = configuration(&file, Path::new(&path), 512);
    assert_eq!(configuration.information.file_name[62], b'x');
    assert_eq!(configuration.information.file_name[63], 0);
}

#[test]
fn a_device_that_got_another_file_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = directory.path().canonicalize().unwrap().join(name);
        File::create(&path).unwrap().set_len(1 << 20).unwrap();
        path
    };
    let (first, second) = (file("first"), file("second"));
    let Ok(number) = configure(&first, 4096) else {
        return eprintln!("skipped: no loop device can be made here");
    };
    let [old] = &over(&first).unwrap()[..] else { panic!("one device is over it") };
    assert_eq!(old.path(), device_path(number));
    let held = open_device(&device_path(number)).unwrap();
    clear_open(&held).unwrap();
    drop(held);
    let Some(bound) = bind(number, &second) else {
        return eprintln!("skipped: somebody else has taken the device");
    };
    assert!(!old.has_file() && bound.has_file());
    old.clear().unwrap();
    assert_eq!(backing_file(number), Some(second), "the newer file stays");
    bound.clear().unwrap();
    assert_eq!(backing_file(number), None);
}

/// Puts this file behind a device, unless it has one.
fn bind(number: u32, path: &Path) -> Option<Bound> {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let configuration = configuration(&file, path, 4096);
    let device = open_device(&device_path(number)).unwrap();
    // SAFETY: the ioctl reads a `struct loop_config`, which the argument is.
    let result =
        unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const configuration) };
    (result == 0).then(|| Bound::over(number, path).expect("it was just put there"))
}
