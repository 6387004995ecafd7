use evenkeel_core::{ReplicaId, ReplicaState};

use super::*;
use crate::disks::tests::superblock;

fn verify(began: u64) -> Verify {
    serde_json::from_value(json!({
        "state": "done", "repair": false, "checked": 8, "total": 8, "alone": 8, "different": 0,
        "unreadable": 0, "repaired": 0, "ranges": [], "seconds": 1, "began": began, "ended": began + 1,
    }))
    .unwrap()
}

#[test]
fn only_a_later_verify_that_finds_nothing_wrong_ends_an_error() {
    let ended = |verify: &Verify| is_ended_by(verify, 1000);
    assert!(ended(&verify(1001)));
    assert!(!ended(&verify(1000)), "it may have passed that place before");
    assert!(!ended(&Verify { unreadable: 4096, ..verify(1001) }));
    assert!(!ended(&Verify { damaged: 4096, ..verify(1001) }));
    assert!(!ended(&Verify { state: VerifyState::Running, ..verify(1001) }));
    assert!(!ended(&Verify { state: VerifyState::Stopped, ..verify(1001) }));
    assert!(!ended(&Verify { began: None, ..verify(1001) }));
}

#[test]
fn the_last_error_counts_until_a_verify_ends_it() {
    let mut errors = DiskErrors::default();
    errors.failed(["a".to_owned(), "b".to_owned()].into_iter(), 900);
    errors.failed(["a".to_owned()].into_iter(), 1000);
    errors.failed(["a".to_owned()].into_iter(), 950);
    assert_eq!((errors.last("a"), errors.last("b")), (Some(1000), Some(900)));
    assert_eq!(errors.last("c"), None);
    let after = errors.after(&verify(950));
    assert_eq!((after.last("a"), after.last("b")), (Some(1000), None));
}

#[test]
fn the_disk_of_a_replica_that_is_not_the_last_one_is_not_blamed() {
    let mut view = superblock(8 << 20).view;
    let alone = view.mirrors[0].replicas[0].id.to_string();
    let mut other = view.mirrors[0].replicas[0];
    (other.id, other.state) = (ReplicaId(77), ReplicaState::Stale);
    view.mirrors[0].replicas.push(other);
    assert_eq!(last_in_sync(&view).collect::<Vec<_>>(), [alone]);
    view.mirrors[0].replicas[1].state = ReplicaState::InSync;
    assert_eq!(last_in_sync(&view).count(), 0);
}
