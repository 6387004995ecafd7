//! Volumes: those attached on this node, and what can be done with any.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::primary::{EndReason, Note, Waiting};
use evenkeel_core::{PrimaryId, ReplicaId, VolumeId};
use evenkeel_engine::FrontendId;

use crate::clock::core_now;
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
mod rate;
mod remembered;
pub mod replicas;
pub mod status;
mod verdict;

pub use attached::{Attached, Device};
pub use attachment::lifecycle::{Over, Phase};
use attachment::{actor, leftovers, saving, start};
use commands::grow;
pub use node::Node;
use replicas::{make, sweep};
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

    /// Something for the log, and for the volume's events.
    pub fn note(&self, node: &Arc<Node>, volume: VolumeId, note: Note) {
        let Some(attached) = self.get(volume) else { return };
        let is_placed = |id: ReplicaId| {
            attached.record().replicas.iter().any(|placed| placed.id == id.to_string())
        };
        // Who joins and who leaves changes what the record says.
        let changes = matches!(note, Note::Admitted(_) | Note::Removed(..));
        if !changes && messages::named(&note).is_none_or(is_placed) {
            return self.report(node, &attached, note);
        }
        // Another primary's node may have made it: the coordinator knows where.
        let node = node.clone();
        tokio::spawn(async move {
            if let Ok(found) = lookup::find(&node, "", &volume.to_string()).await {
                attached.renew(found.stored.record);
            }
            node.volumes.report(&node, &attached, note);
        });
    }

    fn report(&self, node: &Arc<Node>, attached: &Arc<Attached>, note: Note) {
        let volume = attached.id;
        match note {
            // It is tried again and again, and told once.
            Note::OtherHistory(replica) if !attached.note_diverged(replica) => return,
            Note::Admitted(replica) => attached.note_admitted(replica),
            _ => {}
        }
        let place = |replica| lookup::place_of(node, attached, replica);
        let message = messages::note(&note, place, |id| node.coordinator.node_ref(id).name);
        match note {
            Note::Left(..)
            | Note::StandsIn(..)
            | Note::StaysAway { .. }
            | Note::Suspended(_)
            | Note::OtherHistory(_)
            | Note::ViewRefused(..)
            | Note::Evicted(_) => {
                tracing::warn!(volume = attached.name(), "{message}");
            }
            _ => tracing::info!(volume = attached.name(), "{message}"),
        }
        if let Note::Serving { follows, .. } = note {
            attached.note_serves(core_now());
            actor::serves(node, attached, follows);
        }
        if let Note::Verified { .. } = note {
            verdict::keep_soon(node, attached);
        }
        if let Note::Grown(size) = note {
            // By another primary, perhaps.
            let (node, attached) = (node.clone(), attached.clone());
            tokio::spawn(async move { grow::follow(&node, &attached, size).await });
        }
        if let Note::Removed(replica, home) = note {
            let node = node.clone();
            tokio::spawn(async move { make::delete_removed(&node, home, volume, replica).await });
        }
        // The wait for the start is told by the state; it is no event.
        if !matches!(note, Note::Suspended(Waiting::Start)) {
            attached.event(message);
        }
    }

    /// The primary has ended: for whoever waits for it, and if nobody does, to take away what
    /// served it.
    pub fn ended(&self, node: &Arc<Node>, volume: VolumeId, primary: PrimaryId, reason: EndReason) {
        let Some(attached) = self.of(volume, primary) else { return };
        let message = start::why_ended(node, &attached, reason);
        tracing::info!(volume = attached.name(), "{message}");
        attached.event(message.clone());
        let was_used = attached.phase().is_used();
        let comes_back = actor::ended(node, &attached, reason, &message);
        if was_used && !matches!(reason, EndReason::Detached | EndReason::DetachedUnclean) {
            let text =
                format!("volume {} is not attached here any more: {message}", attached.name());
            match comes_back {
                true => node
                    .warnings
                    .warn_until_shown(volume, format!("{text}; it attaches again by itself")),
                false => node.warn(text),
            }
        }
    }

    /// A client has gone, or the kernel has closed a device.
    pub fn frontend_ended(&self, volume: VolumeId, frontend: FrontendId, reason: &str) {
        let name = self.get(volume).map(|attached| attached.name().to_owned());
        tracing::info!(volume = name, frontend = frontend.0, %reason, "a client's connection ended");
    }
}
