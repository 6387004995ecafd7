use proptest::prelude::*;

use super::super::{Layout, Side};
use super::*;

const DIGESTS: Framing = Framing { header_digest: true, data_digest: true, alignment: 3 };

#[test]
fn the_bytes_are_those_of_the_specification() {
    let mut bytes = Vec::new();
    let request =
        InitializeRequest { alignment: 1, header_digest: true, data_digest: false, max_ready: 15 };
    request.put(&mut bytes);
    let start = [0, 0, 128, 0, 128, 0, 0, 0, 0, 0, 1, 1, 15, 0, 0, 0];
    assert_eq!((&bytes[..16], bytes.len()), (&start[..], 128));
    assert!(bytes[16..].iter().all(|byte| *byte == 0));

    bytes.clear();
    let ready = Ready { command: 0x0102, tag: 3, offset: 4096, length: 8192 };
    ready.put(&Framing::default(), &mut bytes);
    let expected = [9, 0, 24, 0, 24, 0, 0, 0, 2, 1, 3, 0, 0, 16, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0];
    assert_eq!(bytes, expected);

    bytes.clear();
    let data = Data { command: 7, tag: 0, offset: 0, length: 512 };
    let flags = Flags { last: true, success: true };
    data.put(Kind::ControllerData, flags, &Framing::default(), &mut bytes);
    let expected = [7, 12, 24, 24, 24, 2, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0];
    assert_eq!(bytes, expected);

    bytes.clear();
    put_response(&[9; 16], &DIGESTS, &mut bytes);
    assert_eq!((bytes[..8].to_vec(), bytes.len()), (vec![5, 1, 24, 0, 28, 0, 0, 0], 28));
}

#[test]
fn a_connection_of_another_version_or_alignment_is_refused() {
    let mut bytes = Vec::new();
    InitializeRequest::default().put(&mut bytes);
    assert_eq!(InitializeRequest::read(&bytes), Ok(InitializeRequest::default()));
    bytes[8] = 1;
    let status = FatalStatus::UnsupportedParameter;
    assert_eq!(InitializeRequest::read(&bytes), Err(Malformed { status, information: 8 }));
    bytes[8] = 0;
    bytes[10] = 32;
    assert_eq!(InitializeRequest::read(&bytes), Err(Malformed::field(10)));
    assert_eq!(InitializeRequest::read(&bytes[..12]), Err(Malformed::field(10)));
    assert_eq!(InitializeRequest::read(&bytes[..7]), Err(SHORT));
}

#[test]
fn a_controller_that_takes_too_little_at_once_is_refused() {
    for (max_host_data, is_valid) in [(4096, true), (131_072, true), (4095, false), (4098, false)] {
        let response = InitializeResponse {
            alignment: 0,
            header_digest: false,
            data_digest: true,
            max_host_data,
        };
        let mut bytes = Vec::new();
        response.put(&mut bytes);
        let expected = if is_valid { Ok(response) } else { Err(Malformed::field(12)) };
        assert_eq!(InitializeResponse::read(&bytes), expected);
    }
}

#[test]
fn data_of_another_length_than_said_is_refused() {
    let mut bytes = Vec::new();
    let data = Data { command: 1, tag: 2, offset: 3, length: 512 };
    data.put(Kind::HostData, Flags::default(), &DIGESTS, &mut bytes);
    assert_eq!(Data::read(&bytes, 512), Ok(data));
    assert_eq!(Data::read(&bytes, 508), Err(Malformed::field(16)));
}

proptest! {
    #[test]
    fn a_termination_quotes_what_was_wrong(
        wrong in proptest::collection::vec(any::<u8>(), 0..300),
        status: u16,
        information: u32,
    ) {
        let terminate = Terminate { status, information };
        let mut bytes = Vec::new();
        terminate.put(Kind::ControllerTerminate, &wrong, &mut bytes);
        let layout =
            Layout::read(bytes.first_chunk().unwrap(), Side::Controller, &DIGESTS).unwrap();
        prop_assert_eq!(Terminate::read(&bytes), Ok(terminate));
        prop_assert_eq!(layout.data_length() as usize, wrong.len().min(MAX_QUOTED));
        prop_assert_eq!(&bytes[layout.lead()..], &wrong[..wrong.len().min(MAX_QUOTED)]);
    }

    #[test]
    fn transfers_are_read_as_they_were_put(
        command: u16,
        tag: u16,
        offset: u32,
        length in 1..1u32 << 30,
    ) {
        let mut bytes = Vec::new();
        let ready = Ready { command, tag, offset, length };
        ready.put(&DIGESTS, &mut bytes);
        prop_assert_eq!(Ready::read(&bytes), Ok(ready));
        bytes.clear();
        let data = Data { command, tag, offset, length };
        data.put(Kind::HostData, Flags::default(), &DIGESTS, &mut bytes);
        prop_assert_eq!(Data::read(&bytes, length), Ok(data));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..140)) {
        let _ = InitializeRequest::read(&bytes);
        let _ = InitializeResponse::read(&bytes);
        let _ = Terminate::read(&bytes);
        let _ = Data::read(&bytes, 1);
        let _ = Ready::read(&bytes);
    }
}
