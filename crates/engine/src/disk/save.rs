//! Makes a view durable: one superblock slot, flush, the other slot, flush.

use std::collections::VecDeque;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_core::{DiskOutcome, Lives, View};
use evenkeel_format::{Newest, SUPERBLOCK_LENGTH, Slot, Superblock, SuperblockBytes};

use super::io::{Access, Io};
use super::metadata::write_at;
use super::{Disk, Means, Progress};
use crate::ring::Owner;
use crate::slab::Key;

/// The superblock as it is or is becoming, and who waits to change it.
#[derive(Debug)]
pub(super) struct Saves {
    pub(super) superblock: Superblock,
    write_first: Slot,
    current: Option<Saving>,
    waiting: VecDeque<(Key, Box<SuperblockBytes>)>,
}

#[derive(Debug)]
struct Saving {
    job: Key,
    bytes: Box<SuperblockBytes>,
    slot: Slot,
    step: Step,
    /// Bytes of the present slot that are written.
    written: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    WriteFirst,
    FlushFirst,
    WriteSecond,
    FlushSecond,
}

impl Saves {
    pub(super) fn new(newest: Newest) -> Self {
        Self {
            superblock: newest.superblock,
            write_first: newest.write_first,
            current: None,
            waiting: VecDeque::new(),
        }
    }

    /// Whether a save is under way or waits.
    pub(super) fn is_busy(&self) -> bool {
        self.current.is_some() || !self.waiting.is_empty()
    }

    /// Whether the device is to make a slot durable just now.
    pub(super) fn is_flushing(&self) -> bool {
        let step = self.current.as_ref().map(|saving| saving.step);
        matches!(step, Some(Step::FlushFirst | Step::FlushSecond))
    }

    /// What a mistake would do.
    #[cfg(test)]
    pub(super) const fn write_slot_a_first(&mut self) {
        self.write_first = Slot::A;
    }

    /// The slot whose loss costs nothing.
    pub(super) const fn write_first(&self) -> Slot {
        self.write_first
    }
}

/// Brings the older or damaged slot up to the other one, before anybody is told what that says: should the disk
/// lose that one later, a view that this replica has adopted would be forgotten. Blocks on the disk.
///
/// # Errors
/// If the disk can't be written.
pub(super) fn equalise(file: &impl Access, newest: &mut Newest) -> io::Result<()> {
    if newest.slot == newest.write_first {
        return Ok(());
    }
    let bytes = newest.superblock.encode().map_err(io::Error::other)?;
    write_at(file, &bytes.0, newest.write_first.offset())?;
    file.flush()?;
    (newest.slot, newest.write_first, newest.damaged) = (Slot::A, Slot::A, None);
    Ok(())
}

impl<I: Io> Disk<I> {
    /// Begins a save, or lets it wait for the one under way. Returns why it can't be done.
    pub(super) fn save(
        &mut self,
        means: &mut Means<'_, I>,
        job: Key,
        view: View,
        lives: Lives,
    ) -> Option<io::Error> {
        // The number is used up even if the save fails: its bytes may be on the disk.
        self.saves.superblock.sequence += 1;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let saved = now.map_or(0, |now| now.as_secs());
        let superblock = Superblock { view, lives, saved, ..self.saves.superblock.clone() };
        let bytes = match superblock.encode() {
            Ok(bytes) => bytes,
            Err(error) => return Some(io::Error::other(error)),
        };
        self.saves.superblock = superblock;
        self.saves.waiting.push_back((job, bytes));
        self.next_save(means);
        None
    }

    /// Submits the operation of the present step.
    fn save_step(&mut self, means: &mut Means<'_, I>) {
        let Some(saving) = &self.saves.current else { return };
        let owner = Owner::Disk { replica: means.replica, job: saving.job };
        match saving.step {
            Step::WriteFirst | Step::WriteSecond => {
                let (bytes, offset) = (saving.bytes.clone(), saving.slot.offset());
                means.ring.write_superblock(owner, &self.file, bytes, saving.written, offset);
            }
            Step::FlushFirst | Step::FlushSecond => means.ring.flush(owner, &self.file),
        }
    }

    /// The operation of the present step has ended well.
    pub(super) fn save_goes_on(
        &mut self,
        means: &mut Means<'_, I>,
        // `None`: the kernel asks for another try.
        count: Option<usize>,
    ) -> Progress {
        let saves = &mut self.saves;
        let Some(saving) = &mut saves.current else { return Progress::Done(DiskOutcome::Done) };
        let is_writing = matches!(saving.step, Step::WriteFirst | Step::WriteSecond);
        if is_writing && count == Some(0) {
            return self.save_failed(means, super::cut_short());
        }
        saving.written += count.filter(|_| is_writing).unwrap_or(0);
        if count.is_none() || (is_writing && saving.written < SUPERBLOCK_LENGTH) {
            self.save_step(means);
            return Progress::More;
        }
        saving.written = 0;
        let (job, step) = (saving.job, saving.step);
        if step == Step::FlushFirst && !self.jobs.get(job).is_some_and(|job| self.is_believed(job))
        {
            return self.save_failed(means, super::flushes::not_believed());
        }
        let saves = &mut self.saves;
        let Some(saving) = &mut saves.current else { return Progress::Done(DiskOutcome::Done) };
        saving.step = match step {
            Step::WriteFirst => Step::FlushFirst,
            Step::FlushFirst => {
                // Now the other one is the older one.
                saving.slot = saving.slot.other();
                saves.write_first = saving.slot;
                Step::WriteSecond
            }
            Step::WriteSecond => Step::FlushSecond,
            Step::FlushSecond => {
                saves.current = None;
                self.next_save(means);
                return Progress::Done(DiskOutcome::Done);
            }
        };
        self.save_step(means);
        Progress::More
    }

    pub(super) fn save_failed(&mut self, means: &mut Means<'_, I>, error: io::Error) -> Progress {
        self.saves.current = None;
        self.next_save(means);
        Progress::Failed(error)
    }

    fn next_save(&mut self, means: &mut Means<'_, I>) {
        let saves = &mut self.saves;
        if saves.current.is_some() {
            return;
        }
        let Some((job, bytes)) = saves.waiting.pop_front() else { return };
        let slot = saves.write_first;
        saves.current = Some(Saving { job, bytes, slot, step: Step::WriteFirst, written: 0 });
        self.save_step(means);
    }
}
