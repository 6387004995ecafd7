use proptest::prelude::*;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::*;

#[test]
fn the_digits_are_those_of_base64() {
    // RFC 4648, section 10.
    for (bytes, text) in [
        ("", ""),
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foo", "Zm9v"),
        ("foob", "Zm9vYg=="),
        ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ] {
        assert_eq!(base64(bytes.as_bytes()), text);
    }
}

proptest! {
    #[test]
    fn the_tls_library_reads_what_is_written(der in prop::collection::vec(any::<u8>(), 0..300)) {
        let text = encode(CERTIFICATE, &der);
        prop_assert!(text.lines().all(|line| line.len() <= WIDTH));
        let read = CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
        prop_assert_eq!(read.as_ref(), &der[..]);
    }
}
