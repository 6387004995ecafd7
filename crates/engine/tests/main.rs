//! Tests of the engine through what it publishes: clusters of engines with real files and sockets.
//!
//! One program: each file would be linked with the harness of its own otherwise. What changes a
//! limit of the whole process is in `alone`.

#![allow(missing_docs)]

mod block_device;
mod checksums;
mod common;
mod encrypted;
mod faults;
mod frontends;
mod hung_close;
mod room;
mod volumes;
