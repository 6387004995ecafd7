//! Drives the core with io_uring: disks, sockets, buffers.
//!
//! An [`Engine`] is a handful of worker threads, each with one ring that carries disks and sockets
//! together. A volume lives on one worker, chosen by its identity: its primary, its front ends
//! (clients), its replicas on this node and their connections. So nothing on the data path crosses
//! threads or takes a lock.
//!
//! Where to look, from the top down. Nothing names what stands above it.
//! - [`Engine`]: the handle by which the control plane gives orders.
//! - `worker`: the loop of one thread, and what it runs: primaries, replicas, front ends, links.
//! - [`api`]: what the control plane tells the engine, and what it is told.
//! - `disk`, `transport`, [`frontend`]: disk actions, sockets, and the trait that NBD, FUSE and
//!   ublk implement. None of them names another.
//! - `ring`: one io_uring, behind safe functions, and the keys by which what has ended finds whose
//!   it is.
//! - [`memory`]: buffers, their bounds, and why nothing waits in a circle.
//! - [`counters`], `error`: what is counted, and the error of orders.

pub mod api;
#[cfg(test)]
mod canary;
pub mod counters;
mod disk;
mod engine;
mod error;
pub mod frontend;
pub mod memory;
mod ring;
#[cfg(test)]
mod seeds;
mod transport;
mod worker;

pub use api::*;
pub use disk::{
    Carry, Metadata, Recovered, SpaceStep, SpaceTask, Tables, flush, read_metadata, smallest_block,
};
pub use engine::Engine;
pub use error::{Answer, EngineError};
pub use frontend::{Frontend, FrontendContext, FrontendEvent, FrontendMaker, RequestToken};
pub use memory::{Buffer, BufferMut, Part};
pub use ring::{Descriptor, DescriptorToken};
pub use transport::{Connection, tls};
