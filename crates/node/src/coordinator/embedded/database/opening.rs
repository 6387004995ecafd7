//! The database while it is open, and how it is opened anew after an error.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use evenkeel_coordinator::{Repeated, StoreError};
use redb::backends::FileBackend;
use redb::{Database, DatabaseError, StorageBackend, StorageError};
use rustix::fs::{Mode, OFlags};

use self::durable::Durable;
use super::Stored;

mod durable;

/// The pause between two attempts to open it anew, and once more for each second that the last one
/// took: each time all of the file is written again.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// Which opening it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Opening {
    /// The first one, which makes a database if there is none.
    First,
    /// One after an error. Whoever has taken the file away is not given an empty one in its place:
    /// it would know no volumes.
    Again,
}

type Open = dyn Fn(Opening) -> Result<Database, DatabaseError> + Send + Sync;

/// A database that is opened anew after an error.
pub(super) struct Opened {
    open: Box<Open>,
    state: RwLock<State>,
    /// Between two attempts to open it anew, if they take no time.
    pause: Duration,
    has_failed: AtomicBool,
    /// How often it was opened.
    openings: AtomicU64,
    log: Mutex<Log>,
}

/// What the log tells of errors.
struct Log {
    began: Instant,
    failures: Repeated,
    /// Whether the last one was told.
    is_told: bool,
}

struct State {
    /// `None`: it could not be opened anew.
    database: Option<Database>,
    /// When that was last tried, and the pause after it.
    tried: Option<(Instant, Duration)>,
}

impl Opened {
    /// # Errors
    /// If it can't be opened.
    pub(super) fn new(
        pause: Duration,
        open: impl Fn(Opening) -> Result<Database, DatabaseError> + Send + Sync + 'static,
    ) -> Stored<Self> {
        let database = open(Opening::First).map_err(|error| unusable(&error))?;
        Ok(Self {
            open: Box::new(open),
            state: RwLock::new(State { database: Some(database), tried: None }),
            pause,
            has_failed: AtomicBool::new(false),
            openings: AtomicU64::new(1),
            log: Mutex::new(Log {
                began: Instant::now(),
                failures: Repeated::default(),
                is_told: false,
            }),
        })
    }

    /// Uses it. After an error it is opened anew by whoever uses it next.
    pub(super) fn with<T>(&self, work: impl FnOnce(&Database) -> Stored<T>) -> Stored<T> {
        self.with_number(|database, _| work(database))
    }

    /// The same, and tells how often it was opened until now.
    pub(super) fn with_number<T>(
        &self,
        work: impl FnOnce(&Database, u64) -> Stored<T>,
    ) -> Stored<T> {
        self.open_if_failed()?;
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let Some(database) = &state.database else {
            let why = "the coordinator's database could not be opened anew";
            return Err(StoreError::Unusable(why.into()));
        };
        let done = work(database, self.openings.load(Ordering::Acquire));
        // Noted while nobody can open it anew: else one that works would be closed.
        self.note(&done);
        done
    }

    /// What a snapshot gave that was taken when it had been opened so often. It ends with its
    /// opening, and then has to be taken anew.
    pub(super) fn note_read<T>(&self, opening: u64, read: Stored<T>) -> Stored<T> {
        let _open = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if read.is_err() && opening != self.openings.load(Ordering::Acquire) {
            return Err(StoreError::TooOld);
        }
        self.note(&read);
        read
    }

    /// As if its disk had reported an error, for the first time.
    pub(super) fn fail(&self) {
        self.state.write().unwrap_or_else(PoisonError::into_inner).tried = None;
        self.has_failed.store(true, Ordering::Release);
    }

    fn note<T>(&self, done: &Stored<T>) {
        if let Err(error @ (StoreError::Unusable(_) | StoreError::InDoubt(_))) = done
            && !self.has_failed.swap(true, Ordering::AcqRel)
        {
            let log = &mut *self.log.lock().unwrap_or_else(PoisonError::into_inner);
            log.is_told = log.failures.is_news(log.began.elapsed());
            if log.is_told {
                tracing::warn!(%error, "the coordinator's database failed: it is opened anew");
            }
        }
    }

    fn open_if_failed(&self) -> Stored<()> {
        if !self.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if !self.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        if state.tried.is_some_and(|(at, pause)| at.elapsed() < pause) {
            let why = "the coordinator's database has failed, and is opened anew in a moment; \
                       check its disk and the space on it";
            return Err(StoreError::Unusable(why.into()));
        }
        // It has to be closed before: it holds the lock of the file.
        state.database = None;
        let began = Instant::now();
        let opened = (self.open)(Opening::Again);
        state.tried = Some((Instant::now(), pause_after(self.pause, began.elapsed())));
        state.database = Some(opened.map_err(|error| unusable(&error))?);
        self.openings.fetch_add(1, Ordering::AcqRel);
        self.has_failed.store(false, Ordering::Release);
        if self.log.lock().unwrap_or_else(PoisonError::into_inner).is_told {
            tracing::info!("the coordinator's database is open again");
        }
        Ok(())
    }
}

/// The pause after an attempt that took so long: where all of a large file is written to a slow
/// disk, that disk is left alone for as long.
fn pause_after(pause: Duration, took: Duration) -> Duration {
    pause.mul_f64(1.0 + took.as_secs_f64())
}

/// Why it can't be opened. An error in use says less: of a database that only has to be opened anew
/// `redb` says, too, that it is corrupted.
fn unusable(error: &DatabaseError) -> StoreError {
    let advice = match error {
        DatabaseError::Storage(StorageError::Corrupted(_)) => "restore the file from a backup",
        DatabaseError::Storage(StorageError::Io(error)) if is_replaced(error) => {
            "put that one back, or restart the daemon, which then adopts the other"
        }
        _ => "check its disk and the space on it",
    };
    StoreError::Unusable(format!("the coordinator's database: {error}; {advice}"))
}

/// What is at the path is not what was opened there first, or does not hold what was written there.
#[derive(Debug, thiserror::Error)]
#[error("its file was replaced by another one while the daemon had it open")]
pub(super) struct Replaced;

fn is_replaced(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Replaced>())
}

/// The file of a database. Only a start of the daemon adopts another one: it compares what that
/// says of the cluster, and of who was removed.
pub(super) struct DatabaseFile {
    path: PathBuf,
    /// The first one that was opened. Open, so that no other one gets its number; but as a mere
    /// path: closing anything else could release the lock that `redb` has.
    first: OnceLock<File>,
}

impl DatabaseFile {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path, first: OnceLock::new() }
    }

    pub(super) fn open(&self, opening: Opening) -> io::Result<FileBackend> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(opening == Opening::First).truncate(false);
        let file = options.open(&self.path)?;
        let first = match self.first.get() {
            Some(first) => first,
            None => {
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                let first = rustix::fs::open(&self.path, flags, Mode::empty())?;
                self.first.get_or_init(|| first.into())
            }
        };
        let (here, there) = (file.metadata()?, first.metadata()?);
        if (here.dev(), here.ino()) != (there.dev(), there.ino()) {
            return Err(io::Error::other(Replaced));
        }
        FileBackend::new(file).map_err(io::Error::other)
    }
}

/// Opens the database that is stored there.
pub(super) fn database(
    backend: impl StorageBackend,
    opening: Opening,
) -> Result<Database, DatabaseError> {
    if opening == Opening::Again && backend.len()? == 0 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "its file is empty").into());
    }
    Database::builder().create_with_backend(Durable::over(backend))
}

#[cfg(test)]
mod tests;
