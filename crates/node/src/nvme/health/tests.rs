use evenkeel_core::VolumeId;
use evenkeel_core::primary::PrimaryStatus;
use evenkeel_engine::counters::VolumeCounters;

use super::*;
use crate::disks::tests::superblock;

/// A volume with one replica in this state, of which this was asked.
fn volume(state: ReplicaState, counters: VolumeCounters) -> VolumeStatus {
    let mut view = superblock(8 << 20).view;
    view.mirrors[0].replicas[0].state = state;
    let primary = PrimaryStatus {
        view: Some(view),
        serving: true,
        waiting: None,
        replicas: Vec::new(),
        requests: 0,
        unflushed: false,
        verify: None,
        rewritten: 0,
        is_said_to_be_excluded: false,
    };
    VolumeStatus {
        volume: VolumeId(7),
        primary: Some(primary),
        counters,
        replicas: Vec::new(),
        frontends: Vec::new(),
        links: Vec::new(),
        memory: (0, 0),
    }
}

#[test]
fn a_replica_that_is_not_in_sync_degrades_the_volume() {
    let degraded = |state| of(&volume(state, VolumeCounters::default())).is_degraded;
    assert!(![ReplicaState::InSync, ReplicaState::Spare].into_iter().any(degraded));
    let lacking = [ReplicaState::Stale, ReplicaState::Rebuilding, ReplicaState::Faulty];
    assert!(lacking.into_iter().all(degraded));
}

#[test]
fn what_was_read_and_written_is_counted() {
    let mut counters = VolumeCounters::default();
    counters.kinds[Kind::Read as usize].bytes = 4096;
    counters.kinds[Kind::Write as usize].bytes = 8192;
    let health = of(&volume(ReplicaState::InSync, counters));
    assert_eq!((health.read, health.written), (4096, 8192));
    assert_eq!((health.reads, health.writes, health.media_errors), (0, 0, 0));
}

#[test]
fn a_volume_without_a_view_is_not_called_well() {
    let mut status = volume(ReplicaState::InSync, VolumeCounters::default());
    status.primary = None;
    assert!(of(&status).is_degraded);
}
