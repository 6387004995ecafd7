//! Shipped workers over rings of which a test decides what ends next, all from one seed:
//! `docs/simulator.md` tells what it covers.
//!
//! Real are the workers with all that they run, the rings, sockets, files in memory and the handle
//! by which orders come. The world stands for the kernel's timing, clients, the control plane and
//! the clock, and for errors of disks.
//!
//! `EVENKEEL_WORKER_SEEDS=N` runs so many seeds in place of the sample, from `EVENKEEL_WORKER_FROM`
//! on; `EVENKEEL_WORKER_SEED=S` runs one, and tells every event.

mod client;
mod coordinator;
mod desk;
mod disks;
mod model;
mod node;
mod plan;
mod tests;
mod world;
