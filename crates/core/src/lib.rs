//! The deterministic core of evenkeel.
//!
//! A volume is a stripe of mirrors of replicas. A [`Primary`] runs the mirrors of one attached
//! volume; a [`Replica`] guards one full copy of one mirror on one disk; a [`View`] says who is
//! who. All three are plain values: nothing here reads a clock, draws a random number, opens a
//! socket or a file, or starts a thread. A driver calls `step(now, event, effects)` and carries
//! out the effects in their order. There are two drivers: the engine (io_uring) and the simulator.
//!
//! Theory: PacificA (Lin et al., 2008) and Vertical Paxos (Lamport, Malkhi, Zhou, 2009): data is
//! replicated from the primary to all, and membership is agreed elsewhere, by the coordinator.
//!
//! Where to look:
//! - [`view`]: the record of who is who, and every permitted change of it, as pure functions.
//! - [`assembly`]: how a volume goes on that is put together from its disks alone.
//! - [`message`]: what primaries and replicas tell each other.
//! - [`primary`]: requests in, messages out; acknowledgement, view changes, the read lease.
//! - [`replica`]: messages in, disk actions out; adoption, fencing, flushes, the rebuild.
//! - [`stripe`], [`range_lock`], [`policy`], `rising_map`: the small pure parts that both use.

// The harness of the tests, in which a test of a module can reach into a machine.
#[cfg(test)]
extern crate self as evenkeel_core;
#[cfg(test)]
#[path = "../tests/cluster/mod.rs"]
mod cluster;
#[cfg(test)]
#[path = "../tests/harness/mod.rs"]
mod harness;

pub mod assembly;
pub mod block_set;
pub mod ids;
pub mod incarnations;
pub mod message;
pub mod operation;
mod pace;
pub mod payload;
pub mod policy;
pub mod primary;
pub mod range_lock;
pub mod replica;
mod rising_map;
pub mod settings;
pub mod stripe;
pub mod time;
#[cfg(test)]
mod trips;
pub mod view;

pub use ids::*;
pub use incarnations::Incarnations;
pub use message::{Message, OperationId};
pub use operation::{Extent, Operation, Reply, RequestError};
pub use payload::Payload;
pub use primary::{Primary, PrimaryEffect, PrimaryEvent};
pub use replica::{
    DiskAction, DiskError, DiskOutcome, DiskTicket, Replica, ReplicaEffect, ReplicaEvent,
};
pub use settings::{NoDataPolicy, Settings};
pub use stripe::Geometry;
pub use time::Instant;
pub use view::{
    Bitmap, Epoch, IntentLayout, Lease, MirrorView, Newcomer, NoCoordinatorPolicy, PrimaryRecord,
    Protocol, RebuildLimit, ReplicaRecord, ReplicaState, Reservations, Role, View,
};
