//! Tests of the core through what it publishes: `Primary` and `Replica` alone, and whole clusters
//! of them in memory.
//!
//! One program: each file would be linked with the harness of its own otherwise.

#![allow(missing_docs)]

mod cancelling;
mod care;
mod cluster;
mod cluster_locks;
mod epochs;
mod harness;
mod predecessors;
mod primary;
mod replica;
mod reservations;
mod scenarios;
mod sharing;
mod stale_clones;
mod unread;
mod unverified;
