//! What the node remembers across restarts: the state directory, who the node is, its starts, and
//! the name of its cluster.

pub mod cluster_name;
mod directory;
pub mod identity;
pub mod start;

pub use directory::{
    LockId, StateDirectory, StateError, lock_file, lock_holder, replace, sync_parent,
};
