//! The simulator: the shipped core and encoders under simulated disks, network, clock and
//! coordinator.
//!
//! One seed decides everything: the cluster, the load, the faults and every delay ([`profile`],
//! [`random`]). [`cluster`] runs the same `Primary` and `Replica` that the engine runs, in virtual
//! time; messages go through the shipped wire format ([`codec`]) and views through the shipped
//! superblocks ([`store`]). While it runs, the [`oracles`] compare what happens with the invariants
//! of the design, each by its name. `docs/simulator.md` says how to run, replay and read it.

pub mod cluster;
pub mod codec;
pub mod coordinator;
pub mod describe;
pub mod disk;
pub mod log;
pub mod marks;
pub mod network;
pub mod oracles;
pub mod payload;
pub mod profile;
pub mod queue;
pub mod random;
pub mod reduction;
pub mod run;
pub mod sabotage;
pub mod shrink;
pub mod store;
pub mod tape;
