use std::collections::HashSet;

use rustls::pki_types::DnsName;

use super::*;

const CLUSTER: CoordinatorId = CoordinatorId(0xabc);

#[test]
fn names_are_dns_names_of_one_cluster() {
    let node_name = node("n1", CLUSTER).unwrap();
    assert_eq!(node_name, "n1.node.00000000000000000000000000000abc.evenkeel");
    let id = identity(NodeId(7), CLUSTER);
    assert_eq!(id, format!("{:032x}.id.{:032x}.evenkeel", 7, 0xabc));
    assert!(client("web", CLUSTER).unwrap().starts_with("web.client.0"));
    assert_ne!(node("n1", CoordinatorId(1)), node("n1", CoordinatorId(2)));
}

#[test]
fn no_two_names_are_written_alike() {
    let names = ["a", "A", "a.b", "a_b", "a-b", "a-", "a_2d", "a.node", "a..b", "7", "a_5f2d"];
    let mut seen = HashSet::new();
    for name in names {
        let written = node(name, CLUSTER).unwrap();
        assert!(DnsName::try_from(written.clone()).is_ok(), "{written}");
        assert_eq!(written.matches('.').count(), 3, "{written}");
        assert!(seen.insert(written.to_ascii_lowercase()), "{written}");
    }
}

#[test]
fn what_is_no_name_or_too_long_is_refused() {
    for bad in ["", "*", "-a", "a/b", "ä", "a b", "a\0"] {
        assert_eq!(node(bad, CLUSTER), Err(NameError::NotAName(bad.to_owned())));
    }
    assert!(node(&"a".repeat(63), CLUSTER).is_ok());
    for long in ["a".repeat(64), "A".repeat(22)] {
        assert_eq!(client(&long, CLUSTER), Err(NameError::TooLong(long)));
    }
}
