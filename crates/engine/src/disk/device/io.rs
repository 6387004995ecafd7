//! What a disk asks of the system: operations that end later ([`Io`]), and calls that block
//! ([`Access`]).
//!
//! The ring and open files implement them; so does the device of the simulation, under the same
//! disk.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use evenkeel_format::SuperblockBytes;
use rustix::fs::{SeekFrom, fdatasync, seek};
use rustix::io::{Errno, retry_on_intr};

use super::drive::Drive;
use crate::memory::{Buffer, BufferMut};
use crate::ring::{Owner, Ring, SharedFile};

/// Begins operations on files and devices. Each ends with one [`crate::ring::Completion`] that
/// names its owner, in any order; its result is what the system call would have returned, so it may
/// have done a part only. Offsets count from the start of the file, in bytes.
pub(crate) trait Io {
    /// A file or device that was opened.
    type File: Access + Clone + Send + 'static;

    /// Reads into this range of the memory.
    fn read(
        &mut self,
        owner: Owner,
        file: &Self::File,
        memory: BufferMut,
        range: Range<usize>,
        offset: u64,
    );

    /// Writes the data without its first `skip` bytes.
    fn write(&mut self, owner: Owner, file: &Self::File, data: Buffer, skip: usize, offset: u64);

    /// The same, and durable when it has ended.
    fn write_durably(
        &mut self,
        owner: Owner,
        file: &Self::File,
        data: Buffer,
        skip: usize,
        offset: u64,
    );

    /// Writes a superblock without its first `skip` bytes, which belongs there from `offset` on.
    fn write_superblock(
        &mut self,
        owner: Owner,
        file: &Self::File,
        bytes: Box<SuperblockBytes>,
        skip: usize,
        offset: u64,
    );

    /// Makes durable what was written by operations that ended before.
    fn flush(&mut self, owner: Owner, file: &Self::File);

    /// Makes a range read as zeroes, by one of the ways of `fallocate`.
    fn fallocate(&mut self, owner: Owner, file: &Self::File, mode: i32, offset: u64, length: u64);
}

impl Io for Ring {
    type File = SharedFile;

    fn read(
        &mut self,
        owner: Owner,
        file: &SharedFile,
        memory: BufferMut,
        range: Range<usize>,
        offset: u64,
    ) {
        Ring::read(self, owner, file, memory, range, offset);
    }

    fn write(&mut self, owner: Owner, file: &SharedFile, data: Buffer, skip: usize, offset: u64) {
        Ring::write(self, owner, file, data, skip, offset);
    }

    fn write_durably(
        &mut self,
        owner: Owner,
        file: &SharedFile,
        data: Buffer,
        skip: usize,
        offset: u64,
    ) {
        Ring::write_durably(self, owner, file, data, skip, offset);
    }

    fn write_superblock(
        &mut self,
        owner: Owner,
        file: &SharedFile,
        bytes: Box<SuperblockBytes>,
        skip: usize,
        offset: u64,
    ) {
        Ring::write_superblock(self, owner, file, bytes, skip, offset);
    }

    fn flush(&mut self, owner: Owner, file: &SharedFile) {
        Ring::flush(self, owner, file);
    }

    fn fallocate(&mut self, owner: Owner, file: &SharedFile, mode: i32, offset: u64, length: u64) {
        Ring::fallocate(self, owner, file, mode, offset, length);
    }
}

/// Calls on a file or device that block: while a replica is opened, and by a disk's helper.
pub(crate) trait Access {
    /// Reads at this byte; `Ok(0)` at the end of the file.
    fn read_some(&self, memory: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at this byte.
    fn write_some(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes durable what was written before. A failure counts for all replicas on the same drive.
    fn flush(&self) -> io::Result<()>;

    /// Where data may begin, at this byte or later; `None`: there are none up to the end.
    fn next_data(&self, from: u64) -> io::Result<Option<u64>>;

    /// Where the next hole begins, at this byte or later; `None`: the file ends before.
    fn next_hole(&self, from: u64) -> io::Result<Option<u64>>;
}

/// Makes durable what was written to a file or device on a drive of replicas. If that fails, all of
/// them are told: the drive may have lost what they have written.
///
/// # Errors
/// As `fdatasync`.
pub fn flush(file: impl AsFd) -> io::Result<()> {
    let result = retry_on_intr(|| fdatasync(&file));
    if result.is_err() {
        Drive::of(&file)?.flush_failed();
    }
    Ok(result?)
}

impl<F: AsFd> Access for F {
    fn read_some(&self, memory: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pread(self, memory, offset)?)
    }

    fn write_some(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pwrite(self, bytes, offset)?)
    }

    fn flush(&self) -> io::Result<()> {
        flush(self)
    }

    fn next_data(&self, from: u64) -> io::Result<Option<u64>> {
        found(seek(self, SeekFrom::Data(from)))
    }

    fn next_hole(&self, from: u64) -> io::Result<Option<u64>> {
        found(seek(self, SeekFrom::Hole(from)))
    }
}

fn found(sought: Result<u64, Errno>) -> io::Result<Option<u64>> {
    match sought {
        Ok(at) => Ok(Some(at)),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
