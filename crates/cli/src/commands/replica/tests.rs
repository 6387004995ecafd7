use super::*;

fn replica(id: &str, node: &str, disk: &str) -> ReplicaStatus {
    serde_json::from_value(serde_json::json!({
        "id": id, "node": {"id": "", "name": node}, "disk": disk, "state": "in-sync",
    }))
    .unwrap()
}

#[test]
fn a_replica_is_named_by_its_node_disk_or_identity() {
    let all = [
        replica("3fa9c1d2-1", "n1", "fast"),
        replica("77aa0011-2", "n2", "fast"),
        replica("77aa0022-3", "n2", "slow"),
    ];
    let all: Vec<_> = all.iter().collect();
    let chosen = |named| choose(&all, "music", named).map(|found| found.id.as_str());
    assert_eq!(chosen("n1"), Ok("3fa9c1d2-1"));
    assert_eq!(chosen("n2:slow"), Ok("77aa0022-3"));
    assert_eq!(chosen("77aa0011"), Ok("77aa0011-2"));
    assert_eq!(chosen("n2").unwrap_err().exit, Exit::Usage);
    assert_eq!(chosen("77aa").unwrap_err().exit, Exit::Usage);
    let missing = chosen("n9").unwrap_err();
    assert_eq!(missing.exit, Exit::NotFound);
    assert!(missing.why.contains("n2:slow (77aa0022)"), "{}", missing.why);
}
