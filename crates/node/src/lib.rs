//! The node daemon.
//!
//! Owns the disks of one machine, serves the replicas on them to primaries, runs primaries for
//! the volumes that are attached here, and offers an API. It carries out for the engine what
//! the data path must not wait for: connections, the coordinator, listeners, commands.
//!
//! Where to look:
//! - [`run`], [`daemon`]: start, serve, end.
//! - [`config`], [`preflight`]: the configuration file, and whether the machine has what it names.
//! - [`api`]: paths and JSON; what the command codes against.
//! - [`disks`], [`state`]: what a node keeps.
//! - [`examine`]: what a replica's disk says, read without a node.
//! - [`certificates`]: how it proves who it is, and how others get the same.
//! - [`coordinator`], [`membership`], [`peer`], [`cluster`]: other nodes.
//! - [`volumes`], [`nbd`], [`nvme`], [`data_path`], [`engine_glue`]: what it does; [`tasks`]: that
//!   it does it to the end.
//!
//! Each module uses only those before it in the table of `docs/architecture.md`.

pub mod access;
mod admission;
pub mod api;
mod audit;
pub mod certificates;
mod clock;
pub mod cluster;
pub mod config;
mod conversions;
pub mod coordinator;
pub mod daemon;
pub mod data_path;
mod disk_looks;
pub mod disks;
pub mod engine_glue;
pub mod examine;
mod files;
mod http;
mod keyed_lock;
mod late_disks;
mod listener;
mod log;
mod log_limit;
pub mod membership;
pub mod metrics;
pub mod nbd;
pub mod nvme;
mod own;
pub mod peer;
pub mod preflight;
mod random;
pub mod running;
mod seats;
pub mod state;
mod status;
pub mod stopping;
mod systemd;
pub mod tasks;
pub mod volumes;
mod warnings;

pub use config::{Config, ConfigError};
pub use daemon::{Daemon, StartError, run};
/// First of all in the program that runs a node: see `evenkeel_attach`.
pub use evenkeel_attach::serve_if_asked;
