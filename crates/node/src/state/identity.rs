//! Who this node is.

use evenkeel_core::{BootId, NodeId};
use serde::{Deserialize, Serialize};

use super::directory::{StateDirectory, StateError};
use super::start::Start;
use crate::random::random_u128;

/// Who this node is.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Drawn at the first start, kept for good.
    pub node: NodeId,
    /// Its name in the cluster.
    pub name: String,
    /// The boot of this machine.
    pub boot: BootId,
    /// This start of the daemon.
    pub start: Start,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    id: String,
}

impl Identity {
    /// Reads the identity from the state directory, or draws one and stores it; and begins a
    /// start, which is durable when this returns.
    ///
    /// # Errors
    /// If what is stored cannot be read, or what is new cannot be written.
    pub fn load_or_create(state: &StateDirectory, name: String) -> Result<Self, StateError> {
        let node = node_id(state)?;
        let boot = boot_id();
        Ok(Self { node, name, boot, start: Start::begin(state, boot)? })
    }
}

/// The node's identity: reads it from the state directory, or draws one and stores it.
///
/// # Errors
/// If what is stored cannot be read, or what is new cannot be written.
pub fn node_id(state: &StateDirectory) -> Result<NodeId, StateError> {
    const FILE: &str = "node.json";
    if let Some(stored) = state.load::<Stored>(FILE)? {
        return stored.id.parse().map_err(|e: evenkeel_core::ParseIdentityError| {
            let source = std::io::Error::other(e.to_string());
            StateError::Io { path: state.join(FILE), source }
        });
    }
    let node = NodeId(random_u128());
    state.save(FILE, &Stored { id: node.to_string() })?;
    Ok(node)
}

/// The boot of this machine. In a place without /proc, each start counts as a boot of its own:
/// then nothing that was not flushed is taken for safe, and no lock proves anything.
fn boot_id() -> BootId {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().parse().unwrap_or_else(|_| BootId(random_u128()))
}

#[cfg(test)]
mod tests;
