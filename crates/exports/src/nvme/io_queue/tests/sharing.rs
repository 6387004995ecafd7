//! A queue and others of the same volume, whose memory they share.

use std::time::Duration;

use super::*;
use crate::stream::{HURRY, LOOK, PATIENCE};

const MEMORY: usize = 64 << 10;

/// A queue whose host has been asked for half of the volume's memory, in four commands, and another
/// front end, which has the rest and waits for more.
struct Kept {
    bench: Bench,
    tags: Vec<u16>,
    other: FrontendContext,
    _rest: BufferMut,
}

impl Kept {
    fn new() -> Self {
        let mut bench = Bench::new(MEMORY);
        for identifier in 1..6 {
            bench.command(&write(identifier, ON_REQUEST, 16), &[]);
        }
        let tags = tags(&mut bench);
        assert_eq!(tags.len(), 4, "half of the memory");
        bench.drain();
        let mut other = bench.context.beside();
        let rest = other.allocate(MEMORY / 2).unwrap();
        let mut other = bench.context.beside();
        assert!(other.allocate(4096).is_none() && other.waits());
        Self { bench, tags, other, _rest: rest }
    }
}

/// The tags of requests for data since the last call; there is nothing else.
fn tags(bench: &mut Bench) -> Vec<u16> {
    let pdus = bench.pdus().into_iter();
    pdus.map(|(kind, bytes)| {
        assert_eq!(kind, 9);
        u16::from_le_bytes([bytes[2], bytes[3]])
    })
    .collect()
}

fn flush(identifier: u16) -> [u8; 64] {
    entry(0x00, identifier, ON_REQUEST, 0)
}

#[test]
fn a_host_that_keeps_its_data_back_costs_only_itself() {
    let Kept { bench, other, _rest, .. } = Kept::new();
    assert!(!bench.context.waits(), "it waits for itself");
    drop((other, _rest));
    let mut other = bench.context.beside();
    for _ in 0..99 {
        assert!(other.allocate(16_384).is_some());
    }
}

/// Neither by commands that need no data, nor by data of which some is missing always.
#[test]
fn a_host_that_keeps_data_back_ends_in_seconds_whatever_else_it_does() {
    let Kept { mut bench, tags, other, _rest } = Kept::new();
    let host = bench.host;
    for (identifier, offset) in (10..).zip(0..=HURRY) {
        assert!(!bench.drains || offset >= HURRY - 1);
        bench.pass(Duration::from_millis(900));
        if bench.drains {
            break;
        }
        bench.command(&flush(identifier), &[]);
        bench.reply(Ok(Reply::Done));
        bench.drain();
        let piece = host.data(1, tags[0], offset * 512, &[1; 512], false);
        assert!(bench.receive(&piece, 9999).is_empty());
    }
    assert!(bench.drains);
    bench.drained();
    assert!(bench.ended.is_some());
    drop(bench);
    assert!(other.waits() && !other.is_above_share());
}

#[test]
fn a_host_that_sends_its_data_in_time_goes_on() {
    let Kept { mut bench, tags, other: _other, _rest } = Kept::new();
    let host = bench.host;
    for (identifier, tag) in (1..).zip(tags) {
        bench.pass(LOOK);
        bench.receive(&host.data(identifier, tag, 0, &pattern(8192), true), 99_999);
        bench.submitted.clear();
        assert!(!bench.drains);
    }
}

#[test]
fn a_host_that_takes_no_answers_ends_in_seconds() {
    let mut bench = Bench::new(MEMORY);
    bench.command(&read(1, 64), &[]);
    let (token, _) = bench.submitted.remove(0);
    let room = bench.rooms.remove(&token).unwrap();
    let data = room.into_buffer(MEMORY / 2).freeze();
    bench.event(FrontendEvent::Reply { token, result: Ok(Reply::Data(vec![(0, data)])) });
    let mut other = bench.context.beside();
    let _rest = other.allocate(MEMORY / 2).unwrap();
    let mut third = bench.context.beside();
    assert!(third.allocate(4096).is_none());
    bench.pass(LOOK * (HURRY + 1));
    assert!(bench.drains);
}

/// What it owes is behind a capsule that waits for the volume.
#[test]
fn a_host_that_is_not_listened_to_is_not_ended_for_its_data() {
    let Kept { mut bench, other: _other, _rest, .. } = Kept::new();
    let host = bench.host;
    let capsules = [7, 8].map(|id| host.capsule(&write(id, IN_CAPSULE, 8), &pattern(4096)));
    bench.receive(&capsules.concat(), 99_999);
    assert!(bench.submitted.len() == 1 && bench.lent.is_none(), "one by the queue's own memory");
    bench.pass(LOOK * PATIENCE * 2);
    assert!(!bench.drains);
    bench.submitted[0].1 = Operation::Flush;
    bench.reply(Ok(Reply::Done));
    assert!(bench.lent.is_some());
    bench.pass(LOOK * (HURRY + 1));
    assert!(bench.drains);
}

/// The engine has the buffer of a command that is aborted in the middle of its data.
#[test]
fn the_data_of_an_aborted_command_is_waited_for_no_longer_than_others() {
    const HALF: u16 = 64;
    let mut bench = Bench::new(MEMORY);
    bench.command(&write(1, ON_REQUEST, HALF), &[]);
    let tag = bench.requested();
    bench.drain();
    let host = bench.host;
    bench.receive(&host.data(1, tag, 0, &pattern(MEMORY / 2), true)[..4096], 9999);
    bench.abort(1);
    bench.drain();
    assert_eq!(bench.context.held(), MEMORY / 2);
    let _rest = bench.context.beside().allocate(MEMORY / 2).unwrap();
    let mut other = bench.context.beside();
    assert!(other.allocate(4096).is_none());
    bench.pass(LOOK * (HURRY + 1));
    assert!(bench.drains);
}

#[test]
fn who_waits_is_known_until_nothing_is_wanted() {
    let waiting = || {
        let mut bench = Bench::new(MEMORY);
        let mut other = bench.context.beside();
        let held = other.allocate(MEMORY).unwrap();
        bench.command(&write(1, ON_REQUEST, 16), &[]);
        assert!(bench.context.waits() && other.others_wait());
        (bench, other, held)
    };
    let (mut bench, other, _held) = waiting();
    bench.abort(1);
    assert!(!other.others_wait());

    let (mut bench, other, _held) = waiting();
    bench.command(&disconnect(2), &[]);
    assert!(!other.others_wait());

    let (mut bench, other, _held) = waiting();
    bench.event(FrontendEvent::Stopping);
    assert!(!other.others_wait());

    let (mut bench, other, held) = waiting();
    drop(held);
    bench.event(FrontendEvent::MemoryAvailable);
    assert!(!other.others_wait());

    let mut bench = Bench::new(MEMORY);
    let mut other = bench.context.beside();
    let _held = other.allocate(MEMORY).unwrap();
    bench.command(&write(1, IN_CAPSULE, 8), &pattern(4096));
    assert!(bench.submitted.len() == 1 && !other.others_wait(), "it has memory of its own");
}

/// A queue that is ending waits for its host to take its answers, and for nobody's memory.
#[test]
fn a_queue_that_ends_is_not_kept_by_a_host_that_takes_no_answers() {
    let mut bench = Bench::new(MEMORY);
    bench.command(&disconnect(1), &[]);
    bench.drained();
    bench.pass(LOOK * (PATIENCE - 1));
    assert!(bench.ended.is_none());
    bench.pass(LOOK * 2);
    assert!(bench.ended.is_some());
}
