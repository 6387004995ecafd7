use evenkeel_core::{Generation, OperationId, Payload, Sequence};
use evenkeel_wire::encode;

use super::*;

fn write(pool: &Pool, number: u64, length: usize, out: &mut Vec<u8>) -> Message {
    let id = OperationId { generation: Generation(3), sequence: Sequence(number) };
    let message =
        Message::Write { id, offset: 4096, length: length as u32, durable: false, receipt: false };
    let mut buffer = pool.take(length);
    buffer.fill(number as u8);
    let buffer = buffer.freeze();
    let summary = PayloadSummary { length: buffer.length(), crc: buffer.checksum() };
    encode(&message, Some(summary), out).expect("encodes");
    out.extend_from_slice(&buffer);
    message
}

/// Lets the inbox read these bytes, at most `most` at once.
fn feed(
    inbox: &mut Inbox,
    pool: &Pool,
    mut bytes: &[u8],
    most: usize,
) -> Result<Vec<(Message, Option<Buffer>)>, InboxError> {
    let mut messages = Vec::new();
    loop {
        match inbox.next(|length| Some(pool.take(length)))? {
            Next::Message(message, buffer) => messages.push((message, buffer)),
            Next::Receive { .. } if bytes.is_empty() => return Ok(messages),
            Next::Receive { mut memory, range, .. } => {
                let count = range.len().min(bytes.len()).min(most);
                memory[range][..count].copy_from_slice(&bytes[..count]);
                bytes = &bytes[count..];
                inbox.received(memory, count);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn frames_are_found_however_the_bytes_come() {
    let pool = Pool::new(64 << 20);
    for most in [1, 63, 64, 65, 4096, 16_385, usize::MAX] {
        let mut bytes = Vec::new();
        let lengths = [512, 4096, 20_000, 66_000, 512, 300_000, 4096];
        let sent: Vec<_> = (0..lengths.len())
            .map(|number| write(&pool, number as u64, lengths[number], &mut bytes))
            .collect();
        let lengths_matter = if most == 1 { 3 } else { lengths.len() };
        let mut inbox = Inbox::new(&pool);
        let got = feed(&mut inbox, &pool, &bytes, most).expect("whole frames");
        assert_eq!(got.len(), sent.len());
        for (number, (message, buffer)) in got.iter().enumerate().take(lengths_matter) {
            assert_eq!(*message, sent[number]);
            let buffer = buffer.as_ref().expect("a payload");
            assert_eq!(buffer.len(), lengths[number]);
            assert!(buffer.iter().all(|byte| *byte == number as u8));
        }
    }
}

#[test]
fn a_damaged_payload_is_refused() {
    let pool = Pool::new(64 << 20);
    for length in [512, 100_000] {
        let mut bytes = Vec::new();
        write(&pool, 1, length, &mut bytes);
        *bytes.last_mut().expect("bytes") ^= 1;
        let error = feed(&mut Inbox::new(&pool), &pool, &bytes, usize::MAX).expect_err("damaged");
        assert!(matches!(error, InboxError::PayloadChecksum));
    }
}

#[test]
fn garbage_is_refused() {
    let pool = Pool::new(64 << 20);
    let error = feed(&mut Inbox::new(&pool), &pool, &[0x55; 64], 64).expect_err("no frame");
    assert!(matches!(error, InboxError::Frame(_)));
}

#[test]
fn a_message_without_memory_waits_and_loses_nothing() {
    let pool = Pool::new(64 << 20);
    let mut bytes = Vec::new();
    let sent = write(&pool, 5, 4096, &mut bytes);
    let mut inbox = Inbox::new(&pool);
    let Ok(Next::Receive { mut memory, .. }) = inbox.next(|_| None) else { panic!("receives") };
    memory[..bytes.len()].copy_from_slice(&bytes);
    inbox.received(memory, bytes.len());
    assert!(matches!(inbox.next(|_| None), Ok(Next::NoMemory)));
    assert!(matches!(inbox.next(|_| None), Ok(Next::NoMemory)));
    let Ok(Next::Message(message, Some(buffer))) = inbox.next(|length| Some(pool.take(length)))
    else {
        panic!("a message")
    };
    assert_eq!(message, sent);
    assert!(buffer.iter().all(|byte| *byte == 5));
}
