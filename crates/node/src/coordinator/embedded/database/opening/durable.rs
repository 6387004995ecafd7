//! What a database is opened from is on its disk before it is read.

use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{BackendError, StorageBackend};

/// Bytes that are read and written again at once: a page of the database.
const PIECE: usize = 4096;

/// A file of which nothing is read before all of it was [written again](make_durable). `redb` takes
/// its lock first: what another process has open is left alone.
#[derive(Debug)]
pub(super) struct Durable<B> {
    backend: B,
    is_durable: AtomicBool,
}

impl<B: StorageBackend> Durable<B> {
    pub(super) const fn over(backend: B) -> Self {
        Self { backend, is_durable: AtomicBool::new(false) }
    }

    fn ensure(&self) -> io::Result<()> {
        if !self.is_durable.swap(true, Ordering::AcqRel) {
            let made = make_durable(&self.backend);
            self.is_durable.store(made.is_ok(), Ordering::Release);
            made?;
        }
        Ok(())
    }
}

/// Writes again what is there, and syncs it. After a failed sync the system's cache may show what
/// never reached the disk, and another sync says nothing of that: what was read there, and answered
/// as done, would be gone after a power cut. So it is when a daemon starts, too: the one before it
/// may have met that error, and have been killed or started again for it.
///
/// No page that is in use is all zeroes. Where the file has become longer, and nothing was written
/// yet, a full disk has no space for them.
fn make_durable(backend: &impl StorageBackend) -> io::Result<()> {
    let length = backend.len()?;
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < length {
        let rest = usize::try_from(length - at).unwrap_or(PIECE).min(PIECE);
        let piece = &mut piece[..rest];
        backend.read(at, piece)?;
        if piece.iter().any(|byte| *byte != 0) {
            backend.write(at, piece)?;
        }
        at += rest as u64;
    }
    backend.sync_data()
}

type Locked<T> = Result<T, BackendError>;

impl<B: StorageBackend> StorageBackend for Durable<B> {
    fn len(&self) -> io::Result<u64> {
        self.ensure()?;
        self.backend.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.ensure()?;
        self.backend.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.backend.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.backend.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.backend.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.backend.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<bool> {
        self.backend.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<bool> {
        self.backend.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<()> {
        self.backend.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<()> {
        self.backend.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<()> {
        self.backend.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<bool> {
        self.backend.query_lock_range(start, end)
    }
}
