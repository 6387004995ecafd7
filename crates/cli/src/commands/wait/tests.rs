use super::*;
use crate::output::volume::tests::volume;

#[test]
fn a_rebuild_is_worth_waiting_for() {
    assert_eq!(hopeless(&volume()), None);
}

#[test]
fn a_volume_that_nobody_rebuilds_is_not_worth_waiting_for() {
    let detached = VolumeStatus { state: VolumeState::Detached, ..volume() };
    assert_eq!(hopeless(&detached), Some(Obstacle::NotAttached { stopped: false }));
    let failure = hopeless(&detached).unwrap().failure(&detached);
    assert_eq!(failure.exit, Exit::Degraded);
    assert!(failure.remedy.contains("evenkeel attach music"), "{}", failure.remedy);
}

#[test]
fn a_faulty_replica_waits_for_a_command() {
    let mut music = volume();
    let faulty = &mut music.mirrors[0].replicas[1];
    faulty.state = ReplicaState::Faulty;
    faulty.reason = Some("its disk is full".into());
    let id = faulty.id.clone();
    let failure = hopeless(&music).unwrap().failure(&music);
    assert_eq!(failure.why, "the replica on n2:fast is faulty: its disk is full");
    assert!(failure.remedy.contains("replica replace music n2:fast"), "{}", failure.remedy);
    // A spare is rebuilt in its place: that ends by itself.
    music.mirrors[0].replicas[2].instead_of = Some(id);
    assert_eq!(hopeless(&music), None);
}
