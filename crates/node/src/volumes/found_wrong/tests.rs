use evenkeel_core::Generation;
use serde_json::json;

use super::*;
use crate::disks::tests::superblock;

/// The record of a replica that became in-sync in generation 7.
fn record() -> ReplicaRecord {
    let mut record = superblock(8 << 20).view.mirrors[0].replicas[0];
    record.since = Generation(7);
    record
}

/// A verify of that replica alone, of which 8 KiB are damaged.
fn verify(record: &ReplicaRecord, state: &str, at: u64) -> Verify {
    let id = record.id.to_string();
    serde_json::from_value(json!({
        "state": state, "repair": false, "checked": 8, "total": 8, "alone": 8, "different": 0,
        "damaged": 8192, "unreadable": 0, "repaired": 0, "ranges": [], "seconds": 1,
        "began": at, "ended": at + 1,
        "replicas": [{"id": id, "different": 0, "damaged": 8192, "unreadable": 0}],
        "covered": [], "read": [{"id": id, "bytes": 8, "since": 7}],
    }))
    .unwrap()
}

fn sound(record: &ReplicaRecord, state: &str, at: u64) -> Verify {
    Verify { damaged: 0, replicas: Vec::new(), ..verify(record, state, at) }
}

#[test]
fn only_a_later_verify_of_everything_ends_it() {
    let record = record();
    let found = Findings::default().after(&verify(&record, "done", 100));
    assert_eq!(found.of_replica(&record).unwrap().damaged, 8192);
    let is_there = |verify: &Verify| found.clone().after(verify).of_replica(&record).is_some();
    assert!(is_there(&sound(&record, "running", 200)));
    assert!(is_there(&sound(&record, "stopped", 200)));
    assert!(is_there(&sound(&record, "done", 50)), "it began before that");
    assert!(!is_there(&sound(&record, "done", 200)));
    let twice = found.clone().after(&verify(&record, "stopped", 300));
    assert_eq!(twice.of_replica(&record).unwrap().at, 301);
}

#[test]
fn it_is_about_what_the_replica_was_since_then() {
    let record = record();
    let found = Findings::default().after(&verify(&record, "done", 100));
    let rebuilt = ReplicaRecord { since: Generation(9), ..record };
    assert_eq!(found.of_replica(&rebuilt), None);
    assert_eq!(found.of_replica(&ReplicaRecord { state: ReplicaState::Stale, ..record }), None);
    assert_eq!(found.of_replica(&superblock(8 << 20).view.mirrors[0].replicas[0]), None);
}

#[test]
fn what_was_repaired_is_not_wrong_any_more() {
    let record = record();
    let found = |repaired: u64, of_all: u64| {
        let mut verify = Verify { repaired: of_all, ..verify(&record, "done", 100) };
        verify.replicas[0].repaired = repaired;
        Findings::default().after(&verify).of_replica(&record).map(|found| found.repaired)
    };
    assert_eq!(found(8192, 8192), None);
    assert_eq!(found(4096, 4096), Some(4096));
    assert_eq!(found(0, 8192), None, "older software counts them together only");
}
