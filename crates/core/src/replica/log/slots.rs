//! The intent log: one [`IntentLog`] per slot.
//!
//! A primary's writes open regions in its own slot only. What is open in a slot whose primary is
//! gone is resolved as writes of a dead primary are, and then the slot is closed; whoever takes the
//! slot meanwhile shares it. A slot beyond those that the view has is kept until it is closed.

use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeMap;

use super::intent_log::{IntentLog, OpenRegions, Reservation};
use crate::block_set::BlockSet;
use crate::ids::*;
use crate::time::Instant;
use crate::view::{PrimaryRecord, View};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct IntentSlots {
    logs: Vec<IntentLog>,
    /// The slot that was saved last.
    saved_last: usize,
    /// The last write that primaries sent before this incarnation of the replica.
    last_of_earlier_incarnations: BTreeMap<PrimaryId, Sequence>,
}

impl IntentSlots {
    /// The slots as their tables were found on the disk.
    pub fn new(view: &View, found: &[OpenRegions], now: Instant) -> Self {
        let mut slots =
            Self { logs: Vec::new(), saved_last: 0, last_of_earlier_incarnations: BTreeMap::new() };
        let holds_any = |table: &&OpenRegions| !table.open.is_empty();
        let used = found.iter().filter(holds_any).map(|table| table.slot + 1).max().unwrap_or(0);
        for slot in 0..view.intents.slots.max(used) {
            let none = OpenRegions::none(view.intents, slot);
            let table = found.iter().find(|table| table.slot == slot).unwrap_or(&none);
            let size = view.replica_size();
            slots.logs.push(IntentLog::new(view.intents, view.bitmap, size, table, now));
        }
        slots
    }

    /// The view says how large the volume is, how many slots there are, how large, and how closely
    /// they are to remember.
    pub fn follow(&mut self, view: &View, now: Instant) {
        for log in &mut self.logs {
            log.set_bitmap(view.bitmap);
            log.set_size(view.replica_size());
            log.set_layout(view.intents);
        }
        while self.logs.len() > usize::from(view.intents.slots)
            && self.logs.last().is_some_and(IntentLog::is_closed)
        {
            self.logs.pop();
        }
        for slot in self.logs.len()..usize::from(view.intents.slots) {
            let none = OpenRegions::none(view.intents, slot as u8);
            let size = view.replica_size();
            self.logs.push(IntentLog::new(view.intents, view.bitmap, size, &none, now));
        }
    }

    fn log(&mut self, slot: u8) -> &mut IntentLog {
        let place = self.place_of(slot);
        &mut self.logs[place]
    }

    fn place_of(&self, slot: u8) -> usize {
        // A view's primaries have slots that it has.
        usize::from(slot).min(self.logs.len() - 1)
    }

    /// The blocks of a range of bytes.
    pub fn blocks(&self, offset: u64, length: u32) -> Range<u64> {
        self.logs[0].blocks(offset, length)
    }

    /// See [`IntentLog::reserve`]; in a slot that is full room is made first. A write that would
    /// wait for itself goes beyond the slot's places.
    pub fn reserve(
        &mut self,
        now: Instant,
        slot: u8,
        blocks: &Range<u64>,
        by: WriteId,
        may_close: impl Fn(&Range<u64>) -> bool,
    ) -> Reservation {
        let last = self.last_of_earlier_incarnations.get(&by.primary).copied();
        let log = self.log(slot);
        let reservation = log.reserve(now, blocks, by);
        if reservation != Reservation::Full {
            reservation
        } else if !log.make_room(blocks, may_close) && log.waits_for_itself(blocks, by, last) {
            log.reserve_beyond(now, blocks, by)
        } else {
            log.reserve(now, blocks, by)
        }
    }

    /// Whether the regions of these blocks are open on the disk.
    pub fn is_open(&self, slot: u8, blocks: &Range<u64>) -> bool {
        self.logs[self.place_of(slot)].is_open(blocks)
    }

    /// See [`IntentLog::stays_open`].
    pub fn stays_open(&self, slot: u8, blocks: &Range<u64>) -> bool {
        self.logs[self.place_of(slot)].stays_open(blocks)
    }

    /// An operation for which regions were reserved has ended.
    pub fn release(&mut self, slot: u8, blocks: &Range<u64>) {
        self.log(slot).release(blocks);
    }

    /// See [`IntentLog::stable`].
    pub fn stable(&mut self, by: PrimaryId, through: Sequence) -> bool {
        self.ask_all(|log| log.stable(by, through))
    }

    /// The last write that this primary sent before this incarnation of the replica.
    pub fn note_earlier_incarnations(&mut self, by: PrimaryId, last: Sequence) {
        self.last_of_earlier_incarnations.insert(by, last);
    }

    /// Asks all of them, also when one has said yes.
    fn ask_all(&mut self, mut ask: impl FnMut(&mut IntentLog) -> bool) -> bool {
        self.logs.iter_mut().filter_map(|log| ask(log).then_some(())).count() > 0
    }

    /// A primary says that what it had sent before this incarnation of the replica is stable. With
    /// it, so is what others had sent who are none of these primaries any more: the flush covers
    /// it.
    pub fn stabilize_earlier_incarnations(&mut self, by: PrimaryId, primaries: &[PrimaryRecord]) {
        for (slot, log) in self.logs.iter_mut().enumerate() {
            let holder = primaries.iter().find(|record| usize::from(record.slot) == slot);
            if holder.is_none_or(|holder| holder.id == by) {
                log.stabilize_orphans();
            }
        }
    }

    /// See [`IntentLog::stabilize_orphans`].
    pub fn stabilize_orphans(&mut self) {
        self.logs.iter_mut().for_each(IntentLog::stabilize_orphans);
    }

    /// See [`IntentLog::adopt_orphans`].
    pub fn adopt_orphans(&mut self) -> bool {
        self.ask_all(IntentLog::adopt_orphans)
    }

    /// See [`IntentLog::flushed`].
    pub fn flushed(&mut self) {
        self.logs.iter_mut().for_each(IntentLog::flushed);
    }

    /// See [`IntentLog::stabilize_all`].
    pub fn stabilize_all(&mut self) {
        self.logs.iter_mut().for_each(IntentLog::stabilize_all);
    }

    /// See [`IntentLog::orphan`].
    pub fn orphan(&mut self, is_gone: impl Fn(PrimaryId) -> bool) {
        self.logs.iter_mut().for_each(|log| log.orphan(&is_gone));
        self.last_of_earlier_incarnations.retain(|primary, _| !is_gone(*primary));
    }

    /// See [`IntentLog::stabilize_gone`].
    pub fn stabilize_gone(&mut self, is_gone: impl Fn(PrimaryId) -> bool) {
        self.logs.iter_mut().for_each(|log| log.stabilize_gone(&is_gone));
        self.last_of_earlier_incarnations.retain(|primary, _| !is_gone(*primary));
    }

    /// See [`IntentLog::begin_anew`].
    pub fn begin_anew(&mut self) {
        self.logs.iter_mut().for_each(IntentLog::begin_anew);
    }

    /// Blocks that were written and that some other replica may lack.
    pub fn touched(&self) -> BlockSet {
        let mut all = BlockSet::default();
        self.logs.iter().for_each(|log| all.insert_all(log.touched()));
        all
    }

    /// Of those, the ones whose primary is not asked any more.
    pub fn orphaned(&self) -> BlockSet {
        let mut all = BlockSet::default();
        self.logs.iter().for_each(|log| all.insert_all(&log.orphaned()));
        all
    }

    /// See [`IntentLog::close_unused`].
    pub fn close_unused(
        &mut self,
        now: Instant,
        unused_for: Duration,
        may_close: impl Fn(&Range<u64>) -> bool,
    ) {
        self.logs.iter_mut().for_each(|log| log.close_unused(now, unused_for, &may_close));
    }

    /// The next table for which operations wait, each slot in its turn.
    pub fn urgent_table(&mut self) -> Option<OpenRegions> {
        self.table_of(IntentLog::must_save)
    }

    /// The next table that holds too much on the disk.
    pub fn outdated_table(&mut self) -> Option<OpenRegions> {
        self.table_of(IntentLog::is_outdated)
    }

    /// The next table that holds something on the disk although nothing is open.
    pub fn empty_table(&mut self) -> Option<OpenRegions> {
        self.table_of(|log| log.is_empty() && log.is_outdated())
    }

    fn table_of(&mut self, wanted: impl Fn(&IntentLog) -> bool) -> Option<OpenRegions> {
        let count = self.logs.len();
        let turn = (1..=count).map(|step| (self.saved_last + step) % count);
        self.saved_last = turn.into_iter().find(|slot| wanted(&self.logs[*slot]))?;
        Some(self.logs[self.saved_last].table())
    }

    /// This table is on the disk.
    pub fn saved(&mut self, table: &OpenRegions) {
        if let Some(log) = self.logs.get_mut(usize::from(table.slot)) {
            log.saved(table);
        }
    }

    /// Whether so much is not stable that a primary should see to it.
    pub fn is_filling(&self) -> bool {
        self.logs.iter().any(IntentLog::is_filling)
    }

    /// How many regions are open, as far as they are known one by one.
    pub fn open_regions(&self) -> usize {
        self.logs.iter().map(IntentLog::open_regions).sum()
    }

    /// The slots in which anything is open, a bit each.
    pub fn open_slots(&self) -> u32 {
        let bit = |(slot, log): (usize, &IntentLog)| u32::from(!log.is_closed()) << slot;
        self.logs.iter().enumerate().map(bit).sum()
    }

    /// Whether nothing is open.
    pub fn is_empty(&self) -> bool {
        self.logs.iter().all(IntentLog::is_empty)
    }

    /// Panics if the view has a slot that is none here, or a slot's log contradicts itself.
    pub fn check_invariants(&self, view: &View) {
        let (slots, count) = (usize::from(view.intents.slots), self.logs.len());
        assert!(count >= slots, "W6: of {slots} slots of the intent log {count} are there");
        for (slot, log) in self.logs.iter().enumerate() {
            log.check_invariants(slot);
        }
    }
}

#[cfg(test)]
mod tests;
