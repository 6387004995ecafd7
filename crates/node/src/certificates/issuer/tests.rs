use evenkeel_coordinator::NodeRecord;
use evenkeel_trust::Key;

use super::*;

fn request(node: u128, name: &str) -> JoinRequest {
    let key = Key::generate().unwrap().public();
    let (token, node) = (TokenId([1; 8]), NodeId(node));
    JoinRequest { token, node, name: name.to_owned(), key, proof: [0; 32] }
}

fn member(node: u128, name: &str) -> NodeLiveness {
    NodeLiveness {
        node: NodeRecord {
            id: NodeId(node).to_string(),
            name: name.to_owned(),
            addresses: Vec::new(),
            software: String::new(),
            incarnation: 1,
            counter: 1,
        },
        alive: true,
        may_live: true,
        last_seen: None,
        coordinator: false,
    }
}

#[test]
fn nobody_gets_the_certificate_of_a_member() {
    let nodes = [member(1, "a"), member(2, "b")];
    let refused = |node, name: &str, is_for_member| {
        conflict(&nodes, &request(node, name), is_for_member).unwrap_or_default()
    };
    assert_eq!(refused(3, "c", false), "");
    // The identity, the name, or both of a member.
    assert!(refused(2, "c", false).contains("belongs to node b"));
    assert!(refused(3, "b", false).contains("another node of the cluster is named b"));
    assert!(refused(2, "b", false).contains("--member"));
    assert!(refused(2, "a", false).contains("belongs to node b"));
    // A token that was made for one.
    assert_eq!(refused(2, "b", true), "");
    assert!(refused(2, "a", true).contains("belongs to node b"));
    assert!(refused(3, "b", true).contains("another node"));
}
