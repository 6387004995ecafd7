//! The intent log on disk: per slot, a table of open regions, in two copies that are written in
//! turn.
//!
//! A crash during a save damages the copy that is being written. The other one holds the table as
//! it was before, and no data of a region that only the new one names has been touched yet.

use evenkeel_core::replica::OpenRegions;
use evenkeel_core::{ReplicaId, settings};

use crate::bytes::{Put, Reader, crc32c_of_parts};

/// Bytes of one copy of one table.
pub const TABLE_LENGTH: usize = 8 << 10;
/// Slots for which there is room: one per primary.
pub const INTENT_SLOTS: u8 = 32;
/// Most open regions that a table holds.
pub const MAX_REGIONS: usize = (TABLE_LENGTH - HEADER) / 4;

const _: () = assert!(MAX_REGIONS == settings::MAX_OPEN_REGIONS);
const _: () = assert!(INTENT_SLOTS as usize == settings::MAX_PRIMARIES);

const HEADER: usize = 64;
const MAGIC: &[u8; 16] = b"evenkeel-intents";
const CRC_OFFSET: usize = 16;
const COPY_A: u64 = 64 << 10;
const COPY_B: u64 = 576 << 10;

/// One of the two copies of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableCopy {
    /// Between the superblocks.
    A,
    /// Behind the second superblock.
    B,
}

impl TableCopy {
    /// Where it starts on the disk, in bytes.
    #[must_use]
    pub const fn offset(self, slot: u8) -> u64 {
        let base = match self {
            Self::A => COPY_A,
            Self::B => COPY_B,
        };
        base + slot as u64 * TABLE_LENGTH as u64
    }

    /// The one to be written after this one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// A table of open regions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntentTable {
    /// Counts the saves.
    pub sequence: u64,
    /// The sequence of the last save that closed a region, at most 2^32 - 1 saves before this one.
    pub cleared: u64,
    /// The replica whose intent log the table belongs to.
    pub replica: ReplicaId,
    /// The regions that are open, or that all are.
    pub regions: OpenRegions,
}

/// The table that counts, and the copy that the next save goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewestTable {
    /// What it holds; `None` if neither copy is whole: then every region counts as open.
    pub table: Option<IntentTable>,
    /// The copy that the next save overwrites: the older or damaged one.
    pub write_next: TableCopy,
}

impl IntentTable {
    /// The table that is saved after this one.
    #[must_use]
    pub fn followed_by(&self, regions: OpenRegions) -> Self {
        let sequence = self.sequence + 1;
        let is_open = |region: &u64| regions.open.binary_search(region).is_ok();
        let stays_open = regions.is_all() || self.regions.open.iter().all(is_open);
        let cleared = if stays_open { self.cleared } else { sequence };
        Self { sequence, cleared, replica: self.replica, regions }
    }

    /// The bytes of one copy.
    ///
    /// # Panics
    /// If there are more than [`MAX_REGIONS`] regions, or one beyond 2^32; a view's checks exclude
    /// both.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let open = &self.regions.open;
        assert!(open.len() <= MAX_REGIONS, "an intent log of an impossible size");
        let mut out = Vec::with_capacity(TABLE_LENGTH);
        out.put(MAGIC);
        out.put_u32(0);
        out.put_u32(open.len() as u32);
        out.put_u64(self.sequence);
        out.put_u128(self.replica.0);
        out.put_u64(self.regions.region);
        out.put_u8(self.regions.slot);
        let age = self.sequence.saturating_sub(self.cleared);
        out.put_u32(u32::try_from(age).unwrap_or(u32::MAX));
        out.put_padded(&[], HEADER - out.len());
        for region in open {
            out.put_u32(u32::try_from(*region).expect("a region beyond the log's reach"));
        }
        out.put_padded(&[], TABLE_LENGTH - out.len());
        let crc = checksum(&out).to_le_bytes();
        out[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&crc);
        out
    }

    /// Reads one copy; `None` if it is not whole, or not this replica's in this slot.
    #[must_use]
    pub fn decode(bytes: &[u8], replica: ReplicaId, slot: u8) -> Option<Self> {
        let bytes = bytes.get(..TABLE_LENGTH)?;
        let mut reader = Reader::new(bytes);
        let is_table = reader.take(16).ok()? == MAGIC;
        let (stored, count) = (reader.u32().ok()?, reader.u32().ok()? as usize);
        let (sequence, owner) = (reader.u64().ok()?, ReplicaId(reader.u128().ok()?));
        let region = reader.u64().ok().filter(|region| region.is_power_of_two())?;
        let is_here = reader.u8().ok()? == slot;
        let cleared = sequence.saturating_sub(reader.u32().ok()?.into());
        if !is_table || stored != checksum(bytes) || owner != replica || count > MAX_REGIONS {
            return None;
        }
        let mut reader = Reader::new(&bytes[HEADER..]);
        let open: Vec<_> = (0..count).map_while(|_| reader.u32().ok()).map(u64::from).collect();
        let is_sorted = open.windows(2).all(|pair| pair[0] < pair[1]);
        let is_possible = region >= settings::BLOCK.into() && is_here;
        let regions = OpenRegions { slot, region, open };
        (is_sorted && is_possible).then_some(Self { sequence, cleared, replica: owner, regions })
    }
}

/// Picks the newer one of the whole copies.
#[must_use]
pub fn newest_table(copy_a: &[u8], copy_b: &[u8], replica: ReplicaId, slot: u8) -> NewestTable {
    let [a, b] = [copy_a, copy_b].map(|copy| IntentTable::decode(copy, replica, slot));
    let sequence = |table: &Option<IntentTable>| table.as_ref().map(|table| table.sequence);
    if sequence(&a) > sequence(&b) {
        NewestTable { table: a, write_next: TableCopy::B }
    } else {
        NewestTable { table: b, write_next: TableCopy::A }
    }
}

/// Over all bytes, with the checksum's own taken as zero.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c_of_parts(&[&bytes[..CRC_OFFSET], &[0; 4], &bytes[CRC_OFFSET + 4..]])
}

#[cfg(test)]
mod tests;
