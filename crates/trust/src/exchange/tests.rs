use proptest::prelude::*;

use super::*;
use crate::authority::Key;

fn request(name: &str) -> JoinRequest {
    let key = Key::generate().unwrap().public();
    let (token, node) = (TokenId([1; 8]), NodeId(7));
    JoinRequest { token, node, name: name.to_owned(), key, proof: [5; PROOF_LENGTH] }
}

fn content(encoded: &[u8]) -> &[u8] {
    let (length, content) = encoded.split_first_chunk().unwrap();
    assert_eq!(usize::from(u16::from_be_bytes(*length)), content.len());
    content
}

#[test]
fn a_request_is_read_as_it_was_written() {
    for name in ["n", &"x".repeat(64)] {
        let request = request(name);
        let encoded = request.encode();
        assert!(content(&encoded).len() <= MAX_REQUEST);
        assert_eq!(JoinRequest::decode(content(&encoded)), Ok(request));
    }
}

#[test]
fn a_request_that_is_none_is_refused() {
    let encoded = request("n1").encode();
    let good = content(&encoded);
    for end in 0..=FIXED {
        assert_eq!(JoinRequest::decode(&good[..end]), Err(ExchangeError::Form), "{end}");
    }
    let changed = |at: usize, to: u8| {
        let mut bytes = good.to_vec();
        bytes[at] = to;
        JoinRequest::decode(&bytes)
    };
    assert_eq!(changed(0, 2), Err(ExchangeError::Version(2)));
    // A compressed key; a name that leads somewhere else.
    assert_eq!(changed(25, 2), Err(ExchangeError::Form));
    assert_eq!(changed(FIXED, b'/'), Err(ExchangeError::Form));
    let long = [good, &[b'x'; 64]].concat();
    assert_eq!(JoinRequest::decode(&long), Err(ExchangeError::Form));
}

#[test]
fn an_answer_is_read_as_it_was_written() {
    let (cluster, made, certificate) = (CoordinatorId(9), 1_700_000_000, vec![0x30; 700]);
    let admitted = JoinAnswer::Admitted { cluster, made, certificate };
    let refused = JoinAnswer::Refused { why: "the token has expired".into() };
    for answer in [admitted, refused] {
        let encoded = answer.encode();
        assert_eq!(JoinAnswer::decode(content(&encoded)), Ok(answer));
    }
    let long = JoinAnswer::Refused { why: "x".repeat(9000) }.encode();
    assert_eq!(content(&long).len(), MAX_ANSWER);
    for bad in [&[][..], &[0], &[3, 4], &[1, 0, 0]] {
        assert_eq!(JoinAnswer::decode(bad), Err(ExchangeError::Form));
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(request) = JoinRequest::decode(&bytes) {
            let encoded = request.encode();
            prop_assert_eq!(content(&encoded), &bytes[..]);
        }
        let _ = JoinAnswer::decode(&bytes);
    }
}
