//! Which way a command's data goes, and how.

use super::MAX_TRANSFER;
use crate::nvme::command::{DataPointer, Direction, Entry, Fabrics, Status};

/// A command's data. Its length is at most [`MAX_TRANSFER`], and outside of capsules a multiple of
/// 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// It has none, or it takes none.
    None,
    /// So many bytes follow in its capsule: they come as events, without a request.
    InCapsule(u32),
    /// The host has so many bytes, which [`super::Connection::request`] asks for.
    OnRequest(u32),
    /// The host takes so many bytes.
    ToHost(u32),
}

impl Transfer {
    /// Bytes.
    #[must_use]
    pub const fn length(self) -> u32 {
        match self {
            Self::None => 0,
            Self::InCapsule(length) | Self::OnRequest(length) | Self::ToHost(length) => length,
        }
    }

    /// Of a command that has so many bytes in its capsule.
    ///
    /// # Errors
    /// The status to answer with, if its data pointer is wrong.
    pub(super) fn of(entry: &Entry, in_capsule: u32) -> Result<Self, Status> {
        // The type of a Fabrics command has the bits that the opcode of others has.
        let opcode =
            if entry.opcode == Fabrics::OPCODE { entry.namespace as u8 } else { entry.opcode };
        let to_host = match Direction::of(opcode) {
            // Its pointer has no meaning.
            Direction::None if in_capsule == 0 => return Ok(Self::None),
            Direction::None => return Err(Status::InvalidField),
            Direction::ToController => false,
            Direction::ToHost => true,
            Direction::Both => return Err(Status::InvalidOpcode),
        };
        let pointer = entry.pointer(in_capsule)?;
        if pointer.length() > MAX_TRANSFER {
            return Err(Status::InvalidField);
        }
        match pointer {
            DataPointer::InCapsule { length: 0 } | DataPointer::Transport { length: 0 } => {
                Ok(Self::None)
            }
            DataPointer::InCapsule { .. } if to_host => Err(Status::InvalidField),
            DataPointer::InCapsule { length } => Ok(Self::InCapsule(length)),
            // No PDU could carry it: lengths are in dwords there.
            DataPointer::Transport { length } if !length.is_multiple_of(4) => {
                Err(Status::DataLength)
            }
            DataPointer::Transport { length } if to_host => Ok(Self::ToHost(length)),
            DataPointer::Transport { length } => Ok(Self::OnRequest(length)),
        }
    }
}
