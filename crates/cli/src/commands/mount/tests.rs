use std::path::Path;

use super::*;

pub fn args(directory: &Path) -> MountArgs {
    let (name, directory) = ("music".into(), directory.to_owned());
    MountArgs { name, directory, mkfs: None, options: None, beside_exports: false }
}

/// A node whose daemon knows so much of requests.
pub fn node(revision: u32) -> NodeStatus {
    serde_json::from_value(serde_json::json!({
        "id": "1", "name": "n1", "cluster": "c", "software": "0.1.0", "revision": revision,
        "pid": 1, "started": 0, "addresses": [], "authentication": "none",
        "coordinator": {"here": true, "reachable": true, "message": ""}, "workers": 1,
        "memory": {"per_volume": 0, "buffers": 0, "buffers_used": 0}, "disks": 0, "replicas": 0,
        "attached": [], "warnings": [],
    }))
    .unwrap()
}

#[test]
fn nothing_is_begun_with_a_daemon_that_could_not_end_it() {
    let refuse = |node: &NodeStatus| refuse_older(node, "volume `music` is not unmounted", RESTART);
    assert!(refuse(&node(NEEDED)).is_ok());
    let failure = refuse(&node(0)).unwrap_err();
    assert_eq!(failure.remedy, "restart the daemon (systemctl restart evenkeel)");
    assert_eq!(failure.what, "volume `music` is not unmounted");
    assert!(failure.why.contains("node n1 (0.1.0) is older than this command"), "{}", failure.why);
    assert!(failure.why.ends_with("nothing was done"), "{}", failure.why);
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

#[test]
fn what_is_mounted_there_already_is_what_was_asked_for() {
    let mounts =
        [Mount { source: "/dev/loop903".into(), point: "/srv/music".into(), kind: "xfs".into() }];
    let there = |directory: &str, device: &str| {
        mounted_there(&args(Path::new(directory)), Path::new(device), &mounts)
    };
    assert_eq!(there("/srv/music", "/dev/loop903"), Ok(Some("xfs".into())));
    assert_eq!(there("/srv/music", "/dev/loop1"), Ok(None));
    let failure = there("/srv/other", "/dev/loop903").unwrap_err();
    assert_eq!(failure.why, "it is mounted on /srv/music already");
    assert_eq!(failure.exit, Exit::Unsafe);
}
