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

    let mut reported = Vec::new();
    clean(parent.path(), |path| reported.push(path.to_owned())).unwrap();

    assert_eq!(reported, std::slice::from_ref(&dead));
    assert!(!dead.exists());
    assert!(living.path().exists());
    assert!(parent.path().join("other").exists());
}

#[test]
fn what_others_put_under_such_a_name_is_neither_used_nor_opened() {
    let parent = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let link = parent.path().join(format!("{PREFIX}1"));
    std::os::unix::fs::symlink(elsewhere.path(), &link).unwrap();
    fs::write(elsewhere.path().join("data"), "somebody's").unwrap();
    let taken = parent.path().join(format!("{PREFIX}{}", std::process::id()));
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join(LOCK), "somebody's").unwrap();

    assert!(Scratch::create(parent.path()).is_err());
    assert_eq!(fs::read_to_string(taken.join(LOCK)).unwrap(), "somebody's");
    fs::remove_dir_all(&taken).unwrap();
    clean(parent.path(), |path| panic!("{} is removed", path.display())).unwrap();
    assert!(link.is_symlink() && elsewhere.path().join("data").exists());

    // Of another user: only root can make such a one.
    if rustix::process::geteuid().is_root() {
        let others = parent.path().join(format!("{PREFIX}2"));
        fs::create_dir(&others).unwrap();
        std::os::unix::fs::chown(&others, Some(65534), Some(65534)).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            others.join(LOCK),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o666),
            0,
        )
        .unwrap();
        clean(parent.path(), |path| panic!("{} is removed", path.display())).unwrap();
        assert!(others.exists());
    }
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
