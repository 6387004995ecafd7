use evenkeel_core::NodeId;

use super::*;

fn host(node: u128, name: &str) -> Host {
    Host { node: NodeId(node), name: name.into(), start: None, epoch: 0 }
}

fn check(host: &Host, is_name_proved: bool) -> Result<(), String> {
    let wanted = Wanted::Node { id: NodeId(1).to_string(), name: "b".into() };
    let address = Address::parse("10.0.0.2:7740").unwrap();
    wanted.check(host, is_name_proved, &address).map_err(|error| error.to_string())
}

#[test]
fn another_node_at_the_address_is_refused_with_what_to_do() {
    assert_eq!(check(&host(1, "b"), true), Ok(()));
    let reported = check(&host(2, "c"), true).unwrap_err();
    assert!(
        reported.starts_with("node c answered at 10.0.0.2:7740, where node b was wanted"),
        "{reported}"
    );
    assert!(reported.contains("peer.advertise"), "{reported}");
    let reported = check(&host(2, "b"), true).unwrap_err();
    let id = NodeId(2).to_string();
    assert!(
        reported.starts_with(&format!("another node of that name ({id}) answered")),
        "{reported}"
    );
    let address = Address::parse("10.0.0.2:7740").unwrap();
    assert!(Wanted::Anyone.check(&host(2, "c"), true, &address).is_ok());
}

#[test]
fn a_name_counts_where_a_certificate_proves_it() {
    // It was renamed, and its cluster has not heard of that yet.
    assert_eq!(check(&host(1, "renamed"), false), Ok(()));
    // An external authority's certificate proves the name alone, and the identity is only said.
    check(&host(1, "c"), true).unwrap_err();
}
