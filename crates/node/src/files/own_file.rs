//! Files of the node in directories that others may have written to.
//!
//! A disk's directory is what an administrator names, and may have been anybody's before. What lies
//! there is opened only if it is a plain file: of a symbolic link the node would read, truncate or
//! overwrite another file in its place. A hard link may be one to a file of somebody else, or the
//! other name that a backup (`cp -al`) has given to a file of the node: [`has_other_names`] tells,
//! and before it writes whoever opens looks whether the content is the node's. What is made is for
//! the node's user alone.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// The mode of a file that is made.
const FILE_MODE: u32 = 0o600;
/// The mode of a directory that is the node's alone.
const DIRECTORY_MODE: u32 = 0o700;
/// Those of neither have any permission.
const OTHERS: u32 = 0o077;
/// Most bytes that a small file is read to.
const MAX_SMALL: u64 = 4096;

/// Why a file is not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is there, and no plain file.
    #[error(
        "it is {0}, which is not followed in a directory of the node: remove it, or put the file itself there"
    )]
    NotPlain(&'static str),
    /// It has other names, and does not hold what the node's file of this name does.
    #[error(
        "it has other names (hard links), and is not what the node calls by this one: remove this name; the file keeps the others"
    )]
    Linked,
    /// The system refuses.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::System(error) => error,
            OpenError::NotPlain(_) | OpenError::Linked => Self::other(error.to_string()),
        }
    }
}

/// Opens a plain file for reading and writing, with further flags. With `CREATE` it is made, if it
/// is not there, with mode 0600.
///
/// # Errors
/// If it is a symbolic link or anything else than a plain file, or the system refuses.
pub fn open(path: &Path, flags: OFlags) -> Result<File, OpenError> {
    opened(OpenOptions::new().read(true).write(true), path, flags)
}

/// Makes a file anew, in place of one that a crash has left. What it was a link to is not touched.
///
/// # Errors
/// If what is there cannot be removed, or the system refuses.
pub fn make_anew(path: &Path, flags: OFlags) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    Ok(open(path, flags | OFlags::CREATE | OFlags::EXCL)?)
}

/// Opens a plain file for reading.
///
/// # Errors
/// As [`open`].
pub fn open_to_read(path: &Path) -> Result<File, OpenError> {
    opened(OpenOptions::new().read(true), path, OFlags::empty())
}

/// Reads a file of a few bytes; what goes beyond 4 KiB is left out.
///
/// # Errors
/// If it is no plain file, no text, or the system refuses.
pub fn read_small(path: &Path) -> io::Result<String> {
    let file = open_to_read(path)?;
    let mut text = String::new();
    file.take(MAX_SMALL).read_to_string(&mut text)?;
    Ok(text)
}

fn opened(options: &mut OpenOptions, path: &Path, flags: OFlags) -> Result<File, OpenError> {
    // Nobody may ever open the other end of a pipe.
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = options.mode(FILE_MODE).custom_flags(flags.bits().cast_signed()).open(path);
    let file = file.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => OpenError::NotPlain("a symbolic link"),
        // A device without a driver, or a socket.
        Some(Errno::NXIO | Errno::NODEV) => OpenError::NotPlain("no plain file"),
        _ => OpenError::System(error),
    })?;
    if !file.metadata()?.is_file() {
        return Err(OpenError::NotPlain("no plain file"));
    }
    // Else io_uring would tell the engine to try again in place of waiting.
    let set = fcntl_getfl(&file).and_then(|flags| fcntl_setfl(&file, flags - OFlags::NONBLOCK));
    set.map_err(io::Error::from)?;
    Ok(file)
}

/// Whether a file that is open has other names: hard links, as a backup by `cp -al` makes them.
///
/// # Errors
/// If the system does not tell.
pub fn has_other_names(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() > 1)
}

/// Takes all permissions of others from a file that was made with them. What the file system does
/// not permit is logged.
pub fn close_to_others(file: &File, path: &Path) {
    let closed = file.metadata().and_then(|found| match found.mode() & OTHERS {
        0 => Ok(()),
        _ => file.set_permissions(Permissions::from_mode(FILE_MODE)),
    });
    if let Err(error) = closed {
        tracing::warn!(path = %path.display(), %error, "others may read this file, and that cannot be changed");
    }
}

/// Takes all permissions of others from a directory, if it holds nothing but what `is_ours` names:
/// of one that is used for other things, too, the node does not know who needs them.
pub fn close_directory_to_others(path: &Path, is_ours: impl Fn(&str) -> bool) {
    let closed = (|| {
        if fs::metadata(path)?.mode() & OTHERS == 0 {
            return Ok(());
        }
        for entry in fs::read_dir(path)? {
            if !entry?.file_name().to_str().is_some_and(&is_ours) {
                let path = path.display();
                tracing::warn!(%path, "others may look into this disk's directory; as it holds other files, too, it is left so. Give the disk a directory of its own, with mode 0700");
                return Ok(());
            }
        }
        fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE))
    })();
    if let Err(error) = closed {
        let error: io::Error = error;
        tracing::warn!(path = %path.display(), %error, "others may look into this directory, and that cannot be changed");
    }
}

#[cfg(test)]
mod tests;
