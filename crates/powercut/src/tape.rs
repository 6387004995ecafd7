//! The tape: what nodes did to their disks, in the order in which it happened.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of writes that are recorded; then the tape is full.
const MAX_BYTES: u64 = 768 << 20;

/// A moment of a tape. Of two, the later one has the larger number.
pub type Moment = u64;

/// An operation on a file that the tape records.
#[derive(Debug, Clone)]
pub enum Action {
    /// It was written.
    Write {
        /// First byte.
        offset: u64,
        /// The bytes written.
        data: Box<[u8]>,
        /// Whether it was durable when it was answered (`O_DSYNC`).
        durable: bool,
    },
    /// A range was made zeroes.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// All that was answered before is durable (`fsync`).
    Flush,
}

/// One recorded operation.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The index of the disk.
    pub disk: usize,
    /// The file on it.
    pub file: Arc<str>,
    /// When it was asked for.
    pub begun: Moment,
    /// When it was answered.
    pub ended: Moment,
    /// The operation.
    pub action: Action,
}

/// See the module's documentation. Clients take their moments from it, too.
#[derive(Debug, Default)]
pub struct Tape {
    clock: AtomicU64,
    runs: AtomicBool,
    bytes: AtomicU64,
    entries: Mutex<Vec<Entry>>,
}

impl Tape {
    /// The present moment: later than every one returned before.
    pub fn now(&self) -> Moment {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// From now on what is done is recorded.
    pub fn start(&self) {
        self.runs.store(true, Ordering::SeqCst);
    }

    /// Whether no more is recorded.
    pub fn is_full(&self) -> bool {
        self.bytes.load(Ordering::SeqCst) > MAX_BYTES
    }

    /// Records what was begun at a moment and is over now, before anybody is answered.
    pub fn record(&self, disk: usize, file: &Arc<str>, begun: Moment, action: Action) {
        if !self.runs.load(Ordering::SeqCst) {
            return;
        }
        if let Action::Write { data, .. } = &action {
            self.bytes.fetch_add(data.len() as u64, Ordering::SeqCst);
        }
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, ended) = (file.clone(), self.now());
        entries.push(Entry { disk, file, begun, ended, action });
    }

    /// All that was recorded, by its end.
    pub fn take(&self) -> Vec<Entry> {
        self.runs.store(false, Ordering::SeqCst);
        std::mem::take(&mut *self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
