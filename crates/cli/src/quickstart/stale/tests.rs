use super::*;

#[test]
fn a_living_quickstart_is_left_alone_and_a_dead_one_is_removed() {
    let parent = tempfile::tempdir().unwrap();
    let living = Scratch::create(parent.path()).unwrap();
    let dead = parent.path().join(format!("{PREFIX}1"));
    fs::create_dir(&dead).unwrap();
    fs::write(dead.join(LOCK), "").unwrap();
    fs::write(dead.join("data"), "left").unwrap();
    fs::write(parent.path().join("other"), "not ours").unwrap();

    let mut told = Vec::new();
    clean(parent.path(), |path| told.push(path.to_owned())).unwrap();

    assert_eq!(told, std::slice::from_ref(&dead));
    assert!(!dead.exists());
    assert!(living.path().exists());
    assert!(parent.path().join("other").exists());
}

#[test]
fn what_is_in_use_is_told_with_its_users_and_what_to_do() {
    let scratch = Path::new("/var/tmp/evenkeel-quickstart-7");
    let mut left = Left { points: vec![scratch.join("mnt")], devices: vec!["/dev/loop900".into()] };
    let failure = left.failure(scratch, |_| vec!["sleep (process 4711)".to_owned()]);
    let expected = "evenkeel: not everything of the quickstart could be removed\n  \
        why: /var/tmp/evenkeel-quickstart-7/mnt is still mounted, in use by sleep (process 4711)\n       \
        the loop device /dev/loop900 goes with it\n  \
        do:  end what uses it, then: umount /var/tmp/evenkeel-quickstart-7/mnt\n       \
        the next `evenkeel quickstart` removes the rest, which is /var/tmp/evenkeel-quickstart-7\n";
    assert_eq!(failure.render(), expected);
    assert_ne!(failure.exit.code(), 0);

    left.points.clear();
    let failure = left.failure(scratch, |_| Vec::new());
    let expected = "the loop device /dev/loop900 is still in use, by whom cannot be seen";
    assert_eq!(failure.why, expected);
}

#[test]
fn links_to_devices_of_the_quickstart_are_removed_and_others_stay() {
    let directory = tempfile::tempdir().unwrap();
    let scratch = directory.path().join("scratch");
    let links = directory.path().join("links");
    fs::create_dir(&links).unwrap();
    let targets = [("ours", "/dev/loop900"), ("other", "/dev/loop901")];
    for (name, target) in targets {
        std::os::unix::fs::symlink(target, links.join(name)).unwrap();
    }
    std::os::unix::fs::symlink(scratch.join("x"), links.join("below")).unwrap();
    system::remove_links(&links, &scratch, &["/dev/loop900".into()]);
    let names: Vec<_> = fs::read_dir(&links).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["other"]);
}
