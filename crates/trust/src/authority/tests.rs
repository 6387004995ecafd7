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
fn keys_are_text_as_other_programs_write_it() {
    // Of `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256` and
    // `openssl pkey -pubout`.
    let private = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgCO16b0vTl+2coXU+
DQp3XVg49NLzTU6W9qSD6KMqCcahRANCAATM144tqU+c2tROqz3X4Tfm9ilvltIU
TomYuStjNUBAQXn5Q1ZBlopWIPzyaVRsA6xk2ryA9Cn8VCY+H7jBw8tQ
-----END PRIVATE KEY-----
";
    let public = "\
-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEzNeOLalPnNrUTqs91+E35vYpb5bS
FE6JmLkrYzVAQEF5+UNWQZaKViD88mlUbAOsZNq8gPQp/FQmPh+4wcPLUA==
-----END PUBLIC KEY-----
";
    let key = Key::from_pem(private).unwrap();
    assert_eq!(key.public().pem(), public);
    assert_eq!(PublicKey::from_pem(public), Some(key.public()));
    let own = Key::generate().unwrap();
    let text = pem::encode(pem::PRIVATE_KEY, own.pkcs8());
    assert_eq!(Key::from_pem(&text).unwrap().public(), own.public());
    let other_curve =
        public.replacen("MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcD", "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQgD", 1);
    assert_ne!(other_curve, public);
    for wrong in ["", "x", private, &other_curve, &public[..100]] {
        assert_eq!(PublicKey::from_pem(wrong), None, "{wrong}");
    }
    assert!(matches!(Key::from_pem(public), Err(SignError::Key)));
}

#[test]
fn clients_compare_the_name_of_the_node_that_they_dial() {
    let authority = Authority::generate(CLUSTER).unwrap();
    let key = Key::generate().unwrap().public();
    let verified = |node: &str, host: &'static str| {
        let signed = authority.sign_node(node, NodeId(7), &key, [9; 16], NOW).unwrap();
        let signed = ParsedCertificate::try_from(&signed).unwrap();
        let host = rustls::pki_types::ServerName::try_from(host).unwrap();
        rustls::client::verify_server_name(&signed, &host).is_ok()
    };
    assert!(verified("n1", "n1"));
    assert!(!verified("n1", "n2"));
    // A name that a host cannot have is in the certificate in its long form alone.
    assert!(!verified("N1", "n1"));
    assert!(!verified("n1.example", "n1.example"));
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
        assert!(matches!(signed, Err(SignError::Time(reported)) if reported == now), "{now}");
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
        let signed = authority.sign_client(name, &key, [9; 16], NOW, 60);
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
