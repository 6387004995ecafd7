//! Bytes on disk, format 1: superblocks, the intent log, the bitmaps of missing blocks, and views.
//!
//! Explicit little-endian, every structure checksummed with CRC-32C, every length checked before
//! it is used, unknown versions and features refused by name. The byte tables and the argument
//! for each crash case are in `docs/format.md`.
//!
//! - [`Superblock`]: which replica a disk holds, and its view; [`newest()`] picks one of its two
//!   copies.
//! - [`IntentTable`]: the intent log; [`newest_table`] picks one of its two copies.
//! - [`encode_page`], [`decode_page`]: the bitmaps of blocks that are out of sync elsewhere.
//! - [`ChecksumPage`], [`JournalBlock`]: checksums of the data's blocks.
//! - [`encode_view`], [`decode_view`]: a bare view, as the coordinator stores it and the wire
//!   carries it.
//! - [`encode_disk_mark`], [`decode_disk_mark`]: the random number that identifies a block device.
//! - [`foreign_signature`]: signatures of other software on a disk that is about to be formatted.

mod allocation;
mod bitmap;
pub mod bytes;
mod checksums;
mod code;
mod disk_mark;
mod intents;
mod name;
mod newest;
mod page;
mod signature;
#[cfg(any(test, feature = "proptest"))]
pub mod strategy;
mod superblock;
mod view;

pub use allocation::{
    ALLOCATION_OFFSET, ALLOCATION_PAGES, ALLOCATION_UNITS, AllocationMap, allocation_page_offset,
};
pub use bitmap::{bitmaps_length, decode_page, encode_page, page_offset, pages_per_bitmap};
pub use checksums::{
    CHECKSUMS_PER_PAGE, ChecksumPage, Checksums, JOURNAL_BLOCKS, JOURNAL_ENTRIES, JournalBlock,
    block_checksum, checksum_page_offset, checksum_pages, checksums_length, journal_offset,
    stored_checksum,
};
pub use code::{cause_code, cause_from_code, replica_state_code, replica_state_from_code};
pub use disk_mark::{DISK_MARK_LENGTH, DISK_MARK_OFFSETS, decode_disk_mark, encode_disk_mark};
pub use intents::{
    INTENT_SLOTS, IntentTable, MAX_REGIONS, NewestTable, TABLE_LENGTH, TableCopy, newest_table,
};
pub use name::{NAME_RULE, NEW_NAME_RULE, is_name, is_new_name};
pub use newest::{Newest, NewestError, SuperblockCopy, newest};
pub use page::PAGE_LENGTH;
pub use signature::foreign_signature;
pub use superblock::{
    EncodeError, Envelope, FORMAT_VERSION, FormatError, MAX_NAME_LENGTH, MAX_WRITER_LENGTH,
    Superblock, SuperblockBytes, envelope,
};
pub use view::{MAX_VIEW_LENGTH, VIEW_VERSION, ViewFormatError, decode_view, encode_view};

/// The software that writes, as superblocks and error messages name it.
pub const SOFTWARE: &str = concat!("evenkeel ", env!("CARGO_PKG_VERSION"));

/// Bytes in one copy of a superblock.
pub const SUPERBLOCK_LENGTH: usize = 16 << 10;

/// Where copy A starts on the disk, in bytes.
pub const COPY_A_OFFSET: u64 = 0;

/// Where copy B starts on the disk, in bytes.
pub const COPY_B_OFFSET: u64 = 512 << 10;

/// Where the data of a new replica starts on its disk, in bytes. An existing replica's superblock
/// says where its data starts.
pub const DATA_OFFSET: u64 = 1 << 20;

/// Bytes kept free for the reservations of clients.
const RESERVATIONS_LENGTH: u64 = 64 << 10;

/// Where the metadata behind the data of a new replica start on its disk, in bytes.
#[must_use]
pub const fn metadata_offset(data_length: u64) -> u64 {
    DATA_OFFSET.saturating_add(data_length).next_multiple_of(4096)
}

/// Bytes that a disk must have to hold a replica of `data_length` bytes.
#[must_use]
pub const fn disk_length(data_length: u64) -> u64 {
    metadata_offset(data_length)
        + bitmaps_length(data_length)
        + checksums_length(data_length)
        + RESERVATIONS_LENGTH
}
