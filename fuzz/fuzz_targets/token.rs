//! Tokens as text, and what is said when a node joins: what is accepted has one form.
#![no_main]

use evenkeel_trust::{JoinAnswer, JoinRequest, Token};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((kind, rest)) = input.split_first() else { return };
    match kind % 3 {
        0 => {
            let Ok(text) = str::from_utf8(rest) else { return };
            let Ok(token) = text.parse::<Token>() else { return };
            assert_eq!(token.to_string(), text.trim().to_ascii_lowercase());
            assert!(token.expires() >= token.made());
        }
        1 => {
            if let Ok(request) = JoinRequest::decode(rest) {
                assert_eq!(&request.encode()[2..], rest);
            }
        }
        _ => {
            if let Ok(answer) = JoinAnswer::decode(rest) {
                assert!(JoinAnswer::decode(&answer.encode()[2..]).is_ok());
            }
        }
    }
});
