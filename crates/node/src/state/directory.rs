//! The state directory: one daemon's memory across restarts.
//!
//! Small JSON files, each replaced as a whole: a crash leaves the old one or the new one. The file
//! `lock` is held for as long as the daemon lives, so no two daemons share a directory. A copy of
//! the directory has a lock of its own: [`super::start`] tells what holding it proves.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::files::own_directory::{Exposed, exposed};
use crate::files::own_file::{self, OpenError};

/// The extension of a file that is to take another one's place.
const UNFINISHED: &str = "new";

/// The directory, held by this process.
#[derive(Debug)]
pub struct StateDirectory {
    path: PathBuf,
    /// Held for its lock.
    lock: File,
}

/// Which file a lock is: no other one on this machine while a process has it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockId {
    /// The device of its filesystem.
    pub device: u64,
    /// Its inode there.
    pub inode: u64,
}

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Another process holds it.
    #[error(
        "the state directory {} is in use by process {pid}: stop that daemon, or give this one a directory of its own (key `state`)",
        path.display()
    )]
    Held {
        /// The directory.
        path: PathBuf,
        /// The process, as it wrote itself into the lock file.
        pid: String,
    },
    /// Others could have put files there.
    #[error("the state directory {} is not used: {why}. {}", path.display(), why.advice(path))]
    Exposed {
        /// The directory.
        path: PathBuf,
        /// In which way, and with that what to do.
        why: Exposed,
    },
    /// The system refused.
    #[error("the state directory's {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// A file in it is damaged.
    #[error(
        "{} cannot be read as JSON: {source}; restore it from a backup, or move it away if what it held may be forgotten",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What of it is no JSON, and where.
        source: serde_json::Error,
    },
}

impl StateDirectory {
    /// Makes the directory if it is not there, closes it to others (mode 0700), and takes its lock.
    ///
    /// # Errors
    /// If another process holds it, others could have put files there, or the system refuses.
    pub fn open(path: &Path) -> Result<Self, StateError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| StateError::Io { path, source }
        };
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(failed(path))?;
        if let Some(why) = exposed(path).map_err(failed(path))? {
            return Err(StateError::Exposed { path: path.to_owned(), why });
        }
        let lock_path = path.join("lock");
        let lock = lock_file(&lock_path).map_err(failed(&lock_path))?;
        match lock {
            Ok(lock) => {
                own_file::close_directory_to_others(path, |_| true);
                remove_cut_off(path);
                Ok(Self { path: path.to_owned(), lock })
            }
            Err(pid) => Err(StateError::Held { path: path.to_owned(), pid }),
        }
    }

    /// Which file the lock is that this process holds.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn lock_id(&self) -> Result<LockId, StateError> {
        let path = self.join("lock");
        let found = self.lock.metadata().map_err(|source| StateError::Io { path, source })?;
        Ok(LockId { device: found.dev(), inode: found.ino() })
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path inside the directory.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Reads a file; `None` if it is not there.
    ///
    /// # Errors
    /// If it is damaged, or the system refuses.
    pub fn load<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StateError> {
        let path = self.join(name);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StateError::Io { path, source }),
        };
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|source| StateError::Damaged { path, source })
    }

    /// Replaces a file, durably and as a whole.
    ///
    /// # Errors
    /// If the system refuses; the old file is still there then.
    pub fn save<T: Serialize>(&self, name: &str, value: &T) -> Result<(), StateError> {
        let path = self.join(name);
        let mut text = serde_json::to_vec_pretty(value)
            .map_err(|source| StateError::Damaged { path: path.clone(), source })?;
        text.push(b'\n');
        replace(&path, &text).map_err(|source| StateError::Io { path, source })
    }
}

/// Removes what a daemon was killed while it was writing. Nothing reads it, so one that stays does
/// no harm.
fn remove_cut_off(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == UNFINISHED)
            && let Err(error) = std::fs::remove_file(&path)
        {
            tracing::warn!(path = %path.display(), %error, "could not remove an unfinished file");
        }
    }
}

/// Replaces a file durably: a crash leaves the old content or the new. So do others that replace it
/// at the same time: each writes a file of its own before. No link is followed.
///
/// # Errors
/// If the system refuses.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let new = path.with_extension(format!("{number}.{UNFINISHED}"));
    let replaced = write_new(&new, content).and_then(|()| std::fs::rename(&new, path));
    if replaced.is_err() {
        // A full disk would be fuller with each attempt. There may be none.
        let _ = std::fs::remove_file(&new);
    }
    replaced?;
    sync_parent(path)
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = own_file::make_anew(path, OFlags::empty())?;
    file.write_all(content)?;
    file.sync_all()
}

/// Makes a directory entry durable: of a file just made, renamed or removed.
///
/// # Errors
/// If the system refuses.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// Takes a lock file and writes this process's number into it. The inner error is the number of the
/// process that holds it. The file may have other names, as after a backup by hard links, if it
/// holds no more than such a number.
///
/// # Errors
/// If it is a link, or the system refuses.
pub fn lock_file(path: &Path) -> io::Result<Result<File, String>> {
    let mut file = own_file::open(path, OFlags::CREATE)?;
    if own_file::has_other_names(&file)? && !holds_number(path)? {
        return Err(OpenError::Linked.into());
    }
    if let Err(e) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if e != rustix::io::Errno::WOULDBLOCK {
            return Err(e.into());
        }
        return Ok(Err(reported_holder(&mut file)?));
    }
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    writeln!(file, "{}", std::process::id())?;
    Ok(Ok(file))
}

/// The number of the process that holds such a lock; nothing is written. `None`: nobody does, as
/// far as can be told.
#[must_use]
pub fn lock_holder(path: &Path) -> Option<String> {
    let mut file = own_file::open_to_read(path).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => Some(reported_holder(&mut file).unwrap_or_default()),
        _ => None,
    }
}

/// What whoever holds a lock has written there of itself.
fn reported_holder(file: &mut File) -> io::Result<String> {
    let mut holder = String::new();
    file.take(32).read_to_string(&mut holder)?;
    let holder = holder.trim();
    Ok(if holder.is_empty() { "unknown".into() } else { holder.to_owned() })
}

/// Whether a file holds nothing, or one number.
fn holds_number(path: &Path) -> io::Result<bool> {
    let text = own_file::read_small(path)?;
    Ok(text.trim().bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
