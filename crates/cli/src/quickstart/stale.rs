//! What a quickstart that was killed may have left: found by its scratch directory, and removed.

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
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
    /// Makes a scratch directory under `parent`, for this user alone.
    ///
    /// # Errors
    /// If it cannot be made, or is there already: others may write to `parent`, and what lies there
    /// under a name that can be guessed is not trusted.
    pub fn create(parent: &Path) -> Result<Self, Failure> {
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        let failed = |error: std::io::Error| {
            Failure::new(format!("cannot make the scratch directory {}", path.display()), error)
                .advise("name a directory with enough space with --scratch DIR")
        };
        fs::create_dir_all(parent).map_err(failed)?;
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
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
pub fn clean(parent: &Path, mut report: impl FnMut(&Path)) -> Result<(), Failure> {
    for path in abandoned(parent) {
        report(&path);
        remove_everything(&path)?;
    }
    Ok(())
}

/// Scratch directories of this user whose lock nobody holds. Those of others are theirs to remove,
/// and what they put there, such as a lock that is a pipe, must not be opened.
fn abandoned(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
        .map(|entry| entry.path())
        .filter(|path| is_own(path) && is_abandoned(path))
        .collect()
}

fn is_own(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw())
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
/// If something of it is in use and stays; the rest is removed all the same.
pub fn remove_everything(scratch: &Path) -> Result<(), Failure> {
    system::unmount_filesystems_below(scratch);
    for process in system::nodes_of(scratch) {
        system::terminate(process, Duration::from_secs(10));
    }
    // Before the files below them go: by these they are known.
    let devices = system::loops_below(scratch);
    system::remove_links(Path::new("/dev/evenkeel"), scratch, &devices);
    system::detach_loops(&devices);
    let devices = system::loops_below(scratch);
    system::unmount_fuse_below(scratch);
    let points = system::mounts_below(scratch).into_iter().map(|mount| mount.point).collect();
    let left = Left { points, devices };
    if !left.points.is_empty() || !left.devices.is_empty() {
        return Err(left.failure(scratch, system::users_of));
    }
    match fs::remove_dir_all(scratch) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::new(format!("cannot remove {}", scratch.display()), error))
        }
        _ => Ok(()),
    }
}

/// What could not be removed, because it is in use.
struct Left {
    points: Vec<PathBuf>,
    devices: Vec<PathBuf>,
}

impl Left {
    fn failure(&self, scratch: &Path, users_of: impl Fn(&Path) -> Vec<String>) -> Failure {
        let used = |path: &Path| match users_of(path) {
            users if users.is_empty() => "in use, by whom cannot be seen".to_owned(),
            users => format!("in use by {}", users.join(", ")),
        };
        let mut why: Vec<String> = self
            .points
            .iter()
            .map(|point| format!("{} is still mounted, {}", point.display(), used(point)))
            .collect();
        let mut advice = "end what uses it".to_owned();
        for point in &self.points {
            advice.push_str(&format!(", then: umount {}", point.display()));
        }
        for device in &self.devices {
            why.push(match self.points.is_empty() {
                true => format!("the loop device {} is still {}", device.display(), used(device)),
                false => format!("the loop device {} goes with it", device.display()),
            });
        }
        advice.push_str(&format!(
            "\nthe next `evenkeel quickstart` removes the rest, which is {}",
            scratch.display()
        ));
        Failure::new("not everything of the quickstart could be removed", why.join("\n"))
            .advise(advice)
    }
}

#[cfg(test)]
mod tests;
