use super::*;

fn key_file(content: &[u8], mode: u32) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), content).unwrap();
    fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
    file
}

#[test]
fn a_proof_is_right_for_its_key_and_input_only() {
    let key = SharedKey::load(key_file(b"0123456789abcdef\n", 0o600).path()).unwrap();
    let other = SharedKey::load(key_file(b"0123456789abcdeF\n", 0o600).path()).unwrap();
    let proof = key.prove(b"hello");
    assert!(key.verify(b"hello", &proof));
    assert!(!key.verify(b"hullo", &proof));
    assert!(!other.verify(b"hello", &proof));
}

#[test]
fn the_proof_is_hmac_sha256() {
    // RFC 4231, test case 6: a key longer than a block.
    let key = SharedKey(vec![0xaa; 131]);
    let proof = key.prove(b"Test Using Larger Than Block-Size Key - Hash Key First");
    let expected = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
    assert_eq!(crate::coordinator::to_hex(&proof.0), expected);
}

#[test]
fn keys_that_others_may_read_or_that_are_short_are_refused() {
    let error = SharedKey::load(key_file(b"0123456789abcdef", 0o604).path()).unwrap_err();
    assert!(error.contains("chmod"), "{error}");
    let error = SharedKey::load(key_file(b"short", 0o600).path()).unwrap_err();
    assert!(error.contains("at least 16"), "{error}");
    assert!(SharedKey::load(Path::new("/does/not/exist")).is_err());
}
