use serde_json::json;

use super::*;

/// A volume with the replica that was brought back, on n2, beside one on n1.
fn volume(brought_back: &serde_json::Value, source_answers: bool) -> Vec<MirrorStatus> {
    let mut second = json!({
        "id": ReplicaId(2).to_string(), "node": {"id": "", "name": "n2"}, "state": "stale",
    });
    second.as_object_mut().unwrap().extend(brought_back.as_object().unwrap().clone());
    let first = json!({
        "id": ReplicaId(1).to_string(), "node": {"id": "", "name": "n1"}, "state": "in-sync",
        "reach": if source_answers { "answers" } else { "unreachable" },
    });
    let mirror = json!({"index": 0, "summary": "", "replicas": [first, second]});
    vec![serde_json::from_value(mirror).unwrap()]
}

#[test]
fn nobody_is_told_that_a_replica_copies_that_waits() {
    let then = |mirrors: &[MirrorStatus]| waits_for(mirrors, ReplicaId(2));
    let dead = json!({"node_alive": false});
    let away = "it copies what it lacks as soon as node n2 answers";
    assert_eq!(then(&volume(&dead, true)).as_deref(), Some(away));
    let unserved = json!({"node_alive": true, "unserved": "its disk is absent"});
    let served = "it copies what it lacks as soon as node n2 serves it";
    assert_eq!(then(&volume(&unserved, true)).as_deref(), Some(served));
    let alive = json!({"node_alive": true});
    let source = "it copies what it lacks as soon as an in-sync replica answers";
    assert_eq!(then(&volume(&alive, false)).as_deref(), Some(source));
    assert_eq!(then(&volume(&alive, true)), None);
    // It is there already, or was heard since its node counted as dead.
    assert_eq!(then(&volume(&json!({"state": "in-sync"}), true)), None);
    assert_eq!(then(&volume(&json!({"node_alive": false, "connected": true}), true)), None);
}
