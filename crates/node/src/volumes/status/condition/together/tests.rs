use evenkeel_api::types::{ReplicaState as State, Suspended, VolumeHealth};
use evenkeel_core::ReplicaState;
use evenkeel_core::view::Cause;
use serde_json::json;

use super::super::tests::{concluded, in_sync, replica, waits};
use super::super::{Account, ReplicaFacts};
use super::*;

/// What the primary on a node says, of a volume with these replicas.
fn said(node: &str, account: &Account, facts: [ReplicaFacts; 2]) -> Reported {
    let mut status = concluded(account, &facts);
    let replicas = status.mirrors[0].replicas.iter_mut();
    replicas.enumerate().for_each(|(index, replica)| replica.id = index.to_string());
    status.primaries = serde_json::from_value(json!([
        {"node": {"id": "1", "name": "n1"}, "alive": true, "here": false},
        {"node": {"id": "2", "name": "n2"}, "alive": true, "here": false},
    ]))
    .unwrap();
    let node = NodeRef { id: node.trim_start_matches('n').into(), name: node.into() };
    for primary in status.primaries.iter_mut().filter(|primary| primary.node == node) {
        primary.requests = Some(7);
    }
    Reported { node, status }
}

fn good() -> [ReplicaFacts; 2] {
    [in_sync(Some(true), Some(true)), in_sync(Some(true), Some(true))]
}

fn suspended() -> Option<Suspended> {
    serde_json::from_value(json!({
        "waits_for": "coordinator", "mirror": null, "seconds": 3, "limit_seconds": null,
        "why": "the coordinator is away", "do": "start it",
    }))
    .unwrap()
}

fn leaving() -> ReplicaFacts {
    in_sync(Some(true), Some(true)).leaving(ReplicaState::Stale, Cause::Late)
}

#[test]
fn the_worst_that_any_primary_says_of_a_replica_counts_and_who_says_it() {
    let bad = [in_sync(Some(true), Some(true)), leaving()];
    for both in [
        [said("n1", &Account::Serving, good()), said("n2", &Account::Serving, bad.clone())],
        [said("n2", &Account::Serving, bad.clone()), said("n1", &Account::Serving, good())],
    ] {
        let status = worst(both.to_vec(), Vec::new(), 0).unwrap();
        assert_eq!(status.mirrors[0].summary, "[U?]");
        assert_eq!(status.mirrors[0].replicas[1].state, State::InSync);
        assert_eq!(status.health, VolumeHealth::Unreachable);
        assert_eq!(status.state, VolumeState::Serving);
        let reason = status.reason.unwrap();
        assert!(reason.ends_with("as soon as the coordinator answers the primary's node (says node n2; node n1 reaches it: look at the network between nodes n2 and n3)"), "{reason}");
        assert!(status.primaries.iter().all(|primary| primary.requests == Some(7)));
    }
    // Where all say the same, nobody is named.
    let all = ["n1", "n2"].map(|node| said(node, &Account::Serving, bad.clone()));
    let reason = worst(all.to_vec(), Vec::new(), 0).unwrap().reason.unwrap();
    assert!(!reason.contains("says node"), "{reason}");
}

#[test]
fn requests_that_wait_on_one_node_are_told_with_its_name() {
    let mut reported = said("n2", &waits("it waits"), good());
    reported.status.suspended = suspended();
    let both = vec![said("n1", &Account::Serving, good()), reported];
    let status = worst(both, vec!["node n3 does not answer".into()], 0).unwrap();
    assert_eq!(status.state, VolumeState::Suspended);
    assert!(status.suspended.is_some());
    let why = "on node n2: the coordinator is away; node n3 does not answer";
    assert_eq!(status.reason.as_deref(), Some(why));
}

#[test]
fn one_primary_says_what_it_says() {
    let reported = said("n1", &Account::Serving, good());
    let status = worst(vec![reported.clone()], Vec::new(), 0).unwrap();
    assert_eq!((status.reason, status.exports.len()), (None, 0));
    let status = worst(vec![reported], vec!["a note".into()], 0).unwrap();
    assert_eq!(status.reason.as_deref(), Some("a note"));
    assert!(worst(Vec::new(), vec!["a note".into()], 0).is_none());
}

#[test]
fn what_one_waits_for_is_said_once() {
    let mut reported = said("n2", &waits("the coordinator is away"), good());
    reported.status.suspended = suspended();
    let status = worst(vec![reported], vec!["the coordinator does not hear it".into()], 0).unwrap();
    let why = "on node n2: the coordinator is away; the coordinator does not hear it";
    assert_eq!(status.reason.as_deref(), Some(why));
}

/// n2 was cut off: n1 goes on without its replica, and n2 takes that of n1 for the one that is
/// lost.
#[test]
fn of_replicas_those_count_that_know_the_newest_view() {
    let stale = ReplicaFacts {
        cause: Cause::Late,
        ..replica(ReplicaState::Stale, Some(false), Some(true))
    };
    let mut newest = said("n1", &Account::Serving, [in_sync(Some(true), Some(true)), stale]);
    newest.status.generation += 1;
    let cut_off = [leaving(), in_sync(Some(true), Some(true))];
    let mut older = said("n2", &waits("the coordinator is away"), cut_off);
    older.status.suspended = suspended();
    let both = vec![older, newest];
    // It is about to be evicted: its clients wait.
    let status = worst(both.clone(), Vec::new(), 0).unwrap();
    assert_eq!(status.mirrors[0].summary, "[U_]");
    assert_eq!((status.health, status.state), (VolumeHealth::Degraded, VolumeState::Suspended));
    let why = "on node n2: the coordinator is away; replica n3:fast: it lacks writes: it left a request unanswered for longer than the deadline; it returns by itself as soon as it can be reached";
    assert_eq!(status.reason.as_deref(), Some(why));
    // It was evicted, and does not know that.
    let mut both = both;
    both[1].status.primaries.retain(|primary| primary.node.name == "n1");
    let status = worst(both, Vec::new(), 0).unwrap();
    assert_eq!(status.mirrors[0].summary, "[U_]");
    assert_eq!((status.health, status.state), (VolumeHealth::Degraded, VolumeState::Serving));
    assert_eq!(status.primaries.len(), 1);
    let reason = status.reason.unwrap();
    let why = "node n2 does not know yet that the others go on without it (it has generation 7)";
    assert!(reason.contains("it lacks writes") && reason.ends_with(why), "{reason}");
}

fn with_failed(count: u64, first: u64, last: u64) -> Reported {
    let mut reported = said("n2", &Account::Serving, good());
    reported.status.failed = serde_json::from_value(json!([{
        "kind": "write", "cause": "no-data", "why": "", "count": count, "first": first,
        "last": last,
    }]))
    .unwrap();
    reported
}

#[test]
fn failed_requests_of_the_same_kind_are_added_up() {
    let both = vec![with_failed(2, 10, 20), with_failed(3, 5, 15)];
    let status = worst(both, Vec::new(), 0).unwrap();
    let failed = &status.failed[0];
    assert_eq!((failed.count, failed.first, failed.last, status.failed.len()), (5, 5, 20, 1));
}

#[test]
fn what_failed_before_another_node_used_it_is_no_failure_of_the_last_use() {
    let old = with_failed(2, 10, 20).status;
    let mut status = old.clone();
    used_elsewhere(&mut status, Some(with_failed(3, 30, 40).status));
    let count = |failed: &[FailedRequests]| failed.iter().map(|it| it.count).collect::<Vec<_>>();
    assert_eq!((count(&status.failed), count(&status.failed_before)), (vec![3], vec![2]));
    let mut last = with_failed(3, 30, 40).status;
    last.failed_before = std::mem::take(&mut last.failed);
    used_elsewhere(&mut status, Some(last));
    assert_eq!((count(&status.failed), count(&status.failed_before)), (vec![], vec![8]));
    // Its node does not answer.
    let mut status = old;
    used_elsewhere(&mut status, None);
    assert_eq!((count(&status.failed), count(&status.failed_before)), (vec![], vec![2]));
}
