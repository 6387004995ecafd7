//! What a crash left of a replica's checksums is put in order before the replica is used.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use evenkeel_core::replica::OpenRegions;
use evenkeel_core::settings::BLOCK;
use evenkeel_format::{
    CHECKSUMS_PER_PAGE, ChecksumPage, JOURNAL_BLOCKS, JournalBlock, PAGE_LENGTH,
};

use super::{Area, PIECE, page_of};
use crate::disk::device::{Access, Parts, next_data, read_part, spoil, write_at};

/// Where the journal goes on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recovered {
    /// The last block that was found in it; the pages have all that it names.
    pub(crate) sequence: u64,
}

/// Brings into the pages what the journal names and they lack; the checksums of open regions are
/// not known any more. Blocks on the disk.
///
/// # Errors
/// If the disk can't be read or written.
pub(crate) fn recover(
    file: &impl Access,
    area: Area,
    open: &[OpenRegions],
) -> io::Result<Recovered> {
    let journal = Journal::read(file, area)?;
    let newest = journal.blocks.iter().map(|block| block.sequence).max().unwrap_or(0);
    let floor = journal.blocks.iter().map(|block| block.floor).max().unwrap_or(0);
    let lost = journal.last_lost(area, newest, floor);
    if let Some(lost) = lost {
        forget_older(file, area, lost)?;
    }
    let (sequence, floor) = (newest.max(lost.unwrap_or(0)), floor.max(lost.unwrap_or(0)));
    let mut changes = Changes::default();
    for block in journal.blocks.iter().filter(|block| block.sequence > floor) {
        let blocks = area.length.div_ceil(BLOCK.into());
        for (number, sum) in block.entries.iter().filter(|(number, _)| *number < blocks) {
            changes.set(*number, block.sequence, *sum);
        }
    }
    for table in open {
        changes.forget(table, area.length);
    }
    // What the journal names is forgotten in the pages alone. Were one of them torn later, the
    // journal would say it again.
    let forgets = !changes.named.is_empty() && !changes.unknown.is_empty();
    let raises_floor = forgets || !journal.lost.is_empty();
    changes.carry_out(file, area, sequence)?;
    if !raises_floor {
        return Ok(Recovered { sequence });
    }
    let sequence = sequence + 1;
    let block = JournalBlock { sequence, floor: sequence, entries: Vec::new() };
    // Should they be readable again, those that are lost are older.
    spoil(file, &journal.lost)?;
    write_at(file, &block.encode(area.replica), area.journal(sequence))?;
    file.flush()?;
    Ok(Recovered { sequence })
}

/// What a journal holds.
#[derive(Debug, Default)]
struct Journal {
    /// Its blocks, in the order in which they were written.
    blocks: Vec<JournalBlock>,
    /// The places of blocks that can't be read.
    lost: Vec<(u64, usize)>,
}

impl Journal {
    fn read(file: &impl Access, area: Area) -> io::Result<Self> {
        let (start, length) = (area.start, JOURNAL_BLOCKS * PAGE_LENGTH as u64);
        // Files tell where they hold nothing.
        if next_data(file, start) >= start + length {
            return Ok(Self::default());
        }
        let parts = Parts::read(file, start, length as usize, PAGE_LENGTH)?;
        let places = (0..).zip(parts.bytes().chunks(PAGE_LENGTH));
        let decode =
            |(place, bytes): (u32, &[u8])| JournalBlock::decode(bytes, area.replica, place);
        let mut blocks: Vec<_> = places.filter_map(decode).collect();
        blocks.sort_unstable_by_key(|block| block.sequence);
        Ok(Self { blocks, lost: parts.lost().collect() })
    }

    /// The last block that is lost, if it may have named anything that the pages lack. A place has
    /// the number that it had when the ring last came by; what follows the newest block may have
    /// been written, too.
    fn last_lost(&self, area: Area, newest: u64, floor: u64) -> Option<u64> {
        let place = |(offset, _): &(u64, usize)| (offset - area.start) / PAGE_LENGTH as u64;
        let lost: BTreeSet<u64> = self.lost.iter().map(place).collect();
        let mut next = newest + 1;
        while lost.contains(&(next % JOURNAL_BLOCKS)) && next <= newest + JOURNAL_BLOCKS {
            next += 1;
        }
        let last = next - 1;
        let number =
            |place: &u64| last.checked_sub((last + JOURNAL_BLOCKS - place) % JOURNAL_BLOCKS);
        lost.iter().filter_map(number).filter(|number| *number > floor).max()
    }
}

/// Of pages that may lack what a lost block of the journal named nothing is known: of those that
/// don't have all up to this one.
fn forget_older(file: &impl Access, area: Area, lost: u64) -> io::Result<()> {
    let mut page = 0;
    while page < area.pages() {
        let place = area.page(page);
        let skipped = next_data(file, place).saturating_sub(place) / PAGE_LENGTH as u64;
        page = page.saturating_add(skipped.min(u64::from(u32::MAX)) as u32);
        let end = area.pages().min(page.saturating_add((PIECE / PAGE_LENGTH) as u32));
        if page >= end {
            break;
        }
        let run = page..end;
        let parts = Parts::read(file, area.page(page), run.len() * PAGE_LENGTH, PAGE_LENGTH)?;
        let mut bytes = parts.bytes().to_vec();
        let mut is_changed = false;
        for (number, bytes) in run.zip(bytes.chunks_mut(PAGE_LENGTH)) {
            let found = ChecksumPage::decode(bytes, area.replica, number);
            let is_older = found.is_none_or(|page| page.sequence < lost);
            if is_older && bytes.iter().any(|byte| *byte != 0) {
                bytes.fill(0);
                is_changed = true;
            }
        }
        if is_changed {
            write_at(file, &bytes, area.page(page))?;
        }
        page = end;
    }
    file.flush()
}

/// What is to be changed in the pages.
#[derive(Debug, Default)]
struct Changes {
    /// Per page what the journal names: the place in the page, since when, and the checksum.
    named: BTreeMap<u32, Vec<(usize, u64, u32)>>,
    /// Blocks whose checksums are not known, in runs.
    unknown: Vec<std::ops::Range<u64>>,
}

impl Changes {
    fn set(&mut self, block: u64, sequence: u64, sum: u32) {
        let place = (block % CHECKSUMS_PER_PAGE as u64) as usize;
        self.named.entry(page_of(block)).or_default().push((place, sequence, sum));
    }

    fn forget(&mut self, table: &OpenRegions, length: u64) {
        let (block, blocks) = (u64::from(BLOCK), length.div_ceil(BLOCK.into()));
        if table.is_all() {
            self.unknown.push(0..blocks);
            return;
        }
        for region in &table.open {
            let start = region.saturating_mul(table.region) / block;
            let end = (start + table.region / block).min(blocks);
            self.unknown.push(start.min(end)..end);
        }
    }

    fn carry_out(self, file: &impl Access, area: Area, sequence: u64) -> io::Result<()> {
        let last = area.pages();
        let mut pages: BTreeSet<u32> = self.named.keys().copied().collect();
        for run in self.unknown.iter().filter(|run| !run.is_empty()) {
            pages.extend(page_of(run.start)..=page_of(run.end - 1));
        }
        let is_empty = pages.is_empty();
        for page in pages.into_iter().filter(|page| *page < last) {
            self.change_page(file, area, page, sequence)?;
        }
        if !is_empty {
            file.flush()?;
        }
        Ok(())
    }

    fn change_page(
        &self,
        file: &impl Access,
        area: Area,
        number: u32,
        sequence: u64,
    ) -> io::Result<()> {
        let place = area.page(number);
        let named = self.named.get(&number);
        if named.is_none() && next_data(file, place) >= place + PAGE_LENGTH as u64 {
            return Ok(());
        }
        let bytes = read_part(file, place, PAGE_LENGTH)?.unwrap_or_default();
        let found = ChecksumPage::decode(&bytes, area.replica, number);
        let mut page = found.clone().unwrap_or_else(|| {
            let checksums = Box::new([0; CHECKSUMS_PER_PAGE]);
            ChecksumPage { sequence: 0, checksums }
        });
        let newer = |(_, since, _): &&(usize, u64, u32)| *since > page.sequence;
        let newer: Vec<_> = named.into_iter().flatten().filter(newer).copied().collect();
        for (entry, _, sum) in newer {
            page.checksums[entry] = sum;
        }
        let first = u64::from(number) * CHECKSUMS_PER_PAGE as u64;
        for run in &self.unknown {
            let start = run.start.clamp(first, first + CHECKSUMS_PER_PAGE as u64) - first;
            let end = run.end.clamp(first, first + CHECKSUMS_PER_PAGE as u64) - first;
            page.checksums[start as usize..end.max(start) as usize].fill(0);
        }
        page.sequence = page.sequence.max(sequence);
        if found.as_ref() == Some(&page) {
            return Ok(());
        }
        write_at(file, &page.encode(area.replica, number), place)
    }
}
