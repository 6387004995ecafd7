//! Drives the core with io_uring: disks, sockets, buffers.
//!
//! An [`Engine`] is a handful of worker threads, each with one ring that carries disks and sockets
//! together. A volume lives on one worker, chosen by its identity: its primary, its front ends
//! (clients), its replicas on this node and their connections. So nothing on the data path crosses
//! threads or takes a lock.
//!
//! Where to look:
//! - [`Engine`], [`api`]: what the control plane tells the engine, and what it is told.
//! - [`frontend`]: the trait that NBD, FUSE and ublk implement.
//! - [`memory`]: buffers, their bounds, and why nothing waits in a circle.
//! - [`counters`]: what is counted.

pub mod api;
pub mod counters;
mod disk;
mod engine;
mod error;
pub mod frontend;
mod frontend_host;
mod link;
mod mailbox;
pub mod memory;
mod orders;
mod polling;
mod replica_host;
mod ring;
mod slab;
mod status;
mod transport;
mod volume;
mod worker;

pub use api::*;
pub use disk::{
    Carry, Metadata, Recovered, RoomStep, RoomTask, Tables, flush, read_metadata, smallest_block,
};
pub use engine::Engine;
pub use error::{Answer, EngineError};
pub use frontend::{Frontend, FrontendContext, FrontendEvent, FrontendMaker};
pub use memory::{Buffer, BufferMut, Part};
pub use ring::Descriptor;
