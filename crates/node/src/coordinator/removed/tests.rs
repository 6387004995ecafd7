use super::*;

#[test]
fn people_are_reported_names() {
    let id = evenkeel_core::NodeId(7).to_string();
    let reported = format!("node n3 ({id}) was removed from the cluster on 2026-11-24 02:30 UTC");
    let short = "node n3 was removed from the cluster on 2026-11-24 02:30 UTC";
    assert_eq!(without_identities(&reported), short);
    for text in ["it waits (3 s) for n1", "an open ( stays", ""] {
        assert_eq!(without_identities(text), text);
    }
}
