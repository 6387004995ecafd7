//! Bitmaps on disk: behind the data, in pages that each say whose they are and since when they count.
//! So a bitmap is begun anew without writing anything: older pages do not count any more.

use evenkeel_core::block_set::{PAGE_BLOCKS, PAGE_WORDS};
use evenkeel_core::replica::{FoundPage, MissingPage};
use evenkeel_core::settings::{BLOCK, MOST_REPLICAS};
use evenkeel_core::{Generation, ReplicaId};

use crate::bytes::{Put, Reader, crc32c_of_parts};

/// Bytes of one page.
pub const PAGE_LENGTH: usize = 4096;

const MAGIC: &[u8; 8] = b"ekbitmap";
const CRC_OFFSET: usize = 8;
const HEADER: usize = PAGE_LENGTH - PAGE_WORDS * 8;

/// Pages of one bitmap of a replica with so many bytes of data.
#[must_use]
pub const fn pages_per_bitmap(data_length: u64) -> u64 {
    data_length.div_ceil(BLOCK as u64).div_ceil(PAGE_BLOCKS)
}

/// Where a page lies, counted from the start of the metadata behind the data.
#[must_use]
pub const fn page_offset(data_length: u64, slot: u8, page: u32) -> u64 {
    (slot as u64 * pages_per_bitmap(data_length) + page as u64) * PAGE_LENGTH as u64
}

/// Bytes of all bitmaps together: one for each replica that a mirror may have.
#[must_use]
pub const fn bitmaps_length(data_length: u64) -> u64 {
    page_offset(data_length, MOST_REPLICAS as u8, 0)
}

/// The bytes of one page.
#[must_use]
pub fn encode_page(page: &MissingPage) -> Vec<u8> {
    let mut out = Vec::with_capacity(PAGE_LENGTH);
    out.put(MAGIC);
    out.put_u32(0);
    out.put_u32(page.page);
    out.put_u128(page.replica.0);
    out.put_u64(page.since.0);
    out.put_padded(&[], HEADER - out.len());
    page.bits.iter().for_each(|word| out.put_u64(*word));
    let crc = checksum(&out).to_le_bytes();
    out[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&crc);
    out
}

/// Reads what lies in a page's place; `None` if nothing was ever written there.
#[must_use]
pub fn decode_page(bytes: &[u8], slot: u8, page: u32) -> Option<FoundPage> {
    let damaged = Some(FoundPage::Damaged { slot, page });
    let Some(bytes) = bytes.get(..PAGE_LENGTH) else { return damaged };
    if bytes.iter().all(|byte| *byte == 0) {
        return None;
    }
    read_page(bytes, slot, page).map_or(damaged, |page| Some(FoundPage::Whole(page)))
}

fn read_page(bytes: &[u8], slot: u8, page: u32) -> Option<MissingPage> {
    let mut reader = Reader::new(bytes);
    let is_page = reader.take(8).ok()? == MAGIC;
    let (stored, number) = (reader.u32().ok()?, reader.u32().ok()?);
    let (replica, since) = (ReplicaId(reader.u128().ok()?), Generation(reader.u64().ok()?));
    if !is_page || stored != checksum(bytes) || number != page {
        return None;
    }
    let mut reader = Reader::new(&bytes[HEADER..]);
    let mut bits = Box::new([0; PAGE_WORDS]);
    for word in bits.iter_mut() {
        *word = reader.u64().ok()?;
    }
    Some(MissingPage { slot, replica, since, page, bits })
}

/// Over all bytes, with the checksum's own taken as zero.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c_of_parts(&[&bytes[..CRC_OFFSET], &[0; 4], &bytes[CRC_OFFSET + 4..]])
}

#[cfg(test)]
mod tests;
