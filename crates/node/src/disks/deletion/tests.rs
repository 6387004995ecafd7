use super::super::tests::{Place, new, node, place};
use super::super::*;

fn with_disk(place: &Place) -> Disks {
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    disks.add(&place.disk, None, false).unwrap();
    disks
}

/// Nobody else gets the device of a replica that is still being made: it would be zeroed twice, for
/// two.
#[test]
fn a_replica_that_is_being_made_is_not_deleted() {
    let place = place();
    let disks = with_disk(&place);
    let new = new(1 << 20);
    let replica = new.superblock.replica;
    let site = disks.reserve("disk1", &new, "test").unwrap();
    let error = disks.delete_replica(replica).unwrap_err();
    assert_eq!(error.code, ErrorCode::WrongState);
    assert!(error.why.contains("being made"), "{error}");
    assert!(disks.refuse_unfinished(replica).is_err());
    assert_eq!(disks.list()[0].replicas.len(), 1, "its place is taken still");

    let made = directory::create(&site.path, site.block_size, &new).unwrap();
    drop(disks.finish(replica, Ok(made), "test").unwrap());
    disks.refuse_unfinished(replica).unwrap();
    assert!(disks.delete_replica(replica).unwrap());
    assert_eq!(disks.list()[0].replicas.len(), 0);
}

#[test]
fn what_was_made_and_has_lost_its_place_is_erased() {
    let place = place();
    let disks = with_disk(&place);
    let new = new(1 << 20);
    let site = disks.reserve("disk1", &new, "test").unwrap();
    let made = directory::create(&site.path, site.block_size, &new).unwrap();
    let file = made.path.clone();
    disks.lock()[0].remove_replica(0);
    disks.finish(new.superblock.replica, Ok(made), "test").unwrap_err();
    assert!(!file.exists(), "no list has it");
}

#[test]
fn a_replica_that_cannot_be_deleted_is_as_before() {
    let place = place();
    let disks = with_disk(&place);
    let made = disks.create_replica("disk1", &new(1 << 20)).unwrap();
    let replica = made.newest.superblock.replica;
    let aside = place.disk.with_file_name("aside");
    std::fs::rename(&place.disk, &aside).unwrap();
    // Nothing can be told of the path.
    std::os::unix::fs::symlink(&place.disk, &place.disk).unwrap();
    disks.delete_replica(replica).unwrap_err();
    assert!(disks.is_open(replica));
    std::fs::remove_file(&place.disk).unwrap();
    std::fs::rename(&aside, &place.disk).unwrap();
    assert!(disks.delete_replica(replica).unwrap());
    assert!(!made.path.exists());
}

/// Whatever an administrator has put where the replica's file was: a backup, a directory, another
/// replica's file.
#[test]
fn what_is_not_the_file_of_a_replica_is_not_deleted_in_its_place() {
    for restarted in [false, true] {
        for kind in ["copy", "text", "directory", "link"] {
            let place = place();
            let mut disks = with_disk(&place);
            let made = disks.create_replica("disk1", &new(1 << 20)).unwrap();
            let (replica, file) = (made.newest.superblock.replica, made.path.clone());
            let aside = place.disk.join("aside");
            if restarted {
                disks.remember_files();
                drop(disks);
                // Its file is held: which one it is is known from before.
                disks = Disks::open(place.state.clone(), node()).unwrap().0;
            }
            std::fs::rename(&file, &aside).unwrap();
            drop(made);
            match kind {
                "copy" => drop(std::fs::copy(&aside, &file).unwrap()),
                "text" => std::fs::write(&file, "of an administrator").unwrap(),
                "directory" => std::fs::create_dir(&file).unwrap(),
                _ => std::os::unix::fs::symlink(&aside, &file).unwrap(),
            }
            std::fs::remove_file(&aside).unwrap();
            assert!(disks.delete_replica(replica).unwrap(), "{kind} {restarted}");
            assert!(file.symlink_metadata().is_ok(), "the {kind} was deleted ({restarted})");
            assert_eq!(disks.list()[0].replicas.len(), 0);
        }
    }
}

/// Or a replica that was replaced because its file was gone would be told as gone for good.
#[test]
fn a_replica_whose_file_is_gone_is_forgotten_without_it() {
    let place = place();
    let disks = with_disk(&place);
    let made = disks.create_replica("disk1", &new(1 << 20)).unwrap();
    let replica = made.newest.superblock.replica;
    assert!(disks.newest_view(replica).is_some());
    let aside = place.disk.join("aside");
    std::fs::rename(&made.path, &aside).unwrap();
    assert_eq!(disks.newest_view(replica), None, "nobody has noticed that it is gone");
    for look in disks.looks().begin() {
        disks.looks().note_seen(look.carry_out());
    }
    assert!(disks.looks().file_gone(replica).is_some());
    assert_eq!(disks.newest_view(replica).as_ref(), Some(&made.newest.superblock.view));
    // It comes back in the last moment: this time nobody has asked what is in it.
    std::fs::rename(&aside, &made.path).unwrap();
    assert!(disks.delete_replica(replica).unwrap());
    assert_eq!((disks.list()[0].replicas.len(), disks.looks().files_gone().len()), (0, 0));
    assert!(made.path.exists());
}

#[test]
fn a_closed_replica_of_a_stopped_volume_is_deleted_and_the_volume_forgotten() {
    let place = place();
    let disks = with_disk(&place);
    let made = disks.create_replica("disk1", &new(1 << 20)).unwrap();
    let (replica, volume) = (made.newest.superblock.replica, made.newest.superblock.volume);
    let file = made.path.clone();
    drop(made);
    disks.stop(volume).unwrap();
    disks.close_replica(replica);
    assert!(disks.is_closed(replica) && disks.is_stopped(volume));
    assert!(disks.delete_replica(replica).unwrap());
    assert!(!file.exists() && !disks.is_stopped(volume));
}
