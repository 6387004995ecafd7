use super::*;

const NODES: (NodeId, NodeId) = (NodeId(1), NodeId(2));
/// This node: it has none of the replicas.
const HERE: NodeId = NodeId(3);

fn asked() -> Asked {
    let replicas = vec![(NODES.0, ReplicaId(11)), (NODES.1, ReplicaId(12))];
    Asked { here: HERE, replicas }
}

fn reports(answered: [bool; 2], gone: &[u128]) -> Reports {
    let nodes = [(NODES.0, answered[0]), (NODES.1, answered[1])];
    let gone = gone.iter().map(|id| (ReplicaId(*id), deleted()));
    Reports::of_nodes(nodes).with_risks(gone)
}

fn deleted() -> Risk {
    Risk::FileGone("its file was deleted".into())
}

fn read_only() -> Risk {
    Risk::ReadOnly("its file system is read-only".into())
}

#[test]
fn a_disk_that_cannot_be_written_counts_when_that_was_heard_for_a_while() {
    let risks = Risks::default();
    let begin = Instant::now();
    let reported =
        || reports([true, true], &[]).with_risks([(ReplicaId(12), read_only())].into_iter());
    risks.note(&asked(), &reported(), begin);
    let unwritable = |now| risks.lasting(now).unwritable;
    assert_eq!(risks.lasting(begin).well, [ReplicaId(11)].into());
    assert_eq!(unwritable(begin), [].into());
    risks.note(&asked(), &reported(), begin + LASTING);
    assert_eq!(unwritable(begin + LASTING), [ReplicaId(12)].into());
    risks.note(&asked(), &reports([true, true], &[]), begin + LASTING);
    risks.note(&asked(), &reported(), begin + LASTING);
    assert_eq!(unwritable(begin + LASTING), [].into(), "it was well meanwhile");
}

#[test]
fn what_was_not_heard_this_time_is_evidence_for_nothing() {
    let risks = Risks::default();
    let begin = Instant::now();
    let reported =
        reports([true, true], &[]).with_risks([(ReplicaId(12), read_only())].into_iter());
    risks.note(&asked(), &reported, begin);
    risks.note(&asked(), &reports([true, false], &[11]), begin + LASTING);
    assert_eq!(risks.lasting(begin + LASTING), Lasting::default());
}

#[test]
fn what_is_gone_is_news_once_and_no_more_when_it_is_back() {
    let risks = Risks::default();
    assert_eq!(
        risks.note(&asked(), &reports([true, true], &[12]), Instant::now()),
        [ReplicaId(12)]
    );
    assert_eq!(risks.note(&asked(), &reports([true, true], &[12]), Instant::now()), []);
    assert_eq!(risks.of(ReplicaId(12)), Some(deleted()));
    assert_eq!(risks.of(ReplicaId(11)), None);
    assert_eq!(risks.note(&asked(), &reports([true, true], &[]), Instant::now()), []);
    assert_eq!(risks.of(ReplicaId(12)), None);
    assert_eq!(
        risks.note(&asked(), &reports([true, true], &[12]), Instant::now()),
        [ReplicaId(12)],
        "anew"
    );
}

#[test]
fn what_a_silent_node_said_last_stays_and_what_is_asked_no_more_is_forgotten() {
    let risks = Risks::default();
    risks.note(&asked(), &reports([true, true], &[11, 12]), Instant::now());
    assert_eq!(risks.note(&asked(), &reports([true, false], &[]), Instant::now()), []);
    assert_eq!((risks.of(ReplicaId(11)), risks.of(ReplicaId(12)).is_some()), (None, true));
    risks.note(&Asked { here: HERE, replicas: Vec::new() }, &Reports::default(), Instant::now());
    assert_eq!(risks.of(ReplicaId(12)), None);
}

#[test]
fn why_a_replica_is_not_served_is_known_while_its_node_says_so() {
    let risks = Risks::default();
    let read_only = Unserved::Unusable("its file system is read-only".into());
    let reported = reports([true, true], &[]).with_unserved(ReplicaId(12), read_only.clone());
    assert_eq!(risks.note(&asked(), &reported, Instant::now()), []);
    assert_eq!(risks.unserved(ReplicaId(11)), None);
    assert_eq!(risks.unserved(ReplicaId(12)), Some(read_only));
    risks.note(&asked(), &reports([true, false], &[]), Instant::now());
    assert_eq!(risks.unserved(ReplicaId(12)), None, "nobody says so any more");
}

#[test]
fn of_its_own_replicas_a_node_keeps_no_old_answer() {
    let risks = Risks::default();
    let unusable = Unserved::Unusable("its file system is read-only".into());
    let reported = reports([true, true], &[]).with_unserved(ReplicaId(12), unusable);
    let asked = Asked { here: NODES.1, ..asked() };
    assert_eq!(risks.note(&asked, &reported, Instant::now()), []);
    assert_eq!(risks.unserved(ReplicaId(12)), None);
    assert_eq!(risks.lasting(Instant::now()).well, [ReplicaId(11)].into(), "but it is not well");
}
