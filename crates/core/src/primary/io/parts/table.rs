//! The parts that are under way, and which of them wait for something else than an answer.

use std::collections::VecDeque;

use super::part::Part;
use crate::ids::*;
use crate::payload::Payload;
use crate::policy::ReplicaSet;

use crate::primary::membership::LateWrite;
use crate::rising_map::RisingMap;
use crate::time::Instant;
use core::time::Duration;

/// The parts of a primary.
#[derive(Debug)]
pub(super) struct PartTable<P> {
    under_way: RisingMap<Sequence, Part<P>>,
    /// Reads and maps for which no replica could be chosen yet. Some may be over.
    unplaced: VecDeque<Sequence>,
    /// Those whose answer waits until the lease is confirmed. Some may be over.
    unconfirmed: Vec<Sequence>,
}

impl<P> Default for PartTable<P> {
    fn default() -> Self {
        let (unplaced, unconfirmed) = (VecDeque::new(), Vec::new());
        Self { under_way: RisingMap::default(), unplaced, unconfirmed }
    }
}

impl<P: Payload> PartTable<P> {
    /// A part that is sent now, by a higher number than those before.
    pub fn add(&mut self, sequence: Sequence, part: Part<P>) {
        self.under_way.insert(sequence, part);
    }

    /// The part of this number; `None` if it is over.
    #[inline]
    pub fn get(&self, sequence: Sequence) -> Option<&Part<P>> {
        self.under_way.get(&sequence)
    }

    /// The part of this number, to be changed; `None` if it is over.
    #[inline]
    pub fn get_mut(&mut self, sequence: Sequence) -> Option<&mut Part<P>> {
        self.under_way.get_mut(&sequence)
    }

    /// A part that is not over.
    #[inline]
    pub fn known(&self, sequence: Sequence) -> Option<&Part<P>> {
        let part = self.under_way.get(&sequence);
        debug_assert!(part.is_some(), "{sequence:?} is over");
        part
    }

    /// A part that is not over, to be changed.
    #[inline]
    pub fn known_mut(&mut self, sequence: Sequence) -> Option<&mut Part<P>> {
        let part = self.under_way.get_mut(&sequence);
        debug_assert!(part.is_some(), "{sequence:?} is over");
        part
    }

    /// A part that is not over is over by this.
    pub fn end(&mut self, sequence: Sequence) -> Option<Part<P>> {
        let part = self.under_way.remove(&sequence);
        debug_assert!(part.is_some(), "{sequence:?} was over before");
        part
    }

    /// A read has to wait for a replica.
    pub fn await_replica(&mut self, sequence: Sequence) {
        self.unplaced.push_back(sequence);
    }

    /// How many reads wait for a replica, or did when they ended.
    pub fn unplaced(&self) -> usize {
        self.unplaced.len()
    }

    /// Takes out the read that has waited longest for a replica.
    pub fn next_unplaced(&mut self) -> Option<Sequence> {
        self.unplaced.pop_front()
    }

    /// An answer waits until the lease is confirmed.
    pub fn await_lease(&mut self, sequence: Sequence) {
        if !self.unconfirmed.contains(&sequence) {
            self.unconfirmed.push(sequence);
        }
    }

    /// Takes out those whose answer waits until the lease is confirmed.
    #[inline]
    pub fn take_unconfirmed(&mut self) -> Vec<Sequence> {
        core::mem::take(&mut self.unconfirmed)
    }

    /// Reads that a replica has not answered go to another one.
    pub fn take_reads_from(&mut self, mirror: usize, bit: ReplicaSet) {
        for (sequence, part) in self.under_way.iter_mut() {
            if part.mirror() == mirror && part.take_read_from(bit) {
                self.unplaced.push_back(*sequence);
            }
        }
    }

    /// What was read and not told is read anew. `again` is called with each part of which that is
    /// so.
    pub fn read_again(&mut self, mut again: impl FnMut(&Part<P>)) {
        for (sequence, part) in self.under_way.iter_mut() {
            part.forget_unverified();
            if part.read_again() {
                self.unplaced.push_back(*sequence);
                again(part);
            }
        }
    }

    /// All, by their numbers.
    #[inline]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Sequence, &Part<P>)> {
        self.under_way.iter().map(|(sequence, part)| (*sequence, part))
    }

    #[inline]
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Part<P>> {
        self.under_way.values()
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Part<P>> {
        self.under_way.values_mut()
    }

    /// Those of one mirror.
    #[inline]
    pub fn of_mirror(&self, mirror: usize) -> impl Iterator<Item = (Sequence, &Part<P>)> {
        self.iter().filter(move |(_, part)| part.mirror() == mirror)
    }

    /// Those of one mirror, to be changed.
    pub fn of_mirror_mut(&mut self, mirror: usize) -> impl Iterator<Item = &mut Part<P>> {
        self.under_way.values_mut().filter(move |part| part.mirror() == mirror)
    }

    /// The first write to a mirror that is not over.
    pub fn first_write(&self, mirror: usize) -> Option<Sequence> {
        let first = self.of_mirror(mirror).find(|(_, part)| part.changes_data());
        first.map(|(sequence, _)| sequence)
    }

    /// The replicas of a mirror that have failed a write which is acknowledged and not over.
    pub fn out_of_sync(&self, mirror: usize) -> ReplicaSet {
        let acknowledged = self.of_mirror(mirror).filter(|(_, part)| part.is_acknowledged());
        acknowledged.fold(0, |set, (_, part)| set | part.failed())
    }

    /// Writes that have taken this long already: of which mirror, who has not answered, how long.
    pub fn late_writes(&self, now: Instant, least: Duration) -> Vec<LateWrite> {
        let writes = self.values().filter(|part| part.changes_data());
        let late = writes.map(|part| LateWrite {
            mirror: part.mirror(),
            unanswered: part.unanswered(),
            age: now.since(part.sent_at()),
        });
        late.filter(|late| late.unanswered != 0 && late.age >= least).collect()
    }

    /// Whether none is under way.
    pub fn are_over(&self) -> bool {
        self.under_way.is_empty()
    }

    /// How many are under way.
    pub fn count(&self) -> usize {
        self.under_way.len()
    }

    /// Whether a read waits for a replica.
    pub fn is_unplaced(&self, sequence: Sequence) -> bool {
        self.unplaced.contains(&sequence)
    }
}

#[cfg(test)]
mod tests;
