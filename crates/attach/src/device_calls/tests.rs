use super::*;

fn refused(call: DeviceCall) -> String {
    call.run().unwrap_err().to_string()
}

#[test]
fn what_is_not_there_is_told_with_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let shown = missing.display();
    let (file, device, link) = (missing.clone(), missing.clone(), missing.clone());
    let made = refused(DeviceCall::MakeLoop { file: file.clone(), block_size: 4096 });
    assert!(made.starts_with("can't make a loop device: No such file"), "{made}");
    let grown = refused(DeviceCall::GrowLoop { file, device: device.clone(), size: 4096 });
    assert!(grown.starts_with(&format!("can't show the new size on {shown}: ")), "{grown}");
    let released =
        refused(DeviceCall::Release { device, link, kind: Kind::Loop, file: missing.clone() });
    assert!(released.starts_with(&format!("can't open {shown}: ")), "{released}");
}

#[test]
fn a_loop_device_grows_and_goes_with_its_name_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().canonicalize().unwrap().join("file");
    File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let Ok(device) = (DeviceCall::MakeLoop { file: file.clone(), block_size: 4096 }).run() else {
        return eprintln!("skipped: no loop device can be made here");
    };
    let number = loop_device::number_of(&device).unwrap();
    assert_eq!(loop_device::backing_file(number), Some(file.clone()));
    let size = || fs::read_to_string(format!("/sys/block/loop{number}/size")).unwrap();
    let grow = DeviceCall::GrowLoop { file: file.clone(), device: device.clone(), size: 2 << 20 };
    grow.run().unwrap();
    assert_eq!(size().trim(), "4096");

    let link = directory.path().join("link");
    std::os::unix::fs::symlink("/dev/another", &link).unwrap();
    let (kind, shown) = (Kind::Loop, link.clone());
    let release = DeviceCall::Release { device, link: shown, kind, file: file.clone() };
    let other = directory.path().canonicalize().unwrap().join("other");
    let of_another = match release.clone() {
        DeviceCall::Release { device, link, kind, .. } => {
            DeviceCall::Release { device, link, kind, file: other }
        }
        call => call,
    };
    of_another.run().unwrap();
    assert_eq!(loop_device::backing_file(number), Some(file.clone()), "it is somebody else's");
    release.clone().run().unwrap();
    release.run().expect("it is gone already");
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("/dev/another"));
    assert_ne!(loop_device::backing_file(number), Some(file));
}
