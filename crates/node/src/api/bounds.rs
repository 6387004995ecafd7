//! How much of a node all others together, and each of them, may occupy by what they ask.
//!
//! A member has proved who it is, and need not mean well. What it occupies must leave enough for
//! the other members, for the coordinator's work, and for the users of this machine.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::NodeId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::seats::{Share, Shares};

/// Most changes under way that nodes have asked for. That of all ([`crate::tasks`]) leaves 64 for
/// users.
const MAX_CHANGES: usize = 448;
/// Most of them that one node has asked for.
const MAX_CHANGES_OF_ONE: usize = 128;
/// Most bytes of bodies of all nodes' requests that are served.
const MAX_BODIES: usize = 64 << 20;
/// Most of them of one node.
const MAX_BODIES_OF_ONE: usize = 8 << 20;
/// The unit in which bodies are counted.
const KIB: usize = 1 << 10;

/// What nodes occupy.
#[derive(Debug)]
pub(super) struct Bounds {
    changes: Arc<Semaphore>,
    changes_of_one: Arc<Shares<NodeId>>,
    bodies: Arc<Semaphore>,
    bodies_of_one: Mutex<HashMap<NodeId, Arc<Semaphore>>>,
}

/// A place among the changes; free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    _share: Share<NodeId>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            changes: Arc::new(Semaphore::new(MAX_CHANGES)),
            changes_of_one: Arc::default(),
            bodies: Arc::new(Semaphore::new(MAX_BODIES / KIB)),
            bodies_of_one: Mutex::default(),
        }
    }
}

impl Bounds {
    /// A place for a change that this node has asked for. `None`: there is none.
    pub(super) fn place(&self, node: NodeId) -> Option<Place> {
        let share = self.changes_of_one.take(node, MAX_CHANGES_OF_ONE)?;
        let permit = self.changes.clone().try_acquire_owned().ok()?;
        Some(Place { _permit: permit, _share: share })
    }

    /// Waits for memory for a body of so many bytes, until what is returned is dropped. A node that
    /// has its share waits for nobody but itself, and nobody waits for it.
    pub(super) async fn memory(
        &self,
        node: NodeId,
        bytes: usize,
    ) -> [Option<OwnedSemaphorePermit>; 2] {
        let count = u32::try_from(bytes.div_ceil(KIB)).unwrap_or(u32::MAX);
        let own = self.bodies_of(node).acquire_many_owned(count).await;
        let all = self.bodies.clone().acquire_many_owned(count).await;
        // Nobody closes them.
        [own.ok(), all.ok()]
    }

    fn bodies_of(&self, node: NodeId) -> Arc<Semaphore> {
        let mut each = self.bodies_of_one.lock().unwrap_or_else(PoisonError::into_inner);
        if !each.contains_key(&node) {
            // Whoever uses or awaits one has it.
            each.retain(|_, bodies| Arc::strong_count(bodies) > 1);
        }
        let new = || Arc::new(Semaphore::new(MAX_BODIES_OF_ONE / KIB));
        each.entry(node).or_insert_with(new).clone()
    }
}

#[cfg(test)]
mod tests;
