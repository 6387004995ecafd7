//! The mark of a block device: a random number that identifies it, also while it holds no replica.
//!
//! It lies in two copies where no replica has anything: software that does not know it never reads
//! there.

use crate::bytes::{Put, Reader, crc32c_of_parts};

/// Bytes of one copy.
pub const DISK_MARK_LENGTH: usize = 4096;

/// Where the two copies start on the disk, in bytes: behind the intent log's copy A, and behind
/// superblock B.
pub const DISK_MARK_OFFSETS: [u64; 2] = [320 << 10, 528 << 10];

const MAGIC: &[u8; 16] = b"evenkeel disk id";
const CRC_OFFSET: usize = 16;
const MARK_OFFSET: usize = 32;

/// The bytes of one copy of a mark.
#[must_use]
pub fn encode_disk_mark(mark: u128) -> Vec<u8> {
    let mut out = Vec::with_capacity(DISK_MARK_LENGTH);
    out.put(MAGIC);
    out.put_padded(&[], MARK_OFFSET - out.len());
    out.put_u128(mark);
    out.put_padded(&[], DISK_MARK_LENGTH - out.len());
    let crc = checksum(&out).to_le_bytes();
    out[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&crc);
    out
}

/// Reads one copy; `None` if it is not whole, or there is none.
#[must_use]
pub fn decode_disk_mark(bytes: &[u8]) -> Option<u128> {
    let bytes = bytes.get(..DISK_MARK_LENGTH)?;
    let mut reader = Reader::new(bytes);
    let is_mark = reader.take(16).ok()? == MAGIC;
    let stored = reader.u32().ok()?;
    let mark = Reader::new(&bytes[MARK_OFFSET..]).u128().ok()?;
    (is_mark && stored == checksum(bytes)).then_some(mark)
}

/// Over all bytes, with the checksum's own taken as zero.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c_of_parts(&[&bytes[..CRC_OFFSET], &[0; 4], &bytes[CRC_OFFSET + 4..]])
}

#[cfg(test)]
mod tests;
