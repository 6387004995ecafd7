use super::*;

#[test]
fn mounts_are_read_from_mountinfo() {
    let text = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n\
        37 35 0:9 / /srv/a\\040b rw shared:1 master:2 - xfs /dev/loop3 rw\n\
        not a mount\n";
    let expected = [
        Mount { source: "/dev/root".into(), point: "/mnt2".into(), kind: "ext3".into() },
        Mount { source: "/dev/loop3".into(), point: "/srv/a b".into(), kind: "xfs".into() },
    ];
    assert_eq!(parse_mountinfo(text), expected);
}

#[test]
fn a_program_that_fails_says_why() {
    let failure = run("ls", &[OsStr::new("/no/such/thing")]).unwrap_err();
    assert_eq!(failure.what, "`ls /no/such/thing` failed");
    assert!(failure.why.contains("No such file"), "{failure:?}");
    let failure = run("no-such-program", &[]).unwrap_err();
    assert_eq!(failure.remedy, "install no-such-program");
}

#[test]
fn this_process_is_alive() {
    assert!(is_alive(rustix::process::getpid()));
    assert!(has_program("ls"));
    assert!(!has_program("no-such-program"));
}

#[test]
fn only_nodes_of_the_directory_are_found() {
    let is = |line: &[u8]| is_node_command(line, Path::new("/tmp/quick"));
    assert!(is(b"/bin/evenkeel\0node\0run\0--config\0/tmp/quick/n1/evenkeel.toml\0"));
    assert!(!is(b"/bin/evenkeel\0node\0run\0--config\0/tmp/quicker/evenkeel.toml\0"));
    assert!(!is(b"/bin/evenkeel\0quickstart\0--scratch\0/tmp/quick\0"));
    assert!(!is(b"less\0/tmp/quick/n1/node.log\0"));
}

#[test]
fn who_uses_a_directory_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("held");
    assert_eq!(users_of(&path), Vec::<String>::new());
    let held = fs::File::create(&path).unwrap();
    let users = users_of(directory.path());
    let own = format!("(process {})", std::process::id());
    assert!(users.iter().any(|user| user.ends_with(&own)), "{users:?}");
    drop(held);
}
