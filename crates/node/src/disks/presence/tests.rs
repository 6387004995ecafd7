use std::fs;

use evenkeel_api::ErrorCode;
use evenkeel_api::types::DiskState;

use super::super::tests::{Place as Directories, new, node, place};
use super::*;
use crate::disks::states::{EntryState, Hold, Retry, Trouble};
use crate::disks::{Disks, OpenReplica, Unserved};
use crate::keyed_lock::Recall;

fn with_replica(place: &Directories) -> (Disks, OpenReplica) {
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    disks.add(&place.disk, None, false).unwrap();
    let made = disks.create_replica("disk1", &new(1 << 20)).unwrap();
    (disks, made)
}

fn look(disks: &Disks) {
    disks.looks().begin().into_iter().for_each(|look| {
        disks.looks().note_seen(look.carry_out());
    });
}

#[test]
fn a_file_that_was_deleted_in_use_is_gone_and_one_that_is_put_back_is_not() {
    let place = place();
    let (disks, made) = with_replica(&place);
    let replica = made.newest.superblock.replica;
    let aside = place.disk.join("aside");
    look(&disks);
    assert_eq!(disks.looks().file_gone(replica), None);

    fs::rename(&made.path, &aside).unwrap();
    look(&disks);
    let why = disks.looks().file_gone(replica).unwrap();
    assert!(why.starts_with("disk disk1 of node alpha: there is no file at /"), "{why}");
    assert_eq!(disks.why_not_served(replica), None, "the open file is served still");
    assert!(disks.is_open(replica));
    let listed = &disks.list()[0];
    assert_eq!((listed.state, listed.problem.as_ref()), (DiskState::Serving, None), "the disk is");
    assert!(listed.replicas[0].file_gone && listed.replicas[0].problem.is_some());
    assert_eq!(disks.looks().files_gone().len(), 1);

    fs::copy(&aside, &made.path).unwrap();
    look(&disks);
    let why = disks.looks().file_gone(replica).unwrap();
    assert!(why.contains("another file is at /"), "a copy is what was written until then: {why}");
    let length = fs::metadata(&made.path).unwrap().len();
    let error = disks.make_space(replica, 4 << 20, Recall::default()).unwrap_err();
    assert_eq!(error.code, ErrorCode::ReplicaUnusable);
    assert_eq!(fs::metadata(&made.path).unwrap().len(), length, "another file is made longer");

    fs::rename(&aside, &made.path).unwrap();
    look(&disks);
    assert_eq!((disks.looks().file_gone(replica), disks.looks().files_gone()), (None, Vec::new()));
    assert_eq!(disks.list()[0].replicas[0].problem, None);
}

#[test]
fn a_file_of_a_stopped_volume_is_looked_for_as_well() {
    let place = place();
    let (disks, made) = with_replica(&place);
    let (volume, replica) = (made.newest.superblock.volume, made.newest.superblock.replica);
    let is_gone = || matches!(disks.why_not_served(replica), Some(Unserved::Gone(_)));
    let aside = place.disk.join("aside");
    disks.stop(volume).unwrap();
    // As the engine does before that.
    let OpenReplica { path, file, .. } = made;
    drop(file);
    disks.close_replica(replica);
    look(&disks);
    assert!(matches!(disks.why_not_served(replica), Some(Unserved::Stopped(_))));
    assert!(disks.is_closed(replica) && disks.list()[0].replicas[0].problem.is_some());

    fs::rename(&path, &aside).unwrap();
    look(&disks);
    assert!(is_gone() && disks.is_closed(replica));
    assert_eq!(disks.looks().file_gone(replica), None, "nobody writes to it");
    // A copy is as good while nobody does.
    fs::copy(&aside, &path).unwrap();
    look(&disks);
    assert!(!is_gone());
    fs::remove_file(&path).unwrap();

    // Assembled, it is not served, and nothing but its file brings it back.
    disks.reopen(volume).unwrap().into_iter().for_each(|probe| drop(disks.open_again(probe)));
    assert!(is_gone());
    fs::rename(&aside, &path).unwrap();
    let later = Instant::now() + Duration::from_secs(60);
    let opened: Vec<_> = disks.due(later).into_iter().flat_map(|p| disks.open_again(p)).collect();
    assert_eq!((opened.len(), disks.why_not_served(replica)), (1, None));
}

#[test]
fn another_name_of_a_file_is_told_while_it_is_there() {
    let place = place();
    let (disks, made) = with_replica(&place);
    let warning = || disks.list().remove(0).replicas.remove(0).warning;
    let backup = place.disk.with_file_name("backup");
    fs::hard_link(&made.path, &backup).unwrap();
    look(&disks);
    assert!(warning().unwrap().contains("has another name"));
    fs::remove_file(&backup).unwrap();
    look(&disks);
    assert_eq!(warning(), None);
}

#[test]
fn a_disk_that_is_not_at_its_path_is_absent_and_nothing_is_made_there() {
    let place = place();
    let (disks, made) = with_replica(&place);
    let replica = made.newest.superblock.replica;
    let aside = place.disk.with_file_name("aside");
    fs::rename(&place.disk, &aside).unwrap();
    look(&disks);
    let absent = |why: &str| {
        let listed = disks.list().remove(0);
        assert_eq!(listed.state, DiskState::Absent);
        assert!(listed.problem.unwrap().starts_with(why));
        assert!(disks.looks().file_gone(replica).unwrap().contains(why));
        let error = disks.create_replica("disk1", &new(1 << 20)).unwrap_err();
        assert!(error.why.starts_with(why), "{error}");
    };
    absent("there is no directory at /");
    fs::create_dir(&place.disk).unwrap();
    look(&disks);
    absent("another directory is at /");
    assert_eq!(fs::read_dir(&place.disk).unwrap().count(), 0, "made in what is no disk");

    fs::remove_dir(&place.disk).unwrap();
    fs::rename(&aside, &place.disk).unwrap();
    look(&disks);
    assert_eq!(disks.list()[0].state, DiskState::Serving);
    assert_eq!(disks.looks().file_gone(replica), None);
    disks.create_replica("disk1", &new(1 << 20)).unwrap();
}

/// Nobody has looked since it was exchanged: whoever makes a replica does.
#[test]
fn nothing_is_made_in_what_was_put_in_a_disks_place_just_now() {
    let place = place();
    let (disks, _made) = with_replica(&place);
    fs::rename(&place.disk, place.disk.with_file_name("aside")).unwrap();
    fs::create_dir(&place.disk).unwrap();
    let error = disks.create_replica("disk1", &new(1 << 20)).unwrap_err();
    assert!(error.why.contains("another directory is at"), "{error}");
    assert_eq!(fs::read_dir(&place.disk).unwrap().count(), 0);
}

/// Not all kernels number the disks that appear: what was written and not flushed would count as
/// never without power. The next daemon knows it, too.
#[test]
fn a_device_that_was_pulled_is_of_another_boot_when_it_is_opened_anew() {
    let place = place();
    let (disks, made) = with_replica(&place);
    let replica = made.newest.superblock.replica;
    let device = || Hold::device(made.file.try_clone().unwrap());
    let mount_after = |state: EntryState| {
        disks.lock()[0].set_state(state);
        disks.close_replica(replica);
        disks.lock()[0].mount()
    };
    let added = disks.lock()[0].mount();
    let first = mount_after(EntryState::Serving(device()));
    assert_eq!(first, added, "it was closed where it was");
    let pulled = Trouble::Absent("it was pulled out".into());
    let second = mount_after(EntryState::Missing(device(), pulled));
    assert_ne!(first, second);
    drop((disks, made));
    let (disks, opened) = Disks::open(place.state.clone(), node()).unwrap();
    assert_eq!((opened[0].mount, disks.lock()[0].mount()), (second, second));
}

/// A thousand replicas on a disk would cost half a million looks in the making.
#[test]
fn whoever_makes_a_replica_looks_at_its_disk_alone() {
    let place = place();
    let (disks, made) = with_replica(&place);
    let replica = made.newest.superblock.replica;
    fs::remove_file(&made.path).unwrap();
    disks.create_replica("disk1", &new(1 << 20)).unwrap();
    assert_eq!(disks.looks().file_gone(replica), None, "its file was looked at");
    look(&disks);
    assert!(disks.looks().file_gone(replica).is_some());
}

#[tokio::test]
async fn what_waits_on_a_disk_is_tried_as_soon_as_the_disk_is_back() {
    let place = place();
    let (disks, _made) = with_replica(&place);
    let aside = place.disk.with_file_name("aside");
    fs::rename(&place.disk, &aside).unwrap();
    look(&disks);
    let retry = Retry::at_once(Instant::now());
    disks.lock()[0].replicas_mut()[0].wait(Trouble::no_answer(), retry);
    let due = disks.until_due();
    tokio::pin!(due);
    let early = tokio::time::timeout(Duration::from_millis(50), &mut due).await;
    assert!(early.is_err(), "its disk is away");
    fs::rename(&aside, &place.disk).unwrap();
    look(&disks);
    tokio::time::timeout(Duration::from_secs(30), due).await.expect("nobody is told");
    assert_eq!(disks.due(Instant::now()).len(), 1);
}

/// The engine's events ask for the disk of a replica: they must not wait for a path.
#[test]
fn nobody_waits_for_a_disk_whose_path_hangs_while_a_replica_is_made() {
    let place = place();
    let (disks, made) = with_replica(&place);
    let (replica, patience) = (made.newest.superblock.replica, Duration::from_secs(30));
    std::thread::scope(|scope| {
        let (answers, hangs) = std::sync::mpsc::channel::<()>();
        let (began, begins) = std::sync::mpsc::channel();
        let looks = disks.looks();
        scope.spawn(move || {
            looks.look_by("disk1", |look| {
                began.send(()).unwrap();
                hangs.recv_timeout(patience).expect("somebody waits for the path");
                look.carry_out()
            });
        });
        begins.recv().unwrap();
        assert_eq!(disks.disk_of(replica).as_deref(), Some("disk1"));
        answers.send(()).unwrap();
    });
}

#[test]
fn a_path_that_hangs_costs_one_look_and_is_told() {
    let place = place();
    let (disks, _made) = with_replica(&place);
    let mut hanging = disks.looks().begin();
    assert_eq!(hanging.len(), 1);
    assert_eq!(disks.looks().begin().len(), 0, "one at a time");
    assert_eq!(disks.list()[0].state, DiskState::Serving, "it has just begun");
    let long_ago = Instant::now().checked_sub(Duration::from_secs(11)).unwrap();
    let under_way = Arc::downgrade(&hanging[0].under_way);
    disks.lock()[0].begin_look(LastLook(Some((under_way, long_ago))));
    let listed = disks.list().remove(0);
    assert_eq!(listed.state, DiskState::Failing);
    assert!(listed.problem.unwrap().contains("has not answered for 1"));

    disks.looks().note_seen(hanging.remove(0).carry_out());
    assert_eq!(disks.list()[0].state, DiskState::Serving);
    assert_eq!(disks.looks().begin().len(), 1);
}
