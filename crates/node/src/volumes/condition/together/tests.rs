use evenkeel_core::ReplicaState;
use evenkeel_core::view::Cause;
use serde_json::json;

use super::super::tests::{concluded, in_sync, replica};
use super::super::{Account, ReplicaFacts};
use super::*;
use crate::api::types::{ReplicaState as State, VolumeHealth};

/// What the primary on a node says, of a volume with these replicas.
fn said(node: &str, account: &Account, facts: [ReplicaFacts; 2]) -> Told {
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
    Told { node, status }
}

fn good() -> [ReplicaFacts; 2] {
    [in_sync(Some(true), Some(true)), in_sync(Some(true), Some(true))]
}

fn leaving() -> ReplicaFacts {
    let cause = Cause::Disconnected;
    let stale = replica(ReplicaState::Stale, Some(false), Some(true));
    ReplicaFacts { cause, leaves: true, ..stale }
}

#[test]
fn the_worst_that_any_primary_says_of_a_replica_counts_and_who_says_it() {
    let bad = [in_sync(Some(true), Some(true)), leaving()];
    for both in [
        [said("n1", &Account::Serving, good()), said("n2", &Account::Serving, bad.clone())],
        [said("n2", &Account::Serving, bad.clone()), said("n1", &Account::Serving, good())],
    ] {
        let status = worst(both.to_vec(), Vec::new()).unwrap();
        assert_eq!(status.mirrors[0].summary, "[U_]");
        assert_eq!(status.mirrors[0].replicas[1].state, State::Stale);
        assert_eq!(status.health, VolumeHealth::Degraded);
        assert_eq!(status.state, VolumeState::Serving);
        let reason = status.reason.unwrap();
        assert!(reason.ends_with("as soon as the coordinator answers (says node n2)"), "{reason}");
        assert!(status.primaries.iter().all(|primary| primary.requests == Some(7)));
    }
    // Where all say the same, nobody is named.
    let all = ["n1", "n2"].map(|node| said(node, &Account::Serving, bad.clone()));
    let reason = worst(all.to_vec(), Vec::new()).unwrap().reason.unwrap();
    assert!(!reason.contains("says node"), "{reason}");
}

#[test]
fn requests_that_wait_on_one_node_are_told_with_its_name() {
    let mut waits = said("n2", &Account::Suspended("it waits".into()), good());
    waits.status.suspended = serde_json::from_value(json!({
        "waits_for": "coordinator", "mirror": null, "seconds": 3, "limit_seconds": null,
        "why": "the coordinator is away", "do": "start it",
    }))
    .unwrap();
    let both = vec![said("n1", &Account::Serving, good()), waits];
    let status = worst(both, vec!["node n3 does not answer".into()]).unwrap();
    assert_eq!(status.state, VolumeState::Suspended);
    assert!(status.suspended.is_some());
    let why = "on node n2: the coordinator is away; node n3 does not answer";
    assert_eq!(status.reason.as_deref(), Some(why));
}

#[test]
fn one_primary_says_what_it_says() {
    let told = said("n1", &Account::Serving, good());
    let status = worst(vec![told.clone()], Vec::new()).unwrap();
    assert_eq!((status.reason, status.exports.len()), (None, 0));
    let status = worst(vec![told], vec!["a note".into()]).unwrap();
    assert_eq!(status.reason.as_deref(), Some("a note"));
    assert!(worst(Vec::new(), vec!["a note".into()]).is_none());
}

#[test]
fn failed_requests_of_the_same_kind_are_added_up() {
    let failed = |count, first, last| {
        let mut told = said("n2", &Account::Serving, good());
        told.status.failed = serde_json::from_value(json!([{
            "kind": "write", "cause": "no-data", "why": "", "count": count, "first": first,
            "last": last,
        }]))
        .unwrap();
        told
    };
    let status = worst(vec![failed(2, 10, 20), failed(3, 5, 15)], Vec::new()).unwrap();
    let failed = &status.failed[0];
    assert_eq!((failed.count, failed.first, failed.last, status.failed.len()), (5, 5, 20, 1));
}
