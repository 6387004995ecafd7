//! The disks of this node behind their lock, and who is woken when one of them changes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use evenkeel_api::types::NodeRef;
use tokio::sync::Notify;

use super::entries::Entries;

/// What all that is done with disks shares.
#[derive(Debug)]
pub(super) struct Listed {
    node: NodeRef,
    entries: Mutex<Entries>,
    /// Something may have to be opened again sooner than was thought.
    changed: Notify,
}

impl Listed {
    pub(super) fn new(node: NodeRef, entries: Entries) -> Self {
        Self { node, entries: Mutex::new(entries), changed: Notify::new() }
    }

    /// Whose disks they are.
    pub(super) const fn node(&self) -> &NodeRef {
        &self.node
    }

    /// The disks. Nothing that blocks on a disk may be done meanwhile.
    pub(super) fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has whoever opens disks again look when the next one is due.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Waits for the moment that `next` names, or until something has changed.
    pub(super) async fn until(&self, next: impl FnOnce() -> Option<Instant>) {
        let changed = self.changed.notified();
        match next() {
            Some(at) => tokio::select! {
                () = tokio::time::sleep_until(at.into()) => {}
                () = changed => {}
            },
            None => changed.await,
        }
    }
}
