//! What is asked and answered when a disk makes room: its steps, and what is to be done between.

use std::ops::Range;
use std::{fmt, io};

use evenkeel_core::Generation;

use super::checksums::carry::Carry;
use crate::error::{Answer, EngineError};

/// The steps of making room for more data of a replica, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceStep {
    /// Tell where the metadata behind the data will lie.
    Plan,
    /// Tell which checksums are to be copied there: all (`anew`), or what was written since the
    /// last time. To be repeated until few are left.
    CarryChecksums {
        /// Whether nothing was copied yet.
        anew: bool,
    },
    /// Move them there.
    MoveMetadata,
    /// Use the room for data.
    Use,
}

/// What has to be done, by who asked, before the next step of making room.
#[derive(Debug)]
pub enum SpaceTask {
    /// To make these bytes of the disk read as zeroes, durably.
    Zero(Range<u64>),
    /// To copy checksums.
    Carry(Carry),
}

/// A step of making room, and who is told what has to be done before the next one; `None`: there is
/// room.
pub(crate) struct SpaceRequest {
    /// Bytes of data that there is to be room for, on a file or device that is long enough.
    pub(crate) length: u64,
    pub(crate) step: SpaceStep,
    /// A view in which this replica is an idle spare, if there is one: unless it has adopted a
    /// later one, its own view and its bitmaps are of no use to anybody.
    pub(crate) spare_in: Option<Generation>,
    pub(crate) answer: Answer<Result<Option<SpaceTask>, EngineError>>,
}

/// Why a step could not be written.
#[derive(Debug)]
pub(crate) enum SpaceFailure {
    /// Nothing has changed.
    Unchanged(io::Error),
    /// What the superblocks hold is unknown.
    Unknown(io::Error),
}

impl fmt::Debug for SpaceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RoomRequest {{ length: {}, step: {:?} }}", self.length, self.step)
    }
}
