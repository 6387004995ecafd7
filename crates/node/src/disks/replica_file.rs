//! What files and devices that hold a replica have in common.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use evenkeel_api::sizes::compared;
use evenkeel_format::{
    ALLOCATION_OFFSET, AllocationMap, COPY_A_OFFSET, COPY_B_OFFSET, Newest, NewestError,
    SUPERBLOCK_LENGTH, Superblock, SuperblockBytes, SuperblockCopy, disk_length, newest,
};
use rustix::fs::{FlockOperation, OFlags, flock};

use super::states::KnownState;
use super::{Known, OpenReplica, probe};

/// Opens for direct I/O, with further flags.
pub(super) fn open_direct(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = (flags | OFlags::DIRECT | OFlags::CLOEXEC).bits();
    OpenOptions::new().read(true).write(true).custom_flags(flags.cast_signed()).open(path)
}

/// Takes the lock that keeps a second process away. `false`: somebody else has it.
pub(super) fn lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Opens for reading what may be in use: without a lock, and past the page cache where that is
/// possible, so that what others write past it is seen.
pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    let open = |direct: OFlags| {
        // A pipe that was named by mistake does not make us wait.
        let flags = direct | OFlags::CLOEXEC | OFlags::NONBLOCK;
        OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
    };
    match open(OFlags::DIRECT) {
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => open(OFlags::empty()),
        opened => opened,
    }
}

/// The newest superblock of a replica that may be in use. `None`: it cannot be read.
pub(super) fn read_newest(path: &Path) -> Option<Superblock> {
    let file = open_to_read(path).ok()?;
    let copies = [COPY_A_OFFSET, COPY_B_OFFSET].map(|offset| read_copy(&file, offset));
    newest(&copies[0], &copies[1]).ok().map(|newest| newest.superblock)
}

/// Why a replica cannot be read from an opened file or device.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// What is there is no replica, or a damaged one: it does not become another one by itself.
    Content(NewestError),
    /// The system reports an error: nothing is known of the content.
    System(io::Error),
}

/// Reads the superblocks of an opened and locked file or device.
///
/// One of them is enough: whatever this replica has told of was in both, and the engine brings them
/// together again before the replica is used.
pub(super) fn inspect(
    file: File,
    path: &Path,
    device: bool,
    block_size: u32,
) -> Result<Result<OpenReplica, Known>, Unreadable> {
    let (a, b) = (try_read_copy(&file, COPY_A_OFFSET), try_read_copy(&file, COPY_B_OFFSET));
    let bytes = [&a, &b].map(|copy| copy.as_deref().unwrap_or_default());
    let newest = match (newest(bytes[0], bytes[1]), a, b) {
        (Ok(newest), ..) => newest,
        // What is there is not known.
        (Err(_), Err(error), _) | (Err(_), _, Err(error)) => return Err(Unreadable::System(error)),
        (Err(error), ..) => return Err(Unreadable::Content(error)),
    };
    let superblock = &newest.superblock;
    if let Some((copy, error)) = &newest.damaged {
        tracing::warn!(path = %path.display(), %copy, %error, "one superblock is damaged; the other is used, and the next save repairs it");
    }
    let length = probe::length(&file).map_err(Unreadable::System)?;
    let end = length_of(superblock);
    let problem = if length < end {
        let [length, end] = compared(length, end);
        Some(format!("it has {length} and its superblock says {end}: it was cut off"))
    } else if superblock.view.geometry.block_size < block_size {
        Some(format!(
            "its volume has blocks of {} bytes and the disk permits direct I/O in units of {block_size} only",
            superblock.view.geometry.block_size
        ))
    } else {
        None
    };
    if let Some(problem) = problem {
        let state = KnownState::Refused(problem);
        return Ok(Err(Known::new(path, Some(newest.superblock), state)));
    }
    Ok(Ok(OpenReplica { file, path: path.to_owned(), device, block_size, newest, mount: 0 }))
}

/// The bytes of a copy; none if they cannot be read.
pub(crate) fn read_copy(file: &File, offset: u64) -> Vec<u8> {
    try_read_copy(file, offset).unwrap_or_default()
}

/// The bytes of a copy; none if the file ends before.
pub(super) fn try_read_copy(file: &File, offset: u64) -> io::Result<Vec<u8>> {
    let mut buffer = Box::new(SuperblockBytes([0; SUPERBLOCK_LENGTH]));
    match file.read_exact_at(&mut buffer.0, offset) {
        Ok(()) => Ok(buffer.0.to_vec()),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

/// Writes a superblock into both copies, one after the other, durably.
pub(super) fn write_superblocks(
    file: &File,
    superblock: &Superblock,
    first: SuperblockCopy,
) -> io::Result<()> {
    let bytes = superblock.encode().map_err(|e| io::Error::other(e.to_string()))?;
    for copy in [first, first.other()] {
        file.write_all_at(&bytes.0, copy.offset())?;
        evenkeel_engine::flush(file)?;
    }
    Ok(())
}

/// The newest superblock where both copies hold this one.
pub(super) fn both(superblock: &Superblock) -> Newest {
    let (superblock, copy) = (superblock.clone(), SuperblockCopy::A);
    Newest { superblock, copy, damaged: None, write_first: copy }
}

/// Writes the first allocation map, of a replica that holds nothing.
pub(super) fn write_allocation(file: &File, superblock: &Superblock) -> io::Result<()> {
    let map = AllocationMap::new(superblock.data_length).encode(superblock.replica);
    // Direct I/O wants memory that is aligned.
    let mut piece = Box::new(SuperblockBytes([0; SUPERBLOCK_LENGTH]));
    let offsets = (ALLOCATION_OFFSET..).step_by(SUPERBLOCK_LENGTH);
    for (offset, bytes) in offsets.zip(map.chunks(SUPERBLOCK_LENGTH)) {
        piece.0[..bytes.len()].copy_from_slice(bytes);
        file.write_all_at(&piece.0[..bytes.len()], offset)?;
    }
    evenkeel_engine::flush(file)
}

/// Makes both superblocks unreadable, durably: the replica is gone.
pub(super) fn erase(file: &File) -> io::Result<()> {
    let zeroes = Box::new(SuperblockBytes([0; SUPERBLOCK_LENGTH]));
    for offset in [COPY_A_OFFSET, COPY_B_OFFSET] {
        file.write_all_at(&zeroes.0, offset)?;
    }
    evenkeel_engine::flush(file)
}

/// Bytes that a replica takes on its disk.
pub(crate) fn length_of(superblock: &Superblock) -> u64 {
    disk_length(superblock.data_length)
}

#[cfg(test)]
mod tests;
