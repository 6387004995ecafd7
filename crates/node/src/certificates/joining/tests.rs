use evenkeel_trust::{Fingerprint, TokenId};

use super::*;

#[test]
fn a_certificate_was_made_while_its_token_was_valid() {
    let token = Token::new(Fingerprint([1; 16]), TokenId([2; 8]), [3; 16], 1_000_000, 3600);
    let token = token.unwrap();
    for (made, is_taken) in [
        (1_000_000, true),
        (1_003_600, true),
        // The clock was set meanwhile.
        (1_000_000 - CLOCK_STEP, true),
        (1_003_600 + CLOCK_STEP, true),
        (1_000_000 - CLOCK_STEP - 1, false),
        (1_003_600 + CLOCK_STEP + 1, false),
        (0, false),
        (u64::MAX, false),
    ] {
        assert_eq!(is_in_time(&token, made), is_taken, "{made}");
    }
}

#[test]
fn the_file_to_move_away_is_named() {
    let (why, advice) = another_authority(Path::new("/state/certificate.json"));
    assert!(
        why.contains("/state/certificate.json")
            && advice.contains("move /state/certificate.json away")
    );
}
