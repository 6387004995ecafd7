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
