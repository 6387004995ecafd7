use super::*;

/// What another node makes of it, and what one of older software did.
fn received(risk: &Risk) -> (Option<Risk>, Option<Risk>) {
    let reported = PeerReplica::at_risk(ReplicaId(7), risk);
    let reported = serde_json::to_value(reported).unwrap();
    let read = |reported: &serde_json::Value| -> PeerReplica {
        serde_json::from_value(reported.clone()).unwrap()
    };
    let mut old = reported.clone();
    old.as_object_mut().unwrap().remove("read_only");
    let [now, old] =
        [read(&reported), read(&old)].map(|reported| reported.risk().map(|(_, risk)| risk));
    (now, old)
}

#[test]
fn all_that_is_wrong_with_a_replica_is_told_and_an_older_node_learns_the_worse() {
    let why = || "so it is".to_owned();
    for risk in [Risk::FileGone(why()), Risk::ReadOnly(why())] {
        assert_eq!(received(&risk), (Some(risk.clone()), Some(risk.clone())));
    }
    let both = Risk::FileGoneReadOnly(why());
    assert_eq!(received(&both), (Some(both.clone()), Some(Risk::FileGone(why()))));
}
