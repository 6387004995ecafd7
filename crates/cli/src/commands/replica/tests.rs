use super::*;
use crate::output::volume::tests::volume;

fn replica(id: &str, node: &str, disk: &str) -> ReplicaStatus {
    serde_json::from_value(serde_json::json!({
        "id": id, "node": {"id": "", "name": node}, "disk": disk, "state": "in-sync",
    }))
    .unwrap()
}

/// A volume of three replicas on two nodes.
fn music() -> VolumeStatus {
    let mut music = volume();
    music.mirrors[0].replicas = vec![
        replica("3fa9c1d2-1", "n1", "fast"),
        replica("77aa0011-2", "n2", "fast"),
        replica("77aa0022-3", "n2", "slow"),
    ];
    music
}

#[test]
fn a_replica_is_named_by_its_node_disk_or_identity() {
    let music = music();
    let chosen = |named| choose(&music, named, || false).map(|found| found.id.as_str());
    assert_eq!(chosen("n1"), Ok("3fa9c1d2-1"));
    assert_eq!(chosen("n2:slow"), Ok("77aa0022-3"));
    assert_eq!(chosen("77aa0011"), Ok("77aa0011-2"));
    assert_eq!(chosen("n2").unwrap_err().exit, Exit::Usage);
    assert_eq!(chosen("77aa").unwrap_err().exit, Exit::Usage);
    let missing = chosen("n9").unwrap_err();
    assert_eq!(missing.exit, Exit::NotFound);
    assert!(missing.why.contains("n2:slow (77aa0022)"), "{}", missing.why);
}

#[test]
fn a_disk_whose_name_is_not_known_here_may_be_the_one_that_is_meant() {
    let mut music = music();
    music.mirrors[0].replicas.iter_mut().for_each(|replica| replica.disk = None);
    let failure = choose(&music, "n1:fast", || false).unwrap_err();
    assert_eq!(failure.exit, Exit::Unreachable);
    assert_eq!(failure.what, "cannot tell which replica of volume `music` is `n1:fast`");
    assert!(failure.why.starts_with("the coordinator could not be reached"), "{}", failure.why);
    assert_eq!(choose(&music, "n1", || false).map(|found| found.id.as_str()), Ok("3fa9c1d2-1"));
    // There is no disk of that node among them, whatever the disks are called.
    assert_eq!(choose(&music, "n9:fast", || false).unwrap_err().exit, Exit::NotFound);
    // It is none, if the coordinator answers: of an old replica it does not know the disk's name.
    assert_eq!(choose(&music, "n1:typo", || true).unwrap_err().exit, Exit::NotFound);
    // Nobody who would know of a new one has answered, though the coordinator does by now.
    music.source = StatusSource::Replica;
    for is_complete in [false, true] {
        let failure = choose(&music, "n9:fast", || is_complete).unwrap_err();
        assert_eq!(failure.exit, Exit::Unreachable);
    }
}
