//! What a quickstart that was killed may have left: found by its scratch directory, and removed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::failure::Failure;
use crate::system;

/// How scratch directories are named; the process id follows.
pub const PREFIX: &str = "evenkeel-quickstart-";
/// Held for as long as the quickstart of a scratch directory lives.
pub const LOCK: &str = "lock";

/// A scratch directory that belongs to this process.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    /// Makes a scratch directory under `parent`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(parent: &Path) -> Result<Self, Failure> {
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        let failed = |error: std::io::Error| {
            Failure::new(format!("cannot make the scratch directory {}", path.display()), error)
                .advise("name a directory with enough space with --scratch DIR")
        };
        fs::create_dir_all(&path).map_err(failed)?;
        let lock = File::create(path.join(LOCK)).map_err(failed)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| failed(error.into()))?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes what quickstarts that no longer live have left under `parent`; tells of each.
pub fn clean(parent: &Path, mut tell: impl FnMut(&Path)) -> Result<(), Failure> {
    for path in abandoned(parent) {
        tell(&path);
        remove_everything(&path)?;
    }
    Ok(())
}

/// Scratch directories whose lock nobody holds.
fn abandoned(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
        .map(|entry| entry.path())
        .filter(|path| is_abandoned(path))
        .collect()
}

fn is_abandoned(path: &Path) -> bool {
    match File::open(path.join(LOCK)) {
        Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Ends every process, mount and loop device that belongs to a scratch directory, and removes it.
///
/// # Errors
/// If something of it cannot be removed; the rest is removed all the same.
pub fn remove_everything(scratch: &Path) -> Result<(), Failure> {
    system::unmount_below(scratch);
    for process in system::nodes_of(scratch) {
        system::terminate(process, Duration::from_secs(10));
    }
    system::detach_loops_below(scratch);
    system::unmount_below(scratch);
    system::remove_links_below(Path::new("/dev/evenkeel"), scratch);
    let mounts = system::mounts_below(scratch);
    if let Some(mount) = mounts.first() {
        return Err(Failure::new(
            format!("cannot clean up {}", scratch.display()),
            format!("{} is still mounted", mount.point.display()),
        )
        .advise("see who uses it with `fuser -vm`, then run the quickstart again"));
    }
    match fs::remove_dir_all(scratch) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::new(format!("cannot remove {}", scratch.display()), error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
