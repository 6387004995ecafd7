use evenkeel_core::primary::PeerStatus;
use evenkeel_core::view::Cause;
use evenkeel_core::{Incarnation, NodeId, PrimaryId};

use super::*;
use crate::coordinator::{NoData as Stored, Shown, VolumeRecord, WantedNbd, WantedOn};
use crate::disks::Unserved;
use crate::disks::tests::superblock;
use crate::volumes::attachment::lifecycle::Seen;
use crate::volumes::{Device, Phase};

/// A volume that is attached to be shown like this, in this phase.
fn attached(shown: Shown, phase: Phase) -> (Attached, View) {
    let superblock = superblock(8 << 20);
    let record = VolumeRecord {
        id: superblock.volume.to_string(),
        name: "music".into(),
        no_data: Stored::default(),
        replicas: Vec::new(),
        stopped: false,
        checksums: false,
        used_on: None,
        wanted_on: WantedOn::default(),
        verified: None,
        revision: 0,
        lost: Vec::new(),
    };
    let primary = PrimaryId { node: NodeId(1), incarnation: Incarnation(1) };
    let attached = Attached::new(&record, &superblock.view, primary, Purpose::Use(shown));
    attached.publish(&Seen::of_phase(phase));
    (attached, superblock.view)
}

/// An in-sync replica that does not answer.
fn silent() -> ReplicaFacts {
    ReplicaFacts {
        node: "n1".into(),
        disk: Some("d".into()),
        state: ReplicaState::InSync,
        cause: Cause::None,
        leaves: false,
        diverged: false,
        unserved: None,
        risk: None,
        connected: Some(false),
        may_be_out_of_sync: false,
        node_alive: Some(true),
        answered: None,
        reporter: "n1".into(),
    }
}

const DEVICE: Shown = Shown { device: true, nbd: None, nvme: None, mount: None };

#[test]
fn of_an_attach_that_hangs_it_is_said_what_is_made_and_since_one_moment() {
    let (attached, view) = attached(DEVICE, Phase::Serving);
    attached.note_serves(Instant(5_000_000_000));
    let (awaited, since) = of(&attached, None, true).unwrap();
    assert_eq!((awaited, since), (Awaited::Device, Instant(5_000_000_000)));
    assert_eq!(of(&attached, None, true), Some((awaited, since)), "it is the same moment later");
    let reported =
        reported(&attached, &view, "n1", awaited, Duration::from_secs(17 * 60), false, false);
    assert_eq!(reported.why, "its block device is being made on node n1; its primary serves");
    assert_eq!((reported.seconds, reported.waits_for), (1020, WaitsFor::Start));
    assert!(
        reported.action.contains("log of node n1, and of its kernel (`dmesg`)"),
        "{}",
        reported.action
    );
}

#[test]
fn what_is_made_is_what_was_asked_for() {
    let nbd = Some(WantedNbd::default());
    let (by_nbd, _) = attached(Shown { nbd, ..Shown::default() }, Phase::Serving);
    assert_eq!(of(&by_nbd, None, true).unwrap().0, Awaited::Export);
    let (made, _) = attached(DEVICE, Phase::Serving);
    let device = Some(Device { path: "/dev/x".into(), kind: "loop".into() });
    made.publish(&Seen::of_phase(Phase::Serving).with_device(device));
    assert_eq!(of(&made, None, true).unwrap().0, Awaited::Primary(Waiting::Start));
}

#[test]
fn who_is_attached_and_serves_waits_for_nothing() {
    let (attached, _) = attached(DEVICE, Phase::Attached);
    assert_eq!(of(&attached, None, true), None);
    let wait = |why| {
        Some(PresentWait { why, since: Instant(7), counted_from: Instant(3), is_over: false })
    };
    let noted = wait(Waiting::Start);
    assert_eq!(of(&attached, noted, true), None, "it serves by now");
    let lost = wait(Waiting::Replica(0));
    assert_eq!(
        of(&attached, lost, true),
        Some((Awaited::Primary(Waiting::Replica(0)), Instant(7)))
    );
}

#[test]
fn a_start_is_counted_from_its_beginning() {
    let (attached, _) = attached(DEVICE, Phase::Opening);
    let start = Some((Awaited::Primary(Waiting::Start), attached.began()));
    assert_eq!(of(&attached, None, false), start);
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(of(&attached, None, false), start);
}

#[test]
fn it_is_said_which_node_the_coordinator_does_not_answer() {
    let (attached, view) = attached(DEVICE, Phase::Attached);
    let awaited = Awaited::Primary(Waiting::Coordinator);
    let reported = reported(&attached, &view, "n2", awaited, Duration::ZERO, false, false);
    assert_eq!(reported.why, "a view has to change, and the coordinator does not answer node n2");
    let advice = "Start the coordinator's node, or repair the network between it and node n2";
    assert_eq!(reported.action, advice);
}

#[test]
fn who_answers_and_does_not_serve_a_replica_is_not_to_be_started() {
    let (attached, view) = attached(DEVICE, Phase::Attached);
    let replica = silent();
    let read_only = Unserved::Unusable("disk d of node n1: its file system is read-only".into());
    let unserved = ReplicaFacts { unserved: Some(read_only), ..replica.clone() };
    let stale = ReplicaFacts { state: ReplicaState::Stale, ..unserved.clone() };
    let awaited = Awaited::Primary(Waiting::Replica(0));
    assert!(has_unserved(&[vec![replica.clone(), unserved.clone()]], awaited));
    assert!(!has_unserved(&[vec![replica.clone(), stale]], awaited));
    assert!(!has_unserved(&[vec![replica], vec![unserved.clone()]], awaited));
    assert!(!has_unserved(&[vec![unserved]], Awaited::Primary(Waiting::Coordinator)));
    let reported = reported(&attached, &view, "n1", awaited, Duration::ZERO, false, true);
    let advice = "See to the disks of its in-sync replicas: why each is not served is said with it; requests go on by themselves then";
    assert_eq!(reported.action, advice);
}

#[test]
fn the_way_out_is_said_when_a_replica_answers_that_may_lack_writes() {
    let (attached, view) = attached(DEVICE, Phase::Attached);
    let awaited = Awaited::Primary(Waiting::Replica(0));
    let peer = |may_be_out_of_sync| PeerStatus {
        replica: view.mirrors[0].replicas[0].id,
        leaving: None,
        connected: false,
        may_be_out_of_sync,
        outstanding: 0,
        oldest: None,
        retry_in: None,
        left_again: None,
        rebuild: None,
        failed_reads: 0,
    };
    let core = |may_be_out_of_sync| PrimaryStatus {
        view: Some(view.clone()),
        serving: true,
        waiting: Some(PresentWait {
            why: Waiting::Replica(0),
            since: Instant(7),
            counted_from: Instant(7),
            is_over: false,
        }),
        replicas: vec![peer(may_be_out_of_sync)],
        requests: 1,
        unflushed: true,
        verify: None,
        rewritten: 0,
        is_said_to_be_excluded: false,
    };
    let coordinator = Awaited::Primary(Waiting::Coordinator);
    assert!(!may_go_on(&core(false), &view, awaited));
    assert!(!may_go_on(&core(true), &view, coordinator));
    assert!(may_go_on(&core(true), &view, awaited));
    let reported = reported(&attached, &view, "n1", awaited, Duration::ZERO, true, false);
    assert_eq!(
        reported.action,
        "Start the nodes that hold its in-sync replicas, or repair the network to them; requests go on by themselves then. If they are lost for good: `evenkeel detach music --node n1`, then `evenkeel attach music --node n1`, which goes on without the last writes"
    );
}

#[test]
fn it_is_told_in_how_long_requests_fail_though_they_waited_for_something_else_before() {
    let (attached, view) = attached(DEVICE, Phase::Attached);
    let awaited = Awaited::Primary(Waiting::Replica(0));
    let reported = reported(&attached, &view, "n1", awaited, Duration::from_secs(5), false, false);
    let limit = reported.limit_seconds.unwrap();
    let at = |seconds: u64| Instant(seconds * 1_000_000_000);
    let wait = PresentWait {
        why: Waiting::Replica(0),
        since: at(19),
        counted_from: at(0),
        is_over: false,
    };
    assert_eq!(fails_in(&reported, Some(wait), at(24)), Some(limit - 24), "24 s count, not 5");
    assert_eq!(fails_in(&reported, Some(wait), at(limit + 9)), Some(0));
    let failing = PresentWait { counted_from: at(20), is_over: true, ..wait };
    assert_eq!(fails_in(&reported, Some(failing), at(24)), Some(0));
    let coordinator = Suspended { waits_for: WaitsFor::Coordinator, ..reported };
    assert_eq!(fails_in(&coordinator, Some(wait), at(24)), None, "each request has its own time");
}
