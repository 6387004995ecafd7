//! Which parts of a block device hold anything: a map on the device, marked durably before the first
//! write to a unit, so that what was never written or was trimmed is known after any crash.
//!
//! One save at a time writes the map. It is carried by the action that wanted it first; writes that come
//! meanwhile wait, and share the next one. A unit that was trimmed as a whole is unmarked by the next
//! flush, unless something was written there meanwhile: until then a power cut may bring back what it
//! held.

use std::collections::VecDeque;
use std::ops::Range;

use evenkeel_core::block_set::{BlockSet, page_of};
use evenkeel_core::settings::MOST_EXTENTS;
use evenkeel_core::{DiskAction, DiskOutcome, Extent, Payload, ReplicaId};
use evenkeel_format::{ALLOCATION_UNITS, AllocationMap, allocation_page_offset};

use super::io::Io;
use super::metadata::Writes;
use super::{Disk, Means, Progress, Step};
use crate::slab::Key;
use crate::slot::Slot;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Allocation {
    /// No more than the device says, but for what its save has not ended.
    map: AllocationMap,
    /// Who carries the save, and the units that the device will name after it.
    saving: Option<(Key, BlockSet)>,
    /// Writes to units that the device does not name yet.
    waiting: VecDeque<(Key, DiskAction<Slot>)>,
    /// Units that were trimmed since a flush last began, and not written again.
    trimmed: BlockSet,
    /// The same of each flush under way.
    flushing: Vec<(Key, BlockSet)>,
}

impl Allocation {
    pub(super) fn new(map: AllocationMap) -> Self {
        Self {
            map,
            saving: None,
            waiting: VecDeque::new(),
            trimmed: BlockSet::default(),
            flushing: Vec::new(),
        }
    }

    /// The units that a range touches, as far as the map tells of them.
    fn touched(&self, offset: u64, length: u64) -> Range<u64> {
        let units = offset / self.map.unit..(offset + length).div_ceil(self.map.unit);
        units.start.min(ALLOCATION_UNITS)..units.end.min(ALLOCATION_UNITS)
    }

    /// The units that lie in a range as a whole.
    fn covered(&self, offset: u64, length: u64) -> Range<u64> {
        let units = offset.div_ceil(self.map.unit)..(offset + length) / self.map.unit;
        units.start.min(ALLOCATION_UNITS)..units.end.min(ALLOCATION_UNITS)
    }

    fn names_all(&self, units: &Range<u64>) -> bool {
        units.is_empty() || self.map.allocated.first_run(units.clone()).as_ref() == Some(units)
    }

    /// Whether nothing is in a range.
    pub(super) fn is_empty(&self, offset: u64, length: u64) -> bool {
        let within_reach = (offset + length).div_ceil(self.map.unit) <= ALLOCATION_UNITS;
        within_reach && self.map.allocated.first_run(self.touched(offset, length)).is_none()
    }

    /// The extents of a range, the first [`MOST_EXTENTS`] of them.
    pub(super) fn extents(&self, offset: u64, length: u64) -> Vec<Extent> {
        let (unit, end) = (self.map.unit, offset + length);
        let mut extents = Vec::new();
        let mut at = offset;
        while at < end && extents.len() < MOST_EXTENTS {
            let run = self.map.allocated.first_run(at / unit..ALLOCATION_UNITS);
            let beyond = ALLOCATION_UNITS.saturating_mul(unit);
            let data = run.map_or(beyond..end, |run| match run.end {
                ALLOCATION_UNITS => run.start * unit..end,
                last => run.start * unit..last * unit,
            });
            let allocated = data.start <= at;
            let until = if allocated { data.end } else { data.start }.min(end);
            extents.push(Extent { length: until - at, allocated });
            at = until;
        }
        extents
    }

    /// A write is to begin: returned if it may. Otherwise it waits until the device names its units.
    fn admit(&mut self, key: Key, action: DiskAction<Slot>) -> Option<DiskAction<Slot>> {
        let DiskAction::Write { offset, payload } = &action else { return Some(action) };
        let units = self.touched(*offset, payload.length().into());
        self.trimmed.remove(units.clone());
        for (_, trimmed) in &mut self.flushing {
            trimmed.remove(units.clone());
        }
        if self.names_all(&units) {
            return Some(action);
        }
        self.waiting.push_back((key, action));
        None
    }

    /// What the device is to name: what it does, and what waits. With the pages that change.
    fn wanted(&self) -> (BlockSet, Vec<u32>) {
        let (mut wanted, mut pages) = (self.map.allocated.clone(), Vec::new());
        for (_, action) in &self.waiting {
            let DiskAction::Write { offset, payload } = action else { continue };
            let units = self.touched(*offset, payload.length().into());
            pages.extend(page_of(units.start)..=page_of(units.end - 1));
            wanted.insert(units);
        }
        pages.sort_unstable();
        pages.dedup();
        (wanted, pages)
    }

    /// Begins a save that `carrier` carries, of the pages of what waits and of these.
    fn save(&mut self, carrier: Key, more: &BlockSet, replica: ReplicaId) -> Writes {
        let (wanted, mut pages) = self.wanted();
        pages.extend(more.pages().filter(|page| !pages.contains(page)).collect::<Vec<_>>());
        let map = AllocationMap { unit: self.map.unit, allocated: wanted };
        let bytes = |page| (allocation_page_offset(page), map.encode_page(replica, page));
        let writes = Writes::new(pages.into_iter().map(bytes).collect());
        self.saving = Some((carrier, map.allocated));
        writes
    }
}

impl<I: Io> Disk<I> {
    /// Begins a write or a flush, or lets a write wait for the map.
    pub(super) fn begin_in_map(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        action: DiskAction<Slot>,
    ) {
        let Some(allocation) = &mut self.allocation else { return self.submit(means, key, action) };
        if matches!(action, DiskAction::Flush { .. }) {
            let trimmed = core::mem::take(&mut allocation.trimmed);
            allocation.flushing.push((key, trimmed));
        }
        match allocation.admit(key, action) {
            Some(action) => self.submit(means, key, action),
            None => self.save_for_waiting(means),
        }
    }

    /// Begins a save if writes wait and none is under way.
    fn save_for_waiting(&mut self, means: &mut Means<'_, I>) {
        let replica = self.replica();
        let Some(allocation) = self.allocation.as_mut().filter(|a| a.saving.is_none()) else {
            return;
        };
        let Some((carrier, _)) = allocation.waiting.front() else { return };
        let carrier = *carrier;
        let writes = allocation.save(carrier, &BlockSet::default(), replica);
        self.carry(means, carrier, writes);
    }

    fn carry(&mut self, means: &mut Means<'_, I>, carrier: Key, writes: Writes) {
        let Some(job) = self.jobs.get_mut(carrier) else { return };
        job.step = Step::Metadata(writes);
        self.write_metadata(means, carrier);
    }

    /// An action has ended well, or its save has: what follows in the map?
    pub(super) fn ended_in_map(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        outcome: DiskOutcome<Slot>,
    ) -> Progress {
        let Some(allocation) = &mut self.allocation else { return Progress::Done(outcome) };
        if let Some((_, named)) = allocation.saving.take_if(|(carrier, _)| *carrier == key) {
            allocation.map.allocated = named;
            return self.map_saved(means, key, outcome);
        }
        let Some(job) = self.jobs.get_mut(key) else { return Progress::Done(outcome) };
        match &job.step {
            Step::Zero(zeroing) if zeroing.unmaps() => {
                let units = allocation.covered(job.offset, job.length);
                allocation.trimmed.insert(units);
            }
            Step::Flush => return self.flushed_in_map(means, key, outcome),
            _ => {}
        }
        Progress::Done(outcome)
    }

    /// The device names what waited: that goes on, perhaps with the carrier itself.
    fn map_saved(
        &mut self,
        means: &mut Means<'_, I>,
        carrier: Key,
        outcome: DiskOutcome<Slot>,
    ) -> Progress {
        let mut progress = Progress::Done(outcome);
        let waiting = self.allocation.as_mut().map(|a| core::mem::take(&mut a.waiting));
        for (key, action) in waiting.unwrap_or_default() {
            let admitted = self.allocation.as_mut().and_then(|a| a.admit(key, action));
            if key == carrier {
                progress = Progress::More;
            }
            if let (Some(action), Some(job)) = (admitted, self.jobs.get_mut(key)) {
                job.step = Step::Write(0);
                self.submit(means, key, action);
            }
        }
        self.save_for_waiting(means);
        progress
    }

    /// What was trimmed before the flush began is not named any more, from the next save on.
    fn flushed_in_map(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        outcome: DiskOutcome<Slot>,
    ) -> Progress {
        let replica = self.replica();
        let Some(allocation) = &mut self.allocation else { return Progress::Done(outcome) };
        let place = allocation.flushing.iter().position(|(flush, _)| *flush == key);
        let trimmed = place.map(|place| allocation.flushing.swap_remove(place).1);
        let Some(trimmed) = trimmed.filter(|trimmed| !trimmed.is_empty()) else {
            return Progress::Done(outcome);
        };
        if allocation.saving.is_some() {
            // That save names them again: the next flush tries.
            allocation.trimmed.insert_all(&trimmed);
            return Progress::Done(outcome);
        }
        allocation.map.allocated.remove_all(&trimmed);
        let writes = allocation.save(key, &trimmed, replica);
        self.carry(means, key, writes);
        Progress::More
    }

    /// An action has failed. If it carried a save, the next one that waits tries.
    pub(super) fn failed_in_map(&mut self, means: &mut Means<'_, I>, key: Key) {
        let Some(allocation) = &mut self.allocation else { return };
        allocation.flushing.retain(|(flush, _)| *flush != key);
        if allocation.saving.take_if(|(carrier, _)| *carrier == key).is_some() {
            allocation.waiting.retain(|(waiting, _)| *waiting != key);
            self.save_for_waiting(means);
        }
    }
}

#[cfg(test)]
mod tests;
