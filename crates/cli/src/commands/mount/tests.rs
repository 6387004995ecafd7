use super::*;

fn args(directory: &Path) -> MountArgs {
    let directory = directory.to_owned();
    MountArgs { name: "music".into(), directory, mkfs: None, options: None }
}

#[test]
fn what_can_be_no_directory_is_refused_before_anything_is_attached() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    for wrong in [file.clone(), file.join("below")] {
        let failure = refuse_file(&args(&wrong)).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert_eq!(failure.remedy, "name a directory");
    }
    assert!(refuse_file(&args(&directory.path().join("new"))).is_ok());
}

#[test]
fn who_may_not_mount_is_told_what_is_missing() {
    assert!(refuse_without_right("music", true).is_ok());
    let failure = refuse_without_right("music", false).unwrap_err();
    assert!(failure.why.contains("it has not CAP_SYS_ADMIN"), "{}", failure.why);
    assert!(failure.remedy.contains("sudo evenkeel mount music DIRECTORY"), "{}", failure.remedy);
}
