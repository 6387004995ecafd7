//! Directories in which nobody else may put files: the node's state, its sockets, its disks.
//!
//! [`super::own_file`] opens no link. Whoever may write to a directory, or owns it, needs none:
//! they put a file or a socket of their own in the place of the node's.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::process::geteuid;

/// Permissions that let others put files into a directory.
const OTHERS_WRITE: u32 = 0o022;
/// The mode of a directory with sockets: each of these has its own.
const SOCKETS_MODE: u32 = 0o755;

/// Why a directory is not used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Exposed {
    /// Its owner is neither root nor the node's user.
    #[error("it belongs to user {0}, who could put other files in the place of the node's")]
    Foreign(u32),
    /// Its mode lets others write.
    #[error("its mode {0:04o} lets other users put files there")]
    Writable(u32),
}

impl Exposed {
    /// What to do, after a look at what the directory holds.
    #[must_use]
    pub fn advice(&self, path: &Path) -> String {
        let (path, user) = (path.display(), geteuid().as_raw());
        match self {
            Self::Foreign(_) => format!("Look at what it holds, then run `chown {user} {path}`"),
            Self::Writable(_) => format!("Look at what it holds, then run `chmod go-w {path}`"),
        }
    }
}

/// Why others could put files into a directory; `None`: they could not.
///
/// # Errors
/// If it is not there, or the system does not tell.
pub fn exposed(path: &Path) -> io::Result<Option<Exposed>> {
    let found = fs::metadata(path)?;
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    Ok(if owner != 0 && owner != geteuid().as_raw() {
        Some(Exposed::Foreign(owner))
    } else if mode & OTHERS_WRITE != 0 {
        Some(Exposed::Writable(mode))
    } else {
        None
    })
}

/// Makes a directory for sockets, if it is not there. Others find the sockets in it, whatever this
/// process's umask is.
///
/// # Errors
/// If the system refuses.
pub fn make_for_sockets(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(SOCKETS_MODE))
}

/// Makes the directory that a key of the configuration names for sockets, and holds it to the rule.
///
/// # Errors
/// Says what to do.
pub fn prepare_for_sockets(key: &str, path: &Path) -> Result<(), String> {
    let failed = |e: io::Error| format!("{key} = {path:?} cannot be used: {e}");
    make_for_sockets(path).map_err(failed)?;
    exposed(path).map_err(failed)?.map_or(Ok(()), |why| Err(refusal(key, path, &why)))
}

/// That a directory which a key of the configuration names is not used.
pub fn refusal(key: &str, path: &Path, why: &Exposed) -> String {
    format!("{key} = {path:?} cannot be used: {why}. {}", why.advice(path))
}

#[cfg(test)]
mod tests;
