//! Which of the two slots counts.

use core::fmt;

use thiserror::Error;

use crate::superblock::{FormatError, Superblock};
use crate::{SLOT_A_OFFSET, SLOT_B_OFFSET};

/// One of the two places of the superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// At the start of the disk.
    A,
    /// At 512 KiB.
    B,
}

impl Slot {
    /// Where it starts on the disk, in bytes.
    #[must_use]
    pub const fn offset(self) -> u64 {
        match self {
            Self::A => SLOT_A_OFFSET,
            Self::B => SLOT_B_OFFSET,
        }
    }

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::B => "B",
        })
    }
}

/// The superblock that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newest {
    /// What it says.
    pub superblock: Superblock,
    /// Where it was found.
    pub slot: Slot,
    /// What is wrong with the other slot, if it can't be used.
    pub damaged: Option<(Slot, FormatError)>,
    /// The slot that every save writes first, followed by `fdatasync`; then the other one, again
    /// with `fdatasync`. It is the one whose loss costs nothing: the damaged or older slot.
    pub write_first: Slot,
}

/// Why no superblock can be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NewestError {
    /// Neither slot can be used.
    #[error("neither superblock can be used. Slot A: {a}. Slot B: {b}")]
    Neither {
        /// What is wrong with slot A.
        a: FormatError,
        /// What is wrong with slot B.
        b: FormatError,
    },
    /// One slot was written by newer software; the other may be outdated by it.
    #[error("slot {slot}: {error}")]
    Newer {
        /// Which slot.
        slot: Slot,
        /// How it was written.
        error: FormatError,
    },
    /// Each slot holds a whole superblock, and they are not of one history.
    #[error(
        "the two superblocks contradict each other ({0}): the disk was overwritten in part, or a copy was put back in part. Remove this replica from its volume and add it anew"
    )]
    Contradiction(&'static str),
}

impl NewestError {
    /// Whether the disk simply holds no replica: neither slot has evenkeel's magic.
    #[must_use]
    pub const fn is_no_replica(&self) -> bool {
        matches!(self, Self::Neither { a: FormatError::NoMagic, b: FormatError::NoMagic })
    }
}

/// Picks the valid superblock with the higher sequence. A slot that could not be read is passed as
/// an empty slice.
///
/// # Errors
/// See [`NewestError`].
pub fn newest(slot_a: &[u8], slot_b: &[u8]) -> Result<Newest, NewestError> {
    match (Superblock::decode(slot_a), Superblock::decode(slot_b)) {
        (Err(error), _) if error.is_from_newer_software() => {
            Err(NewestError::Newer { slot: Slot::A, error })
        }
        (_, Err(error)) if error.is_from_newer_software() => {
            Err(NewestError::Newer { slot: Slot::B, error })
        }
        (Err(a), Err(b)) => Err(NewestError::Neither { a, b }),
        (Ok(superblock), Err(error)) => Ok(Newest::only(superblock, Slot::A, error)),
        (Err(error), Ok(superblock)) => Ok(Newest::only(superblock, Slot::B, error)),
        (Ok(a), Ok(b)) => newer_of(a, b),
    }
}

impl Newest {
    fn only(superblock: Superblock, slot: Slot, error: FormatError) -> Self {
        let other = slot.other();
        Self { superblock, slot, damaged: Some((other, error)), write_first: other }
    }
}

fn newer_of(a: Superblock, b: Superblock) -> Result<Newest, NewestError> {
    let identity = |s: &Superblock| (s.volume, s.replica, s.mirror, s.data_offset);
    if identity(&a) != identity(&b) {
        return Err(NewestError::Contradiction("they are of different replicas"));
    }
    if a.sequence == b.sequence && a != b {
        return Err(NewestError::Contradiction("they have one sequence and differ"));
    }
    let a_is_newer = a.sequence > b.sequence;
    let (superblock, slot) = if b.sequence > a.sequence { (b, Slot::B) } else { (a, Slot::A) };
    let write_first = if a_is_newer { Slot::B } else { Slot::A };
    Ok(Newest { superblock, slot, damaged: None, write_first })
}

#[cfg(test)]
mod tests;
