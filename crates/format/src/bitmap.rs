//! Bitmaps on disk: behind the data, in pages that each say whose they are and since when they
//! count. So a bitmap is begun anew without writing anything: older pages do not count any more.

use evenkeel_core::Generation;
use evenkeel_core::block_set::PAGE_BLOCKS;
use evenkeel_core::replica::{FoundPage, MissingPage};
use evenkeel_core::settings::{BLOCK, MAX_REPLICAS};

use crate::page::{self, PAGE_LENGTH};

const MAGIC: &[u8; 8] = b"ekbitmap";

/// Pages of one bitmap of a replica with so many bytes of data.
#[must_use]
pub const fn pages_per_bitmap(data_length: u64) -> u64 {
    data_length.div_ceil(BLOCK as u64).div_ceil(PAGE_BLOCKS)
}

/// Where a page lies, counted from the start of the metadata behind the data.
#[must_use]
pub const fn page_offset(data_length: u64, place: u8, page: u32) -> u64 {
    (place as u64 * pages_per_bitmap(data_length) + page as u64) * PAGE_LENGTH as u64
}

/// Bytes of all bitmaps together: one for each replica that a mirror may have.
#[must_use]
pub const fn bitmaps_length(data_length: u64) -> u64 {
    page_offset(data_length, MAX_REPLICAS as u8, 0)
}

/// The bytes of one page.
#[must_use]
pub fn encode_page(page: &MissingPage) -> Vec<u8> {
    page::encode(MAGIC, page.page, page.replica, page.since.0, &page.bits)
}

/// Reads what lies in a page's place; `None` if nothing was ever written there.
#[must_use]
pub fn decode_page(bytes: &[u8], place: u8, page: u32) -> Option<FoundPage> {
    let damaged = Some(FoundPage::Damaged { place, page });
    let Some(bytes) = bytes.get(..PAGE_LENGTH) else { return damaged };
    if bytes.iter().all(|byte| *byte == 0) {
        return None;
    }
    read_page(bytes, place, page).map_or(damaged, |page| Some(FoundPage::Whole(page)))
}

fn read_page(bytes: &[u8], place: u8, page: u32) -> Option<MissingPage> {
    let found = page::decode(bytes, MAGIC, page)?;
    let (replica, since) = (found.replica, Generation(found.tag));
    Some(MissingPage { place, replica, since, page, bits: found.bits })
}

#[cfg(test)]
mod tests;
