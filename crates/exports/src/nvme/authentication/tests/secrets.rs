use crc_fast::{CrcAlgorithm, checksum};

use super::*;
use base64ct::{Base64, Encoding as _};

/// A text of this number and key, with its checksum.
fn text(number: &str, key: &[u8]) -> String {
    let crc = checksum(CrcAlgorithm::Crc32IsoHdlc, key) as u32;
    let bytes = [key, &crc.to_le_bytes()].concat();
    format!("DHHC-1:{number}:{}:", Base64::encode_string(&bytes))
}

#[test]
fn a_secret_is_read_and_written() {
    for vector in Vector::all() {
        for secret in [&vector.host_secret, &vector.controller_secret] {
            assert_eq!(*Secret::read(secret).unwrap().text(), **secret);
        }
    }
    // As nvme-cli has made it.
    let known = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
    assert_eq!(*Secret::read(&format!(" {known}\n")).unwrap().text(), *known);
    let made = Secret::new(&[7; 32]);
    assert!(made.text().starts_with("DHHC-1:01:"), "{}", *made.text());
    assert_eq!(Secret::read(&made.text()).unwrap(), made);
    assert_eq!(format!("{made:?}"), "Secret");
}

#[test]
fn what_is_no_secret_is_refused() {
    let sound = text("01", &[1; 32]);
    let changed = sound.replace("AQEB", "AQEC");
    assert_ne!(sound, changed);
    for (given, expected) in [
        ("", SecretError::Form),
        ("DHHC-1", SecretError::Form),
        ("DHHC-1:01:", SecretError::Form),
        ("DHHC-2:01:AAAA:", SecretError::Form),
        (sound.trim_end_matches(':'), SecretError::Form),
        (&text("04", &[1; 32]), SecretError::Transform),
        (&text("1", &[1; 32]), SecretError::Transform),
        ("DHHC-1:01:!AAA:", SecretError::Digits),
        ("DHHC-1:01:AAAA:AAAA:", SecretError::Digits),
        ("DHHC-1:01::", SecretError::Length),
        (&text("00", &[1; 31]), SecretError::Length),
        (&text("00", &[1; 65]), SecretError::Length),
        (&text("01", &[1; 48]), SecretError::Length),
        (&text("03", &[1; 32]), SecretError::Length),
        (&changed, SecretError::Checksum),
    ] {
        let error = Secret::read(given).unwrap_err();
        assert_eq!(error, expected, "{given}");
        assert!(given.len() < 20 || !error.to_string().contains(given), "{error}");
    }
    for (number, length) in [("00", 32), ("00", 48), ("00", 64), ("02", 48), ("03", 64)] {
        Secret::read(&text(number, &vec![1; length])).unwrap();
    }
}
