//! How much of a node all others together, and each of them, may occupy by what they ask.
//!
//! A member has proved who it is, and need not mean well. What it occupies must leave enough for
//! the other members, for the coordinator's work, and for the users of this machine.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::NodeId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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
    changes_of_one: Each,
    bodies: Arc<Semaphore>,
    bodies_of_one: Each,
}

/// What is occupied, as long as this is kept.
#[derive(Debug)]
pub(super) struct Place {
    _permits: [Option<OwnedSemaphorePermit>; 2],
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            changes: Arc::new(Semaphore::new(MAX_CHANGES)),
            changes_of_one: Each::of(MAX_CHANGES_OF_ONE),
            bodies: Arc::new(Semaphore::new(MAX_BODIES / KIB)),
            bodies_of_one: Each::of(MAX_BODIES_OF_ONE / KIB),
        }
    }
}

impl Bounds {
    /// Waits for a place for a change that this node has asked for. A node that has its share waits
    /// for nobody but itself, and nobody waits for it.
    pub(super) async fn place(&self, node: NodeId) -> Place {
        occupy([self.changes_of_one.get(node), self.changes.clone()], 1).await
    }

    /// Waits in the same way for memory for a body of so many bytes.
    pub(super) async fn memory(&self, node: NodeId, bytes: usize) -> Place {
        let count = u32::try_from(bytes.div_ceil(KIB)).unwrap_or(u32::MAX);
        occupy([self.bodies_of_one.get(node), self.bodies.clone()], count).await
    }
}

async fn occupy([own, all]: [Arc<Semaphore>; 2], count: u32) -> Place {
    let own = own.acquire_many_owned(count).await;
    let all = all.acquire_many_owned(count).await;
    // Nobody closes them.
    Place { _permits: [own.ok(), all.ok()] }
}

/// A semaphore for each node that occupies something, or waits to.
#[derive(Debug)]
struct Each {
    most: usize,
    nodes: Mutex<HashMap<NodeId, Arc<Semaphore>>>,
}

impl Each {
    fn of(most: usize) -> Self {
        Self { most, nodes: Mutex::default() }
    }

    fn get(&self, node: NodeId) -> Arc<Semaphore> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if !nodes.contains_key(&node) {
            // Whoever uses or awaits one has it.
            nodes.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        nodes.entry(node).or_insert_with(|| Arc::new(Semaphore::new(self.most))).clone()
    }
}

#[cfg(test)]
mod tests;
