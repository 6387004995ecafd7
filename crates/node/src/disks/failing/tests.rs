use std::collections::BTreeSet;

use evenkeel_api::types::DiskState;
use evenkeel_core::BootId;

use super::super::presence::{Due, Look};
use super::super::states::KnownState;
use super::super::tests::{new, node, place};
use super::super::{Disks, Found, Risk, Unserved};
use super::*;
use crate::state::lock_file;

/// What the disk list says of the only disk.
fn listed(disks: &Disks) -> (DiskState, Option<String>) {
    let disk = disks.list().remove(0);
    (disk.state, disk.problem)
}

#[test]
fn a_disk_is_let_go_of_after_two_looks_that_failed_and_opened_when_it_answers() {
    let place = place();
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    disks.add(&place.disk, None, false).unwrap();
    let made = disks.create_replica("disk1", &new(1 << 20)).unwrap();
    let superblock = made.newest.superblock.clone();
    let is_locked = || lock_file(&place.disk.join(".evenkeel.lock")).unwrap().is_err();
    let serial = disks.lock()[0].serial();
    let look = |fails| {
        let looks = disks.looks().begin();
        looks.into_iter().find_map(|look| disks.looks().note_seen(look.carried_out(fails)))
    };
    assert_eq!((look(true), look(false), look(true)), (None, None, None), "one error may pass");
    assert_eq!(disks.failing().served_of(serial), []);
    assert_eq!(look(true), Some(Due::LetGo(serial)));
    assert_eq!(disks.failing().served_of(serial), [(superblock.volume, superblock.replica)]);

    assert!(is_locked());
    let was = made.boot(BootId(7));
    drop(made);
    disks.failing().let_go(serial, &[superblock.replica]);
    assert!(!is_locked(), "nothing of it is open any more");
    let (state, problem) = listed(&disks);
    assert_eq!(state, DiskState::Failing);
    assert!(problem.unwrap().contains("mount it again"));
    assert!(!disks.is_open(superblock.replica));
    disks.failing().let_go(serial, &[superblock.replica]);
    // It is removed if what is on it is of no use any more.
    let closed = disks.closed_on("disk1");
    assert_eq!(closed, [(superblock.replica, superblock.volume)]);
    disks.refuse_removal("disk1", &BTreeSet::new()).unwrap_err();
    disks.refuse_removal("disk1", &BTreeSet::from([superblock.replica])).unwrap();

    let due = disks.due(Instant::now() + std::time::Duration::from_secs(1));
    let opened: Vec<_> = due.into_iter().flat_map(|probe| disks.open_again(probe)).collect();
    assert_eq!(opened.len(), 1, "it is opened when it answers");
    // What was not flushed may be lost: as after a restart of the machine.
    let machine = BootId(7);
    let now = opened[0].boot(machine);
    assert_ne!(now, was);
    assert_eq!(listed(&disks), (DiskState::Serving, None));
    assert_eq!(look(true), None, "what failed before does not count");
    assert_eq!(disks.closed_on("disk1"), []);
    disks.refuse_removal("disk1", &BTreeSet::from([superblock.replica])).unwrap_err();
    let beside = disks.create_replica("disk1", &new(1 << 20)).unwrap();
    assert_eq!(beside.boot(machine), now, "a replica that is made there is of the same mount");
    drop((beside, opened, disks));
    // A restart of the daemon loses nothing.
    let (_disks, opened) = Disks::open(place.state.clone(), node()).unwrap();
    let boots: Vec<_> = opened.iter().map(|replica| replica.boot(machine)).collect();
    assert_eq!(boots, [now, now]);
}

/// The daemon is killed before it has opened the disk again: the next one has lost the same.
#[test]
fn the_next_daemon_knows_that_a_disk_was_let_go_of() {
    let place = place();
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    disks.add(&place.disk, None, false).unwrap();
    let made = disks.create_replica("disk1", &new(1 << 20)).unwrap();
    let (replica, serial) = (made.newest.superblock.replica, disks.lock()[0].serial());
    let was = made.boot(BootId(7));
    (0..LOOKS).for_each(|_| disks.lock()[0].failed_looks_mut().note(true, false));
    drop(made);
    disks.failing().let_go(serial, &[replica]);
    disks.remember_mounts();
    assert!(!disks.lock()[0].is_unsaved());
    drop(disks);
    let (_disks, opened) = Disks::open(place.state.clone(), node()).unwrap();
    assert_ne!(opened[0].boot(BootId(7)), was);
}

#[test]
fn what_is_being_made_is_waited_for() {
    let place = place();
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    disks.add(&place.disk, None, false).unwrap();
    drop(disks.create_replica("disk1", &new(1 << 20)).unwrap());
    let mut entries = disks.lock();
    let entry = &mut entries[0];
    (0..LOOKS).for_each(|_| entry.failed_looks_mut().note(true, false));
    let before = entry.replicas_mut()[0].set_state(KnownState::Making);
    assert!(!entry.is_failing() && entry.let_go_of_failing().is_none());
    entry.replicas_mut()[0].set_state(before);
    assert!(entry.is_failing());
}

#[test]
fn one_at_a_time_lets_go_of_a_disk() {
    let place = place();
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    disks.add(&place.disk, None, false).unwrap();
    let begins = || {
        let entry = &mut disks.lock()[0];
        entry.failed_looks_mut().note(true, false);
        (entry.begin_let_go(), entry.serial())
    };
    assert!(!begins().0, "one look may pass");
    let (true, serial) = begins() else { panic!("it fails") };
    assert!(!begins().0, "whoever closes it may take long");
    disks.failing().let_go_ended(serial);
    assert!(begins().0, "the replicas could not be closed");
    disks.failing().let_go(serial, &[]);
    disks.failing().let_go_ended(serial);
    assert!(!begins().0, "nothing is open any more");
}

#[test]
fn a_replica_on_a_read_only_file_system_is_closed_unless_somebody_reads_it() {
    let place = place();
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    disks.add(&place.disk, None, false).unwrap();
    let made = disks.create_replica("disk1", &new(1 << 20)).unwrap();
    let superblock = made.newest.superblock.clone();
    let (replica, serial) = (superblock.replica, disks.lock()[0].serial());
    let look = || {
        let looks = disks.looks().begin();
        looks.into_iter().find_map(|look| disks.looks().note_seen(look.carried_out_read_only()))
    };
    assert_eq!(look(), Some(Due::LetGo(serial)), "that does not pass");
    assert_eq!(look(), None, "somebody does so already");
    assert_eq!(disks.failing().served_of(serial), [(superblock.volume, replica)]);
    assert!(disks.failing().can_be_read(serial));
    disks.failing().let_go(serial, &[]);
    disks.failing().let_go_ended(serial);
    assert!(disks.is_open(replica) && disks.why_not_served(replica).is_none());
    let risk = disks.risk(replica).unwrap();
    assert!(risk.is_read_only() && risk.why().contains("its file system is read-only"), "{risk:?}");

    assert_eq!(look(), Some(Due::LetGo(serial)));
    drop(made);
    disks.failing().let_go(serial, &[replica]);
    assert_eq!(listed(&disks).0, DiskState::Failing);
    let why = disks.why_not_served(replica).unwrap();
    assert!(!why.passes(), "somebody has to see to the disk");
    let begins =
        "disk disk1 of node alpha: its file system is read-only, as after an error of its disk";
    assert!(why.to_string().starts_with(begins), "{why}");
    let due = disks.due(Instant::now() + std::time::Duration::from_secs(1));
    let opened: Vec<_> = due.into_iter().flat_map(|probe| disks.open_again(probe)).collect();
    assert_eq!((opened.len(), listed(&disks)), (1, (DiskState::Serving, None)));
    assert_eq!(disks.risk(replica), None);
}

#[test]
fn a_deleted_file_is_told_before_and_after_its_read_only_disk_is_let_go_of() {
    let place = place();
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    disks.add(&place.disk, None, false).unwrap();
    let made = disks.create_replica("disk1", &new(1 << 20)).unwrap();
    let (replica, serial) = (made.newest.superblock.replica, disks.lock()[0].serial());
    std::fs::remove_file(&made.path).unwrap();
    let looks = disks.looks().begin();
    let due =
        looks.into_iter().find_map(|look| disks.looks().note_seen(look.carried_out_read_only()));
    assert_eq!(due, Some(Due::LetGo(serial)));
    let risk = disks.risk(replica).unwrap();
    assert!(matches!(risk, Risk::FileGoneReadOnly(_)), "{risk:?}");
    let (gone, read_only) =
        (risk.why().find("there is no file at /"), risk.why().find("its file system is read-only"));
    assert!(gone.is_some() && gone < read_only, "the worse is said first: {risk:?}");

    drop(made);
    disks.failing().let_go(serial, &[replica]);
    for round in ["closed", "tried again in vain"] {
        let why = disks.why_not_served(replica).unwrap();
        assert!(matches!(why, Unserved::Gone(_)), "{round}: {why:?}");
        let why = why.to_string();
        let (gone, read_only) =
            (why.find("there is no file at /"), why.find("its file system is read-only"));
        assert!(gone.is_some() && read_only.is_some() && gone < read_only, "{round}: {why}");
        let mut entries = disks.lock();
        let entry = &mut entries[0];
        let retry = Retry::first(Instant::now());
        entry.set_state(EntryState::Opening(Trouble::ReadOnly, retry));
        let (serial, record, opened) =
            (entry.serial(), entry.record().clone(), Err(Trouble::ReadOnly));
        drop(entries);
        let found = Found { serial, record, opened, replicas: vec![], glimpsed: vec![] };
        disks.take_up(found);
    }
}

#[test]
fn no_replica_is_called_lost_on_a_disk_that_was_away_and_fails() {
    let place = place();
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    disks.add(&place.disk, None, false).unwrap();
    let made = disks.create_replica("disk1", &new(1 << 20)).unwrap();
    let (replica, serial) = (made.newest.superblock.replica, disks.lock()[0].serial());
    let aside = place.disk.with_extension("aside");
    std::fs::rename(&place.disk, &aside).unwrap();
    let look = |fails| {
        let looks = disks.looks().begin();
        looks.into_iter().find_map(|look| disks.looks().note_seen(look.carried_out(fails)))
    };
    assert_eq!(look(false), None);
    assert!(matches!(disks.risk(replica), Some(Risk::FileGone(_))), "{:?}", disks.risk(replica));
    std::fs::rename(&aside, &place.disk).unwrap();
    assert_eq!((look(true), look(true)), (None, Some(Due::LetGo(serial))));
    drop(made);
    disks.failing().let_go(serial, &[replica]);
    let why = disks.why_not_served(replica).unwrap();
    assert!(!matches!(why, Unserved::Gone(_)), "its file may be there: {why:?}");
}

#[test]
fn of_a_stopped_volumes_replica_it_is_said_that_its_disk_fails() {
    let place = place();
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    disks.add(&place.disk, None, false).unwrap();
    let made = disks.create_replica("disk1", &new(1 << 20)).unwrap();
    let superblock = made.newest.superblock.clone();
    let serial = disks.lock()[0].serial();
    disks.stop(superblock.volume).unwrap();
    drop(made);
    disks.close_replica(superblock.replica);
    let unserved = || disks.why_not_served(superblock.replica).unwrap();
    assert!(matches!(unserved(), Unserved::Stopped(_)));
    let look = |fails: bool| {
        let seen = |look: Look| match fails {
            true => look.carried_out(true),
            false => look.carried_out_read_only(),
        };
        disks.looks().begin().into_iter().find_map(|look| disks.looks().note_seen(seen(look)))
    };
    assert_eq!(look(false), Some(Due::LetGo(serial)));
    assert!(matches!(unserved(), Unserved::Unusable(_)), "{:?}", unserved());
    disks.failing().let_go(serial, &[]);
    assert!(unserved().to_string().contains("its file system is read-only"), "{:?}", unserved());
    let reopen = || {
        let due = disks.due(Instant::now() + std::time::Duration::from_secs(1));
        due.into_iter().flat_map(|probe| disks.open_again(probe)).count()
    };
    assert_eq!(reopen(), 0);
    assert!(matches!(unserved(), Unserved::Stopped(_)), "its disk is in order: {:?}", unserved());
    assert_eq!((look(true), look(true)), (None, Some(Due::LetGo(serial))));
    disks.failing().let_go(serial, &[]);
    assert!(matches!(unserved(), Unserved::Away(_)), "{:?}", unserved());
    assert!(unserved().to_string().contains("reports input/output errors"), "{:?}", unserved());
}
