//! The allocation map on disk: which units of a replica's data may hold anything. What is not
//! marked was never written, or was trimmed, and reads as zeroes.
//!
//! A filesystem knows the holes of its files; a block device does not. The map lies before the
//! data, so that it stays in its place when the replica grows.

use evenkeel_core::ReplicaId;
use evenkeel_core::block_set::{BlockSet, PAGE_BLOCKS, PageBits};

use crate::page::{self, PAGE_LENGTH};

/// Offset of the first page of the map on the disk, in bytes.
pub const ALLOCATION_OFFSET: u64 = 832 << 10;
/// Number of pages of the map.
pub const ALLOCATION_PAGES: u32 = 48;
/// Number of units that the map has bits for; units beyond count as allocated.
pub const ALLOCATION_UNITS: u64 = ALLOCATION_PAGES as u64 * PAGE_BLOCKS;

/// Bytes of the smallest unit.
const SMALLEST_UNIT: u64 = 1 << 20;
/// A new map covers so many times the size of its replica, which may grow.
const HEADROOM: u64 = 4;
const MAGIC: &[u8; 8] = b"ekalloc\0";

/// Bytes of one unit of a new replica with so many bytes of data: a power of two.
#[must_use]
const fn allocation_unit(data_length: u64) -> u64 {
    let least = data_length.saturating_mul(HEADROOM).div_ceil(ALLOCATION_UNITS);
    let unit = least.next_power_of_two();
    if unit < SMALLEST_UNIT { SMALLEST_UNIT } else { unit }
}

/// Where a page lies, in bytes.
#[must_use]
pub const fn allocation_page_offset(page: u32) -> u64 {
    ALLOCATION_OFFSET + page as u64 * PAGE_LENGTH as u64
}

/// The units of a replica that may hold data; all others read as zeroes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocationMap {
    /// Bytes of one unit, a power of two.
    pub unit: u64,
    /// The units, counted from the start of the data. Those from [`ALLOCATION_UNITS`] on are not
    /// covered, and may all hold something.
    pub allocated: BlockSet,
}

impl AllocationMap {
    /// The map of a new replica with so many bytes of data: it holds nothing.
    #[must_use]
    pub fn new(data_length: u64) -> Self {
        Self { unit: allocation_unit(data_length), allocated: BlockSet::default() }
    }

    /// The bytes of all pages, for [`ALLOCATION_OFFSET`].
    #[must_use]
    pub fn encode(&self, replica: ReplicaId) -> Vec<u8> {
        (0..ALLOCATION_PAGES).flat_map(|page| self.encode_page(replica, page)).collect()
    }

    /// The bytes of one page, for [`allocation_page_offset`].
    #[must_use]
    pub fn encode_page(&self, replica: ReplicaId, page: u32) -> Vec<u8> {
        page::encode(MAGIC, page, replica, self.unit, &self.allocated.page(page))
    }

    /// Reads all pages. `None`: no page is whole and of this replica, so it has no map, and all of
    /// it may hold something. All units of a page that is not whole count as allocated.
    #[must_use]
    pub fn decode(bytes: &[u8], replica: ReplicaId) -> Option<Self> {
        let pages = bytes.chunks(PAGE_LENGTH).zip(0..ALLOCATION_PAGES);
        let pages: Vec<_> = pages.map(|(bytes, page)| read_page(bytes, replica, page)).collect();
        let unit = pages.iter().flatten().map(|(unit, _)| *unit).next()?;
        let mut allocated = BlockSet::all(ALLOCATION_UNITS);
        for (page, found) in (0u64..).zip(pages) {
            if let Some((_, bits)) = found.filter(|(of_page, _)| *of_page == unit) {
                allocated.remove(page * PAGE_BLOCKS..(page + 1) * PAGE_BLOCKS);
                allocated.insert_page(page as u32, &bits);
            }
        }
        Some(Self { unit, allocated })
    }
}

/// The unit and the bits of a page; `None` if it is not whole, or of another replica.
fn read_page(bytes: &[u8], replica: ReplicaId, number: u32) -> Option<(u64, Box<PageBits>)> {
    let page = page::decode(bytes, MAGIC, number).filter(|page| page.replica == replica)?;
    let is_unit = page.tag.is_power_of_two() && page.tag >= SMALLEST_UNIT;
    is_unit.then_some((page.tag, page.bits))
}

#[cfg(test)]
mod tests;
