//! Checksums of a replica's blocks: what each block must yield, in pages of which those in use are
//! in memory.
//!
//! A write makes its blocks' checksums known in memory. A commit makes them durable, in the
//! journal, or in the pages if that is less: before a table of open regions is saved that closes
//! any, and with the flush of a rebuild, whose copies lie in closed regions. So on the disk a
//! checksum lags behind its block only in an open region: after a crash the checksums there are
//! taken for unknown ([`recover`]). A client's flush has nothing to do with them. A checksum that
//! is not known becomes known by a write of the whole block. A read only tells that nothing vouches
//! for it: a checksum of what the disk returned would vouch for damage.
//!
//! This module does no input or output; [`super::filters::Checksums`] does.

pub(super) mod carry;
mod invariants;
pub(super) mod recover;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use evenkeel_core::ReplicaId;
use evenkeel_core::settings::BLOCK;
use evenkeel_format::{
    CHECKSUMS_PER_PAGE, ChecksumPage, Checksums as Sums, JOURNAL_BLOCKS, JOURNAL_ENTRIES,
    JournalBlock, PAGE_LENGTH, Superblock, bitmaps_length, block_checksum, checksum_page_offset,
    checksum_pages, journal_offset,
};

use self::carry::Carrying;
use self::recover::Recovered;
use crate::disk::device::Writes;

/// Pages kept in memory: 8 MiB, the checksums of 8 GiB. More only while actions under way need
/// them.
const MAX_PAGES: usize = 2048;
/// Pages that are let go of at once, and as many are written for that. It begins while there is
/// still room for so many, so that actions seldom wait for it.
const EVICTED: usize = MAX_PAGES / 8;
/// Pages that are read at once.
const READ_AHEAD: u32 = 8;
/// Blocks of the journal that a commit writes at most; with more to say it writes the pages. They
/// name what was written since the last commit, up to 16,064 blocks: 256 KiB in memory.
const MAX_JOURNALLING: usize = 64;
static ZEROES: [u8; BLOCK as usize] = [0; BLOCK as usize];
/// Bytes that are written at once.
const PIECE: usize = 1 << 20;

/// Where a replica's checksums lie on its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Area {
    replica: ReplicaId,
    /// First byte of the journal.
    start: u64,
    /// Bytes of data.
    length: u64,
}

impl Area {
    pub(crate) fn of(superblock: &Superblock) -> Self {
        let length = superblock.data_length;
        let start = superblock.metadata_offset + bitmaps_length(length);
        Self { replica: superblock.replica, start, length }
    }

    /// The first byte of the journal.
    pub(crate) const fn start(&self) -> u64 {
        self.start
    }

    /// Where a page lies.
    pub(super) fn page(&self, number: u32) -> u64 {
        self.start + checksum_page_offset(number)
    }

    /// Where a block of the journal lies.
    fn journal(&self, sequence: u64) -> u64 {
        self.start + journal_offset(sequence)
    }

    /// How many pages there are.
    fn pages(&self) -> u32 {
        checksum_pages(self.length) as u32
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct ChecksumStore {
    area: Area,
    pages: BTreeMap<u32, Page>,
    /// Pages that are being read.
    loading: BTreeSet<u32>,
    journal: Journal,
    /// Counts uses of pages.
    clock: u64,
    /// Whether pages are being written, or what was written of them is not durable yet: then none
    /// may go, and no other write of pages may begin. A page that goes before would be lost with a
    /// flush that fails, and a later commit would take it for durable.
    is_writing: bool,
    /// Whether the last write of pages failed: then nobody waits for room.
    has_failed: bool,
    /// Whether they are being carried to another area, and what was written meanwhile.
    carrying: Option<Carrying>,
}

#[derive(Debug)]
struct Page {
    sums: Box<Sums>,
    /// Whether its place on the disk holds something else.
    is_dirty: bool,
    /// Actions under way in its blocks.
    users: u32,
    used: u64,
}

/// Blocks that could not be compared, counted from the first one that was to be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Unknown {
    /// They read as zeroes: most likely they were never written.
    pub(super) empty: Vec<u32>,
    /// They hold something, so their checksums were lost.
    pub(super) forgotten: Vec<u32>,
}

#[derive(Debug, Default)]
struct Journal {
    /// The last block that was written, or that a commit has tried to write.
    sequence: u64,
    /// The last one that is durable. Pages name no later one: a start would number the next blocks
    /// from here, and take the pages for newer than these.
    durable: u64,
    /// Up to this one the pages have everything, durably.
    floor: u64,
    /// Whether that is so for all blocks once the present commit is flushed.
    will_rise: bool,
    /// Whether a commit is under way: the next one has to wait, as it counts on what this one
    /// writes.
    is_committing: bool,
    /// What no commit has made durable.
    unsaved: Vec<(u64, u32)>,
    /// Whether that is not all, because it became too much.
    is_overfull: bool,
}

/// What a commit writes. A device flush follows, which makes it durable, then what
/// [`ChecksumStore::flushed`] returns, then [`ChecksumStore::committed`]; or
/// [`ChecksumStore::commit_failed`] after whichever fails.
pub(super) enum Commit {
    /// Another commit, or a write of pages, is under way.
    Wait,
    /// To the journal, or nothing.
    Journal(Writes),
    /// The pages; [`ChecksumStore::pages_written`] is to be called as well, when the flush has
    /// ended.
    Pages(Writes),
}

impl ChecksumStore {
    pub(super) fn new(area: Area, recovered: Recovered) -> Self {
        let sequence = recovered.sequence;
        let (durable, floor) = (sequence, sequence);
        let journal = Journal { sequence, durable, floor, ..Journal::default() };
        Self {
            area,
            pages: BTreeMap::new(),
            loading: BTreeSet::new(),
            journal,
            clock: 0,
            is_writing: false,
            has_failed: false,
            carrying: None,
        }
    }

    /// The data become longer, and the area with them, where it is.
    pub(super) const fn extend(&mut self, length: u64) {
        self.area.length = length;
    }

    /// The whole blocks that a range touches, in bytes.
    pub(super) fn cover(&self, offset: u64, length: u64) -> Range<u64> {
        let block = u64::from(BLOCK);
        offset / block * block..(offset + length).next_multiple_of(block).min(self.area.length)
    }

    /// Lets an action begin that touches these bytes, if all their pages are in memory. They stay
    /// there until [`Self::unpin`].
    pub(super) fn pin(&mut self, range: &Range<u64>) -> bool {
        let pages = pages_of(range);
        if pages.clone().any(|page| !self.pages.contains_key(&page)) {
            return false;
        }
        self.clock += 1;
        for page in pages {
            if let Some(page) = self.pages.get_mut(&page) {
                page.users += 1;
                page.used = self.clock;
            }
        }
        true
    }

    /// An action has ended that was let begin.
    pub(super) fn unpin(&mut self, range: &Range<u64>) {
        for page in pages_of(range) {
            if let Some(page) = self.pages.get_mut(&page) {
                page.users = page.users.saturating_sub(1);
            }
        }
    }

    /// The pages that have to be read before an action may begin there, in runs.
    pub(super) fn take_unloaded(&mut self, range: &Range<u64>) -> Vec<Range<u32>> {
        let last = self.area.pages();
        let mut runs: Vec<Range<u32>> = Vec::new();
        for page in pages_of(range) {
            let group = page / READ_AHEAD * READ_AHEAD;
            if self.pages.contains_key(&page) || self.loading.contains(&page) {
                continue;
            }
            for page in group..(group + READ_AHEAD).min(last) {
                if self.pages.contains_key(&page) || !self.loading.insert(page) {
                    continue;
                }
                match runs.last_mut() {
                    Some(run) if run.end == page => run.end += 1,
                    _ => runs.push(page..page + 1),
                }
            }
        }
        runs
    }

    /// Where a page lies on the disk.
    pub(super) fn place(&self, page: u32) -> u64 {
        self.area.page(page)
    }

    /// Pages were read; `None`: they can't be, and their checksums are not known. The next commit
    /// writes them.
    pub(super) fn loaded(&mut self, run: Range<u32>, bytes: Option<&[u8]>) {
        for (n, page) in run.enumerate() {
            self.loading.remove(&page);
            let bytes = bytes.and_then(|bytes| bytes.get(n * PAGE_LENGTH..));
            let found =
                bytes.and_then(|bytes| ChecksumPage::decode(bytes, self.area.replica, page));
            let sums =
                found.map_or_else(|| Box::new([0; CHECKSUMS_PER_PAGE]), |page| page.checksums);
            let (users, used) = (0, self.clock);
            // Should it be readable again, it is older.
            let is_dirty = bytes.is_none();
            self.journal.is_overfull |= is_dirty;
            self.pages.entry(page).or_insert(Page { sums, is_dirty, users, used });
        }
    }

    /// Compares blocks, from the first one's start, with what they must yield. Returns those that
    /// could not be compared, or the first one that is wrong. What is unknown stays so: if the disk
    /// has damaged it, a checksum of what it returns now would vouch for the damage.
    pub(super) fn check(&self, offset: u64, data: &[u8]) -> Result<Unknown, u64> {
        let first = offset / u64::from(BLOCK);
        let mut unknown = Unknown::default();
        for (n, bytes) in data.chunks(BLOCK as usize).enumerate() {
            let block = first + n as u64;
            match self.sum(block) {
                0 if bytes.iter().all(|byte| *byte == 0) => unknown.empty.push(n as u32),
                0 => unknown.forgotten.push(n as u32),
                sum if sum != block_checksum(bytes) => return Err(block),
                _ => {}
            }
        }
        Ok(unknown)
    }

    /// What a block must yield; zero: not known.
    fn sum(&self, block: u64) -> u32 {
        let page = self.pages.get(&page_of(block));
        page.map_or(0, |page| page.sums[(block % CHECKSUMS_PER_PAGE as u64) as usize])
    }

    /// Blocks from this byte on were written, and yield this.
    pub(super) fn record(&mut self, offset: u64, sums: impl Iterator<Item = u32>) {
        let first = offset / u64::from(BLOCK);
        for (block, found) in (first..).zip(sums) {
            let Some((sum, is_dirty)) = self.entry(block) else { continue };
            if *sum == found {
                continue;
            }
            (*sum, *is_dirty) = (found, true);
            if self.journal.unsaved.len() < MAX_JOURNALLING * JOURNAL_ENTRIES {
                self.journal.unsaved.push((block, found));
            } else {
                self.journal.is_overfull = true;
            }
        }
    }

    /// These whole blocks read as zeroes now. In a page of which nothing was known before still
    /// nothing is, so that empty space takes no pages.
    pub(super) fn zeroed(&mut self, range: &Range<u64>) {
        let (block, length) = (u64::from(BLOCK), u64::from(BLOCK) * CHECKSUMS_PER_PAGE as u64);
        for page in pages_of(range) {
            let found = self.pages.get(&page);
            if !found.is_some_and(|page| page.sums.iter().any(|sum| *sum != 0)) {
                continue;
            }
            let first = u64::from(page) * length;
            let part = range.start.max(first)..range.end.min(first + length);
            for start in part.clone().step_by(BLOCK as usize) {
                let length = block.min(part.end - start) as usize;
                self.record(start, [block_checksum(&ZEROES[..length])].into_iter());
            }
        }
    }

    /// What these bytes hold now is not known.
    pub(super) fn forget(&mut self, range: &Range<u64>) {
        let cover = self.cover(range.start, range.end - range.start);
        let blocks = (cover.end - cover.start).div_ceil(BLOCK.into());
        self.record(cover.start, (0..blocks).map(|_| 0));
    }

    fn entry(&mut self, block: u64) -> Option<(&mut u32, &mut bool)> {
        let page = self.pages.get_mut(&page_of(block))?;
        let place = (block % CHECKSUMS_PER_PAGE as u64) as usize;
        Some((&mut page.sums[place], &mut page.is_dirty))
    }

    /// Begins to make durable what has changed.
    pub(super) fn commit(&mut self) -> Commit {
        let journal = &mut self.journal;
        let blocks = journal.unsaved.len().div_ceil(JOURNAL_ENTRIES) as u64;
        let is_full = journal.sequence + blocks - journal.floor > JOURNAL_BLOCKS;
        let takes_pages = journal.is_overfull || is_full;
        if journal.is_committing || (takes_pages && self.is_writing) {
            return Commit::Wait;
        }
        journal.is_committing = true;
        journal.will_rise = takes_pages;
        if takes_pages {
            journal.is_overfull = false;
            journal.unsaved.clear();
            let dirty = self.dirty_pages();
            return Commit::Pages(self.page_writes(&dirty));
        }
        Commit::Journal(self.journal_writes())
    }

    /// Writes to the journal what no commit has made durable.
    fn journal_writes(&mut self) -> Writes {
        let journal = &mut self.journal;
        let unsaved = core::mem::take(&mut journal.unsaved);
        let mut pieces: Vec<(u64, Vec<u8>)> = Vec::new();
        for entries in unsaved.chunks(JOURNAL_ENTRIES) {
            journal.sequence += 1;
            let (sequence, floor) = (journal.sequence, journal.floor);
            let block = JournalBlock { sequence, floor, entries: entries.to_vec() };
            append(&mut pieces, self.area.journal(sequence), block.encode(self.area.replica));
        }
        Writes::before_flush(pieces)
    }

    /// The flush of a commit has ended well. If it wrote pages, a block of the journal has to
    /// follow, durably, before anything counts on them: it says that older blocks do not count.
    /// Otherwise a page that is torn later would be taken for what they name.
    pub(super) fn flushed(&mut self) -> Option<Writes> {
        let journal = &mut self.journal;
        if !core::mem::take(&mut journal.will_rise) {
            return None;
        }
        journal.sequence += 1;
        let sequence = journal.sequence;
        journal.floor = sequence;
        let block = JournalBlock { sequence, floor: sequence, entries: Vec::new() };
        let place = self.area.journal(sequence);
        Some(Writes::new(vec![(place, block.encode(self.area.replica))]))
    }

    /// Whether this page is in memory.
    #[cfg(test)]
    pub(super) fn has_page(&self, page: u32) -> bool {
        self.pages.contains_key(&page)
    }

    /// Whether pages are being written while there are so many that some have to go.
    #[cfg(test)]
    pub(super) fn is_evicting(&self) -> bool {
        self.is_writing && self.pages.len() + self.loading.len() > MAX_PAGES - EVICTED
    }

    /// What a commit that writes nothing would do.
    #[cfg(test)]
    pub(super) fn forget_unsaved(&mut self) {
        self.journal.unsaved.clear();
    }

    /// A commit has ended well.
    pub(super) const fn committed(&mut self) {
        self.journal.is_committing = false;
        self.journal.durable = self.journal.sequence;
    }

    /// A commit has failed before its flush, or with it.
    pub(super) fn commit_failed(&mut self) {
        (self.journal.is_committing, self.journal.will_rise) = (false, false);
        self.flush_failed();
    }

    /// A device flush has failed: the disk may have none of what was written since the last one, so
    /// the next commit writes all pages.
    pub(super) fn flush_failed(&mut self) {
        self.journal.is_overfull = true;
        self.pages.values_mut().for_each(|page| page.is_dirty = true);
    }

    /// Pages whose places hold something else.
    fn dirty_pages(&self) -> BTreeSet<u32> {
        let dirty = self.pages.iter().filter(|(_, page)| page.is_dirty);
        dirty.map(|(number, _)| *number).collect()
    }

    /// Writes these pages as they are now. [`Self::pages_written`] is to be told.
    fn page_writes(&mut self, pages: &BTreeSet<u32>) -> Writes {
        self.is_writing = !pages.is_empty();
        let sequence = self.journal.durable;
        let mut pieces: Vec<(u64, Vec<u8>)> = Vec::new();
        for number in pages {
            let place = self.place(*number);
            let Some(page) = self.pages.get_mut(number) else { continue };
            page.is_dirty = false;
            if let Some(carrying) = &mut self.carrying {
                carrying.changed(*number);
            }
            let bytes = ChecksumPage { sequence, checksums: page.sums.clone() };
            append(&mut pieces, place, bytes.encode(self.area.replica, *number));
        }
        Writes::before_flush(pieces)
    }

    /// Makes room for pages that are to be read: of those that were not used for longest the ones
    /// go that the disk holds as they are. Returns what has to be written for the others to go next
    /// time.
    pub(super) fn make_space(&mut self) -> Option<Writes> {
        let count = self.pages.len() + self.loading.len();
        if self.is_writing || count <= MAX_PAGES - EVICTED {
            return None;
        }
        let unused = self.pages.iter().filter(|(_, page)| page.users == 0);
        let mut oldest: Vec<_> = unused.map(|(number, page)| (page.used, *number)).collect();
        oldest.sort_unstable();
        oldest.truncate(EVICTED.max(count.saturating_sub(MAX_PAGES)));
        let mut dirty: BTreeSet<u32> = oldest.into_iter().map(|(_, number)| number).collect();
        let pages = &mut self.pages;
        dirty.retain(|number| {
            let is_dirty = pages.get(number).is_some_and(|page| page.is_dirty);
            if !is_dirty {
                pages.remove(number);
            }
            is_dirty
        });
        (!dirty.is_empty()).then(|| self.page_writes(&dirty))
    }

    /// Whether pages may be read now: not while as many as may be are in memory, and some of them
    /// will go once they are written. If nothing can go, or no page can be written, actions do not
    /// wait for that.
    pub(super) fn has_room(&self) -> bool {
        let count = self.pages.len() + self.loading.len();
        count + READ_AHEAD as usize <= MAX_PAGES || !self.is_writing || self.has_failed
    }

    /// A write of pages has ended, and the flush that follows it, or one of them has failed.
    pub(super) fn pages_written(&mut self, succeeded: bool) {
        self.is_writing = false;
        self.has_failed = !succeeded;
        if !succeeded {
            // What their places hold is not known.
            self.pages.values_mut().for_each(|page| page.is_dirty = true);
        }
    }
}

/// Appends a page to what is to be written: pages that lie together are written together.
fn append(pieces: &mut Vec<(u64, Vec<u8>)>, place: u64, bytes: Vec<u8>) {
    match pieces.last_mut() {
        Some((start, piece)) if *start + piece.len() as u64 == place && piece.len() < PIECE => {
            piece.extend(bytes);
        }
        _ => pieces.push((place, bytes)),
    }
}

fn page_of(block: u64) -> u32 {
    (block / CHECKSUMS_PER_PAGE as u64) as u32
}

/// The pages of a range of bytes.
fn pages_of(range: &Range<u64>) -> Range<u32> {
    let block = u64::from(BLOCK);
    page_of(range.start / block)..page_of((range.end.max(range.start + 1) - 1) / block) + 1
}

#[cfg(test)]
pub(super) mod tests;
