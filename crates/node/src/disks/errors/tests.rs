use evenkeel_core::ReplicaId;

use super::super::Disks;
use super::super::tests::{new, node, place};
use super::*;

#[test]
fn an_error_of_a_disk_is_told_with_its_volume_until_the_replica_is_opened_anew_and_seldom_logged() {
    let place = place();
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    disks.add(&place.disk, None, false).unwrap();
    let made = disks.create_replica("disk1", &new(1 << 20)).unwrap();
    let superblock = &made.newest.superblock;
    let reported = |disks: &Disks| disks.list()[0].replicas[0].warning.clone();
    assert_eq!(reported(&disks), None);
    let now = Instant::now();
    let note = |replica, kind, after| {
        let line = disks.in_engine().note_error(
            replica,
            kind,
            "Input/output error (os error 5)",
            now + after,
        );
        line.map(|left_out| left_out.to_string())
    };
    let (first, second) = (Some(String::new()), Duration::from_secs(1));
    assert_eq!(note(superblock.replica, Kind::Write, Duration::ZERO), first);
    let warning = reported(&disks).unwrap();
    let begins = format!("the disk last reported an error to volume {} at 20", superblock.name);
    assert!(warning.starts_with(&begins), "{warning}");
    assert!(warning.ends_with(" UTC: Input/output error (os error 5)"), "{warning}");
    // Of one that is not here nothing is remembered.
    assert_eq!(note(ReplicaId(!superblock.replica.0), Kind::Write, Duration::ZERO), first);
    assert_eq!(reported(&disks), Some(warning));
    // The log does not fill with it.
    assert_eq!(note(superblock.replica, Kind::Write, second), None);
    assert_eq!(note(superblock.replica, Kind::SaveView, second), first, "another kind is news");
    assert_eq!(note(superblock.replica, Kind::Write, PERIOD - second), None);
    let line = note(superblock.replica, Kind::Write, PERIOD).unwrap();
    assert_eq!(line, " (2 lines about such errors of this disk were left out)");
    assert_eq!(note(superblock.replica, Kind::Write, PERIOD + second), None);
    drop((made, disks));
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    assert_eq!(reported(&disks), None);
}
