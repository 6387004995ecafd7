use rustls::server::ParsedCertificate;

use super::*;

const CLUSTER: CoordinatorId = CoordinatorId(0xc);
const NOW: u64 = 1_700_000_000;

#[test]
fn a_key_is_read_as_it_was_written() {
    let key = Key::generate().unwrap();
    let read = Key::from_pkcs8(key.pkcs8()).unwrap();
    assert_eq!(read.public(), key.public());
    assert_ne!(Key::generate().unwrap().public(), key.public());
    assert_eq!(format!("{key:?}"), "Key");
    for wrong in [&[][..], &[0x30, 0], key.public().bytes()] {
        assert!(matches!(Key::from_pkcs8(wrong), Err(SignError::Key)));
    }
}

#[test]
fn a_public_key_has_one_form() {
    let bytes = *Key::generate().unwrap().public().bytes();
    assert_eq!(PublicKey::new(&bytes).unwrap().bytes(), &bytes);
    assert_eq!(PublicKey::new(&bytes[..64]), None);
    let mut compressed = bytes;
    compressed[0] = 2;
    assert_eq!(PublicKey::new(&compressed), None);
}

#[test]
fn whoever_has_the_key_is_the_authority() {
    let authority = Authority::generate(CLUSTER).unwrap();
    let again = Authority::new(CLUSTER, Key::from_pkcs8(authority.key().pkcs8()).unwrap());
    let key = Key::generate().unwrap().public();
    let node = again.sign_node("n1", NodeId(7), &key, [9; 16], NOW).unwrap();
    let root = authority.certificate([1; 16], NOW).unwrap();
    let verifier = crate::Verifier::new(CLUSTER, &root, 0).unwrap();
    assert_eq!(verifier.standing(&node, NOW), Ok(crate::Standing::Current));
    assert_eq!(again.cluster(), CLUSTER);
}

#[test]
fn a_time_that_cannot_be_right_is_told() {
    let authority = Authority::generate(CLUSTER).unwrap();
    let key = Key::generate().unwrap().public();
    for now in [0, EARLY - 1, NEVER, u64::MAX] {
        let signed = authority.sign_node("n1", NodeId(7), &key, [9; 16], now);
        assert!(matches!(signed, Err(SignError::Time(told)) if told == now), "{now}");
    }
    authority.sign_node("n1", NodeId(7), &key, [9; 16], EARLY).unwrap();
    authority.sign_node("n1", NodeId(7), &key, [0xff; 16], NEVER - VALIDITY).unwrap();
    assert!(matches!(authority.certificate([1; 16], 0), Err(SignError::Time(0))));
}

#[test]
fn a_name_that_no_certificate_can_have_is_told() {
    let authority = Authority::generate(CLUSTER).unwrap();
    let key = Key::generate().unwrap().public();
    for name in ["*", "a b", &"X".repeat(64)] {
        let signed = authority.sign_client(name, &key, [9; 16], NOW);
        assert!(matches!(signed, Err(SignError::Name(_))), "{name}");
    }
}

#[test]
fn a_certificate_fits_into_a_few_hundred_bytes() {
    let authority = Authority::generate(CLUSTER).unwrap();
    let key = Key::generate().unwrap().public();
    let name = "x".repeat(63);
    let node = authority.sign_node(&name, NodeId(7), &key, [9; 16], NOW).unwrap();
    assert!(ParsedCertificate::try_from(&node).is_ok());
    assert!(node.len() < 1024, "{}", node.len());
}
