use evenkeel_api::types::{NodeRef, ReplicaReach, ReplicaState};

use super::*;

fn replica(node: &str, state: ReplicaState) -> LostReplica {
    LostReplica {
        volume: "music".into(),
        id: format!("1a2b3c4d-0000-4000-8000-{node:0>12}"),
        mirror: 0,
        node: NodeRef { id: node.into(), name: node.into() },
        disk: "disk".into(),
        state,
        reach: None,
        size: 4 << 30,
    }
}

fn left(in_sync: &[&str]) -> LeftMirror {
    let in_sync: Vec<String> = in_sync.iter().map(|place| (*place).to_owned()).collect();
    LeftMirror { volume: "music".into(), mirror: 0, replicas: in_sync.len(), in_sync }
}

#[test]
fn who_goes_and_what_is_left_is_told_before_and_after() {
    let removes = vec![replica("n3", ReplicaState::Faulty), replica("n2", ReplicaState::InSync)];
    let lost = Plan { removes, leaves: vec![left(&["n1:disk"])], ..Plan::default() };
    let rows = "  VOLUME  REPLICA   NODE  DISK  STATE    SIZE
  music   1a2b3c4d  n3    disk  faulty     4G
  music   1a2b3c4d  n2    disk  in-sync    4G
";
    let rest = "volume `music`, mirror 0: 1 in-sync replica on n1:disk\n";
    assert_eq!(plan(&lost), format!("would be removed for good:\n{rows}would leave {rest}"));
    assert_eq!(done(&lost), format!("removed for good:\n{rows}leaves {rest}"));
}

#[test]
fn a_replica_that_is_not_there_is_not_called_in_sync() {
    let mut gone = replica("n3", ReplicaState::InSync);
    gone.reach = Some(ReplicaReach::Unreachable);
    let mut deleted = replica("n2", ReplicaState::InSync);
    deleted.reach = Some(ReplicaReach::FileGone);
    let text = plan(&Plan { removes: vec![gone, deleted], ..Plan::default() });
    assert!(text.contains("n3    disk  unreachable"), "{text}");
    assert!(text.contains("n2    disk  file gone"), "{text}");
    assert!(!text.contains("in-sync"), "{text}");
}

#[test]
fn what_a_stop_ends_is_told_by_nodes() {
    let node = |name: &str| NodeRef { id: name.into(), name: name.into() };
    let stop = Plan { detaches: vec![node("n1"), node("n2")], ..Plan::default() };
    assert_eq!(plan(&stop), "would be detached from: n1, n2\nno replica is lost\n");
}

#[test]
fn what_only_leaves_the_service_is_told_apart() {
    let fails = vec![replica("n3", ReplicaState::InSync)];
    let failed = Plan { fails, leaves: vec![left(&["n1:disk", "n2:disk"])], ..Plan::default() };
    let text = plan(&failed);
    assert!(text.starts_with("would be taken out of use:\n"), "{text}");
    assert!(text.ends_with("2 in-sync replicas on n1:disk, n2:disk\n"), "{text}");
    assert_eq!(plan(&Plan::default()), "no replica is lost\n");
}

#[test]
fn the_hosts_that_lose_their_registration_are_listed() {
    let host = |host: &str, node: Option<&str>, holder| Registrant {
        host: host.into(),
        node: node.map(str::to_owned),
        key: "0x1".into(),
        holder,
    };
    let unregisters = vec![host("1a2b", Some("n1"), true), host("3c4d", None, false)];
    let text = plan(&Plan { unregisters, ..Plan::default() });
    let expected = "would be unregistered:
  HOST  KEY
  n1    0x1  holds the reservation
  3c4d  0x1
";
    assert_eq!(text, expected);
}
