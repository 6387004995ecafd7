//! What a replica's disk holds beside superblocks and data: read when it is opened.

use std::io;
use std::os::fd::AsFd;

use evenkeel_core::ReplicaId;
use evenkeel_core::replica::{FoundPage, OpenRegions};
use evenkeel_core::settings::MAX_REPLICAS;
use evenkeel_format::{
    ALLOCATION_OFFSET, ALLOCATION_PAGES, AllocationMap, PAGE_LENGTH, Superblock, decode_page,
    page_offset, pages_per_bitmap,
};

use super::Tables;
use super::device::{Access, Parts, next_data, spoil};

/// Bytes that are read at once.
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

/// Reads a replica's metadata. Blocks on the disk.
///
/// # Errors
/// If the disk can't be read.
pub fn read_metadata(file: impl AsFd, superblock: &Superblock) -> io::Result<Metadata> {
    read_all(&file, superblock)
}

/// The same. What can't be read counts as damaged.
pub(super) fn read_all(file: &impl Access, superblock: &Superblock) -> io::Result<Metadata> {
    let (tables, open_regions) = Tables::read(file, superblock)?;
    let mut lost = Vec::new();
    let missing = read_pages(file, superblock, &mut lost)?;
    let allocation = read_allocation(file, superblock.replica, &mut lost)?;
    Ok(Metadata { open_regions, missing, tables, allocation, lost })
}

impl Metadata {
    /// Writes anew what can't be read, as what it counts as, durably: should it be readable again,
    /// it is older. Blocks on the disk.
    ///
    /// # Errors
    /// If the disk can't be written.
    pub(super) fn replace_lost(&mut self, file: &impl Access) -> io::Result<()> {
        if self.lost.is_empty() && self.tables.are_whole() {
            return Ok(());
        }
        tracing::warn!(
            pages = self.lost.len(),
            "metadata of a replica can't be read, and are written anew"
        );
        self.tables.replace_lost(file)?;
        spoil(file, &std::mem::take(&mut self.lost))?;
        file.flush()
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
    let total = page_offset(length, MAX_REPLICAS as u8, 0);
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
            let (place, page) = ((page / per_bitmap) as u8, (page % per_bitmap) as u32);
            pages.extend(decode_page(bytes, place, page));
        }
        at += piece as u64;
    }
    Ok(pages)
}
