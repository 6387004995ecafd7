//! A directory as a disk: a file for each replica, named `<replica>.replica`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use evenkeel_api::sizes::{compared, size};
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::ReplicaId;
use evenkeel_format::{Superblock, SuperblockCopy};
use rustix::fs::OFlags;

use super::origins::Origins;
use super::presence::{Identity, is_medium, is_nothing};
use super::replica_file::{Unreadable, inspect, length_of, lock, read_newest, write_superblocks};
use super::space::Space;
use super::states::{Hold, KnownState, Retry, Trouble};
use super::{Known, NewReplica, OpenReplica, Opened, failing, probe};
use crate::files::own_directory::exposed;
use crate::files::own_file::{self, OpenError};
use crate::random::random_u128;
use crate::state::{lock_file, lock_holder, replace, sync_parent};

const LOCK: &str = ".evenkeel.lock";
/// Tells this directory from any other one that may appear at its path: an empty mount point, say.
pub(super) const MARKER: &str = ".evenkeel.disk";
const PROBE: &str = ".evenkeel.probe";
/// Bytes of that.
const PROBED: u64 = 8192;
const ENDING: &str = "replica";
/// A replica that is being made; of no volume if a crash leaves it.
const ENDING_NEW: &str = "replica-new";

/// Checks that a directory can be a disk.
pub(super) fn prepare(path: &Path, what: &str) -> Result<(), ApiError> {
    refuse_file(path, what)?;
    refuse_exposed(path, what)?;
    block_size(path).map(drop).map_err(|e| {
        let (why, advice) = match e.kind() {
            io::ErrorKind::ReadOnlyFilesystem => (
                "its file system is mounted read-only".to_owned(),
                "Mount it for writing, or choose a directory on another one",
            ),
            io::ErrorKind::PermissionDenied => (
                format!("the node may not write to it: {e}"),
                "Give the directory to the user that the node runs as",
            ),
            io::ErrorKind::StorageFull => (full(path), "Make room, or choose another one"),
            _ => (
                format!("its file system does not do direct I/O: {e}"),
                "Choose a directory on another one",
            ),
        };
        ApiError::new(ErrorCode::NotSupported, what, why, advice)
    })
}

/// What is no block device has to be a directory.
fn refuse_file(path: &Path, what: &str) -> Result<(), ApiError> {
    if path.is_dir() {
        return Ok(());
    }
    let why = "it is neither a block device nor a directory";
    let advice = "For a file, add the directory that it would lie in";
    Err(ApiError::new(ErrorCode::BadRequest, what, why, advice))
}

/// Others must not be able to put files of their own in the place of replicas.
fn refuse_exposed(path: &Path, what: &str) -> Result<(), ApiError> {
    match exposed(path) {
        Ok(Some(why)) => {
            let advice = why.advice(path);
            Err(ApiError::new(ErrorCode::NotSupported, what, why.to_string(), advice))
        }
        // Why it can't be looked at is found out by using it.
        Ok(None) | Err(_) => Ok(()),
    }
}

/// Refuses a directory that can't be opened as a disk, as far as that can be told without writing
/// to it.
pub(super) fn refuse_unusable(path: &Path, what: &str) -> Result<(), ApiError> {
    refuse_file(path, what)?;
    refuse_exposed(path, what)?;
    let Some(process) = lock_holder(&path.join(LOCK)) else { return Ok(()) };
    let advice = "Choose another disk, or end what uses it";
    Err(ApiError::new(ErrorCode::DiskInUse, what, held(&process), advice))
}

/// That another process has the directory's lock.
fn held(process: &str) -> String {
    format!("process {process} uses it as its disk")
}

/// The smallest unit of direct I/O on files in the directory.
fn block_size(path: &Path) -> io::Result<u32> {
    let path = path.join(PROBE);
    let result = own_file::make_anew(&path, OFlags::DIRECT).and_then(|file| {
        file.set_len(PROBED)?;
        probe::direct_block_size(&file)
    });
    // Why it could not be made tells more than that it is not there.
    let removed = fs::remove_file(&path);
    let size = result?;
    removed.map(|()| size)
}

/// Takes the directory's lock and opens all replicas in it. `marker` is what its marker file has to
/// say; `None`: whatever it says, and one is made if there is none.
pub(super) fn open(
    path: &Path,
    marker: &mut Option<String>,
    origins: &Origins,
    opened: &mut Vec<OpenReplica>,
) -> Result<Opened, Trouble> {
    // Before anything is written there.
    if let Some(marker) = marker {
        check_marker(path, marker)?;
    }
    let lock = lock_file(&path.join(LOCK)).map_err(|e| trouble(path, e))?;
    let lock = lock.map_err(|process| Trouble::Held(held(&process)))?;
    if marker.is_none() {
        *marker = Some(read_or_make_marker(path).map_err(|e| trouble(path, e))?);
    }
    own_file::close_directory_to_others(path, is_ours);
    if let Ok(Some(why)) = exposed(path) {
        tracing::warn!(path = %path.display(), %why, "{}", why.advice(path));
    }
    let block_size = block_size(path).map_err(|e| trouble(path, e))?;
    let mut replicas = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        match path.extension().and_then(|e| e.to_str()) {
            Some(ENDING) => replicas.push(open_replica(&path, block_size, origins, opened)),
            Some(ENDING_NEW) => remove_unfinished(&path),
            _ => {}
        }
    }
    let hold = Hold::Directory { _lock: lock, identity: Identity::at(path) };
    Ok(Opened { hold, block_size, replicas })
}

/// Whether a name in the directory is one that a disk uses, or that a new file system has.
fn is_ours(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    name.starts_with(".evenkeel.")
        || matches!(ending, Some(ENDING | ENDING_NEW))
        || name == "lost+found"
}

/// Why a directory in which something small cannot be written is none to use.
fn trouble(path: &Path, error: io::Error) -> Trouble {
    match error.kind() {
        io::ErrorKind::StorageFull => Trouble::Failing(full(path)),
        _ if is_medium(&error) => Trouble::Failing(failing::ADVICE.to_owned()),
        _ => error.into(),
    }
}

/// That there is not even room for a file to probe the directory with, or for its marker.
fn full(path: &Path) -> String {
    format!("its file system is full: {}", growing(PROBED, available(path).ok()))
}

/// Whether a disk's directory can't be written to. The mount's flags don't tell of a file system
/// that is read-only after an error, so its marker is opened as for writing, and not written.
pub(super) fn is_read_only(path: &Path) -> bool {
    let opened = own_file::open(&path.join(MARKER), OFlags::empty()).map_err(io::Error::from);
    opened.is_err_and(|error| error.kind() == io::ErrorKind::ReadOnlyFilesystem)
}

/// Whether it is the directory that was added, and not, say, the empty one on which it is to be
/// mounted.
fn check_marker(path: &Path, marker: &str) -> Result<(), Trouble> {
    fs::metadata(path).map_err(|e| trouble(path, e))?;
    match own_file::read_small(&path.join(MARKER)) {
        Ok(text) if text.trim() == marker => Ok(()),
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(trouble(path, e)),
        found => {
            let what =
                if found.is_ok() { "another disk is there" } else { "it is another directory" };
            Err(Trouble::Absent(format!(
                "{what}, without the {MARKER} of this disk: mount what belongs there; to use it all the same, remove the disk and add it anew"
            )))
        }
    }
}

fn read_or_make_marker(path: &Path) -> io::Result<String> {
    let path = path.join(MARKER);
    match own_file::read_small(&path) {
        Ok(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => {
            let marker = format!("{:032x}", random_u128());
            replace(&path, format!("{marker}\n").as_bytes())?;
            Ok(marker)
        }
    }
}

/// What the replicas in a directory say of themselves, as far as it can be read. Writes nothing.
pub(super) fn replicas(path: &Path) -> Vec<Superblock> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    // A link is followed nowhere.
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let is_one = |path: &PathBuf| path.extension().is_some_and(|ending| ending == ENDING);
    files.map(|entry| entry.path()).filter(is_one).filter_map(|path| read_newest(&path)).collect()
}

/// Opens the replica in a file. What the system reports may pass, so it is tried again; what the
/// file says does not.
pub(super) fn open_replica(
    path: &Path,
    block_size: u32,
    origins: &Origins,
    opened: &mut Vec<OpenReplica>,
) -> Known {
    let locked = open_own(path).and_then(|file| Ok((lock(&file)?, file)));
    let file = match locked {
        Ok((true, file)) => file,
        // A killed daemon has it until its last write has ended.
        Ok((false, _)) => {
            return waiting(path, Trouble::Held("another process has it open".into()));
        }
        Err(OpenError::System(e)) => return waiting(path, e.into()),
        // What it leads to is not read.
        Err(e @ (OpenError::NotPlain(_) | OpenError::Linked)) => {
            return unread(path, None, Trouble::Failing(e.to_string()));
        }
    };
    match inspect(file, path, false, block_size) {
        Ok(Ok(mut replica)) => {
            own_file::close_to_others(&replica.file, path);
            if let Err(error) = origins.check(&mut replica) {
                return waiting(path, error.into());
            }
            let known = Known::served(&replica);
            opened.push(replica);
            known
        }
        Ok(Err(known)) => known,
        Err(Unreadable::System(e)) => waiting(path, e.into()),
        Err(Unreadable::Content(e)) => {
            let problem = e.to_string();
            tracing::error!(path = %path.display(), %problem, "a replica cannot be served; it is left alone");
            Known::new(path, None, KnownState::Refused(problem))
        }
    }
}

/// Opens the file of a replica. One that has other names, too, is opened by the name that the node
/// has given it: the others are of a backup, or lead to what is no replica.
fn open_own(path: &Path) -> Result<File, OpenError> {
    let file = own_file::open(path, OFlags::DIRECT)?;
    if !own_file::has_other_names(&file)? {
        return Ok(file);
    }
    let name = read_newest(path).map(|superblock| file_name(superblock.replica));
    match name.is_some_and(|name| path.ends_with(name)) {
        true => Ok(file),
        false => Err(OpenError::Linked),
    }
}

/// The name of a replica's file.
fn file_name(replica: ReplicaId) -> String {
    format!("{replica}.{ENDING}")
}

fn waiting(path: &Path, trouble: Trouble) -> Known {
    unread(path, read_newest(path), trouble)
}

fn unread(path: &Path, newest: Option<Superblock>, trouble: Trouble) -> Known {
    // That its file system is read-only was said when it was closed, and is found at each try.
    if trouble != Trouble::ReadOnly {
        tracing::warn!(path = %path.display(), why = trouble.why(), "a replica cannot be opened yet");
    }
    Known::new(path, newest, KnownState::Waiting(trouble, Retry::first(Instant::now())))
}

fn remove_unfinished(path: &Path) {
    tracing::info!(path = %path.display(), "removing a replica whose creation was cut off");
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "cannot remove it");
    }
}

/// Bytes that the file system has free, whatever was promised of them.
pub(super) fn available(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail * stat.f_frsize)
}

/// How much room is needed, at most, and how much there is.
pub(super) fn growing(needed: u64, free: Option<u64>) -> String {
    match free {
        Some(free) => {
            let [needed, free] = compared(needed, free);
            format!("{needed} are needed and {free} are free")
        }
        None => format!("{} are needed", size(needed)),
    }
}

/// Whether there is room for a replica.
pub(super) fn check_space(space: &Space, new: &NewReplica, what: &str) -> Result<(), ApiError> {
    let (length, free) = (length_of(&new.superblock), space.free);
    if length <= free || new.thin {
        return Ok(());
    }
    let [length, free] = compared(length, free);
    Err(ApiError::new(
        ErrorCode::DiskTooSmall,
        what,
        format!(
            "it takes {length} and {free} are free (what sparse replicas were promised is not)"
        ),
        "Choose another disk or a smaller size, or promise more than there is (--thin)",
    ))
}

/// Makes the file of a replica: sparse, so it reads as zeroes.
pub(super) fn create(
    directory: &Path,
    block_size: u32,
    new: &NewReplica,
) -> io::Result<OpenReplica> {
    let path = directory.join(file_name(new.superblock.replica));
    let file = write_file(&path, length_of(&new.superblock), new)?;
    Ok(OpenReplica::new(file, path, false, block_size, &new.superblock))
}

fn write_file(path: &Path, length: u64, new: &NewReplica) -> io::Result<File> {
    let unfinished: PathBuf = path.with_extension(ENDING_NEW);
    let file = own_file::open(&unfinished, OFlags::DIRECT | OFlags::CREATE | OFlags::EXCL)?;
    let made = (|| {
        if !lock(&file)? {
            return Err(io::Error::other("another process has locked it"));
        }
        file.set_len(length)?;
        write_superblocks(&file, &new.superblock, SuperblockCopy::A)?;
        fs::rename(&unfinished, path)?;
        sync_parent(path)?;
        Ok(file)
    })();
    if made.is_err() {
        // What is not there need not be removed; the error that matters is the first.
        let _ = fs::remove_file(&unfinished);
    }
    made
}

/// Removes the file of a replica, durably.
pub(super) fn delete(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => sync_parent(path),
    }
}

/// That a replica's file is gone is made durable. If its directory is gone, too, nothing is to be
/// done.
pub(super) fn sync(path: &Path) -> io::Result<()> {
    match sync_parent(path) {
        Err(e) if is_nothing(&e) => Ok(()),
        synced => synced,
    }
}
