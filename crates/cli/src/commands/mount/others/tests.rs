use super::super::tests::args;
use super::*;
use crate::output::volume::tests::volume;

fn export(kind: &str, node: &str, clients: usize) -> Export {
    serde_json::from_value(serde_json::json!({
        "kind": kind, "node": {"id": "", "name": node}, "socket": null, "tcp": [], "tls": false,
        "read_only": false, "uris": [], "clients": clients,
    }))
    .unwrap()
}

/// The identity of the node that mounts.
const OWN: &str = "1";

/// An export that is to be made on a node, and is not there.
fn wanted(node: &str, kind: &str, tcp: bool, read_only: bool) -> WantedStatus {
    serde_json::from_value(serde_json::json!({
        "node": {"id": node, "name": format!("n{node}")}, "alive": true, "device": false,
        "nbd": kind == "nbd", "nvme": kind == "nvme", "why": "its address is not there yet",
        "exports": [{"kind": kind, "tcp": tcp, "read_only": read_only}],
    }))
    .unwrap()
}

/// Attached here, and nothing else.
fn unused() -> VolumeStatus {
    VolumeStatus { exports: Vec::new(), ..volume() }
}

fn attached_too(volume: &mut VolumeStatus, node: &str) {
    let mut other = volume.primaries[0].clone();
    (other.node.name, other.here) = (node.to_owned(), false);
    volume.primaries.push(other);
}

#[test]
fn a_volume_that_a_client_uses_is_not_mounted() {
    let args = args(Path::new("/srv/music"));
    assert!(refuse_clients(&unused(), &args, OWN).is_ok());
    let by = |exports: Vec<Export>| VolumeStatus { exports, ..unused() };
    let failure = refuse_clients(&by(vec![export("nbd", "n2", 1)]), &args, OWN).unwrap_err();
    let expected = "evenkeel: volume `music` is not mounted on /srv/music\n  \
                    why: an NBD client uses it (n2)\n  \
                    do:  have what uses it end its connection, or if nobody needs it there, detach it: \
                    evenkeel detach music --node n2; then try again\n";
    assert_eq!(failure.render(), expected);
    assert_eq!(failure.exit, Exit::Unsafe);
    let both = by(vec![export("nvme", "n1", 2), export("nbd", "n1", 1)]);
    let failure = refuse_clients(&both, &args, OWN).unwrap_err();
    assert_eq!(failure.why, "2 NVMe hosts use it (n1), and an NBD client uses it (n1)");
    assert!(failure.remedy.contains("evenkeel unexport music --only nvme;"), "{}", failure.remedy);
    // Nobody writes: an export of which nobody has a connection, or that refuses writes.
    let mut reads = export("nbd", "n1", 1);
    reads.read_only = true;
    assert!(refuse_clients(&by(vec![export("nbd", "n1", 0), reads]), &args, OWN).is_ok());
}

/// After a restart of the daemon its hosts connect again by themselves.
#[test]
fn a_volume_that_other_machines_may_write_at_any_time_is_not_mounted_unless_somebody_says_so() {
    let mut args = args(Path::new("/srv/music"));
    let by = |exports: Vec<Export>| VolumeStatus { exports, ..unused() };
    let failure = refuse_clients(&by(vec![export("nvme", "n1", 0)]), &args, OWN).unwrap_err();
    assert_eq!(failure.exit, Exit::Unsafe);
    let why = "it is exported by NVMe (n1), and whoever may use that can write at any time: what two \
               write that don't know of each other is lost";
    assert_eq!(failure.why, why);
    let advice = "end the export and the connection with it: evenkeel unexport music --only nvme; or, if \
                  nobody uses it while the volume is mounted here: evenkeel mount music /srv/music \
                  --beside-exports";
    assert_eq!(failure.remedy, advice);
    let mut tcp = export("nbd", "n1", 0);
    tcp.tcp = vec!["192.0.2.1:10809".into()];
    assert!(refuse_clients(&by(vec![tcp.clone()]), &args, OWN).is_err());
    let mut reads = tcp.clone();
    reads.read_only = true;
    assert!(refuse_clients(&by(vec![reads]), &args, OWN).is_ok());
    args.beside_exports = true;
    assert!(refuse_clients(&by(vec![tcp, export("nvme", "n1", 0)]), &args, OWN).is_ok());
    // It does not mount beside one that is connected now.
    assert!(refuse_clients(&by(vec![export("nvme", "n1", 1)]), &args, OWN).is_err());
}

/// As after a restart of the daemon, before the network is there: its hosts come with it.
#[test]
fn an_export_that_is_to_come_counts_like_one_that_is_there() {
    let mut args = args(Path::new("/srv/music"));
    let with = |on| VolumeStatus { wanted_on: vec![on], ..unused() };
    let failure = refuse_clients(&with(wanted("1", "nvme", true, false)), &args, OWN).unwrap_err();
    let expected = "evenkeel: volume `music` is not mounted on /srv/music\n  \
                    why: it is to be exported by NVMe (n1), and whoever may use that can write at any time: what \
                    two write that don't know of each other is lost\n  \
                    do:  end the export and the connection with it: evenkeel unexport music --only nvme; or, if \
                    nobody uses it while the volume is mounted here: evenkeel mount music /srv/music \
                    --beside-exports\n";
    assert_eq!(failure.render(), expected);
    assert_eq!(failure.exit, Exit::Unsafe);
    assert!(refuse_clients(&with(wanted("1", "nbd", true, false)), &args, OWN).is_err());
    // A daemon of older software does not say how it is meant.
    let mut older = wanted("1", "nbd", false, false);
    older.exports.clear();
    let failure = refuse_clients(&with(older), &args, OWN).unwrap_err();
    assert!(failure.why.starts_with("it is to be exported by NBD (n1), and"), "{}", failure.why);
    // Before the node has attached it again.
    let mut detached = with(wanted("1", "nvme", true, false));
    detached.primaries.clear();
    let failure = refuse_clients(&detached, &args, OWN).unwrap_err();
    assert!(failure.remedy.contains("evenkeel detach music --node n1;"), "{}", failure.remedy);
    // Nobody writes from elsewhere.
    for harmless in [wanted("1", "nvme", true, true), wanted("1", "nbd", false, false)] {
        assert!(refuse_clients(&with(harmless), &args, OWN).is_ok());
    }
    // A mount takes over what a dead node had; a shared volume is exported there when it returns.
    let mut elsewhere = with(wanted("2", "nvme", true, false));
    assert!(refuse_clients(&elsewhere, &args, OWN).is_ok());
    elsewhere.bitmap = VolumeBitmap::Clustered;
    assert!(refuse_clients(&elsewhere, &args, OWN).is_err());
    args.beside_exports = true;
    assert!(refuse_clients(&elsewhere, &args, OWN).is_ok());
    let device = Path::new("/nowhere");
    let failure = refuse_mkfs(&elsewhere, device, Filesystem::Ext4, OWN).unwrap_err();
    let why = "it is to be exported by NVMe (n2): what they have written would be lost";
    assert_eq!(failure.why, why);
}

#[test]
fn no_filesystem_is_made_on_what_somebody_else_has() {
    let device = Path::new("/nowhere");
    assert!(refuse_mkfs(&unused(), device, Filesystem::Ext4, OWN).is_ok());
    let mut reads = export("nbd", "n1", 0);
    reads.read_only = true;
    for (export, why) in [
        (export("nbd", "n2", 0), "it is exported by NBD (n2)"),
        (export("nvme", "n2", 1), "an NVMe host uses it (n2)"),
        (reads, "it is exported by NBD (n1)"),
    ] {
        let volume = VolumeStatus { exports: vec![export], ..unused() };
        let failure = refuse_mkfs(&volume, device, Filesystem::Xfs, OWN).unwrap_err();
        assert_eq!(failure.exit, Exit::Unsafe);
        assert_eq!(failure.what, "no xfs filesystem was made on volume `music`");
        assert_eq!(failure.why, format!("{why}: what they have written would be lost"));
    }
    let mut shared = unused();
    attached_too(&mut shared, "n3");
    let failure = refuse_mkfs(&shared, device, Filesystem::Ext4, OWN).unwrap_err();
    assert!(failure.why.starts_with("it is attached on node n3: "), "{}", failure.why);
    // Also if that node is dead: what it has written is there.
    shared.primaries[1].alive = false;
    assert!(refuse_mkfs(&shared, device, Filesystem::Ext4, OWN).is_err());
}

#[test]
fn nobody_is_advised_to_format_what_others_use() {
    let volume = VolumeStatus { exports: vec![export("nbd", "n1", 0)], ..unused() };
    let failure = carries_nothing_known(&volume, &of(&volume, Path::new("/nowhere"), OWN));
    assert_eq!(failure.exit, Exit::Unsafe);
    let why = "it carries no filesystem that is known here, and it is exported by NBD (n1)";
    assert_eq!(failure.why, why);
    assert!(!failure.render().contains("mkfs"), "{}", failure.render());
}

#[test]
fn an_ordinary_filesystem_is_mounted_on_one_node_at_a_time() {
    let directory = Path::new("/srv");
    let mut shared = unused();
    assert!(refuse_second_mount(&shared, directory, "xfs").is_ok());
    attached_too(&mut shared, "n3");
    let failure = refuse_second_mount(&shared, directory, "xfs").unwrap_err();
    assert_eq!(failure.exit, Exit::Unsafe);
    let why = "it is attached on node n3 too, and xfs may be mounted on one node at a time";
    assert_eq!(failure.why, why);
    assert!(failure.remedy.ends_with("evenkeel detach music --node n3"), "{}", failure.remedy);
    assert!(refuse_second_mount(&shared, directory, "ocfs2").is_ok());
    // One that does not answer may go on when it does.
    shared.primaries[1].alive = false;
    assert!(refuse_second_mount(&shared, directory, "xfs").is_err());
}

#[test]
fn whoever_has_the_device_open_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("device");
    let held = std::fs::File::create(&path).unwrap();
    let users = users_now(&path);
    let own = format!("(process {}) has it open", std::process::id());
    assert!(users.iter().any(|user| user.ends_with(&own)), "{users:?}");
    drop(held);
    assert!(users_now(&path).is_empty());
}

#[test]
fn only_what_nobody_has_in_sight_is_held_by_the_kernel() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("device");
    std::fs::write(&path, "").unwrap();
    assert!(!is_held_by_kernel(&path), "nobody has it");
    let mounts = system::mounts();
    let device = mounts.iter().map(|mount| &mount.source).find(|source| source.starts_with("/dev"));
    if let Some(device) = device {
        assert!(system::has_holder(device) && !is_held_by_kernel(device), "it is mounted");
    }
}
