//! Requests: 28 bytes each, followed by the payload of a write.

use evenkeel_core::settings::MAX_REQUEST;
use thiserror::Error;

use super::Negotiated;

/// Bytes of a request's header.
pub const HEADER_LENGTH: usize = 28;

const MAGIC: u32 = 0x2560_9513;

const FLAG_FUA: u16 = 1 << 0;
const FLAG_NO_HOLE: u16 = 1 << 1;
const FLAG_DF: u16 = 1 << 2;
const FLAG_REQ_ONE: u16 = 1 << 3;
const FLAG_FAST_ZERO: u16 = 1 << 4;

/// The header of a request, as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Flags of the command.
    pub flags: u16,
    /// The command's number.
    pub command: u16,
    /// Chosen by the client; names the answer.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

/// The connection carries nothing that can be understood any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the client sent something that is not a request (it starts with {0:08x})")]
pub struct RequestFault(pub u32);

/// What a request asks for, once it is known to be permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Read,
    Write {
        durable: bool,
    },
    Zero {
        unmap: bool,
        durable: bool,
    },
    Flush,
    Status {
        only_one: bool,
    },
    /// The client will read this soon: nothing to do.
    Cache,
    Disconnect,
}

/// Errors as the protocol numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum ErrorNumber {
    NotPermitted = 1,
    Io = 5,
    Invalid = 22,
    NoSpace = 28,
    NotSupported = 95,
    Shutdown = 108,
}

impl Request {
    /// Reads a header.
    ///
    /// # Errors
    /// If these bytes are not a request.
    pub fn decode(bytes: &[u8; HEADER_LENGTH]) -> Result<Self, RequestFault> {
        let magic = u32::from_be_bytes(part(bytes, 0));
        if magic != MAGIC {
            return Err(RequestFault(magic));
        }
        Ok(Self {
            flags: u16::from_be_bytes(part(bytes, 4)),
            command: u16::from_be_bytes(part(bytes, 6)),
            cookie: u64::from_be_bytes(part(bytes, 8)),
            offset: u64::from_be_bytes(part(bytes, 16)),
            length: u32::from_be_bytes(part(bytes, 24)),
        })
    }

    /// Bytes that follow the header.
    #[must_use]
    pub const fn payload_length(&self) -> u32 {
        if self.command == 1 { self.length } else { 0 }
    }

    /// What is asked for; or the error to answer with.
    pub(super) fn check(&self, negotiated: &Negotiated) -> Result<Command, ErrorNumber> {
        let has = |flag| self.flags & flag != 0;
        let durable = has(FLAG_FUA);
        let (command, flags) = match self.command {
            0 => (Command::Read, FLAG_DF),
            1 => (Command::Write { durable }, 0),
            2 => return Ok(Command::Disconnect),
            3 => (Command::Flush, 0),
            4 => (Command::Zero { unmap: true, durable }, 0),
            5 => (Command::Cache, 0),
            6 => {
                let command = Command::Zero { unmap: !has(FLAG_NO_HOLE), durable };
                (command, FLAG_NO_HOLE | FLAG_FAST_ZERO)
            }
            7 if negotiated.block_status => {
                (Command::Status { only_one: has(FLAG_REQ_ONE) }, FLAG_REQ_ONE)
            }
            _ => return Err(ErrorNumber::Invalid),
        };
        if self.flags & !(flags | FLAG_FUA) != 0 || (has(FLAG_DF) && !negotiated.structured_replies)
        {
            return Err(ErrorNumber::Invalid);
        }
        self.check_permission(command, negotiated)?;
        self.check_range(command, negotiated)?;
        Ok(command)
    }

    fn check_permission(
        &self,
        command: Command,
        negotiated: &Negotiated,
    ) -> Result<(), ErrorNumber> {
        let export = &negotiated.export;
        match command {
            Command::Write { .. } | Command::Zero { .. } if export.read_only => {
                Err(ErrorNumber::NotPermitted)
            }
            // Space that must stay allocated may have to be written.
            Command::Zero { unmap, .. }
                if self.flags & FLAG_FAST_ZERO != 0 && !(export.fast_zeroes && unmap) =>
            {
                Err(ErrorNumber::NotSupported)
            }
            _ => Ok(()),
        }
    }

    fn check_range(&self, command: Command, negotiated: &Negotiated) -> Result<(), ErrorNumber> {
        let export = &negotiated.export;
        if command == Command::Flush {
            let is_whole = self.offset == 0 && self.length == 0;
            return if is_whole { Ok(()) } else { Err(ErrorNumber::Invalid) };
        }
        let unit = u64::from(export.block_size);
        let is_aligned = self.offset.is_multiple_of(unit)
            && u64::from(self.length).is_multiple_of(unit)
            && self.length > 0;
        let moves_data = matches!(command, Command::Read | Command::Write { .. });
        if !is_aligned || (moves_data && self.length > MAX_REQUEST) {
            return Err(ErrorNumber::Invalid);
        }
        let end = self.offset.checked_add(self.length.into());
        match (end.is_some_and(|end| end <= export.size), command) {
            (true, _) => Ok(()),
            (false, Command::Write { .. }) => Err(ErrorNumber::NoSpace),
            (false, Command::Zero { .. }) if self.command == 6 => Err(ErrorNumber::NoSpace),
            (false, _) => Err(ErrorNumber::Invalid),
        }
    }
}

fn part<const N: usize>(bytes: &[u8; HEADER_LENGTH], from: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[from..from + N]);
    part
}

#[cfg(test)]
mod tests;
