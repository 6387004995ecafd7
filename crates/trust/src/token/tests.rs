use proptest::prelude::*;

use super::*;
use crate::authority::Key;

fn token(secret: u8) -> Token {
    let id = TokenId([2; 8]);
    Token::new(Fingerprint([1; 16]), id, [secret; 16], 1_700_000_000, 3600).unwrap()
}

#[test]
fn a_token_is_read_as_it_was_written() {
    let text = token(3).to_string();
    assert_eq!(text.len(), LENGTH);
    assert!(text.bytes().all(|byte| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(&byte)));
    for shown in [text.clone(), text.to_uppercase(), format!(" {text}\n")] {
        let read: Token = shown.parse().unwrap();
        assert_eq!(read, token(3));
        assert_eq!(read.expires(), 1_700_003_600);
    }
}

#[test]
fn a_mistyped_token_is_told_so() {
    let text = token(3).to_string();
    for index in 0..LENGTH {
        let mut letters: Vec<char> = text.chars().collect();
        letters[index] = if letters[index] == 'q' { 'r' } else { 'q' };
        let mistyped: String = letters.into_iter().collect();
        assert_eq!(mistyped.parse::<Token>(), Err(TokenError::Checksum), "{index}");
    }
    for wrong in ["", "abc", &text[1..], &format!("{text}a"), &text.replace(&text[..1], "1")] {
        assert_eq!(wrong.parse::<Token>(), Err(TokenError::Form), "{wrong}");
    }
}

#[test]
fn a_later_version_is_told_so() {
    let mut bytes = token(3).bytes();
    bytes[0] = 2;
    let sum = checksum(&bytes);
    bytes[CHECKED..].copy_from_slice(&sum);
    let text: String = bytes.chunks_exact(5).flat_map(digits).collect();
    assert_eq!(text.parse::<Token>(), Err(TokenError::Version(2)));
}

#[test]
fn nothing_shows_a_secret() {
    let shown = format!("{:?} {:?}", token(0x77), token(0x77).key());
    assert!(!shown.contains("119") && !shown.contains("77"), "{shown}");
}

#[test]
fn a_proof_is_for_one_request_on_one_connection() {
    let (key, other) = (Key::generate().unwrap().public(), Key::generate().unwrap().public());
    let asked = Asked { channel: &[7; 32], key: &key, node: NodeId(9), name: "n1" };
    let id = TokenId([2; 8]);
    let proof = token(3).key().prove(id, &asked);
    let verifies = |asked: &Asked<'_>| token(3).key().verify(id, asked, &proof);
    assert!(verifies(&asked));
    assert!(!verifies(&Asked { channel: &[8; 32], ..asked }));
    assert!(!verifies(&Asked { key: &other, ..asked }));
    assert!(!verifies(&Asked { node: NodeId(10), ..asked }));
    assert!(!verifies(&Asked { name: "n2", ..asked }));
    assert!(!token(3).key().verify(TokenId([3; 8]), &asked, &proof));
    assert!(!token(4).key().verify(id, &asked, &proof));
}

proptest! {
    #[test]
    fn each_token_has_one_text(
        authority: [u8; 16], id: [u8; 8], secret: [u8; 16], made in 0u64..1 << 40, lasts: u32,
    ) {
        let made = Token::new(Fingerprint(authority), TokenId(id), secret, made, lasts).unwrap();
        let read: Token = made.to_string().parse().unwrap();
        prop_assert_eq!(read, made);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,100}") {
        let _ = text.parse::<Token>();
    }
}
