use super::*;

const NODES: (NodeId, NodeId) = (NodeId(1), NodeId(2));
const ASKED: [(NodeId, ReplicaId); 2] = [(NODES.0, ReplicaId(11)), (NODES.1, ReplicaId(12))];

fn heard(answered: [bool; 2], gone: &[u128]) -> Heard {
    let nodes = [(NODES.0, answered[0]), (NODES.1, answered[1])];
    let gone = gone.iter().map(|id| (ReplicaId(*id), deleted()));
    Heard::of_nodes(nodes).with_risks(gone)
}

fn deleted() -> Risk {
    Risk::FileGone("its file was deleted".into())
}

fn read_only() -> Risk {
    Risk::ReadOnly("its file system is read-only".into())
}

#[test]
fn a_disk_that_cannot_be_written_counts_when_that_was_heard_for_a_while() {
    let gone = Gone::default();
    let begin = Instant::now();
    let told = || heard([true, true], &[]).with_risks([(ReplicaId(12), read_only())].into_iter());
    gone.note_fresh(&ASKED, &told(), begin);
    let unwritable = |now| gone.settled(now).unwritable;
    assert_eq!(gone.settled(begin).well, [ReplicaId(11)].into());
    assert_eq!(unwritable(begin), [].into());
    gone.note_fresh(&ASKED, &told(), begin + SETTLED);
    assert_eq!(unwritable(begin + SETTLED), [ReplicaId(12)].into());
    gone.note_fresh(&ASKED, &heard([true, true], &[]), begin + SETTLED);
    gone.note_fresh(&ASKED, &told(), begin + SETTLED);
    assert_eq!(unwritable(begin + SETTLED), [].into(), "it was well meanwhile");
}

#[test]
fn what_was_not_heard_this_time_is_evidence_for_nothing() {
    let gone = Gone::default();
    let begin = Instant::now();
    let told = heard([true, true], &[]).with_risks([(ReplicaId(12), read_only())].into_iter());
    gone.note_fresh(&ASKED, &told, begin);
    gone.note_fresh(&ASKED, &heard([true, false], &[11]), begin + SETTLED);
    assert_eq!(gone.settled(begin + SETTLED), Settled::default());
}

#[test]
fn what_is_gone_is_news_once_and_no_more_when_it_is_back() {
    let gone = Gone::default();
    assert_eq!(gone.note(&ASKED, &heard([true, true], &[12])), [ReplicaId(12)]);
    assert_eq!(gone.note(&ASKED, &heard([true, true], &[12])), []);
    assert_eq!(gone.risk(ReplicaId(12)), Some(deleted()));
    assert_eq!(gone.risk(ReplicaId(11)), None);
    assert_eq!(gone.note(&ASKED, &heard([true, true], &[])), []);
    assert_eq!(gone.risk(ReplicaId(12)), None);
    assert_eq!(gone.note(&ASKED, &heard([true, true], &[12])), [ReplicaId(12)], "anew");
}

#[test]
fn what_a_silent_node_said_last_stays_and_what_is_asked_no_more_is_forgotten() {
    let gone = Gone::default();
    gone.note(&ASKED, &heard([true, true], &[11, 12]));
    assert_eq!(gone.note(&ASKED, &heard([true, false], &[])), []);
    assert_eq!((gone.risk(ReplicaId(11)), gone.risk(ReplicaId(12)).is_some()), (None, true));
    gone.note(&[], &Heard::default());
    assert_eq!(gone.risk(ReplicaId(12)), None);
}

#[test]
fn why_a_replica_is_not_served_is_known_while_its_node_says_so() {
    let gone = Gone::default();
    let read_only = Unserved::Unusable("its file system is read-only".into());
    let told = heard([true, true], &[]).with_unserved(ReplicaId(12), read_only.clone());
    assert_eq!(gone.note(&ASKED, &told), []);
    assert_eq!(gone.unserved(ReplicaId(11)), None);
    assert_eq!(gone.unserved(ReplicaId(12)), Some(read_only));
    gone.note(&ASKED, &heard([true, false], &[]));
    assert_eq!(gone.unserved(ReplicaId(12)), None, "nobody says so any more");
}
