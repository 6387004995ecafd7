//! Making checksums durable: what has changed is written, and a device flush follows.

use evenkeel_core::DiskOutcome;

use super::{Checksums, End, Then, Waiting};
use crate::disk::checksums;
use crate::disk::device::{Failure, Failures, Io, Means, Writes};
use crate::disk::filters::{Outcome, Request};

/// A commit that is under way.
#[derive(Debug)]
pub(in crate::disk) struct Commit<T> {
    stage: Stage,
    /// Whether its flush is one that somebody has asked for.
    is_flush: bool,
    /// Flushes that may have failed when it ends.
    failures: Failures,
    then: T,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    WriteJournal,
    WritePages,
    FlushPages,
    Flush,
    RaiseFloor,
}

impl Stage {
    /// Whether pages have been written that are not known to be durable.
    const fn has_pages(self) -> bool {
        matches!(self, Self::WritePages | Self::FlushPages)
    }

    const fn is_flush(self) -> bool {
        matches!(self, Self::Flush | Self::FlushPages)
    }
}

impl<T> Commit<T> {
    /// What is told when it has ended.
    pub(super) const fn then(&self) -> &T {
        &self.then
    }

    /// Whether pages have been written that are not known to be durable.
    pub(super) const fn has_pages(&self) -> bool {
        self.stage.has_pages()
    }
}

impl<I: Io, T> Checksums<I, T> {
    /// Makes durable the checksums of all that has ended before. That takes a device flush.
    pub(in crate::disk) fn commit_checksums(
        &mut self,
        means: &mut Means<'_, I>,
        failures: Failures,
        then: T,
    ) {
        self.begin_commit(means, false, failures, then);
    }

    /// The same together with a flush: one device flush is enough for both.
    pub(in crate::disk) fn flush_with_checksums(
        &mut self,
        means: &mut Means<'_, I>,
        failures: Failures,
        then: T,
    ) {
        self.begin_commit(means, true, failures, then);
    }

    fn begin_commit(
        &mut self,
        means: &mut Means<'_, I>,
        is_flush: bool,
        failures: Failures,
        then: T,
    ) {
        self.notice_failures();
        self.commit(means, Commit { stage: Stage::Flush, is_flush, failures, then });
    }

    /// Begins a commit, or lets it wait for the one under way.
    pub(super) fn commit(&mut self, means: &mut Means<'_, I>, mut commit: Commit<T>) {
        let Some(store) = &mut self.store else { return self.flush(means, commit) };
        let (writes, stage) = match store.commit() {
            checksums::Commit::Wait => return self.waiting.push_back(Waiting::Commit(commit)),
            checksums::Commit::Journal(writes) => (writes, Stage::WriteJournal),
            checksums::Commit::Pages(writes) => (writes, Stage::WritePages),
        };
        if writes.is_empty() {
            return self.flush(means, commit);
        }
        commit.stage = stage;
        self.write(means, writes, commit);
    }

    fn write(&mut self, means: &mut Means<'_, I>, writes: Writes, commit: Commit<T>) {
        self.counts.writes += writes.count() as u64;
        let request = Request::WriteMetadata(Box::new(writes), commit.failures);
        self.below.begin(means, request, Then::Commit(commit));
    }

    /// All is written: the device is to make it durable.
    fn flush(&mut self, means: &mut Means<'_, I>, commit: Commit<T>) {
        let failures = commit.failures;
        let request = match commit.is_flush {
            true => Request::Flush(failures),
            false => Request::Barrier(failures),
        };
        self.below.begin(means, request, Then::Commit(commit));
    }

    /// An operation of a commit has ended.
    pub(super) fn commit_goes_on(
        &mut self,
        means: &mut Means<'_, I>,
        mut commit: Commit<T>,
        outcome: Outcome,
    ) -> Option<End<T>> {
        let stage = commit.stage;
        if let Err(error) = outcome {
            return Some(self.commit_failed(means, commit, error));
        }
        match stage {
            Stage::WriteJournal => commit.stage = Stage::Flush,
            Stage::WritePages => commit.stage = Stage::FlushPages,
            Stage::RaiseFloor => return Some(self.committed(means, commit.then)),
            Stage::Flush | Stage::FlushPages => {
                if stage.has_pages() {
                    self.pages_written(means, true);
                }
                let store = self.store.as_mut();
                let Some(writes) = store.and_then(checksums::ChecksumStore::flushed) else {
                    return Some(self.committed(means, commit.then));
                };
                commit.stage = Stage::RaiseFloor;
                self.write(means, writes, commit);
                return None;
            }
        }
        self.flush(means, commit);
        None
    }

    fn committed(&mut self, means: &mut Means<'_, I>, then: T) -> End<T> {
        if let Some(store) = &mut self.store {
            store.committed();
        }
        self.retry(means);
        End::Asked(then, Ok(DiskOutcome::Done))
    }

    /// Any flush that fails may have lost what clients have written.
    fn commit_failed(
        &mut self,
        means: &mut Means<'_, I>,
        commit: Commit<T>,
        error: std::io::Error,
    ) -> End<T> {
        let Commit { stage, then, .. } = commit;
        if let Some(store) = &mut self.store {
            store.commit_failed();
        }
        if stage.has_pages() {
            self.pages_written(means, false);
        } else {
            self.retry(means);
        }
        let failure = Failure::of(error);
        End::Asked(then, Err(if stage.is_flush() { failure.of_a_flush() } else { failure }))
    }
}
