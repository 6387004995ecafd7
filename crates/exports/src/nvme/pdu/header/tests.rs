use proptest::prelude::*;

use super::*;

const DIGESTS: Framing = Framing { header_digest: true, data_digest: true, alignment: 0 };
const PLAIN: Framing = Framing { header_digest: false, data_digest: false, alignment: 0 };

fn common(kind: u8, flags: u8, header: u8, offset: u8, length: u32) -> [u8; COMMON_LENGTH] {
    let [a, b, c, d] = length.to_le_bytes();
    [kind, flags, header, offset, a, b, c, d]
}

fn read(bytes: [u8; COMMON_LENGTH], framing: &Framing) -> Result<Layout, Malformed> {
    Layout::read(&bytes, Side::Host, framing)
}

#[test]
fn a_linux_write_with_data_in_its_capsule_is_understood() {
    let layout = read(common(4, 0, 72, 72, 72 + 4096), &PLAIN).unwrap();
    assert_eq!((layout.kind(), layout.lead(), layout.data_length()), (Kind::Command, 72, 4096));
    let layout = read(common(4, 3, 72, 76, 76 + 4096 + 4), &DIGESTS).unwrap();
    assert_eq!((layout.lead(), layout.data_length()), (76, 4096));
    assert!(layout.has_data_digest());
    // Without data there is no offset, and no digest of data.
    let layout = read(common(4, 1, 72, 0, 76), &DIGESTS).unwrap();
    assert_eq!((layout.lead(), layout.data_length(), layout.has_data_digest()), (76, 0, false));
}

#[test]
fn a_capsule_without_data_has_no_digest_of_data_whatever_its_flag_says() {
    let layout = read(common(4, 3, 72, 0, 76), &DIGESTS).unwrap();
    assert_eq!((layout.lead(), layout.data_length(), layout.has_data_digest()), (76, 0, false));
    assert_eq!(read(common(4, 2, 72, 0, 72), &PLAIN), Err(Malformed::field(FLAGS)));
}

#[test]
fn each_wrong_field_is_named_by_its_offset() {
    for (bytes, field) in [
        (common(8, 0, 24, 0, 24), 0),
        (common(10, 0, 24, 0, 24), 0),
        // What only a controller sends.
        (common(5, 0, 24, 0, 24), 0),
        (common(4, 0, 72, 0, 76), 1),
        (common(4, 1, 72, 76, 80), 1),
        (common(4, 1, 64, 0, 76), 2),
        (common(0, 0, 127, 0, 128), 2),
        (common(4, 3, 72, 72, 84), 3),
        (common(4, 3, 72, 78, 86), 3),
        (common(4, 1, 72, 0, 75), 1),
        (common(4, 3, 72, 76, 80), 4),
        (common(4, 3, 72, 76, 72), 4),
        (common(6, 3, 24, 28, 32), 4),
        (common(6, 3, 24, 28, 0), 4),
        (common(0, 0, 128, 0, 127), 4),
        (common(2, 0, 24, 0, 153), 4),
        (common(2, 0, 24, 0, 23), 4),
    ] {
        assert_eq!(read(bytes, &DIGESTS), Err(Malformed::field(field)), "{bytes:?}");
    }
}

#[test]
fn what_opens_and_ends_a_connection_has_no_digest() {
    assert!(read(common(0, 0, 128, 0, 128), &DIGESTS).is_ok());
    assert_eq!(read(common(0, 1, 128, 0, 132), &DIGESTS), Err(Malformed::field(FLAGS)));
    let layout = read(common(2, 0, 24, 0, 152), &DIGESTS).unwrap();
    assert_eq!((layout.lead(), layout.data_length(), layout.has_data_digest()), (24, 128, false));
}

#[test]
fn a_damaged_header_is_noticed() {
    let mut bytes = Vec::new();
    DIGESTS.put(Kind::Command, Flags::default(), &[7; 64], 0, &mut bytes);
    let layout = read(*bytes.first_chunk().unwrap(), &DIGESTS).unwrap();
    assert_eq!(layout.check(&bytes), Ok(()));
    let digest = u32::from_le_bytes(*bytes.last_chunk().unwrap());
    bytes[20] ^= 1;
    let error = layout.check(&bytes).unwrap_err();
    assert_eq!((error.status, error.information), (FatalStatus::HeaderDigest, digest));
    assert!(layout.check(&bytes[..75]).is_err());
    assert!(layout.check(&[]).is_err());
}

fn framings() -> impl Strategy<Value = Framing> {
    (any::<bool>(), any::<bool>(), 0..=31u8).prop_map(|(header_digest, data_digest, alignment)| {
        Framing { header_digest, data_digest, alignment }
    })
}

proptest! {
    #[test]
    fn what_is_put_is_read(
        framing in framings(),
        last: bool,
        success: bool,
        length in 1..1_000_000u32,
    ) {
        let flags = Flags { last, success };
        let mut bytes = Vec::new();
        framing.put(Kind::ControllerData, flags, &[5; 16], length, &mut bytes);
        let layout =
            Layout::read(bytes.first_chunk().unwrap(), Side::Controller, &framing).unwrap();
        prop_assert_eq!(layout.kind(), Kind::ControllerData);
        prop_assert_eq!(layout.flags(), flags);
        prop_assert_eq!(layout.lead(), bytes.len());
        prop_assert_eq!(layout.lead() % framing.boundary(), 0);
        prop_assert_eq!(layout.data_length(), length);
        prop_assert_eq!(layout.has_data_digest(), framing.data_digest);
        prop_assert_eq!(layout.check(&bytes), Ok(()));
    }

    #[test]
    fn any_header_is_read_or_refused(bytes: [u8; COMMON_LENGTH], framing in framings()) {
        for side in [Side::Host, Side::Controller] {
            if let Ok(layout) = Layout::read(&bytes, side, &framing) {
                let trailer = if layout.has_data_digest() { DIGEST_LENGTH } else { 0 };
                let all = layout.lead() + layout.data_length() as usize + trailer;
                let length = u32::from_le_bytes(*bytes.last_chunk().unwrap());
                prop_assert_eq!(all, length as usize);
                prop_assert!(layout.lead() >= layout.header_length());
            }
        }
    }
}
