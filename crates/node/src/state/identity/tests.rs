use super::*;

#[test]
fn a_node_keeps_its_identity_and_counts_its_starts() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(dir.path()).unwrap();
    let first = Identity::load_or_create(&state, "alpha".into()).unwrap();
    let second = Identity::load_or_create(&state, "alpha".into()).unwrap();
    assert_eq!(first.node, second.node);
    assert_eq!(first.boot, second.boot);
    assert_ne!(first.start.incarnation(), second.start.incarnation());
    assert_eq!(second.start.lineage().before, [first.start.incarnation().0]);
}
