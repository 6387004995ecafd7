//! Making checksums durable: what has changed is written, a device flush follows, and then what had to wait
//! for that: a table of open regions that closes some, or the end of a rebuild's flush.

use evenkeel_core::replica::OpenRegions;
use evenkeel_core::{DiskAction, DiskOutcome};

use super::Checked;
use crate::disk::io::Io;
use crate::disk::{Disk, Means, Progress, Step, checksums};
use crate::slab::Key;
use crate::slot::Slot;

/// A commit that is under way.
#[derive(Debug)]
pub(in crate::disk) struct Commit {
    stage: Stage,
    /// The table that is saved then; `None`: it is a flush.
    table: Option<OpenRegions>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    WriteJournal,
    WritePages,
    FlushPages,
    Flush,
    RaiseFloor,
}

impl Commit {
    pub(super) fn is_writing_pages(&self) -> bool {
        matches!(self.stage, Stage::WritePages | Stage::FlushPages)
    }

    pub(in crate::disk) fn is_flushing(&self) -> bool {
        matches!(self.stage, Stage::Flush | Stage::FlushPages)
    }
}

impl<I: Io> Disk<I> {
    /// Begins a flush with checksums, or a save of a table, which commits if that closes regions.
    pub(super) fn commit(&mut self, means: &mut Means<'_, I>, key: Key, action: DiskAction<Slot>) {
        let needs_commit = self.checksums.is_some()
            && match &action {
                DiskAction::SaveIntents(table) => self.closes_regions(table),
                _ => true,
            };
        let Some(checksums) = self.checksums.as_mut().filter(|_| needs_commit) else {
            return self.begin_committed(means, key, action);
        };
        let (writes, stage) = match checksums.commit() {
            checksums::Commit::Wait => return checksums.waiting.push_back((key, action)),
            checksums::Commit::Journal(writes) => (writes, Stage::WriteJournal),
            checksums::Commit::Pages(writes) => (writes, Stage::WritePages),
        };
        let table = match action {
            DiskAction::SaveIntents(table) => Some(table),
            _ => None,
        };
        if writes.is_empty() {
            return self.flush_commit(means, key, Commit { stage: Stage::Flush, table });
        }
        self.write_checksums(means, key, writes, Checked::Commit(Commit { stage, table }));
    }

    /// Begins what needs no checksums to be durable before.
    fn begin_committed(&mut self, means: &mut Means<'_, I>, key: Key, action: DiskAction<Slot>) {
        match action {
            DiskAction::SaveIntents(table) => self.save_table(means, key, table),
            action => self.begin_in_map(means, key, action),
        }
    }

    fn save_table(&mut self, means: &mut Means<'_, I>, key: Key, table: OpenRegions) {
        let writes = self.table_writes(table);
        let Some(job) = self.jobs.get_mut(key) else { return };
        job.step = Step::Metadata(writes);
        self.write_metadata(means, key);
    }

    /// All is written: the device is to make it durable.
    fn flush_commit(&mut self, means: &mut Means<'_, I>, key: Key, commit: Commit) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        let is_flush = commit.table.is_none();
        (job.step, job.checked) = (Step::Flush, Checked::Commit(commit));
        let flush = DiskAction::Flush { with_checksums: true };
        if is_flush {
            self.begin_in_map(means, key, flush);
        } else {
            // What was trimmed is no matter of a table.
            self.submit(means, key, flush);
        }
    }

    /// An operation of a commit has ended well.
    pub(super) fn commit_goes_on(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        commit: Commit,
        outcome: DiskOutcome<Slot>,
    ) -> Progress {
        let Some(checksums) = &mut self.checksums else { return Progress::Done(outcome) };
        let Commit { stage, table } = commit;
        match stage {
            Stage::WriteJournal => {
                self.flush_commit(means, key, Commit { stage: Stage::Flush, table });
            }
            Stage::WritePages => {
                self.flush_commit(means, key, Commit { stage: Stage::FlushPages, table });
            }
            Stage::Flush | Stage::FlushPages => {
                if stage == Stage::FlushPages {
                    checksums.pages_written(true);
                }
                let Some(writes) = checksums.flushed() else {
                    return self.committed(means, key, table, outcome);
                };
                let commit = Commit { stage: Stage::RaiseFloor, table };
                self.write_checksums(means, key, writes, Checked::Commit(commit));
                self.retry(means);
            }
            Stage::RaiseFloor => return self.committed(means, key, table, outcome),
        }
        Progress::More
    }

    /// A commit has ended well: the table is saved, or the flush goes on to its end.
    fn committed(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        table: Option<OpenRegions>,
        outcome: DiskOutcome<Slot>,
    ) -> Progress {
        if let Some(checksums) = &mut self.checksums {
            checksums.committed();
        }
        let progress = match table {
            Some(table) => {
                self.save_table(means, key, table);
                Progress::More
            }
            None => {
                if let Some(job) = self.jobs.get_mut(key) {
                    job.step = Step::Flush;
                }
                Progress::Done(outcome)
            }
        };
        self.retry(means);
        progress
    }
}
