//! Data as the simulator holds it: one number for each sector instead of 512 bytes.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use evenkeel_core::{Generation, Payload, Sequence};

/// The unit in which simulated disks hold, lose and tear data, in bytes.
pub const SECTOR: u32 = 512;

/// What a sector holds: [`ZERO`], [`HOLE`] or the stamp of a write (see [`stamp`]).
pub type Cell = u64;

/// Zeroes that take space.
pub const ZERO: Cell = 0;
/// Never written or given back: reads as zeroes.
pub const HOLE: Cell = u64::MAX;

/// What write number `write` puts into sector `sector` of the volume: unique, so that a read tells
/// which write it saw, and whether it saw it in the right place.
#[must_use]
pub const fn stamp(write: u32, sector: u32) -> Cell {
    ((write as u64) << 24) | sector as u64
}

/// The write and the sector of a stamp.
#[must_use]
pub const fn stamped(cell: Cell) -> (u32, u32) {
    ((cell >> 24) as u32, (cell & 0xff_ffff) as u32)
}

/// What a disk returns of a sector whose bits have rotted, told apart by a number: no write's.
#[must_use]
pub const fn garbage(number: u32) -> Cell {
    stamp(u32::MAX, number & 0xff_ffff)
}

/// The number of what is [`garbage`].
#[must_use]
pub fn as_garbage(cell: Cell) -> Option<u32> {
    let (write, number) = stamped(cell);
    (cell != HOLE && write == u32::MAX).then_some(number)
}

/// A shared run of sectors.
#[derive(Debug, Clone)]
pub struct Sectors {
    cells: Rc<[Cell]>,
    from: usize,
    count: usize,
    arrived: Option<Arrived>,
}

/// As what a write came to a replica.
#[derive(Debug, Clone, Copy)]
pub struct Arrived {
    /// Under which generation.
    pub generation: Generation,
    /// Which operation of which primary it is, if that is known.
    pub operation: Option<(usize, Sequence)>,
}

impl Sectors {
    /// Holds these. Holes become zeroes: data that travels has no holes.
    #[must_use]
    pub fn new(cells: impl Iterator<Item = Cell>) -> Self {
        let cells: Rc<[Cell]> = cells.map(|c| if c == HOLE { ZERO } else { c }).collect();
        Self { from: 0, count: cells.len(), cells, arrived: None }
    }

    /// The sectors' contents.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cells[self.from..self.from + self.count]
    }

    /// The same, marked as the payload of a write that came to a replica.
    #[must_use]
    pub fn arrived_as(mut self, arrived: Arrived) -> Self {
        self.arrived = Some(arrived);
        self
    }

    /// As what it came to the replica, if it is a write's and not a copy's.
    #[must_use]
    pub const fn arrived(&self) -> Option<Arrived> {
        self.arrived
    }

    /// The bytes for which the sectors stand: each is its number, repeated.
    pub fn write_bytes(&self, out: &mut Vec<u8>) {
        for cell in self.cells() {
            for _ in 0..SECTOR / 8 {
                out.extend_from_slice(&cell.to_le_bytes());
            }
        }
    }

    /// The sectors for which the bytes stand; `None` if a sector's bytes do not belong together.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let cells: Option<Vec<Cell>> = bytes.chunks(SECTOR as usize).map(cell_of_bytes).collect();
        Some(Self::new(cells?.into_iter()))
    }
}

fn cell_of_bytes(sector: &[u8]) -> Option<Cell> {
    let (words, rest) = sector.as_chunks::<8>();
    let whole = rest.is_empty() && sector.len() == SECTOR as usize;
    let same = words.windows(2).all(|pair| pair[0] == pair[1]);
    (whole && same).then(|| Cell::from_le_bytes(words[0]))
}

impl Payload for Sectors {
    fn length(&self) -> u32 {
        self.count as u32 * SECTOR
    }

    fn slice(&self, from: u32, length: u32) -> Self {
        assert!(from.is_multiple_of(SECTOR) && length.is_multiple_of(SECTOR), "a cut in a sector");
        assert!(from + length <= self.length(), "a part that is not inside the payload");
        Self {
            cells: Rc::clone(&self.cells),
            from: self.from + (from / SECTOR) as usize,
            count: (length / SECTOR) as usize,
            arrived: self.arrived,
        }
    }

    fn digest(&self, from: u32, length: u32) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.slice(from, length).cells().hash(&mut hasher);
        hasher.finish()
    }

    fn first_difference(&self, other: &Self) -> Option<u32> {
        let mut pairs = self.cells().iter().zip(other.cells());
        pairs.position(|(own, other)| own != other).map(|sector| sector as u32 * SECTOR)
    }

    fn is_zero(&self) -> bool {
        self.cells().iter().all(|cell| *cell == ZERO)
    }
}

#[cfg(test)]
mod tests;
