//! Block protocols by which clients elsewhere reach an attached volume.
//!
//! - [`nbd`]: the Network Block Device protocol, spoken by qemu, libnbd, fio and the Linux kernel.
//! - [`nvme`]: NVMe over TCP, spoken by any kernel.
//!
//! The control plane accepts connections and drives the handshake, which is sans-I/O; then it
//! gives the socket to the engine with a front end from here.

pub mod nbd;
pub mod nvme;
mod stream;

pub use stream::{MAX_QUEUED, PATIENCE, RECEIVE_BUFFER};
