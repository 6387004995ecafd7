//! A frame as it is received: header, then body. What is accepted has just one encoding,
//! apart from a view with the default lease (see `view`).
#![no_main]

use evenkeel_core::message::Message;
use evenkeel_fuzz::{leave_out_lease, seal_frame};
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
        seal_frame(&mut bytes);
    }
    let (header, body) = bytes.split_first_chunk().unwrap();
    let Ok(header) = decode_header(header) else { return };
    let Some(body) = body.get(..header.body_length as usize) else { return };
    let Ok(message) = decode(&header, body) else { return };
    let payload = PayloadSummary { length: header.payload_length, crc: header.payload_crc };
    let mut again = Vec::new();
    encode(&message, carries_payload(&message).then_some(payload), &mut again).unwrap();
    if let Message::Adopt { view } = &message {
        leave_out_lease(&mut again[HEADER_LENGTH..], body, view.lease);
        seal_frame(&mut again);
    }
    assert_eq!(again, bytes[..HEADER_LENGTH + body.len()]);
});
