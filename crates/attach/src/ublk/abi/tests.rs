use super::*;

/// Numbers that other servers of the driver use.
#[test]
fn commands_have_their_known_numbers() {
    assert_eq!(control::ADD, 0xc020_7504);
    assert_eq!(control::GET_FEATURES, 0x8020_7513);
    assert_eq!(control::DELETE_LATER, 0x8020_7514);
    assert_eq!(request::FETCH, 0xc010_7520);
    assert_eq!(request::COMMIT_AND_FETCH, 0xc010_7521);
}

#[test]
fn requests_are_understood() {
    assert_eq!(description(0, 8, 0).kind(), Kind::Read);
    assert_eq!(description(1, 8, 0).kind(), Kind::Write { durable: false });
    assert_eq!(description(1 | 1 << 13, 8, 0).kind(), Kind::Write { durable: true });
    assert_eq!(description(2, 0, 0).kind(), Kind::Flush);
    assert_eq!(description(3, 8, 0).kind(), Kind::Zero { unmap: true, durable: false });
    assert_eq!(description(5, 8, 0).kind(), Kind::Zero { unmap: true, durable: false });
    assert_eq!(description(5 | 1 << 15, 8, 0).kind(), Kind::Zero { unmap: false, durable: false });
    assert_eq!(description(13, 8, 0).kind(), Kind::Unknown);
}

#[test]
fn ranges_outside_of_the_volume_are_refused() {
    assert_eq!(description(0, 8, 2).range(8192), Some((1024, 4096)));
    assert_eq!(description(0, 8, 9).range(8192), None);
    assert_eq!(description(0, 1, u64::MAX / 512).range(u64::MAX - 600), None);
    assert_eq!(description(0, 1, u64::MAX).range(u64::MAX), None);
}

#[test]
fn each_tag_has_a_place_for_its_data() {
    assert_eq!(data_offset(0), 0x8000_0000);
    assert!(data_offset(1) - data_offset(0) >= u64::from(MAX_TRANSFER));
    assert_eq!(argument(0x0102, -5)[2..8], [2, 1, 0xfb, 0xff, 0xff, 0xff]);
}
