//! Commands of an I/O queue (NVM 3): what a host asks of a volume, checked before anything begins.
//!
//! [`Ask::read`] takes a command apart. What it accepts lies inside the namespace, has as much data
//! as its blocks, and uses nothing that Identify doesn't announce. The data of a Dataset Management
//! command is read by [`ranges`]. [`status()`] says how a command ends that the volume refuses.

use evenkeel_core::RequestError;
use evenkeel_format::bytes::Reader;

use super::command::{Entry, Fuse, Nvm, Status};
use super::connection::{MAX_TRANSFER, Transfer};
use super::controller::{NAMESPACE, Namespace};
use super::reservation::{self, Reserve};

/// Most ranges of one Dataset Management command (NVM 3.3.3).
pub const MAX_RANGES: usize = 256;
/// Most bytes that are compared and written at once. Identify says so (ACWU).
pub const MAX_FUSED: u32 = 64 << 10;
/// Bytes of a range: attributes, blocks, first block.
const RANGE_LENGTH: usize = 16;

/// What a command asks of the volume. Offsets and lengths are in bytes, inside the namespace, and
/// multiples of its block size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Makes durable what was acknowledged (NVM 3.3.4, Base 7.2).
    Flush,
    /// Reads (NVM 3.3.6).
    Read {
        /// First byte.
        offset: u64,
        /// Bytes; at most [`MAX_TRANSFER`].
        length: u32,
    },
    /// Writes the command's data (NVM 3.3.8).
    Write {
        /// First byte.
        offset: u64,
        /// Bytes; at most [`MAX_TRANSFER`].
        length: u32,
        /// FUA: whether it is to be durable before it is acknowledged.
        durable: bool,
    },
    /// Compares with the command's data (NVM 3.3.1).
    Compare {
        /// First byte.
        offset: u64,
        /// Bytes; at most [`MAX_TRANSFER`].
        length: u32,
    },
    /// The first half of Compare and Write (Base 3.4.2): the second half's data is written if the
    /// volume holds this command's data.
    FusedCompare {
        /// First byte.
        offset: u64,
        /// Bytes; at most [`MAX_FUSED`].
        length: u32,
    },
    /// The second half of Compare and Write.
    FusedWrite {
        /// First byte.
        offset: u64,
        /// Bytes; at most [`MAX_FUSED`].
        length: u32,
        /// FUA: whether it is to be durable before it is acknowledged.
        durable: bool,
    },
    /// Makes a range read as zeroes (NVM 3.3.9).
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes; at most 65,536 blocks.
        length: u64,
        /// DEAC: whether the disk space may be given back.
        deallocate: bool,
        /// FUA: whether it is to be durable before it is acknowledged.
        durable: bool,
    },
    /// Reads without giving the data to the host (NVM 3.3.7).
    Verify {
        /// First byte.
        offset: u64,
        /// Bytes; at most [`MAX_TRANSFER`].
        length: u32,
    },
    /// Says how ranges will be used, which its data names (NVM 3.3.3).
    Manage {
        /// How many; 1 to [`MAX_RANGES`].
        ranges: usize,
        /// AD: they may be deallocated. Otherwise there is nothing to do.
        deallocate: bool,
    },
    /// Changes the reservations of the volume (Base 7.5 to 7.7); its data has the keys.
    Reserve(Reserve),
    /// Reports the reservations of the volume (Base 7.8).
    Report {
        /// Bytes that the host takes; at most [`MAX_TRANSFER`].
        length: u32,
    },
}

impl Ask {
    /// Reads a command of an I/O queue that isn't a Fabrics command.
    ///
    /// # Errors
    /// The status to answer with. A command with unsupported fields is refused, even where hosts
    /// would not notice: limited retry, hints and the expected tags of protection information,
    /// which ask for nothing that could be missed, are the exception.
    pub fn read(entry: &Entry, transfer: Transfer, namespace: &Namespace) -> Result<Self, Status> {
        let command = Nvm::from_number(entry.opcode).ok_or(Status::InvalidOpcode)?;
        if command.is_about_reservations() && !namespace.has_reservations {
            return Err(Status::InvalidOpcode);
        }
        let fuse = entry.fuse()?;
        // Compare and Write is the only fused operation.
        if !matches!(
            (fuse, command),
            (Fuse::None, _) | (Fuse::First, Nvm::Compare) | (Fuse::Second, Nvm::Write)
        ) {
            return Err(Status::InvalidField);
        }
        // A flush may name all namespaces, as the field VWC of Identify says.
        let is_all = command == Nvm::Flush && entry.namespace == u32::MAX;
        if entry.namespace != NAMESPACE && !is_all {
            return Err(Status::InvalidNamespace);
        }
        match command {
            Nvm::Flush if transfer == Transfer::None => Ok(Self::Flush),
            Nvm::Flush => Err(Status::InvalidField),
            Nvm::DatasetManagement => Self::manage(entry, transfer, namespace),
            Nvm::ReservationReport => {
                Ok(Self::Report { length: reservation::report_length(entry, transfer)? })
            }
            Nvm::ReservationRegister | Nvm::ReservationAcquire | Nvm::ReservationRelease => {
                Reserve::read(command, entry, transfer).map(Self::Reserve)
            }
            _ if fuse == Fuse::None => Self::on_blocks(command, entry, transfer, namespace),
            _ => Self::on_blocks(command, entry, transfer, namespace)?.fused(),
        }
    }

    /// As a half of Compare and Write.
    const fn fused(self) -> Result<Self, Status> {
        match self {
            Self::Compare { length, .. } | Self::Write { length, .. } if length > MAX_FUSED => {
                Err(Status::AtomicUnitExceeded)
            }
            Self::Compare { offset, length } => Ok(Self::FusedCompare { offset, length }),
            Self::Write { offset, length, durable } => {
                Ok(Self::FusedWrite { offset, length, durable })
            }
            _ => Err(Status::InvalidField),
        }
    }

    fn manage(entry: &Entry, transfer: Transfer, namespace: &Namespace) -> Result<Self, Status> {
        let ranges = usize::from(entry.words[0] as u8) + 1;
        // Linux gives the length of a full list, however many ranges it names.
        let length = transfer.length() as usize;
        if !(ranges * RANGE_LENGTH..=MAX_RANGES * RANGE_LENGTH).contains(&length) {
            return Err(Status::DataLength);
        }
        let deallocate = entry.words[1] & 1 << 2 != 0;
        if deallocate && namespace.is_read_only {
            return Err(Status::WriteProtected);
        }
        Ok(Self::Manage { ranges, deallocate })
    }

    fn on_blocks(
        command: Nvm,
        entry: &Entry,
        transfer: Transfer,
        namespace: &Namespace,
    ) -> Result<Self, Status> {
        let durable = entry.words[2] & Blocks::DURABLE != 0;
        let deallocate = entry.words[2] & Blocks::DEALLOCATE != 0;
        let blocks = Blocks::read(command, entry)?;
        let (offset, length) = blocks.inside(namespace)?;
        if matches!(command, Nvm::Write | Nvm::WriteZeroes) && namespace.is_read_only {
            return Err(Status::WriteProtected);
        }
        if command == Nvm::WriteZeroes {
            return match transfer {
                Transfer::None => Ok(Self::Zero { offset, length, deallocate, durable }),
                _ => Err(Status::InvalidField),
            };
        }
        let length = u32::try_from(length).map_err(|_| Status::InvalidField)?;
        if length > MAX_TRANSFER {
            return Err(Status::InvalidField);
        }
        let data = if command == Nvm::Verify { 0 } else { length };
        if transfer.length() != data {
            return Err(Status::DataLength);
        }
        Ok(match command {
            Nvm::Read => Self::Read { offset, length },
            Nvm::Write => Self::Write { offset, length, durable },
            Nvm::Compare => Self::Compare { offset, length },
            _ => Self::Verify { offset, length },
        })
    }
}

/// The blocks of a command (SLBA, NLB).
struct Blocks {
    first: u64,
    count: u64,
}

impl Blocks {
    /// Bits of dword 12: FUA, and DEAC of Write Zeroes.
    const DURABLE: u32 = 1 << 30;
    const DEALLOCATE: u32 = 1 << 25;
    /// PRINFO and STC: there is no protection information. DTYPE: there are no directives.
    const UNSUPPORTED: u32 = 0xf << 26 | 1 << 24 | 0xf << 20;

    fn read(command: Nvm, entry: &Entry) -> Result<Self, Status> {
        let [low, high, flags, ..] = entry.words;
        // Bit 25 has a meaning for Write Zeroes only.
        let deallocate = if command == Nvm::WriteZeroes { 0 } else { Self::DEALLOCATE };
        if flags & (Self::UNSUPPORTED | deallocate) != 0 {
            return Err(Status::InvalidField);
        }
        let first = u64::from(high) << 32 | u64::from(low);
        Ok(Self { first, count: u64::from(flags as u16) + 1 })
    }

    /// First byte, and bytes.
    fn inside(&self, namespace: &Namespace) -> Result<(u64, u64), Status> {
        let size = u64::from(namespace.block_size);
        let blocks = namespace.size / size;
        if self.first > blocks || self.count > blocks - self.first {
            return Err(Status::OutOfRange);
        }
        Ok((self.first * size, self.count * size))
    }
}

/// The first so many ranges in the data of a Dataset Management command, each as its first byte and
/// its bytes, without those that are empty. Nothing is to be done if one of them is wrong.
///
/// # Errors
/// [`Status::DataLength`] if there are fewer, [`Status::OutOfRange`] if one isn't inside the
/// namespace.
pub fn ranges(data: &[u8], count: usize, namespace: &Namespace) -> Result<Vec<(u64, u64)>, Status> {
    let mut reader = Reader::new(data);
    let mut ranges = Vec::with_capacity(count.min(MAX_RANGES));
    for _ in 0..count.min(MAX_RANGES) {
        // Attributes are hints.
        reader.u32().map_err(|_| Status::DataLength)?;
        let count = reader.u32().map_err(|_| Status::DataLength)?.into();
        let first = reader.u64().map_err(|_| Status::DataLength)?;
        let range = Blocks { first, count }.inside(namespace)?;
        if count > 0 {
            ranges.push(range);
        }
    }
    Ok(ranges)
}

/// How a command ends that the volume refuses. `reads` says whether it is one that reads.
///
/// A host may repeat elsewhere what this path can't do. What another path can't do either, or what
/// the host's user has to learn of, is final.
#[must_use]
pub const fn status(error: RequestError, reads: bool) -> Status {
    match error {
        RequestError::Invalid => Status::InvalidField,
        RequestError::Medium | RequestError::LostWrites if reads => Status::Unrecovered,
        RequestError::Medium | RequestError::LostWrites => Status::WriteFault,
        RequestError::NoSpace => Status::CapacityExceeded,
        RequestError::NoData
        | RequestError::NoCoordinator
        | RequestError::Fenced
        | RequestError::Detached => Status::InternalPath,
        RequestError::Reserved => Status::ReservationConflict,
        RequestError::Cancelled => Status::AbortRequested,
    }
}

#[cfg(test)]
mod tests;
