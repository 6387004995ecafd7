//! Block checksums on disk: behind the bitmaps, first a journal, then pages with the CRC-32C of
//! each block of data.
//!
//! The journal is a ring of blocks. Each names checksums that the pages need not have yet, so that
//! a flush makes many of them durable by one small write.

use evenkeel_core::ReplicaId;
use evenkeel_core::block_set::{PAGE_WORDS, PageBits};
use evenkeel_core::settings::BLOCK;

use crate::bytes::crc32c_of_parts;
use crate::page::{self, PAGE_LENGTH};

const PAGE_MAGIC: &[u8; 8] = b"ekchecks";
const JOURNAL_MAGIC: &[u8; 8] = b"ekjournl";

/// Checksums in one page.
pub const CHECKSUMS_PER_PAGE: usize = PAGE_WORDS * 2;
/// Blocks of the journal.
pub const JOURNAL_BLOCKS: u64 = 256;
/// Checksums that one block of the journal names.
pub const JOURNAL_ENTRIES: usize = (PAGE_WORDS - 2) / 2;
/// Bytes of the journal.
const JOURNAL_LENGTH: u64 = JOURNAL_BLOCKS * PAGE_LENGTH as u64;

/// The checksums of [`CHECKSUMS_PER_PAGE`] blocks; zero: not known.
pub type Checksums = [u32; CHECKSUMS_PER_PAGE];

/// A page as it lies on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChecksumPage {
    /// The last block of the journal of which it has everything.
    pub sequence: u64,
    /// The CRC-32C of each block of data that the page covers; zero: not known.
    pub checksums: Box<Checksums>,
}

/// A block of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalBlock {
    /// Counts the blocks that were written, from 1. It lies at this number modulo
    /// [`JOURNAL_BLOCKS`].
    pub sequence: u64,
    /// Blocks up to this one do not count any more: the pages have all that they name.
    pub floor: u64,
    /// Numbers of blocks of data with their checksums, at most [`JOURNAL_ENTRIES`].
    pub entries: Vec<(u64, u32)>,
}

/// The checksum of a block's bytes, as it is stored: never zero, which stands for an unknown one.
#[must_use]
pub fn block_checksum(bytes: &[u8]) -> u32 {
    stored_checksum(crc32c_of_parts(&[bytes]))
}

/// A CRC-32C as it is stored.
#[must_use]
pub const fn stored_checksum(crc: u32) -> u32 {
    if crc == 0 { 1 } else { crc }
}

/// Pages of a replica with so many bytes of data.
#[must_use]
pub const fn checksum_pages(data_length: u64) -> u64 {
    data_length.div_ceil(BLOCK as u64).div_ceil(CHECKSUMS_PER_PAGE as u64)
}

/// Bytes of the journal and all pages.
#[must_use]
pub const fn checksums_length(data_length: u64) -> u64 {
    JOURNAL_LENGTH + checksum_pages(data_length) * PAGE_LENGTH as u64
}

/// Where a page lies, counted from the start of the journal.
#[must_use]
pub const fn checksum_page_offset(page: u32) -> u64 {
    JOURNAL_LENGTH + page as u64 * PAGE_LENGTH as u64
}

/// Where a block of the journal lies, counted from its start.
#[must_use]
pub const fn journal_offset(sequence: u64) -> u64 {
    sequence % JOURNAL_BLOCKS * PAGE_LENGTH as u64
}

impl ChecksumPage {
    /// The bytes of the page with this number.
    #[must_use]
    pub fn encode(&self, replica: ReplicaId, number: u32) -> Vec<u8> {
        let mut bits: PageBits = [0; PAGE_WORDS];
        for (word, pair) in bits.iter_mut().zip(self.checksums.chunks_exact(2)) {
            *word = u64::from(pair[0]) | u64::from(pair[1]) << 32;
        }
        page::encode(PAGE_MAGIC, number, replica, self.sequence, &bits)
    }

    /// Reads a page; `None` if it was never written, or is damaged, or of another replica.
    #[must_use]
    pub fn decode(bytes: &[u8], replica: ReplicaId, number: u32) -> Option<Self> {
        let found = page::decode(bytes, PAGE_MAGIC, number)?;
        if found.replica != replica {
            return None;
        }
        let mut checksums = Box::new([0; CHECKSUMS_PER_PAGE]);
        for (pair, word) in checksums.chunks_exact_mut(2).zip(found.bits.iter()) {
            (pair[0], pair[1]) = (*word as u32, (*word >> 32) as u32);
        }
        Some(Self { sequence: found.tag, checksums })
    }
}

impl JournalBlock {
    /// The bytes of the block. Entries beyond [`JOURNAL_ENTRIES`] are left out.
    #[must_use]
    pub fn encode(&self, replica: ReplicaId) -> Vec<u8> {
        let mut bits: PageBits = [0; PAGE_WORDS];
        let entries = &self.entries[..self.entries.len().min(JOURNAL_ENTRIES)];
        (bits[0], bits[1]) = (self.floor, entries.len() as u64);
        for (words, (block, checksum)) in bits[2..].chunks_exact_mut(2).zip(entries) {
            (words[0], words[1]) = (*block, u64::from(*checksum));
        }
        let place = (self.sequence % JOURNAL_BLOCKS) as u32;
        page::encode(JOURNAL_MAGIC, place, replica, self.sequence, &bits)
    }

    /// Reads the block in a place of the ring; `None` if there is none, or it is damaged, or of
    /// another replica.
    #[must_use]
    pub fn decode(bytes: &[u8], replica: ReplicaId, place: u32) -> Option<Self> {
        let found = page::decode(bytes, JOURNAL_MAGIC, place)?;
        let (floor, count) = (found.bits[0], found.bits[1]);
        let is_ours = found.replica == replica && found.tag % JOURNAL_BLOCKS == u64::from(place);
        if !is_ours || count > JOURNAL_ENTRIES as u64 {
            return None;
        }
        let words = found.bits[2..].chunks_exact(2).take(count as usize);
        let entries = words.map(|pair| (pair[0], pair[1] as u32)).collect();
        Some(Self { sequence: found.tag, floor, entries })
    }
}

#[cfg(test)]
mod tests;
