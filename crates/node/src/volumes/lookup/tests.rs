use super::{Liveness, Needed, way_out};

#[test]
fn of_a_silent_node_the_way_out_is_told() {
    let reported = way_out("n2", "music", Liveness::CountsFor(10), None);
    let begins = "Node n2 is not known to be down: try again, and repair the network to it";
    assert!(
        reported.starts_with(begins) && reported.contains("If it has died: 10 s"),
        "{reported}"
    );
    assert!(reported.ends_with("`evenkeel attach music` on another node takes the volume over"));
    assert_eq!(
        way_out("n2", "music", Liveness::Dead, None),
        "Start node n2, or repair its network; or take the volume over, by `evenkeel attach music` on another node"
    );
    let reported = way_out("n2", "music", Liveness::Unknown, None);
    assert!(reported.contains("whether node n2 runs is not known here"), "{reported}");
}

/// An attach elsewhere would fail.
#[test]
fn nobody_is_advised_to_take_over_what_only_the_silent_node_has() {
    let alone = Needed { mirror: 0, others: Vec::new() };
    let why =
        ": no other node can take the volume over, as none has an in-sync replica of mirror 0";
    assert_eq!(
        way_out("n2", "music", Liveness::Dead, Some(&alone)),
        format!("Start node n2, or repair its network{why}")
    );
    let reported = way_out("n2", "music", Liveness::CountsFor(10), Some(&alone));
    assert!(reported.ends_with(&format!("If it has died, start it{why}")), "{reported}");
    let others = Needed { mirror: 1, others: vec!["n3".into(), "n4".into()] };
    assert_eq!(
        way_out("n2", "music", Liveness::Dead, Some(&others)),
        "Start node n2, or repair its network; or first start one of nodes n3, n4, without which no in-sync replica of mirror 1 is there, and then take the volume over, by `evenkeel attach music` on another node"
    );
}
