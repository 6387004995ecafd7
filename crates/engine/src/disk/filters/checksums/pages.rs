//! Pages of checksums, read for requests that wait and written for others to have room.

use std::ops::Range;

use evenkeel_format::PAGE_LENGTH;

use super::{Checksums, End, Then, Waiting};
use crate::disk::device::{Failures, Io, Means};
use crate::disk::filters::{Outcome, Request, data_of};

impl<I: Io, T> Checksums<I, T> {
    /// Makes room for the pages of these bytes that are neither in memory nor on their way, and
    /// reads them, if there is room: otherwise when the pages are written that are to go.
    pub(super) fn load(&mut self, means: &mut Means<'_, I>, cover: &Range<u64>) {
        let failures = self.below.raw().failures();
        // A replica without checksums has no pages.
        let Some(store) = &mut self.store else { return };
        if let Some(writes) = store.make_space() {
            self.counts.writes += writes.count() as u64;
            let request = Request::WriteMetadata(Box::new(writes), failures);
            self.below.begin(means, request, Then::Evict(failures));
        }
        if store.has_room() {
            let runs = store.take_unloaded(cover);
            runs.into_iter().for_each(|run| self.load_run(means, run));
        }
    }

    /// Reads pages that are marked as loading.
    pub(super) fn load_run(&mut self, means: &mut Means<'_, I>, run: Range<u32>) {
        // As above.
        let Some(store) = &self.store else { return };
        let (place, length) = (store.place(run.start), (run.len() * PAGE_LENGTH) as u32);
        self.below.begin(means, Request::ReadMetadata { place, length }, Then::Load(run));
    }

    /// What waited may be able to begin.
    pub(super) fn retry(&mut self, means: &mut Means<'_, I>) {
        for waiting in core::mem::take(&mut self.waiting) {
            match waiting {
                Waiting::Pages(request, then) => self.begin(means, request, then),
                Waiting::Commit(commit) => self.commit(means, commit),
            }
        }
    }

    /// Pages were read, or can't be.
    pub(super) fn loaded(
        &mut self,
        means: &mut Means<'_, I>,
        run: Range<u32>,
        outcome: Outcome,
    ) -> Option<End<T>> {
        let (place, length) = self
            .store
            .as_ref()
            .map_or((0, 0), |store| (store.place(run.start), (run.len() * PAGE_LENGTH) as u64));
        let bytes = outcome.and_then(data_of);
        if bytes.is_err() && run.len() > 1 {
            // The one that the disk has lost takes no other with it.
            run.for_each(|page| self.load_run(means, page..page + 1));
        } else {
            if let Some(store) = &mut self.store {
                store.loaded(run, bytes.as_deref().ok());
            }
            self.retry(means);
        }
        bytes.err().map(|error| End::Unasked { error, place, length })
    }

    /// Pages were written for others to have room, or can't be.
    pub(super) fn evicted(
        &mut self,
        means: &mut Means<'_, I>,
        failures: Failures,
        outcome: Outcome,
    ) -> Option<End<T>> {
        let Err(error) = outcome else {
            self.below.begin(means, Request::Barrier(failures), Then::FlushEvicted);
            return None;
        };
        self.pages_written(means, false);
        Some(End::Unasked { error, place: 0, length: 0 })
    }

    /// A write of pages has ended, and the flush that follows it, or one of them has failed.
    pub(super) fn pages_written(&mut self, means: &mut Means<'_, I>, is_done: bool) {
        if let Some(store) = &mut self.store {
            store.pages_written(is_done);
        }
        self.retry(means);
    }
}
