use evenkeel_api::types::{
    FailedRequests, NoCoordinator, Rebuild, ReplicaCause, ReplicaReach, ReplicaState, StatusSource,
    VolumeHealth, VolumeState, VolumesAnswer,
};

use super::list::attached_on;
use super::rebuild::rebuild_line;
use super::*;

mod states;

/// A volume of three replicas, of which the third rebuilds.
pub fn volume() -> VolumeStatus {
    let replica = |id: &str, node: &str, state: &str| {
        serde_json::json!({
            "id": format!("{id}-0000-0000-0000-000000000000"),
            "node": {"id": "00000000-0000-0000-0000-000000000001", "name": node},
            "node_alive": true, "disk": "fast", "state": state, "connected": true,
            "reach": "answers",
        })
    };
    let mut third = replica("0badcafe", "n3", "rebuilding");
    third["reason"] = "its node restarted".into();
    third["rebuild"] = serde_json::json!({
        "done": 1u64 << 30, "total": 4u64 << 30, "copied": 1u64 << 30, "rate": 210u64 << 20,
        "eta_seconds": 14, "source": "3fa9c1d2-0000-0000-0000-000000000000",
        "source_node": {"id": "", "name": "n1"},
    });
    let value = serde_json::json!({
        "id": "5e000000-0000-0000-0000-000000000000", "name": "music", "size": 4u64 << 30,
        "block_size": 512, "chunk": 65536, "protocol": "C", "bitmap": "internal",
        "region_size": 1048576, "open_regions": 1024, "slots": 1,
        "rebuild": {"limit": "none"}, "lease_ms": 6000, "lease_margin_ms": 500,
        "no_data": {"policy": "suspend", "seconds": 120},
        "state": "serving", "health": "rebuilding", "reason": "the replica on n3 is rebuilding",
        "suspended": null, "generation": 7, "history": "", "source": "primary",
        "primaries": [{
            "node": {"id": "", "name": "n1"}, "alive": true, "here": true,
            "device": "/dev/evenkeel/music", "device_kind": "fuse-loop",
        }],
        "mirrors": [{
            "index": 0, "summary": "[UUR]",
            "replicas": [
                replica("3fa9c1d2", "n1", "in-sync"), replica("77aa0011", "n2", "in-sync"), third,
            ],
        }],
        "failed": [], "exports": [{
            "kind": "nbd", "node": {"id": "", "name": "n1"}, "socket": "/run/music.sock",
            "tcp": [], "tls": false, "read_only": false,
            "uris": ["nbd+unix:///music?socket=/run/music.sock"], "clients": 2,
        }],
        "events": [],
    });
    serde_json::from_value(value).unwrap()
}

/// That its block device has been made for so many seconds.
pub fn starting(seconds: u64) -> Suspended {
    serde_json::from_value(serde_json::json!({
        "waits_for": "start", "mirror": null, "seconds": seconds, "limit_seconds": null,
        "why": "its block device is being made on node n1; its primary serves", "do": "Wait",
    }))
    .unwrap()
}

#[test]
fn the_status_shows_every_replica_and_why() {
    let expected = "\
volume music [UUR] rebuilding, serving
  why       the replica on n3 is rebuilding
  layout    4G, 3 replicas, protocol C, bitmap internal (1024 regions of 1M), block size 512, generation 7; without data requests wait 2 min
  attached  on n1 as /dev/evenkeel/music (fuse-loop)
  export    nbd by n1, 2 clients
            nbd+unix:///music?socket=/run/music.sock

  REPLICA   NODE  DISK  STATE
  3fa9c1d2  n1    fast  in-sync
  77aa0011  n2    fast  in-sync
  0badcafe  n3    fast  rebuilding
    [======>                 ]  25%  1G of 4G, 210M/s, 14 s left, from n1
    why: its node restarted
";
    assert_eq!(status(&volume()), expected);
}

#[test]
fn an_nvme_export_tells_its_subsystem_and_hosts() {
    let mut volume = volume();
    let export = serde_json::json!({
        "kind": "nvme", "node": {"id": "", "name": "n1"}, "socket": null,
        "tcp": ["10.0.0.1:4420"], "tls": false, "read_only": true, "uris": [], "clients": 1,
        "nvme": {
            "subsystem": "nqn.2014-08.org.nvmexpress:uuid:1", "hosts": ["nqn.a", "nqn.b", "nqn.c"],
            "authenticated": [
                {"nqn": "nqn.b", "both_ways": true}, {"nqn": "nqn.c", "both_ways": false},
            ],
            "connected": [
                {"nqn": "nqn.a", "address": "10.0.0.9:1", "controller": 63, "queues": 2},
            ],
        },
    });
    volume.exports = vec![serde_json::from_value(export).unwrap()];
    let expected = "  export    nvme by n1, read-only, 1 host
            nqn.2014-08.org.nvmexpress:uuid:1 on 10.0.0.1:4420
            for nqn.a
            for nqn.b, which proves who it is, as the node does
            for nqn.c, which proves who it is
            used by nqn.a from 10.0.0.9:1, 2 I/O queues
";
    let text = status(&volume);
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_replica_that_does_not_answer_is_not_shown_as_in_sync() {
    let mut volume = volume();
    volume.mirrors[0].replicas.truncate(2);
    volume.mirrors[0].replicas[1].reach = ReplicaReach::Unreachable;
    assert!(status(&volume).contains("77aa0011  n2    fast  unreachable\n"), "{}", status(&volume));
    volume.mirrors[0].replicas[1].reach = ReplicaReach::Unknown;
    assert!(status(&volume).contains("77aa0011  n2    fast  unknown\n"), "{}", status(&volume));
}

#[test]
fn a_node_that_only_the_primary_reaches_is_not_said_to_be_silent() {
    let mut volume = volume();
    volume.mirrors[0].replicas[1].node_alive = Some(false);
    let text = status(&volume);
    let note = "    node n2 answers the primary, and the coordinator does not hear it\n";
    assert!(text.contains(note) && !text.contains("n2 does not answer"), "{text}");
    volume.mirrors[0].replicas[1].reach = ReplicaReach::Unreachable;
    assert!(status(&volume).contains("    node n2 does not answer\n"));
}

#[test]
fn a_stale_replica_says_when_it_is_tried_again() {
    let mut volume = volume();
    volume.mirrors[0].replicas.truncate(2);
    let stale = &mut volume.mirrors[0].replicas[1];
    (stale.state, stale.reach) = (ReplicaState::Stale, ReplicaReach::NotNeeded);
    stale.reason = Some("it lacks writes".into());
    stale.retry_seconds = Some(7);
    let text = status(&volume);
    let expected =
        "  77aa0011  n2    fast  stale\n    why: it lacks writes\n    tries again in 7 s\n";
    assert!(text.ends_with(expected), "{text}");
    volume.mirrors[0].replicas[1].left_again = Some(3);
    let expected = "    left 3 times in a row, each time within a minute; taken in again in 7 s\n";
    assert!(status(&volume).ends_with(expected), "{}", status(&volume));
    // The line is the same until something changes.
    assert!(!line(&volume).contains("again in"), "{}", line(&volume));
    volume.mirrors[0].replicas[1].cause = Some(ReplicaCause::OtherHistory);
    assert!(!status(&volume).contains("tries again"), "{}", status(&volume));
}

#[test]
fn a_stripe_shows_its_mirrors() {
    let mut volume = volume();
    let mut second = volume.mirrors[0].clone();
    second.index = 1;
    second.summary = "[U]".to_owned();
    second.replicas.truncate(1);
    volume.mirrors.push(second);
    volume.mirrors[0].replicas.truncate(2);
    let text = status(&volume);
    assert!(text.contains("a stripe of 2 mirrors of 2 and 1 replicas, "), "{text}");
    let table = text.split_once("\n\n").unwrap().1;
    let expected = "  MIRROR  REPLICA   NODE  DISK  STATE
  0       3fa9c1d2  n1    fast  in-sync
          77aa0011  n2    fast  in-sync
  1       3fa9c1d2  n1    fast  in-sync
";
    assert_eq!(table, expected);
    assert_eq!(summary(&volume), "[UUR][U]");
}

#[test]
fn the_list_has_one_line_for_each_volume_and_the_reason() {
    let answer =
        VolumesAnswer { version: 1, volumes: vec![volume()], complete: true, warnings: vec![] };
    let expected = "\
NAME   SIZE  PROTOCOL  REPLICAS  HEALTH      STATE    ATTACHED ON
music    4G  C         [UUR]     rebuilding  serving  n1
  why: the replica on n3 is rebuilding
";
    assert_eq!(list(&answer, 1), expected);
}

#[test]
fn the_list_tells_that_writes_have_failed() {
    let failed = |kind: &str, cause: &str| FailedRequests {
        kind: kind.into(),
        cause: cause.into(),
        why: String::new(),
        count: 1,
        first: 1_700_000_000,
        last: 1_700_000_000,
    };
    let listed = |failed: FailedRequests, reason: &str| {
        let reason = Some(reason.to_owned());
        let volumes = vec![VolumeStatus { failed: vec![failed], reason, ..volume() }];
        list(&VolumesAnswer { version: 1, volumes, complete: true, warnings: vec![] }, 1)
    };
    let text = listed(failed("write", "no-coordinator"), "it rebuilds");
    assert!(text.contains("\n  1 write failed, the last 2023-11-1"), "{text}");
    assert!(text.ends_with(": a filesystem on it may have become read-only\n"), "{text}");
    for (kind, cause) in [("read", "medium"), ("write", "reserved")] {
        assert!(!listed(failed(kind, cause), "").contains(" failed"), "{kind} {cause}");
    }
    let reported = listed(failed("write", "medium"), "requests failed until now");
    assert!(!reported.contains("write failed"), "{reported}");
    assert!(listed(failed("flush", "medium"), "").contains("\n  1 flush failed, the last "));
}

#[test]
fn an_empty_list_says_what_to_do() {
    let answer = VolumesAnswer {
        version: 1,
        volumes: vec![],
        complete: true,
        warnings: vec!["n2 is silent".into()],
    };
    assert!(list(&answer, 0).starts_with("There is no volume yet. Create one: "));
}

#[test]
fn a_volume_whose_requests_fail_already_is_not_only_suspended() {
    let mut volume = volume();
    volume.state = VolumeState::Suspended;
    volume.suspended = Some(Suspended { fails_in: Some(7), ..starting(3) });
    assert!(line(&volume).contains("rebuilding, suspended: "), "{}", line(&volume));
    volume.suspended.as_mut().unwrap().fails_in = Some(0);
    assert!(line(&volume).contains("rebuilding, suspended, requests fail: "), "{}", line(&volume));
}

#[test]
fn many_volumes_are_summed_up_first() {
    let named =
        |name: &str, health, state| VolumeStatus { name: name.into(), health, state, ..volume() };
    let volumes = [
        named("a", VolumeHealth::InSync, VolumeState::Serving),
        named("b", VolumeHealth::Degraded, VolumeState::Serving),
        named("c", VolumeHealth::InSync, VolumeState::Unreachable),
        named("d", VolumeHealth::InSync, VolumeState::Detached),
    ];
    assert_eq!(sum(&volumes, 4), "4 volumes: 2 in-sync, 1 degraded, 1 primary unreachable\n");
    assert_eq!(sum(&volumes[..1], 1), "");
    let left = VolumeStatus { not_given_up: true, ..volumes[2].clone() };
    assert_eq!(sum(&[left.clone(), left], 2), "2 volumes: 2 not given up\n");
    // Those that were not chosen are there, too.
    assert_eq!(sum(&volumes[1..3], 4), "2 of 4 volumes: 1 degraded, 1 primary unreachable\n");
    assert_eq!(sum(&volumes[1..2], 4), "1 of 4 volumes: 1 degraded\n");
    // One of two copies is silent: that is not to lose the data.
    let half = |state| named("e", VolumeHealth::Unreachable, state);
    let usable = [half(VolumeState::Serving), half(VolumeState::Serving)];
    assert_eq!(sum(&usable, 2), "2 volumes: 2 unreachable (usable)\n");
    let some = [half(VolumeState::Serving), half(VolumeState::Detached)];
    assert_eq!(sum(&some, 2), "2 volumes: 2 unreachable (1 usable)\n");
    let none = VolumesAnswer { version: 1, volumes: vec![], complete: true, warnings: vec![] };
    assert_eq!(list(&none, 4), "None of 4 volumes wants attention.\n");
}

#[test]
fn what_a_replica_knew_last_is_dated_and_called_unknown() {
    let mut volume = volume();
    (volume.source, volume.as_of) = (StatusSource::Replica, Some(1_700_000_000));
    (volume.state, volume.health) = (VolumeState::Unknown, VolumeHealth::Unknown);
    let text = status(&volume);
    assert!(text.starts_with("volume music [UUR]? unknown, unknown whether attached\n"), "{text}");
    for expected in [
        "\n  as of     2023-11-1",
        "generation 7; generations may have followed",
        "\n  attached  on n1? as ",
        "  fast  in-sync?\n",
        "  fast  rebuilding?\n",
    ] {
        assert!(text.contains(expected), "{expected} is missing in: {text}");
    }
    let answer =
        VolumesAnswer { version: 1, volumes: vec![volume], complete: false, warnings: vec![] };
    let text = list(&answer, 1);
    assert!(text.contains("[UUR]?    unknown  unknown whether attached  n1?\n"), "{text}");
    assert!(text.contains("\n  as of: 2023-11-1"), "{text}");
}

#[test]
fn what_was_bad_when_a_replica_knew_it_last_is_not_hidden_by_what_nobody_knows() {
    let mut old = volume();
    (old.source, old.as_of) = (StatusSource::Replica, Some(1_700_000_000));
    (old.state, old.health) = (VolumeState::Unknown, VolumeHealth::Degraded);
    let first = "[UUR]? degraded?, unknown whether attached";
    assert!(status(&old).starts_with(&format!("volume music {first}\n")), "{}", status(&old));
    assert!(line(&old).starts_with(first), "{}", line(&old));
    let unknown = VolumeStatus { health: VolumeHealth::Unknown, ..old.clone() };
    let volumes = [old, unknown];
    assert_eq!(sum(&volumes, 2), "2 volumes: 1 unknown, 1 degraded?\n");
    assert!(!crate::selection::is_healthy(&volumes[0]));
    for check in [false, true] {
        let code = crate::commands::look::verdict(&volumes[..1], check);
        assert_eq!(code, crate::exit::Exit::Unreachable, "nobody who knows has answered");
    }
}

#[test]
fn a_node_that_does_not_answer_is_not_shown_as_the_one_that_has_it_attached() {
    let mut volume = volume();
    (volume.source, volume.state) = (StatusSource::Coordinator, VolumeState::Unreachable);
    assert!(status(&volume).contains("\n  attached  on n1? as "), "{}", status(&volume));
    // Of a shared volume one may answer and another not.
    volume.state = VolumeState::Serving;
    let silent = PrimaryStatus { alive: false, ..volume.primaries[0].clone() };
    volume.primaries.push(silent);
    assert_eq!(attached_on(&volume), "n1, n1?");
}

#[test]
fn no_volume_is_not_said_to_be_none_while_nobody_knows() {
    let warnings = vec!["the coordinator does not answer".into()];
    let answer = VolumesAnswer { version: 1, volumes: vec![], complete: false, warnings };
    let text = list(&answer, 0);
    assert!(text.starts_with("Nothing is known of any volume here.\nnote: "), "{text}");
}

#[test]
fn what_failed_in_an_earlier_use_is_told_apart_and_dated() {
    let mut volume = volume();
    volume.failed_before = vec![FailedRequests {
        kind: "write".into(),
        cause: "no-data".into(),
        why: "no in-sync replica answered node n2".into(),
        count: 1,
        first: 1_700_000_000,
        last: 1_700_000_000,
    }];
    let text = status(&volume);
    let expected = "  earlier   failed, before it was attached: 1 write, 2023-11-1";
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("\n  failed "), "{text}");
}

#[test]
fn what_failed_and_how_long_requests_wait_is_dated() {
    let mut volume = volume();
    volume.no_coordinator = NoCoordinator::Fail { seconds: 20 };
    let suspended = serde_json::json!({
        "waits_for": "coordinator", "mirror": null, "seconds": 3700, "since": 1_700_000_000,
        "limit_seconds": 20, "why": "a view has to change", "do": "Start the coordinator's node",
    });
    volume.suspended = Some(serde_json::from_value(suspended).unwrap());
    volume.failed = vec![FailedRequests {
        kind: "write".into(),
        cause: "no-coordinator".into(),
        why: "the coordinator does not answer".into(),
        count: 3,
        first: 1_700_000_100,
        last: 1_700_000_200,
    }];
    let text = status(&volume);
    let (since, first) = (date(1_700_000_000), date(1_700_000_100));
    for expected in [
        format!("for 1 h 1 min, since {since}, and requests fail after 20 s: a view has to change"),
        format!("failed    3 writes, the first {first}, the last "),
        "; without the coordinator they fail after 20 s".into(),
    ] {
        assert!(text.contains(&expected), "{expected} is missing in: {text}");
    }
    let wait = volume.suspended.as_mut().unwrap();
    (wait.waits_for, wait.seconds, wait.fails_in) = (WaitsFor::Replica, 5, Some(11));
    let text = status(&volume);
    assert!(
        text.contains(&format!("for 5 s, since {since}, and requests fail in 11 s: ")),
        "{text}"
    );
    volume.suspended.as_mut().unwrap().fails_in = Some(0);
    let text = status(&volume);
    assert!(text.contains(&format!("for 5 s, since {since}, and requests fail: ")), "{text}");
    let wait = volume.suspended.as_mut().unwrap();
    (wait.waits_for, wait.limit_seconds, wait.fails_in) = (WaitsFor::Coordinator, None, None);
    let text = status(&volume);
    assert!(text.contains(", and requests wait without a limit (`volume change"), "{text}");
}

#[test]
fn a_read_that_nobody_answered_is_not_called_repaired() {
    let mut volume = volume();
    volume.mirrors[0].replicas[0].failed_reads = Some(21);
    assert!(status(&volume).contains("21 reads failed or contradicted their checksums; others"));
    volume.failed = vec![FailedRequests {
        kind: "read".into(),
        cause: "medium".into(),
        why: "the last in-sync replica reported an input/output error".into(),
        count: 21,
        first: 1_700_000_100,
        last: 1_700_000_200,
    }];
    let text = status(&volume);
    assert!(text.contains("21 reads failed here or contradicted their checksums\n"), "{text}");
}

#[test]
fn a_rebuild_whose_amount_is_not_known_says_so() {
    let mut rebuild = Rebuild {
        done: 0,
        total: 0,
        counting: true,
        copied: 3 << 20,
        rate: 0,
        measuring: false,
        eta_seconds: None,
        source: None,
        source_node: None,
        waits_for: None,
    };
    assert_eq!(rebuild_line(&rebuild), "counting what is to be copied, 3M copied");
    // As an older node says it.
    (rebuild.counting, rebuild.copied) = (false, 0);
    assert_eq!(rebuild_line(&rebuild), "counting what is to be copied");
    (rebuild.done, rebuild.total, rebuild.eta_seconds) = (0, 12 << 30, Some(60));
    assert!(rebuild_line(&rebuild).contains("  0%  0 of 12G, 0/s, 1 min left"), "not yet begun");
    rebuild.measuring = true;
    let line = rebuild_line(&rebuild);
    assert!(line.contains("  0%  0 of 12G, measuring the rate, 1 min left"), "{line}");
    rebuild.waits_for = Some("an operator paused it".into());
    assert!(rebuild_line(&rebuild).contains(", 0/s,"), "it has none to measure");
}
