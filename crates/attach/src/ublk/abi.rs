//! The numbers and structures that the driver `ublk_drv` and its servers share, as in the kernel's
//! `include/uapi/linux/ublk_cmd.h`. No input or output is done here.

/// Requests of one device that may be under way.
pub const QUEUE_DEPTH: u16 = 128;
/// The longest read or write, in bytes.
pub const MAX_TRANSFER: u32 = 1 << 20;
/// The most that one discard or zeroing covers, in sectors of 512 bytes (2 GiB).
const MAX_DISCARD: u32 = 1 << 22;
/// The unit of discards, in bytes.
const DISCARD_UNIT: u32 = 4096;

const fn ioctl(direction: u32, number: u32, size: u32) -> u32 {
    (direction << 30) | (size << 16) | ((b'u' as u32) << 8) | number
}

/// Commands to `/dev/ublk-control`.
pub mod control {
    use super::{ControlCommand, ioctl};

    const SIZE: u32 = size_of::<ControlCommand>() as u32;
    pub const GET_DEVICE: u32 = ioctl(2, 0x02, SIZE);
    pub const ADD: u32 = ioctl(3, 0x04, SIZE);
    pub const DELETE: u32 = ioctl(3, 0x05, SIZE);
    pub const START: u32 = ioctl(3, 0x06, SIZE);
    pub const STOP: u32 = ioctl(3, 0x07, SIZE);
    pub const SET_PARAMETERS: u32 = ioctl(3, 0x08, SIZE);
    pub const START_RECOVERY: u32 = ioctl(3, 0x10, SIZE);
    pub const END_RECOVERY: u32 = ioctl(3, 0x11, SIZE);
    pub const GET_FEATURES: u32 = ioctl(2, 0x13, SIZE);
    pub const DELETE_LATER: u32 = ioctl(2, 0x14, SIZE);
}

/// Commands to a device.
pub mod request {
    use super::ioctl;

    const SIZE: u32 = 16;
    /// Gives one tag to the kernel to use for a request.
    pub const FETCH: u32 = ioctl(3, 0x20, SIZE);
    /// Ends a request, and gives its tag back to the kernel.
    pub const COMMIT_AND_FETCH: u32 = ioctl(3, 0x21, SIZE);
}

/// Abilities of the driver and of a device.
pub mod feature {
    /// The device outlives its server.
    pub const USER_RECOVERY: u64 = 1 << 3;
    /// Requests that the killed server had are given to the next one.
    pub const USER_RECOVERY_REISSUE: u64 = 1 << 4;
    /// Commands have the numbers that are used here.
    pub const IOCTL_ENCODE: u64 = 1 << 6;
    /// Data are copied by reading and writing the device.
    pub const USER_COPY: u64 = 1 << 7;

    /// The features without which a ublk device is not used.
    pub const NEEDED: u64 = USER_RECOVERY | USER_RECOVERY_REISSUE | IOCTL_ENCODE | USER_COPY;
}

/// The state of a device.
pub mod state {
    /// Served.
    pub const LIVE: u16 = 1;
    /// Its server has died; requests wait.
    pub const QUIESCED: u16 = 2;
}

/// `struct ublksrv_ctrl_cmd`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct ControlCommand {
    pub device: u32,
    pub queue: u16,
    pub length: u16,
    pub address: u64,
    pub data: u64,
    pub path_length: u16,
    pub padding: u16,
    pub reserved: u32,
}

impl ControlCommand {
    /// The bytes of the command, in the room that a ring's entry has for them.
    pub fn bytes(&self) -> [u8; 80] {
        let mut bytes = [0; 80];
        bytes[..4].copy_from_slice(&self.device.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.queue.to_ne_bytes());
        bytes[6..8].copy_from_slice(&self.length.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.address.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.data.to_ne_bytes());
        bytes
    }
}

/// `struct ublksrv_ctrl_dev_info`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct DeviceInformation {
    pub queues: u16,
    pub queue_depth: u16,
    pub state: u16,
    pub padding0: u16,
    pub max_transfer: u32,
    pub device: u32,
    pub server: i32,
    pub padding1: u32,
    pub flags: u64,
    pub server_flags: u64,
    pub owner: [u32; 2],
    pub reserved: [u64; 2],
}

/// `struct ublk_params`, as far as it is used: its basic part and its part on discards.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Parameters {
    length: u32,
    types: u32,
    attributes: u32,
    logical_block_shift: u8,
    physical_block_shift: u8,
    optimal_shift: u8,
    minimal_shift: u8,
    max_sectors: u32,
    chunk_sectors: u32,
    sectors: u64,
    boundary_mask: u64,
    discard_alignment: u32,
    discard_unit: u32,
    max_discard: u32,
    max_zeroing: u32,
    discard_segments: u16,
    reserved: u16,
    padding: u32,
}

const _: () = assert!(size_of::<ControlCommand>() == 32);
const _: () = assert!(size_of::<DeviceInformation>() == 64);
const _: () = assert!(size_of::<Parameters>() == 64);

const TYPE_BASIC: u32 = 1 << 0;
const TYPE_DISCARD: u32 = 1 << 1;
const ATTRIBUTE_VOLATILE_CACHE: u32 = 1 << 2;
const ATTRIBUTE_FUA: u32 = 1 << 3;

impl Parameters {
    /// Those of a device of `size` bytes with a volatile cache, flushes, FUA and discards.
    pub fn of(size: u64, block_size: u32) -> Self {
        let shift = block_size.trailing_zeros() as u8;
        Self {
            // The last field is padding of this structure, not a part of theirs.
            length: size_of::<Self>() as u32 - 4,
            types: TYPE_BASIC | TYPE_DISCARD,
            attributes: ATTRIBUTE_VOLATILE_CACHE | ATTRIBUTE_FUA,
            logical_block_shift: shift,
            physical_block_shift: 12,
            optimal_shift: 12,
            minimal_shift: shift.max(12),
            max_sectors: MAX_TRANSFER / 512,
            sectors: size / 512,
            discard_unit: DISCARD_UNIT,
            max_discard: MAX_DISCARD,
            max_zeroing: MAX_DISCARD,
            discard_segments: 1,
            ..Self::default()
        }
    }
}

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Read data.
    Read,
    /// Write data.
    Write {
        /// Acknowledge when durable.
        durable: bool,
    },
    /// Make acknowledged writes durable.
    Flush,
    /// Make a range read as zeroes.
    Zero {
        /// Whether space may be given back.
        unmap: bool,
        /// Acknowledge when durable.
        durable: bool,
    },
    /// Something else.
    Unknown,
}

/// A request, as the driver describes it (`struct ublksrv_io_desc`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Description {
    operation: u32,
    sectors: u32,
    start: u64,
    address: u64,
}

const _: () = assert!(size_of::<Description>() == 24);

impl Description {
    /// The operation with its flags.
    pub fn kind(&self) -> Kind {
        let durable = self.operation & (1 << 13) != 0;
        match self.operation & 0xff {
            0 => Kind::Read,
            1 => Kind::Write { durable },
            2 => Kind::Flush,
            3 => Kind::Zero { unmap: true, durable },
            5 => Kind::Zero { unmap: self.operation & (1 << 15) == 0, durable },
            _ => Kind::Unknown,
        }
    }

    /// First byte and bytes, if they are inside a volume of `size` bytes.
    pub fn range(&self, size: u64) -> Option<(u64, u64)> {
        let offset = self.start.checked_mul(512)?;
        let length = u64::from(self.sectors) * 512;
        (offset.checked_add(length)? <= size).then_some((offset, length))
    }
}

/// Bytes of the descriptions of one device's requests, to be mapped.
pub fn descriptions_length() -> usize {
    (usize::from(QUEUE_DEPTH) * size_of::<Description>())
        .next_multiple_of(rustix::param::page_size())
}

/// Where the data of a request are in the device's character device.
pub fn data_offset(tag: u16) -> u64 {
    0x8000_0000 + (u64::from(tag) << 25)
}

/// The argument of a command for one tag (`struct ublksrv_io_cmd`).
pub fn argument(tag: u16, result: i32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
    bytes[4..8].copy_from_slice(&result.to_ne_bytes());
    bytes
}

#[cfg(test)]
pub fn description(operation: u32, sectors: u32, start: u64) -> Description {
    Description { operation, sectors, start, address: 0 }
}

#[cfg(test)]
mod tests;
