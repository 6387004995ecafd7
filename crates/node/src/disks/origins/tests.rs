use std::fs::File;
use std::path::PathBuf;

use evenkeel_format::{Superblock, SuperblockCopy};

use super::super::Disks;
use super::super::tests::{Place, new, node, place};
use super::*;

/// Disks with a replica, which list an incarnation as after its first session; they are closed.
/// Returns its file.
fn with_replica(place: &Place) -> PathBuf {
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    disks.add(&place.disk, None, false).unwrap();
    let mut new = new(1 << 20);
    new.superblock.incarnations = Incarnations::of([random_incarnation()]);
    let path = disks.create_replica("disk1", &new).unwrap().path;
    disks.remember_files();
    path
}

/// The incarnations that the replica lists when the disks are opened.
fn listed(place: &Place) -> Incarnations {
    let (disks, opened) = Disks::open(place.state.clone(), node()).unwrap();
    assert_eq!(opened.len(), 1, "{:?}", disks.list());
    disks.remember_files();
    opened[0].newest.superblock.incarnations
}

#[test]
fn a_copy_in_the_place_of_a_file_lists_no_incarnation_that_was_named() {
    let place = place();
    let path = with_replica(&place);
    let named = listed(&place);
    let aside = path.with_extension("backup");
    fs::copy(&path, &aside).unwrap();
    fs::remove_file(&path).unwrap();
    fs::rename(&aside, &path).unwrap();
    let disowned = listed(&place);
    assert!(!disowned.know_all(&named), "{disowned:?}");
    // That is so for good, and done once: the volume admits it in the meantime.
    assert_eq!(listed(&place), disowned);
    let copies = [SuperblockCopy::A, SuperblockCopy::B].map(|copy| {
        let bytes = replica_file::read_copy(&File::open(&path).unwrap(), copy.offset());
        Superblock::decode(&bytes).unwrap().incarnations
    });
    assert_eq!(copies, [disowned; 2], "should one be damaged, the other one counts");
}

#[test]
fn a_file_that_was_moved_and_moved_back_is_the_same() {
    let place = place();
    let path = with_replica(&place);
    let named = listed(&place);
    let aside = place.disk.with_file_name("aside");
    fs::rename(&path, &aside).unwrap();
    let (_, opened) = Disks::open(place.state.clone(), node()).unwrap();
    assert!(opened.is_empty());
    fs::rename(&aside, &path).unwrap();
    assert_eq!(listed(&place), named);
}

#[test]
fn of_a_copy_of_the_whole_directory_nothing_is_concluded() {
    let place = place();
    let path = with_replica(&place);
    let named = listed(&place);
    let aside = place.disk.with_file_name("aside");
    fs::rename(&place.disk, &aside).unwrap();
    fs::create_dir(&place.disk).unwrap();
    for file in [path.file_name().unwrap().to_str().unwrap(), MARKER] {
        fs::copy(aside.join(file), place.disk.join(file)).unwrap();
    }
    assert_eq!(listed(&place), named);
    // From then on it is known.
    fs::rename(aside.join(path.file_name().unwrap()), &path).unwrap();
    assert_ne!(listed(&place), named);
}

#[test]
fn of_a_file_that_was_never_seen_nothing_is_concluded() {
    let place = place();
    let path = with_replica(&place);
    let named = listed(&place);
    fs::remove_file(place.state.join(FILE)).unwrap();
    let aside = path.with_extension("backup");
    fs::copy(&path, &aside).unwrap();
    fs::rename(&aside, &path).unwrap();
    assert_eq!(listed(&place), named);
}

#[test]
fn what_cannot_be_saved_is_saved_later() {
    let place = place();
    with_replica(&place);
    let (disks, _opened) = Disks::open(place.state.clone(), node()).unwrap();
    let saved = place.state.join(FILE);
    fs::remove_file(&saved).unwrap();
    fs::create_dir(&saved).unwrap();
    disks.create_replica("disk1", &new(1 << 20)).unwrap();
    disks.remember_files();
    fs::remove_dir(&saved).unwrap();
    disks.remember_files();
    let origins: BTreeMap<String, Origin> = place.state.load(FILE).unwrap().unwrap();
    assert_eq!(origins.len(), 2);
}
