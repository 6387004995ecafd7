//! The node daemon.
//!
//! Owns the disks of one machine, serves the replicas on them to primaries, runs primaries for
//! the volumes that are attached here, and offers an API. It carries out for the engine what
//! the data path must not wait for: connections, the coordinator, listeners, commands.

pub mod api;
pub mod config;
pub mod disks;
pub mod identity;
pub mod state;

pub use config::{Config, ConfigError};
