use super::*;

#[test]
fn it_is_crc_32c_in_pieces_and_whole() {
    let expected = 0xe306_9283u32.to_le_bytes();
    assert_eq!(DataDigest::of(b"123456789"), expected);
    let mut digest = DataDigest::default();
    digest.update(b"1234");
    digest.update(b"");
    digest.update(b"56789");
    assert_eq!(digest.finish(), expected);
}
