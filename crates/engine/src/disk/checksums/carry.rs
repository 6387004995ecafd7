//! Carrying checksums along when a replica's metadata move.
//!
//! The pages are copied from the disk to where they will lie, outside the ring and beside requests;
//! meanwhile it is noted which pages are written at their present places. When few are left, what
//! is in memory or was written again follows while no action is under way ([`Rest`]), with a block
//! that begins the new journal, and only then the superblock says where they lie. Until then
//! nothing refers to the copies.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use evenkeel_format::{CHECKSUMS_PER_PAGE, ChecksumPage, JournalBlock, PAGE_LENGTH};

use super::{Area, ChecksumStore, PIECE, Sums, append};
use crate::disk::device::{Access, Parts, next_data, read_part, write_at};

/// So few pages are left to the moment at which the superblock changes: 1 MiB.
const FEW: u64 = 256;

/// Pages of checksums that are to be copied to where they will lie.
#[derive(Debug)]
pub struct Carry {
    from: Area,
    to: Area,
    pages: Vec<Range<u32>>,
}

/// What is noted while pages are copied.
#[derive(Debug)]
pub(super) struct Carrying {
    to: Area,
    /// Pages that were written at their present places since they were to be copied.
    changed: BTreeSet<u32>,
}

impl Carrying {
    /// A page was written at its present place.
    pub(super) fn changed(&mut self, page: u32) {
        self.changed.insert(page);
    }
}

impl Carry {
    /// Whether the rest may be left to the moment of the move.
    #[must_use]
    pub fn is_small(&self) -> bool {
        self.pages.iter().map(|run| u64::from(run.end - run.start)).sum::<u64>() <= FEW
    }

    /// Copies the pages, durably. Blocks on the disk. A page that is damaged, or that is just being
    /// written, is left out.
    ///
    /// # Errors
    /// If the disk can't be read or written.
    pub fn carry_out(&self, file: impl AsFd) -> io::Result<()> {
        self.carry_out_on(&file)
    }

    /// The same.
    pub(in crate::disk) fn carry_out_on(&self, file: &impl Access) -> io::Result<()> {
        for run in &self.pages {
            let mut page = run.start;
            while page < run.end {
                let place = self.from.page(page);
                let skipped = next_data(file, place).saturating_sub(place) / PAGE_LENGTH as u64;
                page = page.saturating_add(skipped.min(u64::from(u32::MAX)) as u32);
                if page >= run.end {
                    break;
                }
                let end = run.end.min(page.saturating_add((PIECE / PAGE_LENGTH) as u32));
                self.copy(file, page..end)?;
                page = end;
            }
        }
        file.flush()
    }

    fn copy(&self, file: &impl Access, run: Range<u32>) -> io::Result<()> {
        let place = self.from.page(run.start);
        let parts = Parts::read(file, place, run.len() * PAGE_LENGTH, PAGE_LENGTH)?;
        let mut bytes = parts.bytes().to_vec();
        let mut is_empty = true;
        for (page, bytes) in run.clone().zip(bytes.chunks_mut(PAGE_LENGTH)) {
            if ChecksumPage::decode(bytes, self.from.replica, page).is_some() {
                is_empty = false;
            } else {
                bytes.fill(0);
            }
        }
        if is_empty { Ok(()) } else { write_at(file, &bytes, self.to.page(run.start)) }
    }
}

/// Pages and blocks of the journal that are written at one moment, while no action is under way.
#[derive(Debug)]
pub(in crate::disk) struct Rest {
    from: Area,
    to: Area,
    /// The pages have all that blocks of the journal up to this one name.
    sequence: u64,
    pieces: Vec<(u64, Vec<u8>)>,
    /// What is written when these are durable.
    last: Option<(u64, Vec<u8>)>,
    /// Pages that memory does not have: they go as the disk has them.
    unread: Vec<u32>,
    /// A block that is not known any more.
    forgotten: Option<u64>,
}

impl Rest {
    /// Writes all of it, durably. Blocks on the disk.
    ///
    /// # Errors
    /// If the disk can't be read or written.
    pub(in crate::disk) fn carry_out(mut self, file: &impl Access) -> io::Result<()> {
        for number in core::mem::take(&mut self.unread) {
            let bytes = read_part(file, self.from.page(number), PAGE_LENGTH)?.unwrap_or_default();
            let found = ChecksumPage::decode(&bytes, self.from.replica, number);
            let nothing = || Box::new([0; CHECKSUMS_PER_PAGE]);
            self.add(number, found.map_or_else(nothing, |page| page.checksums));
        }
        for (place, bytes) in &self.pieces {
            write_at(file, bytes, *place)?;
        }
        file.flush()?;
        let Some((place, bytes)) = &self.last else { return Ok(()) };
        write_at(file, bytes, *place)?;
        file.flush()
    }

    fn add(&mut self, number: u32, mut checksums: Box<Sums>) {
        if let Some(block) = self.forgotten.filter(|block| super::page_of(*block) == number) {
            checksums[(block % CHECKSUMS_PER_PAGE as u64) as usize] = 0;
        }
        let page = ChecksumPage { sequence: self.sequence, checksums };
        append(&mut self.pieces, self.to.page(number), page.encode(self.to.replica, number));
    }
}

impl ChecksumStore {
    /// The pages that are to be copied to this area next: all of them, or those that were written
    /// since the last time. `None`: pages are being written, ask again.
    pub(in crate::disk) fn carry(&mut self, to: Area, anew: bool) -> Option<Carry> {
        if self.is_writing {
            return None;
        }
        let changed = self.carrying.take().filter(|carrying| !anew && carrying.to == to);
        let pages = match changed {
            Some(carrying) => carrying.changed.into_iter().map(|page| page..page + 1).collect(),
            None => {
                let all = 0..self.area.pages();
                Vec::from([all])
            }
        };
        self.carrying = Some(Carrying { to, changed: BTreeSet::new() });
        Some(Carry { from: self.area, to, pages })
    }

    /// Nothing is carried any more; whatever was copied does not count.
    pub(in crate::disk) fn stop_carrying(&mut self) {
        self.carrying = None;
    }

    /// What the copies lack. When that is durable, all checksums are in that area, until the next
    /// action; nothing may be writing pages or the journal. `None`: they were not copied there.
    pub(in crate::disk) fn finish_carrying(&mut self, to: Area) -> Option<Rest> {
        let carrying = self.carrying.take_if(|carrying| carrying.to == to)?;
        let mut late = carrying.changed;
        late.extend(self.dirty_pages());
        let mut rest = self.rest(to);
        for number in late {
            self.add_page(&mut rest, number);
        }
        rest.pieces.push(self.first_block(to));
        Some(rest)
    }

    /// What an area needs in which nothing is known: a journal that goes on counting.
    pub(in crate::disk) fn beginning(&self, area: Area) -> Rest {
        let pieces = Vec::from([self.first_block(area)]);
        Rest { pieces, ..self.rest(area) }
    }

    /// Nothing for this area yet.
    fn rest(&self, to: Area) -> Rest {
        let (from, sequence) = (self.area, self.journal.durable);
        let (pieces, unread) = (Vec::new(), Vec::new());
        Rest { from, to, sequence, pieces, last: None, unread, forgotten: None }
    }

    /// A page with all that is known: what memory has, or else the disk.
    fn add_page(&self, rest: &mut Rest, number: u32) {
        match self.pages.get(&number) {
            Some(page) => rest.add(number, page.sums.clone()),
            None => rest.unread.push(number),
        }
    }

    /// The first block of the journal in another area, and its place: all pages there have what was
    /// before it. Without one the numbers of blocks would begin anew, and pages seem to have what
    /// those name.
    fn first_block(&self, to: Area) -> (u64, Vec<u8>) {
        let sequence = self.journal.sequence + 1;
        let block = JournalBlock { sequence, floor: sequence, entries: Vec::new() };
        (to.journal(sequence), block.encode(to.replica))
    }

    /// The area is where [`Self::finish_carrying`] has brought all checksums.
    pub(in crate::disk) fn carried(&mut self, area: Area) {
        self.journal.sequence += 1;
        self.area = area;
        self.pages_have_all();
    }

    /// The area is elsewhere, and there is nothing in it but [`Self::beginning`]: no page, and no
    /// block of the journal, lies where one of this number lay.
    pub(in crate::disk) fn begin_anew(&mut self, area: Area) {
        self.pages.clear();
        self.carried(area);
    }

    /// The pages have all that is known, durably, and the last block of the journal says so.
    fn pages_have_all(&mut self) {
        self.pages.values_mut().for_each(|page| page.is_dirty = false);
        let journal = &mut self.journal;
        (journal.floor, journal.durable) = (journal.sequence, journal.sequence);
        journal.unsaved.clear();
        journal.is_overfull = false;
    }

    /// The data are to become longer. Of a last block of which there was only a part, what it must
    /// yield changes: it is not known any more. Returns what makes that durable; nothing may be at
    /// work in it.
    ///
    /// Blocks of the journal may name what it yielded, and a page that is torn later would be taken
    /// for what they say. So all pages are written that have changed, and then a block that says
    /// that older ones do not count.
    pub(in crate::disk) fn forget_part(&mut self, block: u64) -> Rest {
        if let Some((sum, is_dirty)) = self.entry(block) {
            (*sum, *is_dirty) = (0, true);
        }
        let mut late = self.dirty_pages();
        late.insert(super::page_of(block));
        let mut rest = Rest { forgotten: Some(block), ..self.rest(self.area) };
        for number in late {
            self.add_page(&mut rest, number);
        }
        rest.last = Some(self.first_block(self.area));
        // The number is used up even if that fails: its bytes may be on the disk.
        self.journal.sequence += 1;
        rest
    }

    /// What [`Self::forget_part`] has returned is durable.
    pub(in crate::disk) fn forgot_part(&mut self) {
        self.pages_have_all();
    }
}

#[cfg(test)]
mod tests;
