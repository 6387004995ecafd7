use proptest::prelude::*;

use super::*;

/// A request as the kernel would send it.
fn message(code: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&((REQUEST_HEADER + body.len()) as u32).to_ne_bytes());
    bytes.extend_from_slice(&code.to_ne_bytes());
    bytes.extend_from_slice(&77u64.to_ne_bytes());
    bytes.extend_from_slice(&2u64.to_ne_bytes());
    bytes.extend_from_slice(&[0; 16]);
    bytes.extend_from_slice(body);
    bytes
}

fn numbers(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

fn decoded(bytes: &[u8]) -> Request<'_> {
    decode(bytes, bytes.len()).expect("a well-formed request").1
}

#[test]
fn the_header_names_the_request() {
    let bytes = message(opcode::GETATTR, &[0; 16]);
    let (header, request) = decode(&bytes, bytes.len()).unwrap();
    assert_eq!(header, Header { length: 56, opcode: 3, unique: 77, inode: 2 });
    assert_eq!(request, Request::GetAttributes);
}

#[test]
fn a_read_has_offset_and_size() {
    let bytes = message(opcode::READ, &numbers(&[0, 4096, 8192, 0, 0]));
    assert_eq!(decoded(&bytes), Request::Read { offset: 4096, size: 8192 });
}

#[test]
fn the_first_eighty_bytes_of_a_write_are_enough() {
    let mut bytes = message(opcode::WRITE, &numbers(&[0, 512, 1 << 20, 0, 0]));
    assert_eq!(bytes.len(), WRITE_HEADER);
    let total = WRITE_HEADER + (1 << 20);
    bytes[..4].copy_from_slice(&(total as u32).to_ne_bytes());
    let (_, request) = decode(&bytes, total).unwrap();
    assert_eq!(request, Request::Write { offset: 512, size: 1 << 20 });
    bytes[..4].copy_from_slice(&(total as u32 - 1).to_ne_bytes());
    assert_eq!(decode(&bytes, total - 1), Err(Malformed::Payload));
}

#[test]
fn a_name_must_end() {
    assert_eq!(decoded(&message(opcode::LOOKUP, b"volume\0")), Request::Lookup { name: b"volume" });
    let endless = message(opcode::LOOKUP, b"volume");
    assert_eq!(decode(&endless, endless.len()), Err(Malformed::Name));
    let empty = message(opcode::LOOKUP, b"\0");
    assert_eq!(decode(&empty, empty.len()), Err(Malformed::Name));
}

#[test]
fn a_change_of_size_is_seen() {
    let mut body = numbers(&[u64::from(SET_SIZE), 0, 123]);
    body.resize(88, 0);
    assert_eq!(
        decoded(&message(opcode::SETATTR, &body)),
        Request::SetAttributes { valid: SET_SIZE, size: 123 }
    );
}

#[test]
fn a_hole_has_offset_length_and_mode() {
    let bytes = message(opcode::FALLOCATE, &numbers(&[0, 4096, 1 << 32, 3]));
    assert_eq!(decoded(&bytes), Request::Allocate { offset: 4096, length: 1 << 32, mode: 3 });
}

#[test]
fn what_is_not_served_is_unknown() {
    assert_eq!(decoded(&message(5000, &[1, 2, 3])), Request::Unknown);
}

/// The lengths are those of the structures in the kernel's header.
#[test]
fn replies_have_the_lengths_that_the_kernel_expects() {
    let file = Attributes { inode: 2, size: 1 << 30, mode: 0o100_600, block_size: 4096 };
    let limits = Limits {
        read_ahead: 0,
        abilities: ability::BIG_WRITES,
        background: 64,
        max_write: 1 << 20,
        max_pages: 256,
    };
    let expected = [
        (initialized(1, &limits), 64),
        (other_major(1), 64),
        (entry(1, &file), 128),
        (attributes(1, &file), 104),
        (opened(1, open_flag::DIRECT_IO), 16),
        (found(1, 9), 8),
        (statistics(1, 100, 4096), 80),
        (header(1, libc::EIO, 0).to_vec(), 0),
        (written(1, 4096).to_vec(), 8),
    ];
    for (reply, length) in expected {
        assert_eq!(reply.len(), REPLY_HEADER + length);
        assert_eq!(u32::from_ne_bytes(reply[..4].try_into().unwrap()) as usize, reply.len());
        assert_eq!(reply[8..16], 1u64.to_ne_bytes());
    }
}

#[test]
fn errors_are_negative_numbers() {
    assert_eq!(header(5, libc::EIO, 0)[4..8], (-libc::EIO).to_ne_bytes());
}

#[test]
fn a_directory_is_read_in_pieces() {
    let entries: [(u64, u32, &[u8]); 3] = [(1, 4, b"."), (1, 4, b".."), (2, 8, b"volume")];
    assert_eq!(directory(1, &entries, 0, 4096).len(), REPLY_HEADER + 3 * 32);
    assert_eq!(directory(1, &entries, 0, 70).len(), REPLY_HEADER + 2 * 32);
    let last = directory(1, &entries, 2, 4096);
    assert_eq!(last.len(), REPLY_HEADER + 32);
    assert_eq!(&last[REPLY_HEADER + 24..REPLY_HEADER + 30], b"volume");
    assert_eq!(directory(1, &entries, 3, 4096).len(), REPLY_HEADER);
    assert_eq!(directory(1, &entries, u64::MAX, 4096).len(), REPLY_HEADER);
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        received in 0usize..2000,
    ) {
        let _ = decode(&bytes, received);
    }

    #[test]
    fn no_body_makes_the_decoder_panic(
        code in 0u32..60,
        body in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let bytes = message(code, &body);
        let _ = decode(&bytes, bytes.len());
    }

    /// Whatever is accepted as a write has exactly its payload after the header.
    #[test]
    fn an_accepted_write_has_its_payload(total in 0usize..(1 << 21), size: u32) {
        let mut bytes = message(
            opcode::WRITE,
            &[numbers(&[0, 0]), size.to_ne_bytes().to_vec(), vec![0; 20]].concat(),
        );
        bytes[..4].copy_from_slice(&(total as u32).to_ne_bytes());
        if let Ok((_, Request::Write { size, .. })) = decode(&bytes, total) {
            prop_assert_eq!(WRITE_HEADER + size as usize, total);
        }
    }
}
