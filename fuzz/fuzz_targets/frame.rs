//! A frame as it is received: header, then body. What is accepted has just one encoding.
#![no_main]

use evenkeel_format::bytes::crc32c;
use evenkeel_fuzz::seal as seal_view;
use evenkeel_wire::{
    HEADER_LENGTH, PayloadSummary, carries_payload, decode, decode_header, encode,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((mode, rest)) = input.split_first() else { return };
    let mut bytes = rest.to_vec();
    if bytes.len() < HEADER_LENGTH {
        return;
    }
    if mode & 1 == 0 {
        seal(&mut bytes);
    }
    let (header, body) = bytes.split_first_chunk().unwrap();
    let Ok(header) = decode_header(header) else { return };
    let Some(body) = body.get(..header.body_length as usize) else { return };
    let Ok(message) = decode(&header, body) else { return };
    let payload = PayloadSummary { length: header.payload_length, crc: header.payload_crc };
    let mut again = Vec::new();
    encode(&message, carries_payload(&message).then_some(payload), &mut again).unwrap();
    assert_eq!(again, bytes[..HEADER_LENGTH + body.len()]);
});

/// Makes magic, version, body length and checksums right.
fn seal(bytes: &mut [u8]) {
    bytes[..6].copy_from_slice(b"EKfr\0\0");
    let (header, body) = bytes.split_at_mut(HEADER_LENGTH);
    if header[6..8] == [3, 0] {
        seal_view(body, 12);
    }
    header[16..20].copy_from_slice(&(body.len() as u32).to_le_bytes());
    let crc = if body.is_empty() { 0 } else { crc32c(body) };
    header[20..24].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c(&header[..60]).to_le_bytes();
    header[60..].copy_from_slice(&crc);
}
