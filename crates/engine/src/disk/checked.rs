//! Disk actions with checksums: reads are compared with them, writes make them known, and commits make them
//! durable ([`commit`]).
//!
//! A checksum is that of a whole block. So a read is widened to whole blocks, and a write of a part of a
//! block reads the block first, compares it, and writes it whole; so does zeroing a part of one
//! ([`edges`]). The core keeps other actions out of all blocks that an action touches.

mod commit;
mod edges;

use std::io;
use std::ops::Range;

use evenkeel_core::settings::BLOCK;
use evenkeel_core::{DiskAction, DiskOutcome, Payload};
use evenkeel_format::{PAGE_LENGTH, block_checksum, stored_checksum};

pub(super) use self::commit::Commit;
use self::edges::Edges;
use super::io::Io;
use super::metadata::Writes;
use super::{Disk, Job, Means, Progress, Step};
use crate::counters::Kind;
use crate::slab::Key;
use crate::slot::Slot;

/// What the checksums have to do with a job.
#[derive(Debug, Default)]
pub(super) enum Checked {
    /// Nothing.
    #[default]
    No,
    /// It reads whole blocks, of which this part is wanted.
    Read { skip: u32, length: u32 },
    /// It reads the blocks of which a write from this byte on changes a part.
    Widen(Slot, u64),
    /// It writes whole blocks that will yield this.
    Write(Vec<u32>),
    /// It reads the next block at an end of a range that is to be zeroed.
    ReadEdge(Edges),
    /// It writes that block, which will yield this.
    WriteEdge(Edges, u32),
    /// It zeroes the whole blocks of a range; those at its ends are done.
    Zero(Edges),
    /// It commits.
    Commit(Commit),
    /// It reads these pages.
    Load(Range<u32>),
    /// It writes pages for others to have room.
    Evict,
    /// It makes these pages durable: only then they may go.
    FlushEvicted,
}

impl<I: Io> Disk<I> {
    /// Begins an action, or lets it wait until its checksums are in memory.
    pub(super) fn begin_checked(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        action: DiskAction<Slot>,
    ) {
        let (offset, length) = match &action {
            DiskAction::Flush { with_checksums: true } | DiskAction::SaveIntents(_) => {
                return self.commit(means, key, action);
            }
            DiskAction::Read { offset, length } | DiskAction::Zero { offset, length, .. } => {
                (*offset, *length)
            }
            DiskAction::Write { offset, payload } => (*offset, payload.length()),
            _ => return self.begin_in_map(means, key, action),
        };
        let Some(checksums) = &mut self.checksums else {
            return self.begin_in_map(means, key, action);
        };
        let cover = checksums.cover(offset, length.into());
        if checksums.pin(&cover) {
            return self.begin_pinned(means, key, action, cover);
        }
        checksums.waiting.push_back((key, action));
        self.load(means, &cover);
    }

    /// Begins an action whose checksums are in memory. `cover`: the whole blocks that it touches.
    fn begin_pinned(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        action: DiskAction<Slot>,
        cover: Range<u64>,
    ) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        let covered = (cover.end - cover.start) as u32;
        match action {
            DiskAction::Read { offset, length } => {
                job.checked = Checked::Read { skip: (offset - cover.start) as u32, length };
                (job.offset, job.length) = (cover.start, covered.into());
                let action = DiskAction::Read { offset: cover.start, length: covered };
                self.begin_in_map(means, key, action);
            }
            DiskAction::Write { offset, payload } if payload.length() < covered => {
                job.checked = Checked::Widen(payload, offset);
                (job.offset, job.length) = (cover.start, covered.into());
                job.step = Step::Read(0);
                self.submit(means, key, DiskAction::Read { offset: cover.start, length: covered });
            }
            DiskAction::Write { offset, payload } => {
                job.checked = Checked::Write(sums_of(&payload));
                self.begin_in_map(means, key, DiskAction::Write { offset, payload });
            }
            DiskAction::Zero { offset, length, unmap } => {
                let range = offset..offset + u64::from(length);
                self.zero_checked(means, key, Edges::new(range, cover, unmap));
            }
            action => self.begin_in_map(means, key, action),
        }
    }

    fn write_checksums(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        writes: Writes,
        checked: Checked,
    ) {
        self.counters.checksum_writes += writes.count() as u64;
        let Some(job) = self.jobs.get_mut(key) else { return };
        (job.step, job.checked) = (Step::Metadata(writes), checked);
        self.write_metadata(means, key);
    }

    /// Makes room for the pages of these bytes that are neither in memory nor on their way, and reads them,
    /// if there is room: otherwise when the pages are written that are to go.
    fn load(&mut self, means: &mut Means<'_, I>, cover: &Range<u64>) {
        let Some(checksums) = &mut self.checksums else { return };
        if let Some(writes) = checksums.make_room() {
            let before = self.flushes.before(Kind::Checksums);
            let key = self.jobs.insert(own_job(means, before, Step::Flush, Checked::No));
            self.write_checksums(means, key, writes, Checked::Evict);
        }
        let Some(checksums) = self.checksums.as_mut().filter(|c| c.has_room()) else { return };
        let runs: Vec<_> = checksums.take_unloaded(cover);
        runs.into_iter().for_each(|run| self.load_run(means, run));
    }

    /// Reads pages that are marked as loading.
    fn load_run(&mut self, means: &mut Means<'_, I>, run: Range<u32>) {
        let Some(checksums) = &self.checksums else { return };
        let offset = checksums.place(run.start) - self.layout.on_disk(0);
        let length = run.len() * PAGE_LENGTH;
        let job =
            own_job(means, self.flushes.before(Kind::Checksums), Step::Read(0), Checked::Load(run));
        let key = self.jobs.insert(Job { offset, length: length as u64, ..job });
        self.submit(means, key, DiskAction::Read { offset, length: length as u32 });
    }

    /// Pages that were read at once can't be: the one that the disk has lost takes no other with it.
    fn load_each(&mut self, means: &mut Means<'_, I>, run: Range<u32>) {
        run.for_each(|page| self.load_run(means, page..page + 1));
    }

    /// What waited may be able to begin.
    fn retry(&mut self, means: &mut Means<'_, I>) {
        let waiting = self.checksums.as_mut().map(|c| core::mem::take(&mut c.waiting));
        for (key, action) in waiting.unwrap_or_default() {
            self.begin_checked(means, key, action);
        }
    }

    /// An operation has ended well. Those that only prepare for a job's action, or that nobody waits for,
    /// end here.
    pub(super) fn prepared(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        outcome: DiskOutcome<Slot>,
    ) -> Progress {
        let (Some(job), Some(checksums)) = (self.jobs.get_mut(key), &mut self.checksums) else {
            return Progress::Done(outcome);
        };
        match (core::mem::take(&mut job.checked), outcome) {
            (Checked::Widen(payload, offset), DiskOutcome::Data(blocks)) => {
                return self.widened(means, key, (payload, offset), &blocks);
            }
            (Checked::ReadEdge(edges), DiskOutcome::Data(block)) => {
                return self.edge_read(means, key, edges, &block);
            }
            (Checked::Load(run), DiskOutcome::Data(bytes)) => {
                checksums.loaded(run, Some(&bytes));
                self.jobs.remove(key);
            }
            (Checked::Evict, _) => {
                (job.step, job.checked) = (Step::Flush, Checked::FlushEvicted);
                self.submit(means, key, DiskAction::Flush { with_checksums: true });
                return Progress::More;
            }
            (Checked::FlushEvicted, _) => {
                checksums.pages_written(true);
                self.jobs.remove(key);
            }
            (Checked::Commit(commit), outcome) => {
                return self.commit_goes_on(means, key, commit, outcome);
            }
            (checked, outcome) => {
                job.checked = checked;
                return Progress::Done(outcome);
            }
        }
        self.retry(means);
        Progress::More
    }

    /// The blocks of which a write changes a part were read: it writes all of them.
    fn widened(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        (payload, offset): (Slot, u64),
        blocks: &Slot,
    ) -> Progress {
        let (Some(job), Some(checksums)) = (self.jobs.get_mut(key), &mut self.checksums) else {
            return Progress::More;
        };
        let (start, skip) = (job.offset, (offset - job.offset) as usize);
        let end = skip + payload.len();
        let mut whole = means.pool.take(blocks.len());
        whole.copy_from_slice(blocks);
        whole[skip..end].copy_from_slice(&payload);
        let payload = whole.freeze();
        let mut sums = sums_of(&payload);
        for (n, (old, new)) in blocks.chunks(BLOCK as usize).zip(&mut sums).enumerate() {
            let from = n * BLOCK as usize;
            let is_kept = from < skip || from + old.len() > end;
            if is_kept && checksums.check(start + from as u64, old).is_err() {
                self.counters.checksum_mismatches += 1;
                // What is kept of the block is wrong, and stays known to be: a read mends it.
                *new = stored_checksum(!*new);
            }
        }
        (job.step, job.checked) = (Step::Write(0), Checked::Write(sums));
        self.begin_in_map(means, key, DiskAction::Write { offset: start, payload });
        Progress::More
    }

    /// A job's action has ended well.
    pub(super) fn ended_in_checksums(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        outcome: DiskOutcome<Slot>,
    ) -> Progress {
        let (Some(job), Some(checksums)) = (self.jobs.get_mut(key), &mut self.checksums) else {
            return Progress::Done(outcome);
        };
        let range = job.offset..job.offset + job.length;
        match (core::mem::take(&mut job.checked), outcome) {
            (Checked::Read { skip, length }, DiskOutcome::Data(blocks)) => {
                checksums.unpin(&range);
                match checksums.check(range.start, &blocks) {
                    Ok(()) => Progress::Done(DiskOutcome::Data(blocks.slice(skip, length))),
                    Err(block) => {
                        self.counters.checksum_mismatches += 1;
                        Progress::Failed(mismatch(block * u64::from(BLOCK)))
                    }
                }
            }
            (Checked::Write(sums), outcome) => {
                checksums.record(range.start, sums.into_iter());
                checksums.unpin(&range);
                Progress::Done(outcome)
            }
            (Checked::WriteEdge(edges, sum), _) => {
                checksums.record(range.start, [sum].into_iter());
                self.edge_done(means, key, edges)
            }
            (Checked::Zero(edges), outcome) => {
                self.zero_ended(key, &edges);
                Progress::Done(outcome)
            }
            (_, outcome) => Progress::Done(outcome),
        }
    }

    /// A job has failed, and is removed.
    pub(super) fn failed_in_checksums(&mut self, means: &mut Means<'_, I>, job: &mut Job) {
        let Some(checksums) = &mut self.checksums else { return };
        let range = job.offset..job.offset + job.length;
        match core::mem::take(&mut job.checked) {
            Checked::Read { .. } | Checked::Widen(..) => checksums.unpin(&range),
            Checked::ReadEdge(edges) => checksums.unpin(&edges.cover),
            Checked::Write(_) => {
                // It may be there, or a part of it.
                checksums.forget(&range);
                checksums.unpin(&range);
            }
            Checked::WriteEdge(edges, _) | Checked::Zero(edges) => {
                checksums.forget(&range);
                checksums.unpin(&edges.cover);
            }
            Checked::Load(run) if run.len() > 1 => return self.load_each(means, run),
            Checked::Load(run) => checksums.loaded(run, None),
            Checked::Evict | Checked::FlushEvicted => checksums.pages_written(false),
            Checked::Commit(commit) => {
                if commit.is_writing_pages() {
                    checksums.pages_written(false);
                }
                checksums.commit_failed();
            }
            Checked::No => {}
        }
        self.retry(means);
    }
}

/// A job that the core did not ask for.
fn own_job<I>(means: &Means<'_, I>, failures_before: u64, step: Step, checked: Checked) -> Job {
    let (kind, began) = (Kind::Checksums, means.now);
    Job { ticket: None, kind, offset: 0, length: 0, began, step, checked, failures_before }
}

/// What the blocks of a payload that begins with one yield. Of a single block it is known from the wire.
fn sums_of(payload: &Slot) -> Vec<u32> {
    if payload.length() == BLOCK {
        return vec![stored_checksum(payload.checksum())];
    }
    payload.chunks(BLOCK as usize).map(block_checksum).collect()
}

fn mismatch(offset: u64) -> io::Error {
    let text =
        format!("the block at byte {offset} does not yield its checksum: the disk has damaged it");
    io::Error::new(io::ErrorKind::InvalidData, text)
}
