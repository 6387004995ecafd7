//! Volumes: those attached on this node, and what can be done with any.

use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_core::ReplicaId;

use crate::keyed_lock::{Held, KeyedLock, Recall};

mod attached;
pub mod attachment;
pub mod commands;
mod disk_errors;
pub(crate) mod failures;
mod found_wrong;
mod kept;
mod lookup;
pub(crate) mod messages;
mod node;
mod notes;
mod rate;
mod remembered;
pub mod replicas;
pub mod status;
mod verdict;

pub use attached::{Attached, Device};
pub use attachment::lifecycle::{Over, Phase};
use attachment::{actor, leftovers, saving};
pub use node::Node;
use replicas::sweep;
use status::risks;

/// All volumes attached on this node.
#[derive(Debug, Default)]
pub struct Volumes {
    actors: Mutex<actor::Actors>,
    /// Requests that failed, also of volumes that are detached by now.
    failed: failures::Failed,
    /// Replicas of this node that are being made, given to the engine, made larger, closed or
    /// deleted.
    replicas: KeyedLock<ReplicaId>,
    /// What the state directory has of them.
    saves: saving::Saves,
    /// What is wrong with replicas that are served, and why others are not.
    risks: risks::Risks,
    /// What the coordinator keeps of volumes and this software can't read.
    unreadable: kept::Unreadable,
    /// Devices from which volumes were taken away.
    leftovers: leftovers::Leftovers,
    /// What the sweeps of this node's disks know from each other.
    sweeping: sweep::Sweeping,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Volumes {
    /// Their names.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.all().iter().map(|a| a.name().to_owned()).collect();
        names.sort();
        names
    }

    /// Waits until nothing else is done with a replica of this node.
    pub async fn replica(&self, replica: ReplicaId) -> Held<ReplicaId> {
        self.replicas.lock(replica).await
    }

    /// The same; whoever makes the replica larger is asked to stop.
    pub async fn recall(&self, replica: ReplicaId) -> Held<ReplicaId> {
        self.replicas.recall(replica).await
    }

    /// What whoever does something with a replica of this node tells of it.
    #[must_use]
    pub fn at_work(&self, replica: ReplicaId) -> Option<Recall> {
        self.replicas.holder(replica)
    }
}
