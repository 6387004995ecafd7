use evenkeel_core::VolumeId;
use proptest::prelude::*;

use super::*;
use crate::nbd::Export;

fn negotiated() -> Negotiated {
    Negotiated {
        export: Export {
            volume: VolumeId(7),
            name: "db".to_owned(),
            description: String::new(),
            size: 1 << 30,
            block_size: 512,
            read_only: false,
            fast_zeroes: true,
        },
        structured_replies: true,
        block_status: true,
        rest: Vec::new(),
    }
}

fn request(command: u16, flags: u16, offset: u64, length: u32) -> Request {
    Request { flags, command, cookie: 1, offset, length }
}

fn check(command: u16, flags: u16, offset: u64, length: u32) -> Result<Command, ErrorNumber> {
    request(command, flags, offset, length).check(&negotiated())
}

#[test]
fn the_bytes_are_those_of_the_protocol() {
    let bytes =
        b"\x25\x60\x95\x13\0\x01\0\x01\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\0\0\0\x10\0\0\0\x02\0";
    let request = Request::decode(bytes).unwrap();
    let expected =
        Request { flags: 1, command: 1, cookie: 0x0102_0304_0506_0708, offset: 4096, length: 512 };
    assert_eq!(request, expected);
    assert_eq!(request.payload_length(), 512);
    assert_eq!(Request::decode(&[1; 28]), Err(RequestFault(0x0101_0101)));
}

#[test]
fn every_command_is_understood() {
    let durable = true;
    for (command, flags, expected) in [
        (0, 0, Command::Read),
        (0, 4, Command::Read),
        (1, 1, Command::Write { durable }),
        (4, 0, Command::Zero { unmap: true, durable: false }),
        (5, 0, Command::Cache),
        (6, 1, Command::Zero { unmap: true, durable }),
        (6, 2, Command::Zero { unmap: false, durable: false }),
        (6, 16, Command::Zero { unmap: true, durable: false }),
        (7, 8, Command::Status { only_one: true }),
        (7, 0, Command::Status { only_one: false }),
    ] {
        assert_eq!(check(command, flags, 0, 4096), Ok(expected));
    }
    assert_eq!(check(3, 0, 0, 0), Ok(Command::Flush));
    assert_eq!(check(2, 0, 9, 9), Ok(Command::Disconnect));
}

#[test]
fn what_is_not_possible_is_refused_with_the_right_number() {
    use ErrorNumber::*;
    const SIZE: u64 = 1 << 30;
    for (command, flags, offset, length, expected) in [
        (8, 0, 0, 512, Invalid),
        (0, 2, 0, 512, Invalid),
        (1, 4, 0, 512, Invalid),
        (0, 0, 0, 0, Invalid),
        (0, 0, 1, 512, Invalid),
        (0, 0, 0, 513, Invalid),
        (0, 0, SIZE, 512, Invalid),
        (0, 0, u64::MAX - 511, 512, Invalid),
        (0, 0, 0, MAX_REQUEST + 512, Invalid),
        (1, 0, SIZE, 512, NoSpace),
        (1, 0, SIZE - 512, 1024, NoSpace),
        (4, 0, SIZE, 512, Invalid),
        (6, 0, SIZE, 512, NoSpace),
        (7, 0, SIZE, 512, Invalid),
        (3, 0, 0, 512, Invalid),
        (6, 18, 0, 512, NotSupported),
    ] {
        assert_eq!(check(command, flags, offset, length), Err(expected), "{command} {offset}");
    }
}

#[test]
fn what_was_not_agreed_is_refused() {
    let mut agreed = negotiated();
    agreed.export.read_only = true;
    for command in [1, 4, 6] {
        let error = request(command, 0, 0, 512).check(&agreed);
        assert_eq!(error, Err(ErrorNumber::NotPermitted));
    }
    agreed = Negotiated { structured_replies: false, block_status: false, ..negotiated() };
    agreed.export.fast_zeroes = false;
    assert_eq!(request(0, 4, 0, 512).check(&agreed), Err(ErrorNumber::Invalid));
    assert_eq!(request(7, 0, 0, 512).check(&agreed), Err(ErrorNumber::Invalid));
    assert_eq!(request(6, 16, 0, 512).check(&agreed), Err(ErrorNumber::NotSupported));
}

proptest! {
    #[test]
    fn what_passes_is_inside_the_export(
        command in 0..9u16,
        flags in 0..64u16,
        offset in prop_oneof![any::<u64>(), (0..1u64 << 22).prop_map(|block| block * 512)],
        length in prop_oneof![any::<u32>(), (0..1u32 << 17).prop_map(|block| block * 512)],
    ) {
        let negotiated = negotiated();
        let request = request(command, flags, offset, length);
        if let Ok(command) = request.check(&negotiated)
            && !matches!(command, Command::Disconnect | Command::Flush)
        {
            prop_assert!(offset + u64::from(length) <= negotiated.export.size);
            prop_assert!(offset % 512 == 0 && length % 512 == 0 && length > 0);
        }
    }
}
