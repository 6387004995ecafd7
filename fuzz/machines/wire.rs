//! The way of a message through the shipped encoder, the fuzzer's hands and the shipped decoder.

use evenkeel_core::{Message, Payload};
use evenkeel_wire::{
    HEADER_LENGTH, PayloadSummary, carries_payload, decode, decode_header, encode,
};

use super::harness::Blank;
use super::script::Script;
use crate::{patch, seal_frame};

/// What arrives of a message whose frame the fuzzer may have changed; `None` if its receiver closes
/// the link.
pub fn deliver(script: &mut Script<'_>, message: &Message, length: u32) -> Option<Arrived> {
    let mut bytes = Vec::new();
    let summary = PayloadSummary { length, crc: 0 };
    encode(message, carries_payload(message).then_some(summary), &mut bytes).ok()?;
    if script.is_rare() {
        let count = script.choose(4) + 1;
        patch(&mut bytes, script.bytes(count * 3));
        seal_frame(&mut bytes);
    }
    let value = if carries_payload(message) { script.byte() } else { 0 };
    let (header, body) = bytes.split_first_chunk::<HEADER_LENGTH>()?;
    let header = decode_header(header).ok()?;
    let message = decode(&header, body.get(..header.body_length as usize)?).ok()?;
    let length = header.payload_length;
    Some((message, (length > 0).then_some(Blank { length, value })))
}

/// A message with its payload.
pub type Arrived = (Message, Option<Blank>);

/// What a state machine says has to be a frame that is understood in the same way.
pub fn check(message: &Message, payload: Option<&Blank>) {
    let mut bytes = Vec::new();
    let summary = payload.map(|payload| PayloadSummary { length: payload.length(), crc: 0 });
    let encoded = encode(message, summary, &mut bytes);
    assert!(encoded.is_ok(), "{message:?} can't be said: {encoded:?}");
    let (header, body) = bytes.split_first_chunk::<HEADER_LENGTH>().expect("a header");
    let header = decode_header(header).expect("a sound header");
    assert_eq!(decode(&header, body).as_ref(), Ok(message));
}
