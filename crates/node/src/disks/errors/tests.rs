use super::super::tests::{new, node, place};
use super::*;

#[test]
fn an_error_of_a_disk_is_told_with_its_volume_until_the_replica_is_opened_anew() {
    let place = place();
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    disks.add(&place.disk, None, false).unwrap();
    let made = disks.create_replica("disk1", &new(1 << 20)).unwrap();
    let superblock = &made.newest.superblock;
    let told = |disks: &Disks| disks.list()[0].replicas[0].warning.clone();
    assert_eq!(told(&disks), None);
    disks.note_error(superblock.replica, "Input/output error (os error 5)");
    let warning = told(&disks).unwrap();
    let begins = format!("the disk last reported an error to volume {} at 20", superblock.name);
    assert!(warning.starts_with(&begins), "{warning}");
    assert!(warning.ends_with(" UTC: Input/output error (os error 5)"), "{warning}");
    // Of one that is not here nothing is remembered.
    disks.note_error(ReplicaId(!superblock.replica.0), "of another");
    assert_eq!(told(&disks), Some(warning));
    drop((made, disks));
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    assert_eq!(told(&disks), None);
}
