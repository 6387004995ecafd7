//! Data pointers: the two SGL descriptors that the transport permits (TCP 3.3.2).
//!
//! ```text
//! 0..8 address   8..12 length   15 descriptor type and sub type
//! ```

use evenkeel_format::bytes::Reader;

use super::Status;

/// PSDT: an SGL, with a contiguous buffer for metadata. PRPs do not exist over fabrics.
const SGL: u8 = 1;
/// SGL Data Block, sub type Offset: data in the capsule.
const IN_CAPSULE: u8 = 0x01;
/// Transport SGL Data Block, sub type of the transport: data in PDUs of its own.
const TRANSPORT: u8 = 0x5a;

/// Where a command's data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataPointer {
    /// In the capsule, whose data it is, all of it.
    InCapsule {
        /// Bytes.
        length: u32,
    },
    /// In data PDUs of its own.
    Transport {
        /// Bytes; may be 0.
        length: u32,
    },
}

impl DataPointer {
    /// Reads a descriptor of a command that has so many bytes of data in its capsule.
    pub(super) fn read(kind: u8, bytes: &[u8; 16], in_capsule: u32) -> Result<Self, Status> {
        if kind != SGL {
            return Err(Status::InvalidField);
        }
        let mut reader = Reader::new(bytes);
        let address = reader.u64().map_err(|_| Status::Internal)?;
        let length = reader.u32().map_err(|_| Status::Internal)?;
        match bytes[15] {
            IN_CAPSULE => Self::in_capsule(address, length, in_capsule),
            // Data that nothing points to.
            TRANSPORT if in_capsule > 0 => Err(Status::InvalidField),
            TRANSPORT => Ok(Self::Transport { length }),
            _ => Err(Status::DescriptorType),
        }
    }

    /// Nothing precedes or follows a command's data in its capsule (TCP 3.3.1).
    fn in_capsule(address: u64, length: u32, in_capsule: u32) -> Result<Self, Status> {
        if address != 0 {
            return Err(Status::DescriptorOffset);
        }
        if length != in_capsule {
            return Err(Status::DataLength);
        }
        Ok(Self::InCapsule { length })
    }

    /// Bytes of data.
    #[must_use]
    pub const fn length(&self) -> u32 {
        match *self {
            Self::InCapsule { length } | Self::Transport { length } => length,
        }
    }
}

#[cfg(test)]
mod tests;
