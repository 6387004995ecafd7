use std::os::unix::net::UnixStream;

use evenkeel_core::message::Message;
use evenkeel_core::{Generation, OperationId, Payload, Sequence};
use evenkeel_wire::{PayloadSummary, encode};

use super::*;
use crate::memory::{Budget, Buffer};
use crate::transport::tls::tests::{pair, pattern, sealed, usual};
use crate::transport::{Connection, Next, Outbox, Socket};

const LENGTHS: [usize; 8] = [512, 4096, 20_000, 66_000, 512, 1 << 20, 300_000, 4096];

/// A write, with its payload behind it.
fn write(pool: &Pool, number: usize, length: usize, outbox: &mut Outbox) -> (Message, Buffer) {
    let id = OperationId { generation: Generation(3), sequence: Sequence(number as u64) };
    let message =
        Message::Write { id, offset: 4096, length: length as u32, durable: false, receipt: false };
    let mut buffer = pool.take(length);
    buffer.copy_from_slice(&pattern(length));
    let buffer = buffer.freeze();
    let summary = PayloadSummary { length: buffer.length(), crc: buffer.checksum() };
    outbox.bytes(|out| encode(&message, Some(summary), out).expect("encodes"));
    outbox.buffer(buffer.clone());
    (message, buffer)
}

/// An end with TLS, to which these bytes have come during the handshake.
fn socket(tls: Tls, received: &[u8], pool: &Pool, budget: Option<Budget>) -> Socket {
    let (ours, _) = UnixStream::pair().expect("a pair");
    Socket::new(Connection::encrypted(ours.into(), tls, received.to_vec()), pool, budget)
}

/// Lets the socket receive these bytes, at most `most` at once.
fn feed(
    socket: &mut Socket,
    pool: &Pool,
    mut bytes: &[u8],
    most: usize,
) -> Result<Vec<(Message, Buffer)>, String> {
    let mut messages = Vec::new();
    loop {
        match socket.next(pool)? {
            Next::Message(message, buffer) => messages.push((message, buffer.expect("a payload"))),
            Next::Receive { .. } if bytes.is_empty() => return Ok(messages),
            Next::Receive { mut memory, range, .. } => {
                let count = range.len().min(bytes.len()).min(most);
                memory[range][..count].copy_from_slice(&bytes[..count]);
                bytes = &bytes[count..];
                socket.received(memory, count);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn frames_pass_in_records_however_the_bytes_come() {
    let pool = Pool::new(64 << 20);
    for (most, early) in [(63, 0), (4096, 1), (16_385, 22), (usize::MAX, 5000)] {
        let (mut tls, other) = pair(usual());
        let mut outbox = Outbox::default();
        let numbers = 0..LENGTHS.len();
        let sent: Vec<_> = numbers.map(|n| write(&pool, n, LENGTHS[n], &mut outbox)).collect();
        let mut cipher = Vec::new();
        while !outbox.is_empty() {
            let piece = outbox.seal(&mut tls, &pool).expect("it can send");
            assert!(piece.len() <= 1 << 20, "{} bytes at once", piece.len());
            cipher.extend_from_slice(&piece);
        }
        assert_eq!(outbox.small(), 0);
        let mut socket = socket(other, &cipher[..early], &pool, None);
        let got = feed(&mut socket, &pool, &cipher[early..], most).expect("whole frames");
        assert_eq!(got.len(), sent.len());
        for ((message, payload), (sent, expected)) in got.iter().zip(&sent) {
            assert_eq!(message, sent);
            assert!(payload[..] == expected[..]);
        }
    }
}

#[test]
fn what_is_queued_while_a_part_is_encrypted_comes_after_it() {
    let pool = Pool::new(64 << 20);
    let (mut tls, other) = pair(usual());
    let mut outbox = Outbox::default();
    let mut cipher = Vec::new();
    // More than is sent at once, so that the rest begins in the middle of a part.
    for round in 0..4 {
        write(&pool, 2 * round, 900_000, &mut outbox);
        write(&pool, 2 * round + 1, 512, &mut outbox);
        cipher.extend_from_slice(&outbox.seal(&mut tls, &pool).expect("it can send"));
    }
    while !outbox.is_empty() {
        cipher.extend_from_slice(&outbox.seal(&mut tls, &pool).expect("it can send"));
    }
    let mut socket = socket(other, &[], &pool, None);
    let got = feed(&mut socket, &pool, &cipher, 50_000).expect("whole frames");
    assert_eq!(got.len(), 8);
    assert!(got.iter().all(|(_, payload)| payload[..] == pattern(payload.len())[..]));
}

#[test]
fn a_message_without_memory_waits_and_loses_nothing() {
    let pool = Pool::new(64 << 20);
    let (mut tls, other) = pair(usual());
    let mut outbox = Outbox::default();
    for number in 0..3 {
        write(&pool, number, 4096, &mut outbox);
    }
    let cipher = outbox.seal(&mut tls, &pool).expect("it can send");
    let budget = Budget::new(pool.clone(), 4096);
    let mut socket = socket(other, &cipher, &pool, Some(budget));
    let Ok(Next::Message(_, first)) = socket.next(&pool) else { panic!("a message") };
    assert!(matches!(socket.next(&pool), Ok(Next::NoMemory)));
    assert!(matches!(socket.next(&pool), Ok(Next::NoMemory)));
    drop(first);
    let Ok(Next::Message(_, Some(second))) = socket.next(&pool) else { panic!("a message") };
    assert!(second[..] == pattern(4096)[..]);
    drop(second);
    assert!(matches!(socket.next(&pool), Ok(Next::Message(..))));
}

#[test]
fn a_flipped_bit_closes_the_link_and_nothing_of_the_record_is_read() {
    let pool = Pool::new(64 << 20);
    let (mut tls, other) = pair(usual());
    let mut outbox = Outbox::default();
    let (sent, _) = write(&pool, 1, 4096, &mut outbox);
    let mut cipher = outbox.seal(&mut tls, &pool).expect("it can send").to_vec();
    write(&pool, 2, 4096, &mut outbox);
    let damaged = cipher.len() + 1000;
    cipher.extend_from_slice(&outbox.seal(&mut tls, &pool).expect("it can send"));
    cipher[damaged] ^= 1;
    let mut socket = socket(other, &[], &pool, None);
    let Ok(Next::Receive { mut memory, range, .. }) = socket.next(&pool) else { panic!("waits") };
    assert!(range.len() > cipher.len());
    memory[range][..cipher.len()].copy_from_slice(&cipher);
    socket.received(memory, cipher.len());
    let Ok(Next::Message(message, Some(_))) = socket.next(&pool) else { panic!("a message") };
    assert_eq!(message, sent);
    let error = socket.next(&pool).expect_err("damaged");
    assert!(error.contains("cannot decrypt"), "{error}");
}

#[test]
fn an_announced_end_closes_the_link() {
    let pool = Pool::new(64 << 20);
    let (mut tls, other) = pair(usual());
    tls.close().expect("it can send");
    let cipher = tls.queued().to_vec();
    let mut socket = socket(other, &[], &pool, None);
    let error = feed(&mut socket, &pool, &cipher, 7).expect_err("an end");
    assert!(error.contains("has closed it"), "{error}");
}

#[test]
fn a_record_that_is_no_frame_closes_the_link() {
    let pool = Pool::new(64 << 20);
    let (mut tls, other) = pair(usual());
    let cipher = sealed(&mut tls, &[0x55; 64]);
    let mut socket = socket(other, &[], &pool, None);
    assert!(feed(&mut socket, &pool, &cipher, usize::MAX).is_err());
}
