//! Virtual time: the queue of events, ordered by when they happen.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Virtual nanoseconds since the start of a run.
pub type Time = u64;

/// One microsecond.
pub const MICROSECOND: Time = 1_000;
/// One millisecond.
pub const MILLISECOND: Time = 1_000_000;
/// One second.
pub const SECOND: Time = 1_000_000_000;

/// Events by their time; those of one time in the order in which they were put in.
#[derive(Debug)]
pub struct Queue<E> {
    heap: BinaryHeap<Entry<E>>,
    numbered: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Time,
    number: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// The earliest is the greatest: the heap gives out the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), numbered: 0 }
    }
}

impl<E> Queue<E> {
    /// Lets something happen at a time.
    pub fn push(&mut self, at: Time, event: E) {
        self.numbered += 1;
        self.heap.push(Entry { at, number: self.numbered, event });
    }

    /// Takes out what happens next, if it happens until `limit`.
    pub fn pop_until(&mut self, limit: Time) -> Option<(Time, E)> {
        if self.heap.peek()?.at > limit {
            return None;
        }
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}
