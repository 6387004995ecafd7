//! Which of the two copies counts.

use core::fmt;

use thiserror::Error;

use crate::superblock::{FormatError, Superblock};
use crate::{COPY_A_OFFSET, COPY_B_OFFSET};

/// One of the two places of the superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuperblockCopy {
    /// At the start of the disk.
    A,
    /// At 512 KiB.
    B,
}

impl SuperblockCopy {
    /// Where it starts on the disk, in bytes.
    #[must_use]
    pub const fn offset(self) -> u64 {
        match self {
            Self::A => COPY_A_OFFSET,
            Self::B => COPY_B_OFFSET,
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

impl fmt::Display for SuperblockCopy {
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
    /// The decoded superblock.
    pub superblock: Superblock,
    /// The copy from which it was read.
    pub copy: SuperblockCopy,
    /// What is wrong with the other copy, if it can't be used.
    pub damaged: Option<(SuperblockCopy, FormatError)>,
    /// The copy that every save writes first, followed by `fdatasync`; then the other one, again
    /// with `fdatasync`. It is the one whose loss costs nothing: the damaged or older copy.
    pub write_first: SuperblockCopy,
}

/// Why no superblock can be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NewestError {
    /// Neither copy can be used.
    #[error("neither superblock can be used. Slot A: {a}. Slot B: {b}")]
    Neither {
        /// What is wrong with copy A.
        a: FormatError,
        /// What is wrong with copy B.
        b: FormatError,
    },
    /// One copy was written by newer software; the other may be outdated by it.
    #[error("slot {copy}: {error}")]
    Newer {
        /// The copy that newer software wrote.
        copy: SuperblockCopy,
        /// The version or feature that this software does not know.
        error: FormatError,
    },
    /// Each copy holds a whole superblock, and they are not of one history.
    #[error(
        "the two superblocks contradict each other ({0}): the disk was overwritten in part, or a copy was put back in part. Remove this replica from its volume and add it anew"
    )]
    Contradiction(&'static str),
}

impl NewestError {
    /// Whether the disk simply holds no replica: neither copy has evenkeel's magic.
    #[must_use]
    pub const fn is_no_replica(&self) -> bool {
        matches!(self, Self::Neither { a: FormatError::NoMagic, b: FormatError::NoMagic })
    }
}

/// Picks the valid superblock with the higher sequence. A copy that could not be read is passed as
/// an empty slice.
///
/// # Errors
/// See [`NewestError`].
pub fn newest(copy_a: &[u8], copy_b: &[u8]) -> Result<Newest, NewestError> {
    match (Superblock::decode(copy_a), Superblock::decode(copy_b)) {
        (Err(error), _) if error.is_from_newer_software() => {
            Err(NewestError::Newer { copy: SuperblockCopy::A, error })
        }
        (_, Err(error)) if error.is_from_newer_software() => {
            Err(NewestError::Newer { copy: SuperblockCopy::B, error })
        }
        (Err(a), Err(b)) => Err(NewestError::Neither { a, b }),
        (Ok(superblock), Err(error)) => Ok(Newest::only(superblock, SuperblockCopy::A, error)),
        (Err(error), Ok(superblock)) => Ok(Newest::only(superblock, SuperblockCopy::B, error)),
        (Ok(a), Ok(b)) => newer_of(a, b),
    }
}

impl Newest {
    fn only(superblock: Superblock, copy: SuperblockCopy, error: FormatError) -> Self {
        let other = copy.other();
        Self { superblock, copy, damaged: Some((other, error)), write_first: other }
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
    let (superblock, copy) =
        if b.sequence > a.sequence { (b, SuperblockCopy::B) } else { (a, SuperblockCopy::A) };
    let write_first = if a_is_newer { SuperblockCopy::B } else { SuperblockCopy::A };
    Ok(Newest { superblock, copy, damaged: None, write_first })
}

#[cfg(test)]
mod tests;
