//! A lock for each of many things: one change of a volume, or of a replica, at a time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::Notify;

/// Locks that can be awaited, each with a key. Those that nobody holds take no memory.
#[derive(Debug)]
pub struct KeyedLock<K: Ord + Copy>(Arc<Inner<K>>);

#[derive(Debug)]
struct Inner<K> {
    /// What is held, each with whether somebody has asked its holder to give it up.
    held: Mutex<BTreeMap<K, Recall>>,
    freed: Notify,
}

/// Holds the lock of one key; letting go of it frees that.
#[must_use]
pub struct Held<K: Ord + Copy> {
    inner: Arc<Inner<K>>,
    key: K,
    recall: Recall,
}

/// What the holder of a lock and those who wait for it know of each other: whether it is to give it
/// up, and how far it has come.
#[derive(Debug, Clone)]
pub struct Recall(Arc<Work>);

#[derive(Debug)]
struct Work {
    is_recalled: AtomicBool,
    since: Timestamp,
    /// Beyond 100: the holder has not told.
    percent: AtomicU8,
}

impl Default for Recall {
    fn default() -> Self {
        let (is_recalled, percent) = (AtomicBool::new(false), AtomicU8::new(u8::MAX));
        Self(Arc::new(Work { is_recalled, since: Timestamp::now(), percent }))
    }
}

impl Recall {
    /// Whether somebody has asked the holder to give it up: whoever can stop between two steps
    /// does.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.is_recalled.load(Ordering::Relaxed)
    }

    /// Its holder tells how far it has come.
    pub fn report(&self, percent: u8) {
        self.0.percent.store(percent.min(100), Ordering::Relaxed);
    }

    /// How far the holder has come, if it tells.
    #[must_use]
    pub fn percent(&self) -> Option<u8> {
        Some(self.0.percent.load(Ordering::Relaxed)).filter(|percent| *percent <= 100)
    }

    /// Since when the lock is held.
    #[must_use]
    pub fn since(&self) -> Timestamp {
        self.0.since
    }
}

impl<K: Ord + Copy> Default for KeyedLock<K> {
    fn default() -> Self {
        Self(Arc::new(Inner { held: Mutex::default(), freed: Notify::new() }))
    }
}

impl<K: Ord + Copy> KeyedLock<K> {
    /// Waits until nobody holds the lock of this key, and takes it.
    pub async fn lock(&self, key: K) -> Held<K> {
        self.wait(key, false).await
    }

    /// The same, and asks whoever holds it to give it up.
    pub async fn recall(&self, key: K) -> Held<K> {
        self.wait(key, true).await
    }

    /// Takes the lock of this key. `None`: somebody holds it.
    pub fn try_lock(&self, key: K) -> Option<Held<K>> {
        self.take(key, false)
    }

    /// What the present holder of this key tells; `None`: nobody holds it.
    #[must_use]
    pub fn holder(&self, key: K) -> Option<Recall> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    async fn wait(&self, key: K, recall: bool) -> Held<K> {
        loop {
            let freed = self.0.freed.notified();
            if let Some(held) = self.take(key, recall) {
                return held;
            }
            freed.await;
        }
    }

    fn take(&self, key: K, recall: bool) -> Option<Held<K>> {
        let mut held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = held.get(&key) {
            other.0.is_recalled.fetch_or(recall, Ordering::Relaxed);
            return None;
        }
        let taken = Held { inner: self.0.clone(), key, recall: Recall::default() };
        held.insert(key, taken.recall.clone());
        Some(taken)
    }
}

impl<K: Ord + Copy> Held<K> {
    /// Tells whether somebody has asked for it, also where the lock itself is not at hand.
    #[must_use]
    pub fn recall(&self) -> Recall {
        self.recall.clone()
    }
}

impl<K: Ord + Copy> Drop for Held<K> {
    fn drop(&mut self) {
        self.inner.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
        self.inner.freed.notify_waiters();
    }
}

impl<K: Ord + Copy + fmt::Debug> fmt::Debug for Held<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&self.key).finish()
    }
}

#[cfg(test)]
mod tests;
