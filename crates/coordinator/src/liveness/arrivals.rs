//! Signs of life that have come and are not answered yet.
//!
//! One that waits for a thread or for a read has told nobody anything. And one that is noted
//! already, and waits for a commit, may keep its node from sending the next one. So while any of
//! them waits for longer than [`PATIENCE`], nobody's silence counts. The same is so for a while
//! after one was lost: its node sends the next one a second later.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// For so long one may wait, and silence counts all the same. With the second between two of them
/// that is less than the shortest expiry time.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// For so long after one was lost its node has time to send the next one.
const RETRY: Duration = Duration::from_millis(2500);

/// What has come and is not answered. Its clones are the same: it is noted before the request waits
/// for anything, by whoever receives it.
#[derive(Debug, Clone, Default)]
pub struct Arrivals(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    last: u64,
    /// Those that wait: of which node, and since when.
    waiting: BTreeMap<u64, (String, Duration)>,
    /// Nodes of which one was lost, and which were not heard since.
    lost: BTreeMap<String, Lost>,
}

#[derive(Debug, Clone, Copy)]
struct Lost {
    /// Since when the node has waited to be heard.
    since: Duration,
    /// When it was last known that something of it waits; `None`: until the next look.
    waited: Option<Duration>,
}

/// A sign of life that waits. If this is dropped, it was lost.
#[derive(Debug)]
pub(crate) struct Arrival {
    all: Arrivals,
    number: u64,
}

impl Arrivals {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One has come from this node.
    pub(crate) fn came(&self, node: &str, now: Duration) -> Arrival {
        let mut inner = self.lock();
        inner.last += 1;
        let number = inner.last;
        inner.waiting.insert(number, (node.to_owned(), now));
        Arrival { all: self.clone(), number }
    }

    /// The node was heard: what was lost of it before does not matter any more.
    pub(super) fn heard(&self, node: &str) {
        self.lock().lost.remove(node);
    }

    /// Since when one of these nodes has waited, at most.
    pub(super) fn oldest(&self, now: Duration, counts: impl Fn(&str) -> bool) -> Option<Duration> {
        let Inner { waiting, lost, .. } = &mut *self.lock();
        lost.retain(|node, lost| {
            let waits = waiting.values().any(|(other, _)| other == node);
            let waited = lost.waited.filter(|_| !waits).unwrap_or(now);
            lost.waited = Some(waited);
            now.saturating_sub(waited) < RETRY
        });
        let waiting = waiting.values().map(|(node, since)| (node, *since));
        let lost = lost.iter().map(|(node, lost)| (node, lost.since));
        let all = waiting.chain(lost).filter(|(node, _)| counts(node));
        all.map(|(_, since)| since).min()
    }
}

impl Arrival {
    /// It was answered, or another one like it would fare no better.
    pub(crate) fn answered(self) {
        self.all.lock().waiting.remove(&self.number);
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        let Inner { waiting, lost, .. } = &mut *self.all.lock();
        if let Some((node, since)) = waiting.remove(&self.number) {
            let lost = lost.entry(node).or_insert(Lost { since, waited: None });
            lost.waited = None;
        }
    }
}

#[cfg(test)]
mod tests;
