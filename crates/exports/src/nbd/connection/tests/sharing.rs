//! Several clients of one volume, whose memory they share.

use std::time::Duration;

use evenkeel_core::Instant;
use evenkeel_engine::memory::Reservation;

use super::*;
use crate::stream::{HURRY, LOOK, PATIENCE};

const MEMORY: usize = 8 << 20;
/// Within this time somebody has memory who waits within his portion.
const BOUND: Duration = Duration::from_secs(HURRY as u64 + 1);

/// A connection of another client of the same volume.
fn another(bench: &Bench) -> Bench {
    let mut context = bench.context.beside();
    context.set_now(bench.context.now());
    beside(context, negotiated(false))
}

/// The first bytes of a write of so many.
fn half(length: usize, sent: usize) -> Vec<u8> {
    write(1, 0, &pattern(length))[..HEADER_LENGTH + sent].to_vec()
}

/// One that has sent a part of a write of so many bytes, one that waits for as many, and others
/// that have the rest.
fn stalled(length: usize) -> (Bench, Bench, Reservation) {
    let mut bench = connected(MEMORY, negotiated(false));
    bench.receive(&half(length, 5000), 9999);
    let [rest] = bench.context.beside().reserve([MEMORY - length]).expect("it fits");
    let mut waiter = another(&bench);
    waiter.receive(&half(length, 5000), 9999);
    assert!(waiter.context.waits() && waiter.lent.is_none());
    (bench, waiter, rest)
}

#[test]
fn one_client_that_takes_no_answers_costs_only_itself() {
    let mut bench = connected(MEMORY, negotiated(false));
    let reads: Vec<u8> = (0..200).flat_map(|cookie| request(0, cookie, 0, 65_536)).collect();
    bench.receive(&reads, 9999);
    assert_eq!(bench.rooms.len(), 64);
    assert!(!bench.context.waits(), "it waits for itself");
    let mut other = another(&bench);
    for cookie in 0..99 {
        other.receive(&write(cookie, 0, &pattern(65_536)), 99_999);
        let (token, _) = other.submitted.remove(0);
        other.reply(token, Ok(Reply::Done));
    }
}

#[test]
fn who_keeps_more_than_its_share_ends_in_seconds_while_another_one_waits() {
    let (mut bench, mut waiter, _rest) = stalled(MEMORY / 2);
    bench.pass(BOUND);
    assert!(bench.ended.is_some());
    drop(bench);
    waiter.event(FrontendEvent::MemoryAvailable);
    assert!(waiter.lent.is_some() && !waiter.context.waits());
}

#[test]
fn who_keeps_no_more_than_its_share_ends_when_it_has_had_patience_enough() {
    let (mut bench, _waiter, _rest) = stalled(MEMORY / 4);
    // A second more for each MiB.
    bench.pass(LOOK * (PATIENCE + 1));
    assert!(bench.ended.is_none(), "{:?}", bench.ended);
    bench.pass(LOOK * 2);
    assert!(bench.ended.is_some());
}

#[test]
fn who_keeps_memory_that_nobody_waits_for_stays() {
    let (mut bench, waiter, _rest) = stalled(MEMORY / 2);
    bench.pass(LOOK * (HURRY - 2));
    drop(waiter);
    bench.pass(LOOK * PATIENCE * 9);
    assert!(bench.ended.is_none(), "{:?}", bench.ended);
}

/// Neither a byte now and then, nor answers that it takes.
#[test]
fn a_byte_now_and_then_gives_no_more_time() {
    let (mut bench, _waiter, _rest) = stalled(MEMORY / 2);
    for _ in 0..HURRY + 1 {
        bench.pass(Duration::from_millis(900));
        if bench.ended.is_none() {
            bench.receive(&[7], 1);
        }
    }
    assert!(bench.ended.is_some());
}

/// It has not been able to hear what has arrived.
#[test]
fn a_node_that_stood_still_ends_nobody_for_that() {
    let (mut bench, _waiter, _rest) = stalled(MEMORY / 2);
    for _ in 1..HURRY {
        bench.context.set_now(bench.context.now() + Duration::from_hours(1));
        bench.wake();
    }
    assert!(bench.ended.is_none(), "{:?}", bench.ended);
    bench.wake();
    assert!(bench.ended.is_some());
}

/// 1 MB/s, while all of the memory is wanted.
#[test]
fn a_client_on_a_slow_line_that_has_its_share_is_served() {
    let (length, second) = (16 << 20, 1_000_000);
    let mut bench = connected(64 << 20, negotiated(false));
    let _rest = bench.context.beside().allocate(32 << 20);
    bench.receive(&request(1, 1, 0, length as u32), 9999);
    let mut waiter = another(&bench);
    waiter.receive(&request(1, 1, 0, 32 << 20), 9999);
    assert!(waiter.context.waits());
    for piece in pattern(length).chunks(second) {
        bench.pass(LOOK);
        assert!(bench.receive(piece, second).is_empty());
        assert!(bench.ended.is_none(), "{:?}", bench.ended);
    }
    assert_eq!(bench.submitted.len(), 1);
}

#[test]
fn who_is_answered_by_the_end_of_the_volume_waits_no_more() {
    let (_bench, mut waiter, _rest) = stalled(MEMORY / 2);
    waiter.event(FrontendEvent::Stopping);
    assert!(!waiter.context.waits());
}

/// What a client of the property test does.
#[derive(Debug, Clone)]
enum Act {
    /// Begins a write of so many pages, and sends a part of it.
    Begin {
        pages: usize,
        sent: usize,
    },
    /// Sends so much of what it owes.
    Send(usize),
    /// Reads without taking the answers.
    Read {
        pages: usize,
    },
    Take,
    Flush,
    /// Sends all that it owes.
    Finish,
    Pass(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (1..200usize, 0..4000usize).prop_map(|(pages, sent)| Act::Begin { pages, sent }),
        2 => (1..3000usize).prop_map(Act::Send),
        2 => (1..40usize).prop_map(|pages| Act::Read { pages }),
        1 => Just(Act::Take),
        1 => Just(Act::Flush),
        1 => Just(Act::Finish),
        3 => (1..1500u64).prop_map(Act::Pass),
    ]
}

/// A client, and what it has not been able to send, or owes.
struct Peer {
    bench: Bench,
    unsent: Vec<u8>,
    owes: usize,
    /// How many of its requests the volume has answered.
    served: usize,
}

impl Peer {
    fn new(bench: Bench) -> Self {
        Self { bench, unsent: Vec::new(), owes: 0, served: 0 }
    }

    /// Sends bytes, after those that were not taken before.
    fn send(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
        let left = self.bench.receive(&self.unsent, 99_999).len();
        self.unsent.drain(..self.unsent.len() - left);
    }

    fn act(&mut self, act: &Act) {
        let is_free = self.owes == 0;
        match *act {
            Act::Begin { pages, sent } if is_free => {
                self.send(&half(pages * 4096, sent.min(pages * 4096)));
                self.owes = pages * 4096 - sent.min(pages * 4096);
            }
            Act::Send(count) => {
                let count = count.min(self.owes);
                self.owes -= count;
                self.send(&vec![1; count]);
            }
            Act::Finish => {
                self.send(&vec![1; self.owes]);
                self.owes = 0;
            }
            Act::Read { pages } if is_free => self.send(&request(0, 1, 0, pages as u32 * 4096)),
            Act::Flush if is_free => self.send(&request(3, 1, 0, 0)),
            Act::Take if self.bench.ended.is_none() => self.bench.drain(),
            _ => {}
        }
    }

    /// The volume answers all at once.
    fn answer(&mut self) {
        while self.bench.ended.is_none() && !self.bench.submitted.is_empty() {
            let (token, operation) = self.bench.submitted.remove(0);
            let reply = match operation {
                Operation::Read { length, .. } => {
                    let room = self.bench.rooms.remove(&token).expect("it has room");
                    let buffer = room.into_buffer(length as usize);
                    Reply::Data(vec![(0, buffer.freeze())])
                }
                _ => Reply::Done,
            };
            self.bench.reply(token, Ok(reply));
            self.served += 1;
        }
    }
}

/// The clients of a volume. One that is ended comes back at once.
struct Volume(Vec<Peer>);

impl Volume {
    /// Nothing is left to do at this moment.
    fn settle(&mut self) {
        for _ in 0..3 {
            for peer in &mut self.0 {
                peer.answer();
                if peer.bench.ended.is_some() {
                    *peer = Peer::new(another(&peer.bench));
                }
                peer.bench.event(FrontendEvent::MemoryAvailable);
                peer.send(&[]);
                peer.answer();
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        for peer in &mut self.0 {
            peer.bench.pass(time);
        }
        self.settle();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever others leave unfinished, who sends whole requests within his portion waits for
    /// memory no longer than the bound, and is never ended.
    #[test]
    fn nobody_waits_for_longer_than_the_bound(
        acts in vec((1..6usize, act()), 1..300),
        pages in 1..30usize,
    ) {
        let mut first = connected(MEMORY / 8, negotiated(false));
        first.context.set_now(Instant(0) + LOOK * 100);
        let others: Vec<_> = (0..5).map(|_| Peer::new(another(&first))).collect();
        let mut volume = Volume(std::iter::once(Peer::new(first)).chain(others).collect());
        let mut since = (0, None);
        for (who, act) in acts {
            match act {
                Act::Pass(milliseconds) => volume.pass(Duration::from_millis(milliseconds)),
                act => volume.0[who].act(&act),
            }
            volume.settle();
            let honest = &mut volume.0[0];
            if honest.unsent.is_empty() {
                honest.send(&write(1, 0, &pattern(pages * 4096)));
                honest.bench.drain();
            }
            volume.settle();
            let honest = &volume.0[0];
            let now = honest.bench.context.now();
            prop_assert!(honest.bench.ended.is_none(), "{:?}", honest.bench.ended);
            if since.0 != honest.served || !honest.bench.context.waits() {
                since = (honest.served, None);
            }
            if honest.bench.context.waits() {
                since.1.get_or_insert(now);
            }
            let waited = since.1.map_or(Duration::ZERO, |since| now.since(since));
            prop_assert!(waited <= BOUND + Duration::from_millis(1500), "it has waited {waited:?}");
        }
    }
}
