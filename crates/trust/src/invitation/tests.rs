use super::*;
use crate::authority::Key;
use crate::fingerprint::Fingerprint;

const MADE: u64 = 1_700_000_000;
const CHANNEL: [u8; 32] = [7; 32];

fn token() -> Token {
    Token::new(Fingerprint([1; 16]), TokenId([2; 8]), [3; 16], MADE, 3600).unwrap()
}

fn key() -> PublicKey {
    Key::generate().unwrap().public()
}

fn request(node: u128, name: &str, key: PublicKey) -> JoinRequest {
    let asked = Asked { channel: &CHANNEL, key: &key, node: NodeId(node), name };
    let proof = token().key().prove(token().id(), &asked);
    JoinRequest { token: token().id(), node: NodeId(node), name: name.to_owned(), key, proof }
}

fn ask(invitation: &mut Invitation, request: &JoinRequest) -> Result<bool, Refused> {
    invitation.admit(request, &CHANNEL, MADE + 10)
}

#[test]
fn a_token_is_used_once_and_the_same_request_may_come_again() {
    let mut invitation = Invitation::new(&token(), 1, "*", None).unwrap();
    let first = request(9, "n1", key());
    assert_eq!(ask(&mut invitation, &first), Ok(true));
    // Its answer was lost.
    assert_eq!(ask(&mut invitation, &first), Ok(false));
    // Whoever has stolen it has another key, and another node.
    let used_up = Err(Refused::UsedUp("n1".into()));
    assert_eq!(ask(&mut invitation, &request(10, "n2", key())), used_up);
    assert_eq!(ask(&mut invitation, &request(9, "n1", key())), Err(Refused::Changed));
    assert_eq!(ask(&mut invitation, &first), Ok(false));
}

#[test]
fn a_use_is_bound_to_key_node_and_name() {
    let mut invitation = Invitation::new(&token(), 3, "*", None).unwrap();
    let known = key();
    assert_eq!(ask(&mut invitation, &request(9, "n1", known)), Ok(true));
    for other in [request(9, "n2", known), request(10, "n1", known), request(9, "n1", key())] {
        assert_eq!(ask(&mut invitation, &other), Err(Refused::Changed));
    }
    assert_eq!(invitation.users("n1").collect::<Vec<_>>(), [NodeId(9)]);
    assert_eq!(invitation.users("n2").count(), 0);
    assert_eq!(ask(&mut invitation, &request(10, "n2", key())), Ok(true));
}

#[test]
fn a_token_for_several_ends_after_as_many() {
    let mut invitation = Invitation::new(&token(), 2, "*", None).unwrap();
    for (node, admitted) in [(1, true), (2, true), (3, false)] {
        let answer = ask(&mut invitation, &request(node, &format!("n{node}"), key()));
        assert_eq!(answer == Ok(true), admitted, "{node}: {answer:?}");
    }
    assert_eq!(Invitation::new(&token(), 0, "*", None), None);
    assert_eq!(Invitation::new(&token(), MAX_COUNT + 1, "*", None), None);
}

#[test]
fn a_proof_of_another_connection_or_token_is_of_no_use() {
    let mut invitation = Invitation::new(&token(), 1, "*", None).unwrap();
    let sent = request(9, "n1", key());
    assert_eq!(invitation.admit(&sent, &[8; 32], MADE), Err(Refused::Unknown));
    let guessed = JoinRequest { proof: [0; 32], ..sent.clone() };
    assert_eq!(ask(&mut invitation, &guessed), Err(Refused::Unknown));
    let other = JoinRequest { token: TokenId([9; 8]), ..sent.clone() };
    assert_eq!(ask(&mut invitation, &other), Err(Refused::Unknown));
    let renamed = JoinRequest { name: "n2".into(), ..sent.clone() };
    assert_eq!(ask(&mut invitation, &renamed), Err(Refused::Unknown));
    assert_eq!(ask(&mut invitation, &sent), Ok(true));
}

#[test]
fn a_token_ends_by_the_authoritys_clock() {
    let sent = request(9, "n1", key());
    for (now, answer) in [
        (MADE + 3600, Err(Refused::Expired)),
        (u64::MAX, Err(Refused::Expired)),
        (MADE + 3599, Ok(true)),
        // A clock that was set back: it was made by the same one.
        (0, Ok(false)),
        // A request that is repeated after the end.
        (MADE + 3600, Err(Refused::Expired)),
    ]
    .into_iter()
    .scan(Invitation::new(&token(), 1, "*", None).unwrap(), |invitation, (now, expected)| {
        Some((invitation.admit(&sent, &CHANNEL, now), expected))
    }) {
        assert_eq!(now, answer);
    }
}

#[test]
fn a_token_is_for_names_of_a_pattern() {
    let mut invitation = Invitation::new(&token(), 9, "rack1-*", None).unwrap();
    let refused = Err(Refused::Name("rack1-*".into()));
    assert_eq!(ask(&mut invitation, &request(1, "n1", key())), refused);
    assert_eq!(ask(&mut invitation, &request(1, "rack1-7", key())), Ok(true));
}

#[test]
fn a_token_for_a_member_is_for_no_other_node() {
    let mut invitation = Invitation::new(&token(), 1, "n1", Some(NodeId(9))).unwrap();
    assert!(invitation.is_for_member());
    let refused = Err(Refused::Name("n1".into()));
    assert_eq!(ask(&mut invitation, &request(10, "n1", key())), refused);
    assert_eq!(ask(&mut invitation, &request(9, "n2", key())), refused);
    assert_eq!(ask(&mut invitation, &request(9, "n1", key())), Ok(true));
}

#[test]
fn a_star_stands_for_any_characters() {
    for (pattern, name) in
        [("*", "a"), ("a", "a"), ("a*", "a"), ("*a", "ba"), ("a*b*c", "axbbxc"), ("**", "x")]
    {
        assert!(fits(pattern, name), "{pattern} {name}");
    }
    for (pattern, name) in
        [("", "a"), ("a", "b"), ("a*", "ba"), ("*a", "ab"), ("a*a", "a"), ("a*b*b", "ab")]
    {
        assert!(!fits(pattern, name), "{pattern} {name}");
    }
}
