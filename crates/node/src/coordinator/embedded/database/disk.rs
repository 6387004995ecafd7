//! A disk for tests that fails when it is told to, and the system's cache before it.

use std::collections::BTreeSet;
use std::io;
use std::ops::Bound;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use redb::{BackendError, StorageBackend};

const PAGE: usize = 512;

/// What a call that fails has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fails {
    /// Nothing.
    Whole,
    /// The first half of it.
    Half,
}

/// A file on that disk; its clones are the same file.
#[derive(Debug, Clone, Default)]
pub struct Disk(Arc<Mutex<File>>, Arc<Condvar>);

#[derive(Debug, Clone, Default)]
struct File {
    cached: Vec<u8>,
    durable: Vec<u8>,
    /// Pages that differ, as far as the cache knows.
    dirty: BTreeSet<usize>,
    /// How many calls that change something are to succeed before one fails.
    fails: Option<(u64, Fails)>,
    /// All of them fail.
    is_dead: bool,
    /// Where its space ends, if it is full.
    full_at: Option<usize>,
    /// What is there can be written again, and nothing else.
    takes_no_change: bool,
    /// Another process has the lock of the file.
    is_locked: bool,
    /// A sync waits until this is over.
    hangs: bool,
    /// How many syncs wait for that.
    hanging: usize,
    /// How many calls have changed something, or may have.
    changes: u64,
}

impl Disk {
    fn lock(&self) -> MutexGuard<'_, File> {
        self.0.lock().unwrap()
    }

    /// The call after so many others that change something fails, once.
    pub fn fail_after(&self, calls: u64, how: Fails) {
        self.lock().fails = Some((calls, how));
    }

    /// Every call that changes something fails.
    pub fn fail_always(&self) {
        self.lock().is_dead = true;
    }

    /// Nothing fails any more. Returns true if something was still to fail.
    pub fn heal(&self) -> bool {
        let mut file = self.lock();
        file.is_dead = false;
        file.fails.take().is_some()
    }

    /// Has no space for more than the file has now.
    pub fn fill(&self) {
        let mut file = self.lock();
        file.full_at = Some(file.cached.len());
    }

    /// Has no space for anything new, as where the file has holes: what is there can be read, and
    /// written again, and so can the first page, whatever it says. That is enough to open the
    /// database, and not to commit.
    pub fn refuse_changes(&self) {
        self.lock().takes_no_change = true;
    }

    /// Has space again.
    pub fn free(&self) {
        let mut file = self.lock();
        (file.full_at, file.takes_no_change) = (None, false);
    }

    /// From now on no sync returns; what is there can be read.
    pub fn hang(&self) {
        self.lock().hangs = true;
    }

    /// Waits until a sync hangs.
    pub fn wait_for_a_sync(&self) {
        let file = self.1.wait_while(self.lock(), |file| file.hanging == 0);
        drop(file.unwrap());
    }

    /// All syncs return that have waited for it.
    pub fn go_on(&self) {
        self.lock().hangs = false;
        self.1.notify_all();
    }

    /// Somebody copies another file over this one.
    pub fn copy_over(&self, other: &Self) {
        let (cached, durable) = {
            let other = other.lock();
            (other.cached.clone(), other.durable.clone())
        };
        let mut file = self.lock();
        file.dirty.clear();
        (file.cached, file.durable) = (cached, durable);
    }

    /// Another process takes the lock of the file.
    pub fn take_lock(&self) {
        self.lock().is_locked = true;
    }

    /// How many calls have changed something until now, or have failed to.
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// What is there if the power is cut now.
    pub fn after_power_cut(&self) -> Self {
        let durable = self.lock().durable.clone();
        let file = File { cached: durable.clone(), durable, ..File::default() };
        Self(Arc::new(Mutex::new(file)), Arc::default())
    }
}

impl File {
    /// How the next call that changes something fails, if it does.
    fn failure(&mut self) -> Option<Fails> {
        self.changes += 1;
        if self.is_dead {
            return Some(Fails::Whole);
        }
        let (calls, how) = self.fails.as_mut()?;
        if let Some(fewer) = calls.checked_sub(1) {
            *calls = fewer;
            return None;
        }
        let how = *how;
        self.fails = None;
        Some(how)
    }

    fn write(&mut self, offset: usize, data: &[u8]) {
        self.cached[offset..offset + data.len()].copy_from_slice(data);
        self.dirty.extend(offset / PAGE..(offset + data.len()).div_ceil(PAGE));
    }

    fn write_back(&mut self, pages: &[usize]) {
        self.durable.resize(self.cached.len(), 0);
        for page in pages {
            let end = self.cached.len().min((page + 1) * PAGE);
            let range = (page * PAGE).min(end)..end;
            self.durable[range.clone()].copy_from_slice(&self.cached[range]);
        }
    }
}

fn failed<T>() -> io::Result<T> {
    Err(io::Error::other("the disk failed"))
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().cached.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (file, offset) = (self.lock(), usize::try_from(offset).unwrap());
        out.copy_from_slice(&file.cached[offset..offset + out.len()]);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut file = self.lock();
        if file.failure().is_some() {
            return failed();
        }
        file.cached.resize(usize::try_from(length).unwrap(), 0);
        Ok(())
    }

    fn try_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(!self.lock().is_locked)
    }

    fn unlock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }

    /// As in Linux, what a sync could not write is not dirty any more, and stays in the cache.
    fn sync_data(&self) -> io::Result<()> {
        let mut file = self.lock();
        file.hanging += 1;
        self.1.notify_all();
        file = self.1.wait_while(file, |file| file.hangs).unwrap();
        file.hanging -= 1;
        let failure = file.failure();
        let pages: Vec<_> = std::mem::take(&mut file.dirty).into_iter().collect();
        match failure {
            None => file.write_back(&pages),
            Some(Fails::Whole) => return failed(),
            Some(Fails::Half) => {
                file.write_back(&pages[..pages.len() / 2]);
                return failed();
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let (mut file, offset) = (self.lock(), usize::try_from(offset).unwrap());
        if file.full_at.is_some_and(|end| offset + data.len() > end) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let is_change = || offset > 0 && file.cached[offset..offset + data.len()] != *data;
        if file.takes_no_change && is_change() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match file.failure() {
            None => file.write(offset, data),
            Some(Fails::Whole) => return failed(),
            Some(Fails::Half) => {
                file.write(offset, &data[..data.len() / 2]);
                return failed();
            }
        }
        Ok(())
    }
}
