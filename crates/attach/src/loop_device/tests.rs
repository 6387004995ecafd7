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
