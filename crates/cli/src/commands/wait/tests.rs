use super::*;
use crate::output::volume::tests::volume;

const IN_SYNC: Goal = Goal::Volume(WaitFor::InSync);

#[test]
fn a_rebuild_is_worth_waiting_for() {
    assert_eq!(hopeless(&volume(), &IN_SYNC), None);
}

#[test]
fn a_volume_that_nobody_rebuilds_is_not_worth_waiting_for() {
    let detached = VolumeStatus { state: VolumeState::Detached, ..volume() };
    assert_eq!(hopeless(&detached, &IN_SYNC), Some(Obstacle::NotAttached { stopped: false }));
    let failure = hopeless(&detached, &IN_SYNC).unwrap().failure(&detached, &IN_SYNC);
    assert_eq!(failure.exit, Exit::Degraded);
    assert!(failure.remedy.contains("evenkeel attach music"), "{}", failure.remedy);
    assert_eq!(hopeless(&detached, &IN_SYNC).unwrap().patience(), Duration::ZERO);
}

#[test]
fn a_detached_volume_is_worth_waiting_for_if_it_only_lacks_a_node_or_is_attached_by_itself() {
    let mut detached = VolumeStatus { state: VolumeState::Detached, ..volume() };
    // A replica that has to be rebuilt is not by a node's coming back.
    detached.health = VolumeHealth::Unreachable;
    detached.mirrors[0].replicas[1].reach = ReplicaReach::Unreachable;
    assert!(hopeless(&detached, &IN_SYNC).is_some());
    let wanted = serde_json::json!([{
        "node": {"id": "", "name": "n2"}, "alive": true, "device": true, "nbd": false, "why": null,
    }]);
    let awaited =
        VolumeStatus { wanted_on: serde_json::from_value(wanted).unwrap(), ..detached.clone() };
    assert_eq!(hopeless(&awaited, &IN_SYNC), None);
    for replica in &mut detached.mirrors[0].replicas {
        replica.state = ReplicaState::InSync;
    }
    assert_eq!(hopeless(&detached, &IN_SYNC), None);
}

#[test]
fn a_faulty_replica_waits_for_a_command() {
    let mut music = volume();
    let faulty = &mut music.mirrors[0].replicas[1];
    faulty.state = ReplicaState::Faulty;
    faulty.reason = Some("its disk is full".into());
    let id = faulty.id.clone();
    let failure = hopeless(&music, &IN_SYNC).unwrap().failure(&music, &IN_SYNC);
    assert_eq!(failure.why, "the replica on n2:fast is faulty: its disk is full");
    assert!(failure.remedy.contains("replica replace music n2:fast"), "{}", failure.remedy);
    // Two of a stripe on one disk: a command that named the disk would be refused.
    let mut stripe = music.clone();
    let twin =
        ReplicaStatus { id: "abcdef0123456789".into(), ..music.mirrors[0].replicas[1].clone() };
    stripe.mirrors[0].replicas.insert(1, twin);
    let failure = hopeless(&stripe, &IN_SYNC).unwrap().failure(&stripe, &IN_SYNC);
    assert!(failure.remedy.contains("replica replace music abcdef01"), "{}", failure.remedy);
    // A spare is rebuilt in its place: that goes on by itself until the spare is in-sync.
    let spare = &mut music.mirrors[0].replicas[2];
    (spare.instead_of, spare.state) = (Some(id), ReplicaState::Rebuilding);
    assert_eq!(hopeless(&music, &IN_SYNC), None);
    music.mirrors[0].replicas[2].state = ReplicaState::InSync;
    assert!(matches!(hopeless(&music, &IN_SYNC), Some(Obstacle::Faulty { .. })));
}

/// Its node alone may mean another one of this volume there.
#[test]
fn a_replica_on_a_disk_without_a_known_name_is_named_so_that_a_command_finds_it() {
    let mut music = volume();
    music.mirrors[0].replicas[1].disk = None;
    let name = |music: &VolumeStatus, at: usize| named(music, &music.mirrors[0].replicas[at]);
    assert_eq!(name(&music, 1), "n2");
    let mut twin = music.mirrors[0].replicas[1].clone();
    (twin.id, twin.disk) = ("abcdef0123456789".into(), Some("slow".into()));
    music.mirrors[0].replicas.push(twin);
    assert_eq!(name(&music, 1), output::phrases::short(&music.mirrors[0].replicas[1].id));
    assert_eq!(name(&music, 3), "abcdef01");
}

#[test]
fn a_replica_whose_file_is_gone_is_not_worth_waiting_for() {
    let mut music = volume();
    let gone = &mut music.mirrors[0].replicas[1];
    gone.state = ReplicaState::Stale;
    gone.unserved = Some("its file was deleted".into());
    // Its disk may come back, as far as is known.
    assert_eq!(hopeless(&music, &IN_SYNC), None);
    music.mirrors[0].replicas[1].lost = true;
    let failure = hopeless(&music, &IN_SYNC).unwrap().failure(&music, &IN_SYNC);
    assert_eq!(failure.exit, Exit::Degraded);
    assert_eq!(failure.why, "the replica on n2:fast does not come back: its file was deleted");
    let expected = "put its disk in order, and mount it again if it was unmounted; else take another one in its place: evenkeel replica replace music n2:fast (if no other disk has space for it, first: evenkeel disk add)";
    assert_eq!(failure.remedy, expected);
    assert_eq!(hopeless(&music, &Goal::Volume(WaitFor::Degraded)), None);
}

#[test]
fn no_replacement_is_advised_where_there_is_nothing_to_copy_from() {
    let mut music = volume();
    for replica in &mut music.mirrors[0].replicas {
        replica.reach = ReplicaReach::Unreachable;
    }
    let bad = &mut music.mirrors[0].replicas[1];
    bad.state = ReplicaState::Faulty;
    let advice =
        |music: &VolumeStatus| hopeless(music, &IN_SYNC).unwrap().failure(music, &IN_SYNC).remedy;
    let faulty = advice(&music);
    assert!(faulty.contains("evenkeel replica re-add music n2:fast; no other in-sync"), "{faulty}");
    assert!(!faulty.contains("replace"), "{faulty}");
    let bad = &mut music.mirrors[0].replicas[1];
    (bad.state, bad.lost, bad.unserved) = (ReplicaState::InSync, true, Some("it is gone".into()));
    let lost = advice(&music);
    assert!(
        lost.ends_with("; no other in-sync replica answers from which a new one could be copied")
    );
    assert!(!lost.contains("replace"), "{lost}");
    music.mirrors[0].replicas[0].reach = ReplicaReach::Answers;
    assert!(advice(&music).contains("evenkeel replica replace music n2:fast"));
}

#[test]
fn one_replica_is_awaited_whatever_others_are() {
    let mut music = volume();
    let replicas = &mut music.mirrors[0].replicas;
    replicas[1].state = ReplicaState::Faulty;
    replicas[2].state = ReplicaState::Stale;
    replicas[2].reason = Some("it lacks writes".into());
    let goal = Goal::Replica(replicas[2].id.clone());
    assert!(hopeless(&music, &IN_SYNC).is_some());
    assert_eq!(hopeless(&music, &goal), None);
    assert!(!holds(&music, &goal));
    let late = timed_out(&music, &goal, Duration::from_secs(60));
    let place = music.mirrors[0].replicas[2].place();
    let expected = format!("the replica on {place} of volume `music` is not in-sync after 1 min");
    assert_eq!((late.what, late.why.as_str()), (expected, "it lacks writes"));
    music.mirrors[0].replicas[2].state = ReplicaState::InSync;
    music.mirrors[0].replicas[2].reach = ReplicaReach::Answers;
    assert!(holds(&music, &goal) && !holds(&music, &IN_SYNC));
}

#[test]
fn a_replica_whose_deleted_file_is_open_still_is_told_to_be_replaced() {
    let mut music = volume();
    let gone = &mut music.mirrors[0].replicas[1];
    (gone.reach, gone.lost) = (ReplicaReach::FileGone, true);
    gone.reason = Some("it is in-sync, and gone when its node's daemon ends".into());
    let failure = hopeless(&music, &IN_SYNC).unwrap().failure(&music, &IN_SYNC);
    assert!(
        failure.why.starts_with("the replica on n2:fast does not come back: it is in-sync, and")
    );
    assert!(!failure.remedy.contains("re-add"), "{}", failure.remedy);
}

/// All data is there: the node says so, and the spare is not waited for.
#[test]
fn a_spare_that_is_away_is_not_waited_for() {
    let mut music = VolumeStatus { health: VolumeHealth::Degraded, ..volume() };
    let replicas = &mut music.mirrors[0].replicas;
    (replicas[2].state, replicas[2].reach) = (ReplicaState::Spare, ReplicaReach::Unreachable);
    assert!(!holds(&music, &IN_SYNC));
    music.lacks_only_spares = true;
    assert!(holds(&music, &IN_SYNC));
    assert_eq!(hopeless(&music, &IN_SYNC), None);
    // Another replica is rebuilt meanwhile: that goes on, though the spare's file is gone.
    (music.mirrors[0].replicas[1].state, music.lacks_only_spares) = (ReplicaState::Stale, false);
    music.mirrors[0].replicas[2].lost = true;
    assert_eq!(hopeless(&music, &IN_SYNC), None);
}

#[test]
fn a_replica_that_was_removed_is_not_worth_waiting_for() {
    let failure =
        hopeless(&volume(), &Goal::Replica("gone".into())).unwrap().failure(&volume(), &IN_SYNC);
    assert_eq!(failure.why, "the replica that is waited for was removed from it");
    assert_eq!(failure.exit, Exit::Degraded);
}

#[test]
fn what_only_a_command_brings_on_is_not_worth_waiting_for() {
    let why = |volume: &VolumeStatus| {
        hopeless(volume, &IN_SYNC).map(|obstacle| obstacle.failure(volume, &IN_SYNC).why)
    };
    let mut diverged = volume();
    diverged.mirrors[0].replicas[2].state = ReplicaState::Stale;
    diverged.mirrors[0].replicas[2].cause = Some(ReplicaCause::OtherHistory);
    diverged.mirrors[0].replicas[2].reason = Some("it has diverged".into());
    let expected = "the replica on n3:fast does not come back by itself: it has diverged";
    assert_eq!(why(&diverged).as_deref(), Some(expected));
    let paused = VolumeStatus { rebuild: RebuildRate::Paused, ..volume() };
    assert_eq!(why(&paused).as_deref(), Some("its rebuilds are paused"));
    let mut failing = VolumeStatus { health: VolumeHealth::Degraded, ..volume() };
    failing.mirrors[0].replicas.truncate(1);
    failing.reason = Some("a write has failed: its disk reported an error".into());
    assert_eq!(why(&failing), failing.reason);
    assert!(!holds(&failing, &IN_SYNC));
    // A spare is missing besides: nobody rebuilds onto it what can't be read.
    let mut spare = failing.mirrors[0].replicas[0].clone();
    (spare.state, spare.reach) = (ReplicaState::Spare, ReplicaReach::Unreachable);
    failing.mirrors[0].replicas.push(spare);
    assert_eq!(why(&failing), failing.reason);
}

/// As it is refused if nobody waits.
#[test]
fn a_re_add_onto_a_bad_disk_ends_as_refused() {
    let mut music = volume();
    let faulty = &mut music.mirrors[0].replicas[1];
    (faulty.state, faulty.cause) = (ReplicaState::Faulty, Some(ReplicaCause::NoSpace));
    let goal = Goal::Replica(faulty.id.clone());
    let exit = |volume: &VolumeStatus, goal: &Goal| {
        hopeless(volume, goal).unwrap().failure(volume, goal).exit
    };
    assert_eq!(exit(&music, &goal), Exit::Unsafe);
    // Whoever only looks is told its state.
    assert_eq!(exit(&music, &IN_SYNC), Exit::Degraded);
    // An operator has failed it again meanwhile.
    music.mirrors[0].replicas[1].cause = Some(ReplicaCause::Operator);
    assert_eq!(exit(&music, &goal), Exit::Degraded);
}

#[test]
fn what_was_done_before_a_wait_in_vain_is_said() {
    let detached = VolumeStatus { state: VolumeState::Detached, ..volume() };
    let failure = hopeless(&detached, &IN_SYNC).unwrap().failure(&detached, &IN_SYNC);
    let failure = after("added a replica on n3:fast", failure);
    let what = "added a replica on n3:fast; but volume `music` does not become in-sync by itself";
    assert_eq!((failure.what.as_str(), failure.exit), (what, Exit::Degraded));
}

#[test]
fn what_is_still_being_counted_is_no_part_of_all() {
    let mut music = volume();
    let rebuild = music.mirrors[0].replicas[2].rebuild.as_mut().unwrap();
    (rebuild.done, rebuild.total, rebuild.copied) = (1 << 30, 4 << 30, 1 << 30);
    (rebuild.counting, rebuild.measuring, rebuild.rate) = (false, false, 1 << 20);
    let mut second = rebuild.clone();
    let known = Progress::of(&music);
    assert_eq!((known.done, known.total), (1 << 30, 4 << 30));
    assert!(known.reported.starts_with("1G of 4G, 1M/s"), "{known:?}");
    (second.counting, second.done, second.total, second.copied) = (true, 0, 0, 1 << 30);
    music.mirrors[0].replicas[0].rebuild = Some(second);
    let counted = Progress::of(&music);
    assert_eq!((counted.done, counted.total), (0, 1), "no part of nothing, which a bar calls all");
    assert_eq!(counted.reported, "counting what is to be copied, 2G copied");
    for replica in &mut music.mirrors[0].replicas {
        replica.rebuild = None;
    }
    assert_eq!((Progress::of(&music).done, Progress::of(&music).total), (0, 1));
}

/// `replica replace` refuses what is to replace another one itself, and a spare.
#[test]
fn a_replacement_that_fails_is_not_advised_to_be_replaced() {
    let mut music = volume();
    let old = music.mirrors[0].replicas[1].id.clone();
    music.mirrors[0].replicas[1].state = ReplicaState::Faulty;
    let new = &mut music.mirrors[0].replicas[2];
    (new.role, new.instead_of) = (ReplicaRole::Replacement, Some(old));
    assert_eq!(hopeless(&music, &IN_SYNC), None, "it copies");
    // The old one is removed in a moment.
    music.mirrors[0].replicas[2].state = ReplicaState::InSync;
    assert_eq!(hopeless(&music, &IN_SYNC), None);
    let new = &mut music.mirrors[0].replicas[2];
    (new.state, new.reason) = (ReplicaState::Faulty, Some("its disk is full".into()));
    let advice =
        |music: &VolumeStatus| hopeless(music, &IN_SYNC).unwrap().failure(music, &IN_SYNC).remedy;
    assert_eq!(
        advice(&music),
        "when its disk is good again: evenkeel replica re-add music n3:fast; else: evenkeel replica remove music n3:fast, and then, with another disk: evenkeel replica replace music n2:fast --on NODE:DISK"
    );
    music.mirrors[0].replicas.remove(1);
    assert!(
        advice(&music).ends_with("with another disk: evenkeel replica add music --on NODE:DISK")
    );
    music.mirrors[0].replicas[1].role = ReplicaRole::Spare;
    assert!(advice(&music).ends_with("evenkeel replica add music --spare --on NODE:DISK"));
}

#[test]
fn who_stops_a_wait_is_told_that_the_work_goes_on_and_how_to_look_at_it() {
    let failure = || Failure::new("stopped by Ctrl-C", "").exit(Exit::Interrupted);
    let music = VolumeStatus { reason: Some("replica n2:fast: it copies".into()), ..volume() };
    let reported = stopped(failure(), "music", Some(&music), &IN_SYNC);
    let expected = "evenkeel: stopped by Ctrl-C\n  \
                    why: volume `music` is not in-sync yet: replica n2:fast: it copies; only the wait has \
                    ended: what is under way goes on\n  \
                    do:  look at it: evenkeel volume status music; wait again: evenkeel volume status music \
                    --wait in-sync\n";
    assert_eq!(reported.render(), expected);
    assert_eq!(reported.exit, Exit::Interrupted);
    let reported = after("a replica was added on n3:fast", reported);
    assert_eq!(reported.what, "a replica was added on n3:fast; the wait was stopped by Ctrl-C");
    let reported = stopped(failure(), "music", None, &Goal::Volume(WaitFor::Degraded));
    assert_eq!(reported.why, "only the wait has ended: what is under way goes on");
    assert!(reported.remedy.ends_with(" --wait degraded"), "{}", reported.remedy);
}
