use evenkeel_api::types::FailedRequests;
use evenkeel_core::ReplicaState;
use evenkeel_core::view::Cause;
use serde_json::json;

use super::super::tests::{NO, YES, concluded, in_sync, replica, waits};
use super::super::{Account, ReplicaFacts};
use super::*;

#[test]
fn that_requests_fail_is_said_before_what_a_replica_lacks() {
    let mut status = concluded(&Account::Serving, &[in_sync(YES, YES), in_sync(YES, YES)]);
    status.failed = serde_json::from_value(json!([
        {"kind": "read", "cause": "medium", "why": "older", "count": 2, "first": 900, "last": 950},
        {"kind": "write", "cause": "medium", "why": "its disk is bad", "count": 2, "first": 900,
         "last": 1000},
        {"kind": "read", "cause": "invalid", "why": "it lies beyond the end", "count": 1,
         "first": 1001, "last": 1001},
    ]))
    .unwrap();
    note_failures(&mut status, 1061);
    assert_eq!(status.reason, None, "long past, or the client's own fault");
    note_failures(&mut status, 1060);
    let past = "requests failed until 1970-01-01 00:16:40 UTC: its disk is bad; a filesystem on it may have become read-only";
    assert_eq!(status.reason.as_deref(), Some(past), "nobody has tried again");
    status.reason = Some("a replica is stale".into());
    note_failures(&mut status, 1010);
    let why = "requests fail: its disk is bad; a replica is stale";
    assert_eq!(status.reason.as_deref(), Some(why));
    assert_eq!(status.health, VolumeHealth::InSync, "there are two");
}

#[test]
fn what_requests_waited_for_in_vain_is_past_when_nothing_waits_for_it_any_more() {
    let failed: Vec<FailedRequests> = serde_json::from_value(json!([{
        "kind": "write", "cause": "no-coordinator", "why": "the coordinator did not answer node n1",
        "count": 2, "first": 900, "last": 1000,
    }]))
    .unwrap();
    let mut well = concluded(&Account::Serving, &[in_sync(YES, YES), in_sync(YES, YES)]);
    well.failed.clone_from(&failed);
    note_failures(&mut well, 1010);
    let past = "requests failed until 1970-01-01 00:16:40 UTC, and do no more: the coordinator did not answer node n1; a filesystem on it may have become read-only";
    assert_eq!(well.reason.as_deref(), Some(past));
    assert_eq!(well.health, VolumeHealth::InSync);

    let waiting = |waits_for: &str| {
        let mut status = concluded(&waits("it waits"), &[in_sync(YES, YES)]);
        status.failed.clone_from(&failed);
        status.suspended = serde_json::from_value(json!({
            "waits_for": waits_for, "mirror": null, "seconds": 3, "limit_seconds": 1,
            "why": "it waits", "do": "start it",
        }))
        .unwrap();
        note_failures(&mut status, 1010);
        status.reason.unwrap()
    };
    let why = "requests fail: the coordinator did not answer node n1; it waits";
    assert_eq!(waiting("coordinator"), why);
    // What it waits for now is another matter.
    assert!(waiting("replica").starts_with("requests failed until"), "{}", waiting("replica"));
}

#[test]
fn the_last_in_sync_replica_is_not_well_while_its_disk_fails() {
    let failed = |cause: &str| {
        json!([{"kind": "write", "cause": cause, "why": "it cannot be written", "count": 2,
                "first": 900, "last": 1000}])
    };
    let of = |facts: &[ReplicaFacts], cause: &str, now: u64| {
        let mut status = concluded(&Account::Serving, facts);
        status.failed = serde_json::from_value(failed(cause)).unwrap();
        note_failures(&mut status, now);
        (status.health, status.reason.unwrap_or_default())
    };
    let alone = [in_sync(YES, YES)];
    let why = "requests fail: it cannot be written; n3:fast is the last in-sync replica: see to its disk, or add a replica while it can be read";
    assert_eq!(of(&alone, "medium", 1010), (VolumeHealth::Degraded, why.into()));
    let later = why.replace("requests fail:", "a write has failed:");
    assert_eq!(of(&alone, "medium", 90_000), (VolumeHealth::Degraded, later));
    let rebuilt = [in_sync(YES, YES), replica(ReplicaState::Rebuilding, YES, YES)];
    assert_eq!(of(&rebuilt, "medium", 90_000).0, VolumeHealth::Degraded);
    assert_eq!(of(&alone, "no-space", 1010).0, VolumeHealth::Degraded);
    // Room may have been made; others are no matter of a disk.
    let (health, reason) = of(&alone, "no-space", 1011);
    assert_eq!(health, VolumeHealth::InSync);
    assert!(reason.starts_with("requests failed until 1970-01-01 00:16:40 UTC: it"), "{reason}");
    assert_eq!(of(&alone, "no-space", 90_000), (VolumeHealth::InSync, String::new()));
    // The one that was full is known, and it is not the last one.
    let full = ReplicaFacts { cause: Cause::NoSpace, ..replica(ReplicaState::Faulty, YES, YES) };
    let (_, reason) = of(&[in_sync(YES, YES), full], "no-space", 1005);
    assert!(reason.starts_with("requests fail: it cannot be written; "), "{reason}");
    assert!(!reason.contains("last in-sync replica"), "{reason}");
    assert_eq!(of(&alone, "no-coordinator", 1010).0, VolumeHealth::InSync);
    let worse = [in_sync(NO, YES)];
    assert_eq!(of(&worse, "medium", 1010).0, VolumeHealth::Unreachable);
}

/// As the coordinator keeps it, on every node and after each detach.
#[test]
fn that_the_last_disk_failed_is_told_until_a_verify_finds_nothing_wrong() {
    let mut status = concluded(&Account::Detached, &[in_sync(None, YES)]);
    status.mirrors[0].replicas[0].disk_failed = Some(1000);
    note_failures(&mut status, 90_000);
    let why = "a disk failed a request at 1970-01-01 00:16:40 UTC for which no other replica had the data; `evenkeel volume verify music` ends this warning when it finds nothing wrong; n3:fast is the last in-sync replica: see to its disk, or add a replica while it can be read";
    assert_eq!(status.reason.as_deref(), Some(why));
    assert_eq!(status.health, VolumeHealth::Degraded);
    // Another one has the data.
    let mut two = concluded(&Account::Detached, &[in_sync(None, YES), in_sync(None, YES)]);
    two.mirrors[0].replicas[0].disk_failed = Some(1000);
    note_failures(&mut two, 90_000);
    assert_eq!((two.health, two.reason), (VolumeHealth::InSync, None));

    // What this node has told clients ends in the same way.
    let mut live = concluded(&Account::Serving, &[in_sync(YES, YES)]);
    live.failed = serde_json::from_value(json!([{
        "kind": "read", "cause": "medium", "why": "it is bad", "count": 1, "first": 900, "last": 1000,
    }]))
    .unwrap();
    for (began, unreadable, health) in [
        (900, 0, VolumeHealth::Degraded),
        (1001, 4096, VolumeHealth::Degraded),
        (1001, 0, VolumeHealth::InSync),
    ] {
        live.verify = Some(verify(began, unreadable));
        let mut reported = live.clone();
        note_failures(&mut reported, 90_000);
        assert_eq!(reported.health, health, "{began} {unreadable}");
    }
}

/// Whoever waits until the volume is in-sync waits for nothing that a verify has ended, or that was
/// over when room was made; a spare that is away does not matter.
#[test]
fn with_a_spare_away_only_a_failure_that_counts_keeps_a_volume_from_being_in_sync() {
    let facts = [in_sync(YES, YES), replica(ReplicaState::Spare, NO, NO)];
    let is_in_sync = |cause: &str, now: u64, verified: bool| {
        let mut status = concluded(&Account::Serving, &facts);
        status.failed = serde_json::from_value(json!([{
            "kind": "read", "cause": cause, "why": "it is bad", "count": 1, "first": 900,
            "last": 1000,
        }]))
        .unwrap();
        status.verify = verified.then(|| verify(1001, 0));
        note_failures(&mut status, now);
        assert_eq!(status.health, VolumeHealth::Degraded);
        status.is_in_sync()
    };
    assert!(!is_in_sync("medium", 90_000, false));
    assert!(is_in_sync("medium", 90_000, true));
    assert!(!is_in_sync("no-space", 1010, false));
    assert!(is_in_sync("no-space", 1011, false));
}

/// What a verify has found that began then and left so many bytes unread.
fn verify(began: u64, unreadable: u64) -> types::Verify {
    serde_json::from_value(json!({
        "state": "done", "repair": false, "checked": 8, "total": 8, "alone": 8, "different": 0,
        "unreadable": unreadable, "repaired": 0, "ranges": [], "seconds": 1, "began": began,
        "ended": began + 1,
    }))
    .unwrap()
}
