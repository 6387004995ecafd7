//! How much room there is on a disk. It is asked without the lock of the list of disks: a disk that
//! hangs does not answer.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_format::COPY_A_OFFSET;
use rustix::fs::StatVfs;

use super::states::{Hold, READ_ONLY};
use super::{Entry, Known, directory, probe, replica_file};

/// How long a list of disks waits for what they have. Then the last answer is told.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// Questions to one disk at a time, each of which keeps a thread if the disk hangs.
const MAX_QUESTIONS: usize = 4;

/// What is to be asked of a disk that is open.
#[derive(Debug)]
pub(super) enum Question {
    /// Also whether it holds no replica.
    Device(File, bool),
    /// Also its replicas: their files, and the bytes that those are to have.
    Directory(PathBuf, Vec<(PathBuf, u64)>),
}

/// What a disk has, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) size: u64,
    /// What replicas could still take: without what the sparse ones there were promised.
    pub(super) free: u64,
    /// Of a directory: what its file system has free, whatever was promised of it.
    pub(super) available: Option<u64>,
    /// Of a directory: what each of its replicas has no space for yet.
    unallocated: Vec<u64>,
    /// Why it cannot be used, though it is open: of a disk without replicas nothing else tells.
    pub(super) trouble: Option<String>,
}

impl Space {
    /// Bytes for which a replica has no space yet, by its place in the list.
    pub(super) fn unallocated(&self, position: usize) -> Option<u64> {
        self.unallocated.get(position).copied()
    }
}

impl Question {
    /// `None`: the disk is not open.
    pub(super) fn of(entry: &Entry) -> Option<Self> {
        match entry.state().hold()? {
            Hold::Device { file, .. } => {
                Some(Self::Device(file.try_clone().ok()?, entry.replicas().is_empty()))
            }
            Hold::Directory { .. } => {
                let files = entry.replicas().iter();
                let files = files.map(|k| (k.path().to_owned(), k.promised_length()));
                Some(Self::Directory(entry.path().to_owned(), files.collect()))
            }
        }
    }

    /// Asks. It blocks on the disk.
    pub(super) fn answer(&self) -> Space {
        match self {
            Self::Device(file, is_empty) => {
                let size = probe::length(file).unwrap_or(0);
                let free = if *is_empty { size } else { 0 };
                let trouble = replica_file::try_read_copy(file, COPY_A_OFFSET).err();
                let trouble = trouble.map(|error| format!("it cannot be read: {error}"));
                Space { size, free, trouble, ..Space::default() }
            }
            Self::Directory(path, files) => {
                let stat = match look_into(path) {
                    Ok(stat) => stat,
                    Err(error) => {
                        let trouble = Some(format!("it cannot be looked into: {error}"));
                        return Space { trouble, ..Space::default() };
                    }
                };
                let unallocated: Vec<u64> =
                    files.iter().map(|(file, length)| unallocated(file, *length)).collect();
                let available = stat.f_bavail * stat.f_frsize;
                let size = stat.f_blocks * stat.f_frsize;
                let free = available.saturating_sub(unallocated.iter().sum());
                let trouble = directory::is_read_only(path).then(|| READ_ONLY.into());
                Space { size, free, available: Some(available), unallocated, trouble }
            }
        }
    }
}

/// What a file system says of itself. One that has shut down says much from memory, but opens no
/// directory.
fn look_into(path: &Path) -> io::Result<StatVfs> {
    File::open(path)?.metadata()?;
    Ok(rustix::fs::statvfs(path)?)
}

/// Bytes of a sparse file, or of one that is being made, that have no space yet.
fn unallocated(path: &Path, length: u64) -> u64 {
    let allocated = fs::metadata(path).ok().filter(fs::Metadata::is_file);
    length.saturating_sub(allocated.map_or(0, |m| m.blocks() * 512))
}

impl Known {
    /// Bytes that its file is to have.
    fn promised_length(&self) -> u64 {
        self.superblock().map_or(0, super::length_of).max(self.reserved())
    }
}

/// Asks one disk, in threads of its own.
#[derive(Debug, Default)]
pub(super) struct Sampler(Mutex<Samples>);

#[derive(Debug, Default)]
struct Samples {
    under_way: usize,
    last: Space,
}

/// An answer that may come.
pub(super) struct Asked {
    sampler: Arc<Sampler>,
    answer: Option<Receiver<Space>>,
}

impl Sampler {
    fn lock(&self) -> MutexGuard<'_, Samples> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to ask, unless enough others wait for this disk already.
    pub(super) fn ask(self: &Arc<Self>, answer: impl FnOnce() -> Space + Send + 'static) -> Asked {
        let mut samples = self.lock();
        if samples.under_way == MAX_QUESTIONS {
            return Asked { sampler: self.clone(), answer: None };
        }
        samples.under_way += 1;
        drop(samples);
        let (sender, receiver) = mpsc::channel();
        let sampler = self.clone();
        std::thread::spawn(move || {
            let space = answer();
            let mut samples = sampler.lock();
            samples.under_way -= 1;
            samples.last.clone_from(&space);
            // Whoever asked may have stopped waiting.
            drop(sender.send(space));
        });
        Asked { sampler: self.clone(), answer: Some(receiver) }
    }
}

impl Asked {
    /// Waits for the answer; if it does not come in time, the last one that did.
    pub(super) fn until(self, end: Instant) -> Space {
        let patience = end.saturating_duration_since(Instant::now());
        let answer = self.answer.and_then(|answer| answer.recv_timeout(patience).ok());
        answer.unwrap_or_else(|| self.sampler.lock().last.clone())
    }
}

#[cfg(test)]
mod tests;
