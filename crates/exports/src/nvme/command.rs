//! Commands and completions as they travel in capsules (Base 4.1, 4.2): types, and the status with
//! which an entry that is wrong is answered.

mod fabrics;
mod opcode;
mod pointer;
mod security;
mod status;

pub use fabrics::{CONNECT_DATA_LENGTH, Connect, ConnectData, Fabrics, Refusal};
pub use opcode::{Admin, Direction, Nvm};
pub use pointer::DataPointer;
pub use security::Security;
pub use status::Status;

use evenkeel_format::bytes::Reader;

/// Bytes of a submission queue entry.
pub const ENTRY_LENGTH: usize = 64;
/// Bytes of a completion queue entry.
pub const COMPLETION_LENGTH: usize = 16;

/// Whether a command is one half of a fused operation (Base 3.4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fuse {
    /// It stands for itself.
    None,
    /// It is the first of two.
    First,
    /// It is the second of two.
    Second,
}

/// A submission queue entry (Base 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// OPC: what is asked for; see [`Admin`] and [`Nvm`].
    pub opcode: u8,
    flags: u8,
    /// CID: chosen by the host; names the completion.
    pub identifier: u16,
    /// NSID. Of a Fabrics command it holds the type.
    pub namespace: u32,
    pointer: [u8; 16],
    /// Dwords 10 to 15, whose meaning depends on the command.
    pub words: [u32; 6],
}

impl Entry {
    /// Reads one. Any bytes are an entry; its parts are checked when they are asked for.
    #[must_use]
    pub fn read(bytes: &[u8; ENTRY_LENGTH]) -> Self {
        let word = |index: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[index * 4..index * 4 + 4]);
            u32::from_le_bytes(word)
        };
        let mut pointer = [0; 16];
        pointer.copy_from_slice(&bytes[24..40]);
        Self {
            opcode: bytes[0],
            flags: bytes[1],
            identifier: u16::from_le_bytes([bytes[2], bytes[3]]),
            namespace: word(1),
            pointer,
            words: [word(10), word(11), word(12), word(13), word(14), word(15)],
        }
    }

    /// Its part in a fused operation.
    ///
    /// # Errors
    /// [`Status::InvalidField`] if the value is reserved.
    pub const fn fuse(&self) -> Result<Fuse, Status> {
        match self.flags & 3 {
            0 => Ok(Fuse::None),
            1 => Ok(Fuse::First),
            2 => Ok(Fuse::Second),
            _ => Err(Status::InvalidField),
        }
    }

    /// Where its data is, if so many bytes came in its capsule.
    ///
    /// # Errors
    /// The status to answer with if the pointer is none that this transport permits.
    pub fn pointer(&self, in_capsule: u32) -> Result<DataPointer, Status> {
        DataPointer::read(self.flags >> 6, &self.pointer, in_capsule)
    }
}

/// A completion queue entry (Base 4.2). The fields for the queue's identifier and the phase have no
/// meaning over fabrics, and are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Dwords 0 and 1, whose meaning depends on the command.
    pub result: u64,
    /// SQHD: how far the submission queue has been consumed.
    pub head: u16,
    /// CID: which command has ended.
    pub identifier: u16,
    /// SC and SCT: success, or what was wrong.
    pub status: Status,
    /// DNR: whether the same command would fail again.
    pub is_final: bool,
}

impl Completion {
    const FINAL: u16 = 1 << 15;

    /// The bytes of a capsule.
    #[must_use]
    pub fn bytes(&self) -> [u8; COMPLETION_LENGTH] {
        let mut bytes = [0; COMPLETION_LENGTH];
        let status = (self.status.number() << 1) | if self.is_final { Self::FINAL } else { 0 };
        bytes[..8].copy_from_slice(&self.result.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.head.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.identifier.to_le_bytes());
        bytes[14..].copy_from_slice(&status.to_le_bytes());
        bytes
    }

    /// Reads one, as an initiator does; `None` if its status is unknown here.
    #[must_use]
    pub fn read(bytes: &[u8; COMPLETION_LENGTH]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let result = reader.u64().ok()?;
        let head = reader.u16().ok()?;
        reader.u16().ok()?;
        let identifier = reader.u16().ok()?;
        let status = reader.u16().ok()?;
        Some(Self {
            result,
            head,
            identifier,
            status: Status::from_number((status >> 1) & 0x7ff)?,
            is_final: status & Self::FINAL != 0,
        })
    }
}

#[cfg(test)]
mod tests;
