//! Where a replica's data lies on its disk, and how the disk wants to be addressed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use evenkeel_core::Payload;
use evenkeel_format::Superblock;
use rustix::fs::{AtFlags, FileType, OFlags, StatxFlags, fcntl_getfl, fstat, fstatfs, statx};

use crate::memory::{Buffer, Pool};

/// See the module's documentation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    offset: u64,
    length: u64,
    /// The smallest unit of input and output, in bytes.
    block: u32,
    /// What addresses in memory must be multiples of.
    memory: u32,
    /// Whether it is a block device, not a file.
    is_device: bool,
    /// Whether the kernel may block who submits a read or write: a file of FUSE does not heed that
    /// it is not to.
    submission_blocks: bool,
}

/// The type of filesystem that FUSE names.
const FUSE: u64 = 0x6573_5546;

/// The smallest unit of input and output of a file or block device as it was opened, in bytes: a
/// volume whose block size is smaller cannot have a replica there.
///
/// # Errors
/// If the system can't tell.
pub fn smallest_block(file: impl AsFd) -> io::Result<u32> {
    alignment(file.as_fd()).map(|(_, block)| block)
}

/// What addresses in memory, and offsets and lengths, must be multiples of.
fn alignment(file: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    if !fcntl_getfl(file)?.contains(OFlags::DIRECT) {
        return Ok((1, 512));
    }
    let stat = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)?;
    if stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0 && stat.stx_dio_offset_align != 0 {
        let memory = stat.stx_dio_mem_align.max(1);
        return Ok((memory, stat.stx_dio_offset_align.max(512)));
    }
    if FileType::from_raw_mode(fstat(file)?.st_mode) == FileType::BlockDevice {
        let block = rustix::fs::ioctl_blksszget(file)?;
        return Ok((block, block));
    }
    probe(file)
}

/// Filesystems that do not tell are asked by reading 512 bytes at an odd place.
fn probe(file: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let mut buffer = Pool::new(0).take(4096);
    match rustix::io::pread(file, &mut buffer[512..1024], 512) {
        Ok(_) => Ok((512, 512)),
        Err(rustix::io::Errno::INVAL) => Ok((4096, 4096)),
        Err(error) => Err(error.into()),
    }
}

impl Layout {
    /// The smallest unit of input and output, in bytes.
    pub(crate) const fn block(&self) -> u32 {
        self.block
    }

    /// Whether it is a block device, not a file.
    pub(in crate::disk) const fn is_device(&self) -> bool {
        self.is_device
    }

    /// As the system tells it. Blocks on the disk.
    pub(crate) fn of(file: impl AsFd, superblock: &Superblock) -> io::Result<Self> {
        let (memory, block) = alignment(file.as_fd())?;
        let mode = fstat(file.as_fd())?.st_mode;
        Ok(Self {
            offset: superblock.data_offset,
            length: superblock.data_length,
            block,
            memory,
            is_device: FileType::from_raw_mode(mode) == FileType::BlockDevice,
            submission_blocks: fstatfs(file.as_fd())
                .map_or(true, |found| found.f_type as u64 == FUSE),
        })
    }

    /// Whether the kernel may block who submits a read or write.
    pub(crate) const fn submission_blocks(&self) -> bool {
        self.submission_blocks
    }

    /// Of a device that is simulated.
    #[cfg(test)]
    pub(in crate::disk) const fn simulated(superblock: &Superblock, is_device: bool) -> Self {
        Self {
            offset: superblock.data_offset,
            length: superblock.data_length,
            block: 512,
            memory: 1,
            is_device,
            submission_blocks: false,
        }
    }

    pub(in crate::disk) const fn holds(&self, offset: u64, length: u64) -> bool {
        match offset.checked_add(length) {
            Some(end) => end <= self.length,
            None => false,
        }
    }

    /// Bytes of data.
    pub(in crate::disk) const fn length(&self) -> u64 {
        self.length
    }

    pub(in crate::disk) const fn set_length(&mut self, length: u64) {
        self.length = length;
    }

    pub(in crate::disk) const fn on_disk(&self, offset: u64) -> u64 {
        self.offset + offset
    }

    /// The payload itself if it lies in memory as the disk wants it, or else a copy.
    pub(in crate::disk) fn aligned(&self, pool: &Pool, payload: Buffer) -> Buffer {
        if (payload.as_ptr() as usize).is_multiple_of(self.memory as usize) {
            return payload;
        }
        let mut copy = pool.take(payload.length() as usize);
        copy.copy_from_slice(&payload);
        copy.freeze()
    }
}
