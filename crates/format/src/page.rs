//! Pages of bits on disk, of which bitmaps and the allocation map are made.

use evenkeel_core::ReplicaId;
use evenkeel_core::block_set::{PAGE_WORDS, PageBits};

use crate::bytes::{Put, Reader, crc32c_of_parts};

/// Bytes of one page.
pub const PAGE_LENGTH: usize = 4096;

const CRC_OFFSET: usize = 8;
const HEADER: usize = PAGE_LENGTH - PAGE_WORDS * 8;

/// A whole page.
pub(crate) struct Page {
    pub replica: ReplicaId,
    /// What its bits stand for, as the kind of page has it.
    pub tag: u64,
    pub bits: Box<PageBits>,
}

/// The bytes of a page of the kind that `magic` names.
pub(crate) fn encode(
    magic: &[u8; 8],
    number: u32,
    replica: ReplicaId,
    tag: u64,
    bits: &PageBits,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(PAGE_LENGTH);
    out.put(magic);
    out.put_u32(0);
    out.put_u32(number);
    out.put_u128(replica.0);
    out.put_u64(tag);
    out.put_padded(&[], HEADER - out.len());
    bits.iter().for_each(|word| out.put_u64(*word));
    let crc = checksum(&out).to_le_bytes();
    out[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&crc);
    out
}

/// Reads a page; `None` if it is not whole, of another kind, or of another place.
pub(crate) fn decode(bytes: &[u8], magic: &[u8; 8], number: u32) -> Option<Page> {
    let bytes = bytes.get(..PAGE_LENGTH)?;
    let mut reader = Reader::new(bytes);
    let is_page = reader.take(8).ok()? == magic;
    let (stored, found) = (reader.u32().ok()?, reader.u32().ok()?);
    let (replica, tag) = (ReplicaId(reader.u128().ok()?), reader.u64().ok()?);
    if !is_page || stored != checksum(bytes) || found != number {
        return None;
    }
    let mut reader = Reader::new(&bytes[HEADER..]);
    let mut bits = Box::new([0; PAGE_WORDS]);
    for word in bits.iter_mut() {
        *word = reader.u64().ok()?;
    }
    Some(Page { replica, tag, bits })
}

/// Over all bytes, with the checksum's own taken as zero.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c_of_parts(&[&bytes[..CRC_OFFSET], &[0; 4], &bytes[CRC_OFFSET + 4..]])
}
