use super::*;

const BOOT: &str = "3c7c8b2a-0000-4000-8000-000000000001";

fn text(device: &DeadDevice) -> String {
    serde_json::to_string(device).unwrap()
}

#[test]
fn a_device_is_kept_with_which_one_it_was() {
    let path = Path::new("/dev/loop4");
    let known = DeadDevice {
        path: path.into(),
        which: Some(Which { sequence: 37, boot: BOOT.to_owned() }),
    };
    assert_eq!(text(&known), format!("\"/dev/loop4@37@{BOOT}\""));
    assert_eq!(serde_json::from_str::<DeadDevice>(&text(&known)).unwrap(), known);
}

#[test]
fn what_older_software_has_kept_is_read() {
    let old: Vec<DeadDevice> = serde_json::from_str(r#"["/dev/loop4", "/dev/a@b"]"#).unwrap();
    let paths: Vec<&Path> = old.iter().map(DeadDevice::path).collect();
    assert_eq!(paths, [Path::new("/dev/loop4"), Path::new("/dev/a@b")]);
    assert!(old.iter().all(|device| device.which.is_none()));
    assert_eq!(text(&old[0]), r#""/dev/loop4""#);
}

#[test]
fn the_file_of_a_volume_is_known_whatever_has_become_of_its_directory() {
    for of_volume in ["/volume", "/run/evenkeel/attach/v1/volume", "/volume (deleted)"] {
        assert!(is_volumes(Path::new(of_volume)), "{of_volume}");
    }
    for other in ["/", "/var/lib/image", "/srv/volume.img", "/srv/image (deleted)"] {
        assert!(!is_volumes(Path::new(other)), "{other}");
    }
}

#[test]
fn a_device_that_has_got_the_name_of_a_dead_one_is_another() {
    let dead = Which { sequence: 37, boot: BOOT.to_owned() };
    assert!(!dead.is_over(BOOT, Some(37)), "it is there still");
    assert!(!dead.is_over(BOOT, None), "it was stopped, and somebody has it open");
    assert!(dead.is_over(BOOT, Some(38)), "its number was given to a later one");
    assert!(dead.is_over("another", Some(37)) && dead.is_over("another", None));
    let by_path = DeadDevice::counted(Path::new("/dev/ublkb0"), None);
    assert!(!by_path.is_replaced(), "older software has noted no more");
}

#[test]
fn a_device_of_any_kind_is_known_by_what_the_kernel_counts() {
    let names = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let shown = |name: &str| loop_device::shown_sequence_of(name);
    let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let Some(name) = names.find(|name| !name.starts_with("loop") && shown(name).is_some()) else {
        eprintln!("skipped: the kernel shows no block device, or does not count them");
        return;
    };
    let path = Path::new("/dev").join(&name);
    let now = DeadDevice::now(&path);
    assert!(now.which.is_some() && !now.is_replaced());
    let before = DeadDevice::counted(&path, shown(&name).map(|sequence| sequence.wrapping_sub(1)));
    assert!(before.is_replaced());
}
