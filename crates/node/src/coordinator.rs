//! The coordinator: keeps the cluster's nodes, its volumes and their views.
//!
//! Small on purpose: read, compare-and-swap, watch (a revision that heartbeats bring), expire. The
//! data path asks it only when a view has to change. What it does is in `evenkeel-coordinator`;
//! here is where it is stored, a crash-safe local database on one node ([`embedded`]), and how the
//! others reach it, over control connections ([`remote`]).

use std::future::Future;
use std::pin::Pin;

pub use evenkeel_coordinator::{
    Answer, CallError, Caller, Fate, ForMount, FoundReplica, LostCopy, Made, Maker, NoData,
    NodeLiveness, NodeRecord, NvmeKeys, PlacedReplica, Registration, RemovedNode, Request, Shown,
    Standing, StoredVolume, ViewText, VolumeRecord, WantedNbd, WantedNvme, WantedOn, Wish, dropped,
    from_hex, to_hex,
};

pub mod embedded;
pub mod handle;
pub mod remote;
pub mod removed;

pub use embedded::Embedded;
pub use handle::Handle;

/// The database of the node that serves it, in its state directory.
pub(crate) const DATABASE: &str = "coordinator.redb";

/// What a coordinator is: something that answers these requests, each as a whole or not at all.
pub trait Coordinator: Send + Sync {
    /// Answers a request. What it answers as done is durable.
    fn call(&self, request: Request) -> CallFuture<'_>;
}

/// The answer to come.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = Result<Answer, CallError>> + Send + 'a>>;
