//! The coordinator's logic, without a clock, a disk or a connection.
//!
//! A request becomes a [`Task`]. The task reads keys of a [`Store`], works out from them and from
//! the time what to write, and commits that together with the condition that nothing which it read
//! has changed. If something has, it starts again. So any number of tasks may run at once, in one
//! process or in several, and each acts as if it were alone (optimistic concurrency).
//! `docs/decisions/0063-coordinator-requests-are-optimistic-transactions.md` says why.
//!
//! - [`store`]: keys, guards, commits: what a store has to do.
//! - [`Task`], [`run`]: one request, from its first read to its answer.
//! - [`Memory`]: what a coordinator has learned since its start, and no store holds.
//! - [`starts`]: which start of a daemon speaks for its node.
//! - [`liveness`]: which nodes are silent, and for how long.

mod founding;
pub mod liveness;
mod memory;
mod messages;
mod moment;
mod names;
mod operations;
mod records;
mod removed;
mod repeated;
pub mod starts;
pub mod store;
mod task;
mod transaction;
mod view_text;
mod wanted;

pub use evenkeel_wire::hello::Start as StartId;
pub use founding::{Cluster, FoundingError, found};
pub use memory::{Identity, Memory};
pub use messages::{Answer, CallError, Fate, FoundReplica, Request, Standing};
pub use moment::Moment;
pub use operations::dropped;
pub use records::{
    Caller, Lineage, LostCopy, Maker, NoData, NodeLiveness, NodeRecord, PlacedReplica,
    Registration, StoredVolume, VolumeRecord,
};
pub use removed::RemovedNode;
pub use repeated::Repeated;
pub use store::{Store, StoreError};
pub use task::{Task, TaskStep, run};
pub use view_text::{ViewText, from_hex, to_hex};
pub use wanted::{ForMount, Made, NvmeKeys, Shown, WantedNbd, WantedNvme, WantedOn, Wish};
