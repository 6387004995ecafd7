use super::*;

/// What another node makes of it, and what one of older software did.
fn heard(risk: &Risk) -> (Option<Risk>, Option<Risk>) {
    let told = PeerReplica::at_risk(ReplicaId(7), risk);
    let told = serde_json::to_value(told).unwrap();
    let read =
        |told: &serde_json::Value| -> PeerReplica { serde_json::from_value(told.clone()).unwrap() };
    let mut old = told.clone();
    old.as_object_mut().unwrap().remove("read_only");
    let [now, old] = [read(&told), read(&old)].map(|told| told.risk().map(|(_, risk)| risk));
    (now, old)
}

#[test]
fn all_that_is_wrong_with_a_replica_is_told_and_an_older_node_learns_the_worse() {
    let why = || "so it is".to_owned();
    for risk in [Risk::FileGone(why()), Risk::ReadOnly(why())] {
        assert_eq!(heard(&risk), (Some(risk.clone()), Some(risk.clone())));
    }
    let both = Risk::FileGoneReadOnly(why());
    assert_eq!(heard(&both), (Some(both.clone()), Some(Risk::FileGone(why()))));
}
