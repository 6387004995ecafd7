//! What replicas on one drive have in common: its cache, and so the flushes of it that fail.
//!
//! Linux tells an error of writing pages back to each open file of that mapping, whoever asks next.
//! The failure of a drive's own flush it tells nobody but who asked for it, though the drive may
//! have dropped what was written to any file on it. So whoever has a flush fail says so here, and
//! it counts for all replicas on that drive, whichever worker has them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use rustix::fs::{FileType, fstat, major, minor};

/// Where the system lists block devices, by their numbers.
const DEVICES: &str = "/sys/dev/block";
/// Devices that lie on one another, at most so many are followed.
const MAX_DEPTH: usize = 8;

/// The drives of files that were opened. There are few, and none is forgotten.
static DRIVES: Mutex<BTreeMap<u64, Arc<Drive>>> = Mutex::new(BTreeMap::new());
/// Who is told of the failed flushes of these.
static LISTENERS: LazyLock<Arc<Listeners>> = LazyLock::new(Arc::default);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Drive {
    failures: AtomicU64,
    listeners: Arc<Listeners>,
}

/// Who is told of failed flushes: the workers of a process, of all its drives.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    /// Flushes that have failed, of all drives.
    failures: AtomicU64,
    /// What is woken then.
    wakers: Mutex<Vec<Weak<OwnedFd>>>,
}

impl Drive {
    /// One whose failed flushes these are told.
    pub(crate) fn new(listeners: Arc<Listeners>) -> Self {
        Self { failures: AtomicU64::new(0), listeners }
    }

    /// The drive that a file lies on, or that a block device is. Partitions count as their whole
    /// device, and a device that lies on just one other as that one. One that lies on several
    /// counts as a drive of its own.
    ///
    /// # Errors
    /// If the system can't tell the file's device.
    pub(crate) fn of(file: impl AsFd) -> io::Result<Arc<Self>> {
        let number = base(Path::new(DEVICES), device_of(file)?);
        let mut drives = DRIVES.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Self::new(Listeners::of_process()));
        Ok(drives.entry(number).or_insert_with(new).clone())
    }

    /// Whether the device of a file makes a single write durable for less than a flush: it passes
    /// on forced unit access, or has no cache that loses anything. Unknown counts as no.
    pub(crate) fn has_fua(file: impl AsFd) -> bool {
        device_of(file).is_ok_and(|number| has_fua(Path::new(DEVICES), number))
    }

    /// Flushes that have failed since the process began.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::SeqCst)
    }

    /// A flush has failed: all workers are told to look.
    pub(crate) fn flush_failed(&self) {
        self.failures.fetch_add(1, Ordering::SeqCst);
        self.listeners.flush_failed();
    }
}

impl Listeners {
    /// Those of the drives of this process.
    pub(crate) fn of_process() -> Arc<Self> {
        LISTENERS.clone()
    }

    fn flush_failed(&self) {
        self.failures.fetch_add(1, Ordering::SeqCst);
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.retain(|waker| {
            // Adding to an eventfd fails only if its counter is full, and then it is readable.
            waker.upgrade().is_some_and(|waker| {
                let _ = rustix::io::write(&*waker, &1u64.to_ne_bytes());
                true
            })
        });
    }

    /// Flushes that have failed since the process began, of all drives.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::SeqCst)
    }

    /// Has this waker fire whenever a flush fails, as long as it is there.
    pub(crate) fn wake_by(&self, waker: &Arc<OwnedFd>) {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(waker));
    }
}

/// The number of the device that a file lies on, or that it is.
fn device_of(file: impl AsFd) -> io::Result<u64> {
    let stat = fstat(file)?;
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    Ok(if is_device { stat.st_rdev } else { stat.st_dev })
}

/// What [`Drive::has_fua`] says, by the queue of the device, or of the one of which it is a part.
/// One that lies on others says of itself what all of them do.
fn has_fua(devices: &Path, number: u64) -> bool {
    let place = devices.join(format!("{}:{}", major(number), minor(number)));
    let whole = match place.join("partition").exists() {
        true => fs::canonicalize(&place).ok().and_then(|part| Some(part.parent()?.to_owned())),
        false => Some(place),
    };
    let says = |attribute: &str, word: &str| {
        let file = whole.as_ref().map(|whole| whole.join("queue").join(attribute));
        let text = file.and_then(|file| fs::read_to_string(file).ok());
        text.is_some_and(|text| text.trim() == word)
    };
    says("fua", "1") || says("write_cache", "write through")
}

/// The number of the device at the bottom, as far as it is one alone. `devices`: where the system
/// lists them.
fn base(devices: &Path, mut number: u64) -> u64 {
    for _ in 0..MAX_DEPTH {
        let place = devices.join(format!("{}:{}", major(number), minor(number)));
        match below(&place) {
            Some(below) => number = below,
            None => break,
        }
    }
    number
}

/// The one device that this one is a part of, or lies on.
fn below(place: &Path) -> Option<u64> {
    if place.join("partition").exists() {
        return number_of(&fs::canonicalize(place).ok()?.parent()?.join("dev"));
    }
    let slaves: Vec<PathBuf> =
        fs::read_dir(place.join("slaves")).ok()?.flatten().map(|entry| entry.path()).collect();
    let [slave] = slaves.as_slice() else { return None };
    number_of(&slave.join("dev"))
}

fn number_of(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests;
