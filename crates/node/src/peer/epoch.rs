//! Which state of the cluster's membership this node knows, and of which it has heard.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Mutex, MutexGuard};

/// The epoch of the membership, which the coordinator counts and hellos carry.
#[derive(Debug, Default)]
pub struct Epoch {
    known: AtomicU64,
    heard: AtomicU64,
    fetching: Mutex<()>,
}

impl Epoch {
    /// That of the newest list that this node has; 0: it has none.
    #[must_use]
    pub fn known(&self) -> u64 {
        self.known.load(Ordering::Acquire)
    }

    /// Waits until nobody else fetches the list: an older one must not come after a newer one.
    pub async fn turn(&self) -> MutexGuard<'_, ()> {
        self.fetching.lock().await
    }

    /// Another node knows this one.
    pub fn hear(&self, epoch: u64) {
        self.heard.fetch_max(epoch, Ordering::AcqRel);
    }

    /// The coordinator has just told the list of this epoch. `heard`: the newest of which had been
    /// heard when it was asked. One that the coordinator does not know was made up, or its database
    /// is older than it was: nothing newer than this list is to be had.
    pub fn fetched(&self, epoch: u64, heard: u64) {
        self.known.store(epoch, Ordering::Release);
        // One that was heard of meanwhile stays.
        let _ = self.heard.compare_exchange(heard, epoch, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The newest of which this node has heard.
    #[must_use]
    pub fn heard(&self) -> u64 {
        self.heard.load(Ordering::Acquire)
    }

    /// Whether there is a newer list than this node has, as far as it has heard.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.heard() > self.known()
    }
}

#[cfg(test)]
mod tests;
