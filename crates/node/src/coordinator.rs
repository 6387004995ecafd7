//! The coordinator: keeps the cluster's nodes, its volumes and their views.
//!
//! Small on purpose: read, compare-and-swap, watch (a revision that heartbeats bring), expire. The
//! data path asks it only when a view has to change. What it does is in `evenkeel-coordinator`;
//! here is where it is stored, a crash-safe local database on one node ([`embedded`]), and how the
//! others reach it, over control connections ([`remote`]).

use std::future::Future;
use std::pin::Pin;

pub use evenkeel_coordinator::{
    Answer, CallError, Caller, Fate, FoundReplica, Maker, NoData, NodeLiveness, NodeRecord,
    PlacedReplica, Registration, RemovedNode, Request, Shown, Standing, StoredVolume, ViewText,
    VolumeRecord, WantedNbd, WantedOn, Wish, dropped, from_hex, to_hex,
};

pub mod embedded;
pub mod handle;
pub mod remote;

pub use embedded::Embedded;
pub use handle::Handle;

/// What a coordinator is: something that answers these requests, each as a whole or not at all.
pub trait Coordinator: Send + Sync {
    /// Answers a request. What it answers as done is durable.
    fn call(&self, request: Request) -> CallFuture<'_>;
}

/// The answer to come.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = Result<Answer, CallError>> + Send + 'a>>;

/// Seconds since 1970-01-01 UTC.
#[must_use]
pub fn unix_seconds() -> u64 {
    since_epoch().as_secs()
}

fn since_epoch() -> std::time::Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// The moment that lies so long back, in seconds since 1970; `None`: before that. The same moment
/// gives the same number whenever it is asked for, as far as the clock is not set.
#[must_use]
pub fn unix_seconds_ago(age: std::time::Duration) -> Option<u64> {
    const HALF: std::time::Duration = std::time::Duration::from_millis(500);
    since_epoch().checked_sub(age).map(|moment| (moment + HALF).as_secs())
}
