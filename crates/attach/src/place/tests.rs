use super::*;

fn place(directory: &Path) -> Place {
    Place { runtime: directory.join("run"), devices: directory.join("dev") }
}

fn record(name: &str) -> Record {
    Record {
        name: name.to_owned(),
        kind: Kind::Loop,
        device: Some(PathBuf::from("/dev/loop3")),
        size: 1 << 30,
        block_size: 512,
        daemon: 1,
        began: 1,
    }
}

#[test]
fn what_is_noted_is_listed_until_it_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let place = place(directory.path());
    assert_eq!(list(&place).unwrap(), Vec::new());
    place.note(&record("b")).unwrap();
    place.note(&record("a.b")).unwrap();
    assert_eq!(list(&place).unwrap(), [record("a.b"), record("b")]);
    place.forget("b").unwrap();
    place.forget("b").unwrap();
    assert_eq!(list(&place).unwrap(), [record("a.b")]);
}

#[test]
fn a_damaged_note_is_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let place = place(directory.path());
    place.note(&record("a")).unwrap();
    fs::write(place.runtime.join("b.json"), b"{\"name\":").unwrap();
    assert_eq!(list(&place).unwrap(), [record("a")]);
}

#[test]
fn the_stable_name_is_pointed_anew() {
    let directory = tempfile::tempdir().unwrap();
    let place = place(directory.path());
    place.link_to("a", Path::new("/dev/loop1")).unwrap();
    place.link_to("a", Path::new("/dev/loop2")).unwrap();
    assert_eq!(place.linked("a").unwrap(), Path::new("/dev/loop2"));
    assert_eq!(fs::read_dir(&place.devices).unwrap().count(), 1);
    place.unlink("a").unwrap();
    assert_eq!(place.linked("a"), None);
}

#[test]
fn directories_are_named_as_the_kernel_names_them() {
    let directory = tempfile::tempdir().unwrap();
    let place = place(directory.path());
    fs::create_dir(directory.path().join("real")).unwrap();
    symlink("real", &place.runtime).unwrap();
    let real = fs::canonicalize(directory.path()).unwrap().join("real");
    assert_eq!(place.directory("a"), real.join("a"));
}

#[test]
fn another_process_with_the_same_number_is_another() {
    assert!(began() > 0);
    let own = Record { daemon: std::process::id(), began: began(), ..record("a") };
    assert!(own.is_own());
    assert!(!Record { began: own.began - 1, ..own }.is_own());
}
