//! The intent log and the bitmaps: written durably, and read when a replica is opened.

use std::io;
use std::os::fd::AsFd;

use evenkeel_core::replica::{FoundPage, MissingPage, OpenRegions};
use evenkeel_core::settings::MOST_REPLICAS;
use evenkeel_core::{DiskOutcome, ReplicaId};
use evenkeel_format::{
    ALLOCATION_OFFSET, ALLOCATION_PAGES, AllocationMap, INTENT_SLOTS, IntentTable, PAGE_LENGTH,
    Superblock, TABLE_LENGTH, TableCopy, decode_page, encode_page, newest_table, page_offset,
    pages_per_bitmap,
};

use super::io::{Access, Io};
use super::map::next_data;
use super::parts::{Parts, spoil};
use super::{Disk, Means, Progress, Step};
use crate::pool::Pool;
use crate::ring::{Kept, Owner};
use crate::slab::Key;
use crate::slot::Slot;

/// Bytes that are read or written at once.
const PIECE: usize = 1 << 20;

/// What a replica's disk holds beside superblocks and data.
#[derive(Debug)]
pub struct Metadata {
    /// The tables of open regions of all slots of the intent log that hold anything.
    pub open_regions: Vec<OpenRegions>,
    /// What the places for bitmaps hold.
    pub missing: Vec<FoundPage>,
    /// Where the next tables of open regions go.
    pub tables: Tables,
    /// Which parts hold anything; `None`: the filesystem knows.
    pub allocation: Option<AllocationMap>,
    /// Where pages lie that can't be read.
    lost: Vec<(u64, usize)>,
}

/// Where tables of open regions go, slot by slot.
#[derive(Debug, Clone)]
pub struct Tables(Vec<NextTable>);

/// Where the next table of a slot goes.
#[derive(Debug, Clone)]
struct NextTable {
    /// The one that it follows. It may be on the disk or not.
    last: IntentTable,
    /// Never the one that holds the newest table known to be durable.
    copy: TableCopy,
    /// Those that can't be read, and may be newer.
    lost: Vec<TableCopy>,
}

/// What is being written, piece after piece.
#[derive(Debug)]
pub(super) struct Writes {
    pieces: Vec<(u64, Vec<u8>)>,
    next: usize,
    done: usize,
    /// Whether a flush follows that makes them durable.
    is_flushed_later: bool,
    /// The slot of the intent log whose table it is, if it is one.
    table: Option<u8>,
}

/// Reads a replica's metadata. Blocks on the disk.
///
/// # Errors
/// If the disk can't be read.
pub fn read_metadata(file: impl AsFd, superblock: &Superblock) -> io::Result<Metadata> {
    read_all(&file, superblock)
}

/// The same. What can't be read counts as damaged.
pub(super) fn read_all(file: &impl Access, superblock: &Superblock) -> io::Result<Metadata> {
    let length = usize::from(INTENT_SLOTS) * TABLE_LENGTH;
    let read = |copy: TableCopy| Parts::read(file, copy.offset(0), length, TABLE_LENGTH);
    let (a, b) = (read(TableCopy::A)?, read(TableCopy::B)?);
    let mut found = FoundTables::default();
    for (slot, (a, b)) in (0..INTENT_SLOTS).zip(a.iter().zip(b.iter())) {
        found.add(superblock, slot, (a, b));
    }
    let FoundTables { tables, open_regions } = found;
    let mut lost = Vec::new();
    let missing = read_pages(file, superblock, &mut lost)?;
    let allocation = read_allocation(file, superblock.replica, &mut lost)?;
    Ok(Metadata { open_regions, missing, tables: Tables(tables), allocation, lost })
}

impl Metadata {
    /// Writes anew what can't be read, as what it counts as, durably: should it be readable again, it is older.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// If the disk can't be written.
    pub(super) fn replace_lost(&mut self, file: &impl Access) -> io::Result<()> {
        let is_whole =
            self.lost.is_empty() && self.tables.0.iter().all(|next| next.lost.is_empty());
        if is_whole {
            return Ok(());
        }
        tracing::warn!(
            pages = self.lost.len(),
            "metadata of a replica can't be read, and are written anew"
        );
        for (slot, next) in (0..).zip(&mut self.tables.0) {
            for copy in std::mem::take(&mut next.lost) {
                next.last = next.last.followed_by(next.last.regions.clone());
                write_at(file, &next.last.encode(), copy.offset(slot))?;
                next.copy = copy.other();
            }
        }
        spoil(file, &std::mem::take(&mut self.lost))?;
        file.flush()
    }
}

/// What the tables say, slot by slot.
#[derive(Default)]
struct FoundTables {
    tables: Vec<NextTable>,
    open_regions: Vec<OpenRegions>,
}

impl FoundTables {
    /// Takes note of both copies of a slot's table; `None`: it can't be read.
    fn add(&mut self, superblock: &Superblock, slot: u8, (a, b): (Option<&[u8]>, Option<&[u8]>)) {
        let (replica, layout) = (superblock.replica, superblock.view.intents);
        let found = newest_table(a.unwrap_or_default(), b.unwrap_or_default(), replica, slot);
        let is_zero = |copy: Option<&[u8]>| copy.is_some_and(|copy| copy.iter().all(|b| *b == 0));
        let is_new = is_zero(a) && is_zero(b);
        let lost = [(TableCopy::A, a), (TableCopy::B, b)]
            .into_iter()
            .filter_map(|(copy, bytes)| bytes.is_none().then_some(copy))
            .collect::<Vec<_>>();
        // A torn copy is one whose save has not ended. One that can't be read may be the newest.
        let table = found.table.clone().filter(|_| lost.is_empty());
        let sequence = found.table.map_or(0, |table| table.sequence);
        // What is not known may have named anything: the next table closes it.
        let regions = match is_new {
            true => OpenRegions::none(layout, slot),
            false => OpenRegions::all(layout, slot),
        };
        let unknown = IntentTable { sequence, cleared: 0, replica, regions };
        let last = table.unwrap_or(unknown);
        if !last.regions.open.is_empty() {
            self.open_regions.push(last.regions.clone());
        }
        self.tables.push(NextTable { last, copy: found.write_next, lost });
    }
}

fn read_allocation(
    file: &impl Access,
    replica: ReplicaId,
    lost: &mut Vec<(u64, usize)>,
) -> io::Result<Option<AllocationMap>> {
    let length = ALLOCATION_PAGES as usize * PAGE_LENGTH;
    // Files tell where they hold nothing.
    if next_data(file, ALLOCATION_OFFSET) >= ALLOCATION_OFFSET + length as u64 {
        return Ok(None);
    }
    let parts = Parts::read(file, ALLOCATION_OFFSET, length, PAGE_LENGTH)?;
    lost.extend(parts.lost());
    Ok(AllocationMap::decode(parts.bytes(), replica))
}

/// Reads all pages of bitmaps that were ever written.
fn read_pages(
    file: &impl Access,
    superblock: &Superblock,
    lost: &mut Vec<(u64, usize)>,
) -> io::Result<Vec<FoundPage>> {
    let length = superblock.data_length;
    let per_bitmap = pages_per_bitmap(length);
    let total = page_offset(length, MOST_REPLICAS as u8, 0);
    let mut pages = Vec::new();
    let mut at = 0;
    while at < total {
        let start = superblock.metadata_offset + at;
        // Files tell where they hold nothing.
        let data = next_data(file, start);
        if data >= superblock.metadata_offset + total {
            break;
        }
        at = (data.max(start) - superblock.metadata_offset) / PAGE_LENGTH as u64
            * PAGE_LENGTH as u64;
        let piece = (total - at).min(PIECE as u64) as usize;
        let parts = Parts::read(file, superblock.metadata_offset + at, piece, PAGE_LENGTH)?;
        lost.extend(parts.lost());
        for (n, bytes) in parts.bytes().chunks(PAGE_LENGTH).enumerate() {
            let page = at / PAGE_LENGTH as u64 + n as u64;
            let (slot, page) = ((page / per_bitmap) as u8, (page % per_bitmap) as u32);
            pages.extend(decode_page(bytes, slot, page));
        }
        at += piece as u64;
    }
    Ok(pages)
}

/// What lies beyond the end of the file reads as zeroes.
pub(super) fn read_at(file: &impl Access, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut memory = Pool::new(0).take(length);
    memory.fill(0);
    let mut done = 0;
    while done < length {
        match file.read_some(&mut memory[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(memory.to_vec())
}

/// Writes bytes, from memory that the disk takes. A flush has to follow.
pub(super) fn write_at(file: &impl Access, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut memory = Pool::new(0).take(bytes.len());
    memory.copy_from_slice(bytes);
    let mut done = 0;
    while done < bytes.len() {
        match file.write_some(&memory[done..], offset + done as u64) {
            Ok(0) => return Err(super::cut_short()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl<I: Io> Disk<I> {
    /// Whether this table names less than the one before it, which may be on the disk or not.
    pub(super) fn closes_regions(&self, next: &OpenRegions) -> bool {
        let last = &self.tables.0[usize::from(next.slot)].last.regions;
        let stays_open = |region: &u64| next.open.binary_search(region).is_ok();
        let is_same_size = last.region == next.region;
        !next.is_all() && !last.open.iter().all(|region| is_same_size && stays_open(region))
    }

    /// What a mistake would do: a table that could not be saved counts as the newest one.
    #[cfg(test)]
    pub(super) fn count_failed_table(&mut self, slot: u8) {
        let next = &mut self.tables.0[usize::from(slot)];
        next.copy = next.copy.other();
    }

    /// What it takes to save this table of open regions.
    pub(super) fn table_writes(&mut self, regions: OpenRegions) -> Writes {
        let slot = regions.slot;
        let next = &mut self.tables.0[usize::from(slot)];
        // The number is used up even if the save fails: its bytes may be on the disk.
        next.last = next.last.followed_by(regions);
        let writes = Writes::new(vec![(next.copy.offset(slot), next.last.encode())]);
        Writes { table: Some(slot), ..writes }
    }

    /// All has been written. If it is a table, the other copy is the one whose loss costs nothing from now
    /// on. After a save that failed it is still this one, whatever it holds.
    fn metadata_written(&mut self, table: Option<u8>) -> Progress {
        if let Some(next) = table.and_then(|slot| self.tables.0.get_mut(usize::from(slot))) {
            next.copy = next.copy.other();
        }
        Progress::Done(DiskOutcome::Done)
    }

    /// What it takes to save these pages of bitmaps: pages that lie together are written together.
    pub(super) fn page_writes(&self, mut pages: Vec<MissingPage>) -> Writes {
        let superblock = &self.saves.superblock;
        pages.sort_unstable_by_key(|page| (page.slot, page.page));
        let mut pieces: Vec<(u64, Vec<u8>)> = Vec::new();
        for page in &pages {
            let offset = superblock.metadata_offset
                + page_offset(superblock.data_length, page.slot, page.page);
            match pieces.last_mut() {
                Some((start, bytes))
                    if *start + bytes.len() as u64 == offset && bytes.len() < PIECE =>
                {
                    bytes.extend_from_slice(&encode_page(page));
                }
                _ => pieces.push((offset, encode_page(page))),
            }
        }
        Writes::new(pieces)
    }

    /// Submits the next piece.
    pub(super) fn write_metadata(&mut self, means: &mut Means<'_, I>, key: Key) {
        let owner = Owner::Disk { replica: means.replica, job: key };
        let Some(job) = self.jobs.get_mut(key) else { return };
        let Step::Metadata(writes) = &job.step else { return };
        let Some((offset, bytes)) = writes.pieces.get(writes.next) else { return };
        let mut memory = means.pool.take(bytes.len());
        memory.copy_from_slice(bytes);
        let (offset, is_flushed_later) = (*offset, writes.is_flushed_later);
        self.write_piece(means, owner, (memory.freeze(), 0, offset), is_flushed_later);
    }

    fn write_piece(
        &self,
        means: &mut Means<'_, I>,
        owner: Owner,
        (piece, from, offset): (Slot, usize, u64),
        is_flushed_later: bool,
    ) {
        if is_flushed_later {
            means.ring.write(owner, &self.file, piece, from, offset);
        } else {
            means.ring.write_durably(owner, &self.file, piece, from, offset);
        }
    }

    pub(super) fn metadata_goes_on(
        &mut self,
        means: &mut Means<'_, I>,
        key: Key,
        kept: Kept,
        // `None`: the kernel asks for another try.
        count: Option<usize>,
    ) -> Progress {
        let owner = Owner::Disk { replica: means.replica, job: key };
        let Some(job) = self.jobs.get_mut(key) else { return Progress::More };
        let (Step::Metadata(writes), Kept::Data(piece)) = (&mut job.step, kept) else {
            return Progress::More;
        };
        if count == Some(0) {
            return Progress::Failed(super::cut_short());
        }
        writes.done += count.unwrap_or(0);
        if writes.done < piece.len() {
            let offset = writes.pieces[writes.next].0 + writes.done as u64;
            let (done, is_flushed_later) = (writes.done, writes.is_flushed_later);
            self.write_piece(means, owner, (piece, done, offset), is_flushed_later);
            return Progress::More;
        }
        (writes.next, writes.done) = (writes.next + 1, 0);
        if writes.next == writes.pieces.len() {
            let table = writes.table;
            return self.metadata_written(table);
        }
        self.write_metadata(means, key);
        Progress::More
    }
}

impl Writes {
    pub(super) fn new(pieces: Vec<(u64, Vec<u8>)>) -> Self {
        Self { pieces, next: 0, done: 0, is_flushed_later: false, table: None }
    }

    /// Those that a flush makes durable that begins when they have ended.
    pub(super) fn before_flush(pieces: Vec<(u64, Vec<u8>)>) -> Self {
        Self { is_flushed_later: true, ..Self::new(pieces) }
    }

    /// What is written where.
    #[cfg(test)]
    pub(super) fn pieces(&self) -> &[(u64, Vec<u8>)] {
        &self.pieces
    }

    /// Whether a flush makes them durable that begins when they have ended.
    pub(super) const fn is_flushed_later(&self) -> bool {
        self.is_flushed_later
    }

    /// How many writes it takes.
    pub(super) fn count(&self) -> usize {
        self.pieces.len()
    }

    /// Whether there is nothing to be written.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}
