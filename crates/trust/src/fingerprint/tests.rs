use evenkeel_core::CoordinatorId;
use rcgen::PublicKeyData as _;

use super::*;
use crate::authority::{Authority, Key};

#[test]
fn it_is_the_beginning_of_the_keys_digest() {
    let authority = Authority::generate(CoordinatorId(7)).unwrap();
    let key = Key::from_pkcs8(authority.key().pkcs8()).unwrap();
    let certificate = authority.certificate([1; 16], 1_700_000_000).unwrap();
    let whole = Sha256::digest(key.public().subject_public_key_info());
    let fingerprint = Fingerprint::of(&certificate).unwrap();
    assert_eq!(fingerprint.0[..], whole[..LENGTH]);
    assert!(fingerprint.to_string().starts_with(&format!("{:02x}{:02x}", whole[0], whole[1])));

    let other = Authority::generate(CoordinatorId(7)).unwrap();
    let other = Fingerprint::of(&other.certificate([1; 16], 1_700_000_000).unwrap());
    assert_ne!(other, Some(fingerprint));
    // Another certificate of the same key.
    let later = authority.certificate([2; 16], 1_800_000_000).unwrap();
    assert_eq!(Fingerprint::of(&later), Some(fingerprint));
}

#[test]
fn what_is_no_certificate_has_none() {
    assert_eq!(Fingerprint::of(&vec![].into()), None);
    assert_eq!(Fingerprint::of(&vec![0x30, 0x82, 0, 1].into()), None);
}

#[test]
fn a_long_key_has_a_long_head() {
    assert_eq!(sequence_header(89), Some(vec![0x30, 89]));
    assert_eq!(sequence_header(200), Some(vec![0x30, 0x81, 200]));
    assert_eq!(sequence_header(0x226), Some(vec![0x30, 0x82, 2, 0x26]));
    assert_eq!(sequence_header(1 << 16), None);
}
