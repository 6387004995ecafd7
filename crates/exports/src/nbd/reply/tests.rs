use super::*;

fn extent(length: u64, allocated: bool) -> Extent {
    Extent { length, allocated }
}

#[test]
fn the_bytes_are_those_of_the_protocol() {
    assert_eq!(
        simple(0x0102_0304_0506_0708, Some(ErrorNumber::NoSpace)),
        *b"\x67\x44\x66\x98\0\0\0\x1c\x01\x02\x03\x04\x05\x06\x07\x08"
    );
    assert_eq!(
        data_chunk(1, 4096, 512),
        *b"\x66\x8e\x33\xef\0\x01\0\x01\0\0\0\0\0\0\0\x01\0\0\x02\x08\0\0\0\0\0\0\x10\0"
    );
    assert_eq!(
        error_chunk(1, ErrorNumber::Io, "no"),
        b"\x66\x8e\x33\xef\0\x01\x80\x01\0\0\0\0\0\0\0\x01\0\0\0\x08\0\0\0\x05\0\x02no"
    );
    assert_eq!(
        status_chunk(1, &[extent(512, true), extent(1024, false)], false),
        b"\x66\x8e\x33\xef\0\x01\0\x05\0\0\0\0\0\0\0\x01\0\0\0\x14\0\0\0\x01\
          \0\0\x02\0\0\0\0\0\0\0\x04\0\0\0\0\x03"
    );
}

#[test]
fn neighbours_of_one_kind_are_one_extent() {
    let extents =
        [extent(1, true), extent(2, true), extent(4, false), extent(0, true), extent(8, false)];
    assert_eq!(merged(&extents, 9), [extent(3, true), extent(12, false)]);
    assert_eq!(merged(&extents, 1), [extent(3, true)]);
}

#[test]
fn an_extent_too_long_for_the_answer_ends_it() {
    let long = u64::from(u32::MAX) + 1;
    let extents = [extent(512, false), extent(long, true), extent(512, false)];
    assert_eq!(merged(&extents, 9), [extent(512, false), extent(MAX_EXTENT, true)]);
}

#[test]
fn answers_are_bounded() {
    let many: Vec<_> = (0..20_000).map(|n| extent(512, n % 2 == 0)).collect();
    assert_eq!(status_chunk(1, &many, false).len(), 24 + 8 * MAX_EXTENTS);
    assert_eq!(status_chunk(1, &many, true).len(), 24 + 8);
    assert!(error_chunk(1, ErrorNumber::Io, &"é".repeat(4000)).len() <= 26 + 1024);
}
