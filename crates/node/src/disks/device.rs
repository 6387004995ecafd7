//! A block device or partition as a disk: it holds one replica.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use evenkeel_api::sizes::compared;
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::ReplicaId;
use evenkeel_format::{
    DATA_OFFSET, DISK_MARK_LENGTH, DISK_MARK_OFFSETS, SuperblockCopy, foreign_signature,
};
use rustix::fs::{FallocateFlags, OFlags, fallocate};

use super::mark::{self, DeviceIdentity};
use super::replica_file::{
    Unreadable, erase, inspect, length_of, lock, open_direct, read_newest, write_allocation,
    write_superblocks,
};
use super::space::Space;
use super::states::{Hold, KnownState, Retry, Trouble};
use super::{Entry, Known, NewReplica, OpenReplica, Opened, Record, probe, system};

/// The smallest device that is taken: room for the superblocks and as much data again.
const SMALLEST: u64 = 2 * DATA_OFFSET;
/// Bytes that are zeroed in one go, between two lines of progress at most.
const ZERO_STEP: u64 = 1 << 30;

const READ_ONLY: &str = "it is read-only, and a replica is written to";

/// Checks that a device may be taken, with `force` erases the signatures that it carries, and marks
/// it.
pub(super) fn prepare(path: &Path, force: bool, what: &str) -> Result<DeviceIdentity, ApiError> {
    let (file, size) = open_free(path, what)?;
    found_on(path, size, force, what)?;
    let prepared = if force { wipe(&file, size) } else { Ok(()) };
    prepared.and_then(|()| DeviceIdentity::take(&file, path)).map_err(|e| system(what, &e))
}

/// What a device holds that may be taken, and whether that would be kept.
///
/// # Errors
/// As of [`prepare`].
pub(super) fn look(
    path: &Path,
    force: bool,
    what: &str,
) -> Result<(Option<&'static str>, bool), ApiError> {
    let (_file, size) = open_free(path, what)?;
    found_on(path, size, force, what)
}

/// A device that nobody uses, opened, and its size.
fn open_free(path: &Path, what: &str) -> Result<(File, u64), ApiError> {
    let refuse = |code, why: String, action: &str| Err(ApiError::new(code, what, why, action));
    let number = probe::device_number(path).map_err(|e| system(what, &e))?;
    let user = number.map(probe::user_of).transpose().map_err(|e| system(what, &e))?.flatten();
    if let Some(user) = user {
        let action = "Unmount it or end that use first; --force does not help";
        return refuse(ErrorCode::DiskInUse, user, action);
    }
    if number.is_some_and(probe::is_read_only) {
        let action =
            "Make it writable (`blockdev --setrw`; for some, mechanically), or choose another disk";
        return refuse(ErrorCode::NotSupported, READ_ONLY.into(), action);
    }
    let file = open_exclusively(path).map_err(|trouble| {
        ApiError::new(
            ErrorCode::DiskInUse,
            what,
            trouble.why(),
            "End that use first; --force does not help",
        )
    })?;
    let size = probe::length(&file).map_err(|e| system(what, &e))?;
    if size < SMALLEST {
        let [size, least] = compared(size, SMALLEST);
        let why = format!("it has {size}; {least} are the least");
        return refuse(ErrorCode::DiskTooSmall, why, "Choose a larger disk");
    }
    Ok((file, size))
}

/// What a device of that size holds, and whether that is kept: a replica of ours is taken as it is;
/// see `open`.
fn found_on(
    path: &Path,
    size: u64,
    force: bool,
    what: &str,
) -> Result<(Option<&'static str>, bool), ApiError> {
    let found = signature(path, size).map_err(|e| system(what, &e))?;
    let is_kept = found.is_some_and(|found| found.contains("evenkeel") && !force);
    match found {
        Some(found) if !is_kept && !force => {
            let why = format!("it holds {found}");
            let advice = "If that may be lost, add it with --force";
            Err(ApiError::new(ErrorCode::DiskHasData, what, why, advice))
        }
        found => Ok((found, is_kept)),
    }
}

/// What a device holds. Reads through the page cache: signatures are not aligned.
fn signature(path: &Path, size: u64) -> io::Result<Option<&'static str>> {
    let file = File::open(path)?;
    foreign_signature(size, |offset, buffer| file.read_exact_at(buffer, offset))
}

/// Makes what is at both ends of a device unrecognisable.
fn wipe(file: &File, size: u64) -> io::Result<()> {
    let end = DATA_OFFSET.min(size);
    zero_range(file, 0, end)?;
    // In units of 4 KiB, as direct I/O wants it.
    let tail = (size - end) & !4095;
    zero_range(file, tail, size - tail)?;
    erase(file)
}

fn open_exclusively(path: &Path) -> Result<File, Trouble> {
    match probe::device_number(path)? {
        None => return Err(Trouble::Absent("it is no block device any more".into())),
        // Else the kernel's word is that permission is denied.
        Some(number) if probe::is_read_only(number) => {
            return Err(Trouble::Failing(READ_ONLY.into()));
        }
        Some(_) => {}
    }
    let file = open_direct(path, OFlags::EXCL)?;
    match lock(&file)? {
        true => Ok(file),
        false => Err(Trouble::Held("another process has locked it".into())),
    }
}

/// A disk that was given to evenkeel bears its mark, and holds a replica or nothing: else it is
/// another one, which got its path. One that software added which made no marks is marked now, if
/// nothing is in the way.
fn refuse_another(
    path: &Path,
    file: &File,
    identity: &mut Option<DeviceIdentity>,
) -> Result<(), Trouble> {
    let size = probe::length(file)?;
    if size < SMALLEST {
        let why = if size == 0 {
            "it has no medium"
        } else {
            "another disk is at its path, too small for a replica"
        };
        return Err(Trouble::Absent(why.into()));
    }
    let signature = signature(path, size)?;
    let is_foreign = signature.is_some_and(|found| !found.contains("evenkeel"));
    let another = |expected: String| {
        let found = mark::describe_found(file, path, signature);
        Trouble::Absent(format!(
            "another disk is at its path: expected {expected}, found {found}. Give the disk its path back (names in /dev/disk/by-id stay the same), or `evenkeel disk remove` it and add what is there anew"
        ))
    };
    match identity {
        Some(known) => {
            let is_it = !is_foreign && known.recognise(file, path)?;
            if is_it { Ok(()) } else { Err(another(known.to_string())) }
        }
        None if is_foreign => Err(another("one that holds a replica or nothing".into())),
        None => {
            *identity = DeviceIdentity::adopt(file, path)?;
            match identity {
                Some(_) => Ok(()),
                None => Err(another("one that older software has added".into())),
            }
        }
    }
}

/// The replica on a device that cannot be opened yet, as far as it can be read. None if another
/// device is there.
pub(super) fn glimpse(record: &Record, trouble: &Trouble, retry: Retry) -> Vec<Known> {
    let path = &record.path;
    if record.device.as_ref().is_some_and(|identity| !identity.is_at(path)) {
        return Vec::new();
    }
    let state = KnownState::Waiting(trouble.clone(), retry);
    let known = |superblock| Known::new(path, Some(superblock), state);
    read_newest(path).map(known).into_iter().collect()
}

/// Opens the device exclusively, and the replica on it if there is one.
pub(super) fn open(
    path: &Path,
    identity: &mut Option<DeviceIdentity>,
    opened: &mut Vec<OpenReplica>,
) -> Result<Opened, Trouble> {
    let file = open_exclusively(path)?;
    refuse_another(path, &file, identity)?;
    let block_size = probe::direct_block_size(&file)?;
    let known = open_replica(file.try_clone()?, path, block_size, opened)?;
    let replicas = known.into_iter().collect();
    Ok(Opened { hold: Hold::device(file), block_size, replicas })
}

/// Opens the replica on a device that is open. `None`: there is none.
pub(super) fn open_replica(
    file: File,
    path: &Path,
    block_size: u32,
    opened: &mut Vec<OpenReplica>,
) -> Result<Option<Known>, Trouble> {
    match inspect(file, path, true, block_size) {
        Ok(Ok(replica)) => {
            let known = Known::served(&replica);
            opened.push(replica);
            Ok(Some(known))
        }
        Ok(Err(known)) => Ok(Some(known)),
        Err(Unreadable::System(e)) => Err(e.into()),
        Err(Unreadable::Content(e)) if e.is_no_replica() => Ok(None),
        Err(Unreadable::Content(e)) => {
            let problem = e.to_string();
            tracing::error!(path = %path.display(), %problem, "a replica cannot be served; it is left alone");
            Ok(Some(Known::new(path, None, KnownState::Refused(problem))))
        }
    }
}

/// Deletes the replica on a device that is not open. Returns the device, opened.
pub(super) fn erase_closed(path: &Path, replica: ReplicaId) -> io::Result<File> {
    let file =
        open_exclusively(path).map_err(|trouble| io::Error::other(trouble.why().to_owned()))?;
    // Another disk may have got its path.
    match read_newest(path) {
        Some(superblock) if superblock.replica == replica => erase(&file)?,
        _ => return Err(io::Error::other("the replica is not on the device at its path")),
    }
    Ok(file)
}

/// A device holds one replica.
pub(super) fn refuse_second(entry: &Entry, what: &str) -> Result<(), ApiError> {
    if entry.replicas().is_empty() {
        return Ok(());
    }
    let why = "a block device holds one replica, and it has one";
    Err(ApiError::new(ErrorCode::DiskTooSmall, what, why, "Choose another disk"))
}

/// Refuses to make a replica on what is not the disk that was added, or holds anything: somebody
/// has written to it since.
pub(super) fn refuse_used(
    path: &Path,
    file: &File,
    identity: Option<&DeviceIdentity>,
    what: &str,
) -> Result<(), ApiError> {
    let is_it = identity.map_or(Ok(false), |identity| identity.is_of(file));
    let signature = probe::length(file).and_then(|size| signature(path, size));
    let why = match (is_it, signature) {
        (Err(error), _) | (_, Err(error)) => return Err(system(what, &error)),
        (Ok(true), Ok(None)) => return Ok(()),
        (Ok(true), Ok(Some(found))) => {
            format!("it holds {found}, which was written since it was added")
        }
        (Ok(false), Ok(found)) => {
            let found = mark::describe_found(file, path, found);
            format!("it does not bear its mark any more; it is {found}")
        }
    };
    let advice =
        "Look at what is there; if that may be lost, remove the disk and add it with --force";
    Err(ApiError::new(ErrorCode::DiskHasData, what, why, advice))
}

/// Whether the one replica of a device can be made.
pub(super) fn check_space(space: &Space, new: &NewReplica, what: &str) -> Result<(), ApiError> {
    let (length, size) = (length_of(&new.superblock), space.size);
    if length <= size {
        return Ok(());
    }
    let [length, size] = compared(length, size);
    let why = format!("it takes {length} and the disk has {size}");
    Err(ApiError::new(ErrorCode::DiskTooSmall, what, why, "Choose another disk"))
}

/// Makes the one replica of a device: zeroes all of it, then writes its map and the superblocks.
pub(super) fn create(
    file: File,
    path: PathBuf,
    block_size: u32,
    new: &NewReplica,
) -> io::Result<OpenReplica> {
    // First whatever an earlier replica has left before the data.
    zero_head(&file)?;
    zero_range(&file, DATA_OFFSET, length_of(&new.superblock) - DATA_OFFSET)?;
    write_allocation(&file, &new.superblock)?;
    write_superblocks(&file, &new.superblock, SuperblockCopy::A)?;
    Ok(OpenReplica::new(file, path, true, block_size, &new.superblock))
}

/// Zeroes what is before the data, but for the disk's mark, which stays in each moment.
fn zero_head(file: &File) -> io::Result<()> {
    let mut start = 0;
    for mark in DISK_MARK_OFFSETS {
        zero_step(file, &(start..mark))?;
        start = mark + DISK_MARK_LENGTH as u64;
    }
    zero_step(file, &(start..DATA_OFFSET))?;
    evenkeel_engine::flush(file)
}

/// Zeroes a range, durably.
pub(super) fn zero_range(file: &File, start: u64, length: u64) -> io::Result<()> {
    for step in zero_steps(&(start..start + length)) {
        zero_step(file, &step)?;
        tracing::info!(done = step.end - start, total = length, "zeroing a disk");
    }
    evenkeel_engine::flush(file)
}

/// A range in pieces that are zeroed in one go each.
pub(super) fn zero_steps(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    let starts = (range.start..end).step_by(ZERO_STEP as usize);
    starts.map(move |start| start..end.min(start.saturating_add(ZERO_STEP)))
}

/// Zeroes a range, by the quickest means that the device has. Not durable yet.
pub(super) fn zero_step(file: &File, range: &Range<u64>) -> io::Result<()> {
    let (at, length) = (range.start, range.end - range.start);
    // On a block device the kernel promises zeroes for both, or refuses.
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let zero = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
    if fallocate(file, hole, at, length).is_ok() || fallocate(file, zero, at, length).is_ok() {
        return Ok(());
    }
    let zeroes =
        Box::new(evenkeel_format::SuperblockBytes([0; evenkeel_format::SUPERBLOCK_LENGTH]));
    let mut done = 0;
    while done < length {
        let step = (zeroes.0.len() as u64).min(length - done);
        file.write_all_at(&zeroes.0[..step as usize], at + done)?;
        done += step;
    }
    Ok(())
}
