//! Which parts of a block device hold anything: a map on the device, marked durably before the
//! first write to a unit, so that what was never written or was trimmed is known after any crash.
//!
//! One save at a time writes the map. Writes that come meanwhile wait, and share the next one; if
//! that fails, so does the first of them. A unit that was trimmed as a whole is unmarked by the
//! next flush, unless something was written there meanwhile: until then a power cut may bring back
//! what it held.

mod invariants;

use std::collections::VecDeque;
use std::ops::Range;

use evenkeel_core::block_set::{BlockSet, page_of};
use evenkeel_core::settings::MAX_EXTENTS;
use evenkeel_core::{Extent, Payload as _, ReplicaId};
use evenkeel_format::{self as format, ALLOCATION_UNITS, allocation_page_offset};

use super::{DataWrite, Outcome, RawDisk, Request};
use crate::disk::device::{Failures, Io, Means, Writes};
use crate::ring::{Completion, Key};

/// See the module's documentation. `T`: what is told of a request when it has ended.
pub(in crate::disk) struct AllocationMap<I: Io, T> {
    below: RawDisk<I, Then<T>>,
    /// `None`: the filesystem knows.
    marks: Option<Marks<T>>,
}

/// What is to be done when a request to the raw disk has ended.
#[derive(Debug)]
pub(in crate::disk) enum Then<T> {
    /// Nothing.
    Above(T),
    /// These units hold nothing.
    Trim(T, Range<u64>),
    /// Units that were trimmed before this flush began are unmarked.
    Flush(T, Trimmed),
    /// Units are unmarked.
    Unmark(T),
    /// Units are marked, for writes that wait.
    Mark,
}

/// Names what was trimmed before a flush that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::disk) struct Trimmed(u64);

#[derive(Debug)]
struct Marks<T> {
    replica: ReplicaId,
    /// No more than the device says, but for what its save has not ended.
    map: format::AllocationMap,
    /// The units that the device will name after the save that is under way.
    saving: Option<BlockSet>,
    /// Writes to units that the device does not name yet.
    waiting: VecDeque<Waiting<T>>,
    /// Units that were trimmed since a flush last began, and not written again.
    trimmed: BlockSet,
    /// The same of each flush under way, with how many may have failed.
    flushing: Vec<(Trimmed, BlockSet, Failures)>,
    flushes: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    write: DataWrite,
    then: T,
}

impl<T> Marks<T> {
    fn new(map: format::AllocationMap, replica: ReplicaId) -> Self {
        Self {
            replica,
            map,
            saving: None,
            waiting: VecDeque::new(),
            trimmed: BlockSet::default(),
            flushing: Vec::new(),
            flushes: 0,
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
    fn is_empty(&self, offset: u64, length: u64) -> bool {
        let within_reach = (offset + length).div_ceil(self.map.unit) <= ALLOCATION_UNITS;
        within_reach && self.map.allocated.first_run(self.touched(offset, length)).is_none()
    }

    /// The extents of a range, the first [`MAX_EXTENTS`] of them.
    fn extents(&self, offset: u64, length: u64) -> Vec<Extent> {
        let (unit, end) = (self.map.unit, offset + length);
        let mut extents = Vec::new();
        let mut at = offset;
        while at < end && extents.len() < MAX_EXTENTS {
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

    /// Whether a write may begin; if not, it is to wait until the device names its units.
    fn admits(&mut self, write: &DataWrite) -> bool {
        let units = self.touched(write.offset, write.payload.length().into());
        self.trimmed.remove(units.clone());
        for (_, trimmed, _) in &mut self.flushing {
            trimmed.remove(units.clone());
        }
        self.names_all(&units)
    }

    /// A flush begins. Names what was trimmed before.
    fn flush_begins(&mut self, failures: Failures) -> Trimmed {
        let name = Trimmed(self.flushes);
        self.flushes += 1;
        self.flushing.push((name, core::mem::take(&mut self.trimmed), failures));
        name
    }

    /// A flush has ended. Returns what it takes to unmark what was trimmed before it, if there is
    /// anything.
    fn flush_ends(&mut self, name: Trimmed, is_done: bool) -> Option<(Writes, Failures)> {
        let place = self.flushing.iter().position(|(flush, ..)| *flush == name)?;
        let (_, trimmed, failures) = self.flushing.swap_remove(place);
        if !is_done || trimmed.is_empty() {
            return None;
        }
        if self.saving.is_some() {
            // That save names them again: the next flush tries.
            self.trimmed.insert_all(&trimmed);
            return None;
        }
        self.map.allocated.remove_all(&trimmed);
        Some((self.save(&trimmed), failures))
    }

    /// What it takes to mark the units of what waits, if anything does and no save is under way.
    fn save_for_waiting(&mut self) -> Option<Writes> {
        let is_wanted = self.saving.is_none() && !self.waiting.is_empty();
        is_wanted.then(|| self.save(&BlockSet::default()))
    }

    /// Begins a save of the pages of what waits, and of these.
    fn save(&mut self, more: &BlockSet) -> Writes {
        let (wanted, mut pages) = self.wanted();
        pages.extend(more.pages());
        pages.sort_unstable();
        pages.dedup();
        let map = format::AllocationMap { unit: self.map.unit, allocated: wanted };
        let bytes = |page| (allocation_page_offset(page), map.encode_page(self.replica, page));
        let writes = Writes::new(pages.into_iter().map(bytes).collect());
        self.saving = Some(map.allocated);
        writes
    }

    /// What the device is to name: what it does, and what waits. With the pages that change.
    fn wanted(&self) -> (BlockSet, Vec<u32>) {
        let (mut wanted, mut pages) = (self.map.allocated.clone(), Vec::new());
        for Waiting { write, .. } in &self.waiting {
            let units = self.touched(write.offset, write.payload.length().into());
            pages.extend(page_of(units.start)..=page_of(units.end - 1));
            wanted.insert(units);
        }
        (wanted, pages)
    }

    /// A save has ended. Returns the writes that need not wait any more.
    fn saved(&mut self, is_done: bool) -> VecDeque<Waiting<T>> {
        let Some(named) = self.saving.take().filter(|_| is_done) else { return VecDeque::new() };
        self.map.allocated = named;
        let waiting = core::mem::take(&mut self.waiting);
        let (ready, rest): (VecDeque<_>, VecDeque<_>) =
            waiting.into_iter().partition(|waiting| self.admits(&waiting.write));
        self.waiting = rest;
        ready
    }
}

impl<I: Io, T> AllocationMap<I, T> {
    /// Over a disk. `map`: what it says of itself, if it has a map.
    pub(super) fn new(
        below: RawDisk<I, Then<T>>,
        map: Option<format::AllocationMap>,
        replica: ReplicaId,
    ) -> Self {
        Self { below, marks: map.map(|map| Marks::new(map, replica)) }
    }

    pub(super) const fn raw(&self) -> &RawDisk<I, Then<T>> {
        &self.below
    }

    pub(super) const fn raw_mut(&mut self) -> &mut RawDisk<I, Then<T>> {
        &mut self.below
    }

    pub(super) fn into_raw(self) -> RawDisk<I, Then<T>> {
        self.below
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.below.is_idle() && self.marks.as_ref().is_none_or(|marks| marks.waiting.is_empty())
    }

    /// Whether a range is known to hold nothing.
    pub(super) fn is_empty(&self, offset: u64, length: u64) -> bool {
        self.marks.as_ref().is_some_and(|marks| marks.is_empty(offset, length))
    }

    /// The extents of a range, the first [`MAX_EXTENTS`] of them; `None`: there is no map.
    pub(super) fn extents(&self, offset: u64, length: u64) -> Option<Vec<Extent>> {
        self.marks.as_ref().map(|marks| marks.extents(offset, length))
    }

    /// Begins a request, or lets a write wait for the map.
    pub(super) fn begin(&mut self, means: &mut Means<'_, I>, request: Request, then: T) {
        let Some(marks) = &mut self.marks else {
            return self.below.begin(means, request, Then::Above(then));
        };
        let then = match request {
            Request::Write(write) if !marks.admits(&write) => {
                marks.waiting.push_back(Waiting { write, then });
                return self.save_for_waiting(means);
            }
            Request::Zero { offset, length, unmap: true } => {
                Then::Trim(then, marks.covered(offset, length.into()))
            }
            Request::Flush(failures) => Then::Flush(then, marks.flush_begins(failures)),
            _ => Then::Above(then),
        };
        self.below.begin(means, request, then);
    }

    /// Takes note of an operation that has ended. Returns what is told of a request that has ended
    /// by it.
    pub(super) fn completed(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        completion: Completion,
    ) -> Option<(T, Outcome)> {
        let (then, outcome) = self.below.completed(means, key, completion)?;
        match then {
            Then::Above(then) => Some((then, outcome)),
            Then::Trim(then, units) => {
                if let (Some(marks), Ok(_)) = (&mut self.marks, &outcome) {
                    marks.trimmed.insert(units);
                }
                Some((then, outcome))
            }
            Then::Flush(then, trimmed) => self.flushed(means, then, trimmed, outcome),
            Then::Unmark(then) => {
                self.saved(means, outcome.is_ok());
                Some((then, outcome))
            }
            Then::Mark => {
                let is_done = outcome.is_ok();
                let failed = if is_done { None } else { self.first_waiting() };
                self.saved(means, is_done);
                failed.map(|then| (then, outcome))
            }
        }
    }

    /// What was trimmed before the flush began is not named any more, from the next save on.
    fn flushed(
        &mut self,
        means: &mut Means<'_, I>,
        then: T,
        trimmed: Trimmed,
        outcome: Outcome,
    ) -> Option<(T, Outcome)> {
        let marks = self.marks.as_mut();
        let Some((writes, failures)) = marks.and_then(|m| m.flush_ends(trimmed, outcome.is_ok()))
        else {
            return Some((then, outcome));
        };
        self.below.begin(
            means,
            Request::WriteMetadata(Box::new(writes), failures),
            Then::Unmark(then),
        );
        None
    }

    /// The write that fails with the save that was for all that wait.
    fn first_waiting(&mut self) -> Option<T> {
        Some(self.marks.as_mut()?.waiting.pop_front()?.then)
    }

    /// A save has ended: what waited for it goes on.
    fn saved(&mut self, means: &mut Means<'_, I>, is_done: bool) {
        let ready = self.marks.as_mut().map(|marks| marks.saved(is_done));
        for Waiting { write, then } in ready.unwrap_or_default() {
            self.below.begin(means, Request::Write(write), Then::Above(then));
        }
        self.save_for_waiting(means);
    }

    fn save_for_waiting(&mut self, means: &mut Means<'_, I>) {
        if let Some(writes) = self.marks.as_mut().and_then(Marks::save_for_waiting) {
            let request = Request::WriteMetadata(Box::new(writes), self.below.failures());
            self.below.begin(means, request, Then::Mark);
        }
    }
}

#[cfg(test)]
mod tests;
