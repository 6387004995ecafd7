//! Each part of a hello: what is accepted is understood in the same way when sent again.
#![no_main]

use evenkeel_format::bytes::crc32c_of_parts;
use evenkeel_wire::hello::*;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((kind, rest)) = input.split_first() else { return };
    let mut bytes = rest.to_vec();
    if kind & 8 == 0 && (PREFIX_LENGTH..MAX_PART_LENGTH).contains(&bytes.len()) {
        bytes[..8].copy_from_slice(b"evenkeel");
        bytes[8..10].copy_from_slice(&[kind & 7, 0]);
        let length = ((bytes.len() - PREFIX_LENGTH) as u16).to_le_bytes();
        bytes[10..12].copy_from_slice(&length);
        let crc = crc32c_of_parts(&[&bytes[..12], &bytes[16..]]).to_le_bytes();
        bytes[12..16].copy_from_slice(&crc);
    }
    if let Some(prefix) = bytes.first_chunk() {
        let _ = rest_length(prefix);
    }
    if let Ok(mut hello) = Hello::decode(&bytes) {
        hello.software = evenkeel_format::SOFTWARE.to_owned();
        assert_eq!(Hello::decode(&hello.encode()).unwrap(), hello);
    }
    if let Ok(mut answer) = HelloAnswer::decode(&bytes) {
        answer.software = evenkeel_format::SOFTWARE.to_owned();
        let again = HelloAnswer::decode(&answer.encode()).unwrap();
        assert_eq!(again.outcome.is_ok(), answer.outcome.is_ok());
        assert_eq!(again.node_name, answer.node_name);
    }
});
