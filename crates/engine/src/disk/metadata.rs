//! The intent log and the bitmaps: written durably, and read when a replica is opened.

use std::io;
use std::os::fd::AsFd;

use evenkeel_core::DiskOutcome;
use evenkeel_core::replica::{ALL_OPEN, FoundPage, MissingPage};
use evenkeel_core::settings::MOST_REPLICAS;
use evenkeel_format::{
    IntentTable, PAGE_LENGTH, Superblock, TABLE_LENGTH, TableCopy, decode_page, encode_page,
    newest_table, page_offset, pages_per_bitmap,
};
use rustix::fs::{SeekFrom, seek};

use super::{Disk, Means, Progress, Step};
use crate::pool::Pool;
use crate::ring::{Kept, Owner};
use crate::slab::Key;

/// Bytes that are read or written at once.
const PIECE: usize = 1 << 20;
/// The slot of the intent log that is used: the one of the volume's only primary.
const INTENT_SLOT: u64 = 0;

/// What a replica's disk holds beside superblocks and data.
#[derive(Debug)]
pub struct Metadata {
    /// The regions that are open in the intent log.
    pub open_regions: Vec<u64>,
    /// What the places for bitmaps hold.
    pub missing: Vec<FoundPage>,
    /// Where the next table of open regions goes.
    pub tables: Tables,
}

/// Where tables of open regions go.
#[derive(Debug, Clone, Copy)]
pub struct Tables {
    sequence: u64,
    next: TableCopy,
}

/// What is being written, piece after piece.
#[derive(Debug)]
pub(super) struct Writes {
    pieces: Vec<(u64, Vec<u8>)>,
    next: usize,
    done: usize,
}

/// Reads a replica's metadata. Blocks on the disk.
///
/// # Errors
/// If the disk can't be read.
pub fn read_metadata(file: impl AsFd, superblock: &Superblock) -> io::Result<Metadata> {
    let copies = [TableCopy::A, TableCopy::B].map(|copy| copy.offset(INTENT_SLOT));
    let [a, b] = copies.map(|offset| read_at(&file, offset, TABLE_LENGTH));
    let (a, b) = (a?, b?);
    let found = newest_table(&a, &b, superblock.replica);
    let is_new = a.iter().chain(&b).all(|byte| *byte == 0);
    let sequence = found.table.as_ref().map_or(0, |table| table.sequence);
    let open_regions = match found.table {
        Some(table) => table.regions,
        None if is_new => Vec::new(),
        None => vec![ALL_OPEN],
    };
    Ok(Metadata {
        open_regions,
        missing: read_pages(&file, superblock)?,
        tables: Tables { sequence, next: found.write_next },
    })
}

/// Reads all pages of bitmaps that were ever written.
fn read_pages(file: &impl AsFd, superblock: &Superblock) -> io::Result<Vec<FoundPage>> {
    let length = superblock.data_length;
    let per_bitmap = pages_per_bitmap(length);
    let total = page_offset(length, MOST_REPLICAS as u8, 0);
    let mut pages = Vec::new();
    let mut at = 0;
    while at < total {
        let start = superblock.metadata_offset + at;
        // Files tell where they hold nothing.
        let data = seek(file, SeekFrom::Data(start)).unwrap_or(start);
        if data >= superblock.metadata_offset + total {
            break;
        }
        at = (data.max(start) - superblock.metadata_offset) / PAGE_LENGTH as u64
            * PAGE_LENGTH as u64;
        let piece = (total - at).min(PIECE as u64) as usize;
        let bytes = read_at(file, superblock.metadata_offset + at, piece)?;
        for (n, bytes) in bytes.chunks(PAGE_LENGTH).enumerate() {
            let page = at / PAGE_LENGTH as u64 + n as u64;
            let (slot, page) = ((page / per_bitmap) as u8, (page % per_bitmap) as u32);
            pages.extend(decode_page(bytes, slot, page));
        }
        at += piece as u64;
    }
    Ok(pages)
}

/// What lies beyond the end of the file reads as zeroes.
fn read_at(file: &impl AsFd, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut memory = Pool::new(0).take(length);
    memory.fill(0);
    let mut done = 0;
    while done < length {
        match rustix::io::pread(file, &mut memory[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(memory.to_vec())
}

impl Disk {
    /// What it takes to save this table of open regions.
    pub(super) fn table_writes(&mut self, regions: Vec<u64>) -> Writes {
        self.tables.sequence += 1;
        let copy = self.tables.next;
        self.tables.next = copy.other();
        let (sequence, replica) = (self.tables.sequence, self.replica());
        let table = IntentTable { sequence, replica, regions };
        Writes::new(vec![(copy.offset(INTENT_SLOT), table.encode())])
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
    pub(super) fn write_metadata(&mut self, means: &mut Means<'_>, key: Key) {
        let owner = Owner::Disk { replica: means.replica, job: key };
        let Some(job) = self.jobs.get_mut(key) else { return };
        let Step::Metadata(writes) = &job.step else { return };
        let Some((offset, bytes)) = writes.pieces.get(writes.next) else { return };
        let mut memory = means.pool.take(bytes.len());
        memory.copy_from_slice(bytes);
        means.ring.write_durably(owner, &self.file, memory.freeze(), 0, *offset);
    }

    pub(super) fn metadata_goes_on(
        &mut self,
        means: &mut Means<'_>,
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
            means.ring.write_durably(owner, &self.file, piece, writes.done, offset);
            return Progress::More;
        }
        (writes.next, writes.done) = (writes.next + 1, 0);
        if writes.next == writes.pieces.len() {
            return Progress::Done(DiskOutcome::Done);
        }
        self.write_metadata(means, key);
        Progress::More
    }
}

impl Writes {
    fn new(pieces: Vec<(u64, Vec<u8>)>) -> Self {
        Self { pieces, next: 0, done: 0 }
    }
}
