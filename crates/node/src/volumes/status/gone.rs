//! Replicas of attached volumes that are served, and with which something is wrong: they are gone
//! when their nodes' daemons end, as their files were deleted, or their disks moved or unmounted; or
//! their disks can't be written any more. No operation fails, so no primary learns of that from a
//! session. Those of this node are known by looks at its disks; other nodes are
//! asked now and then, so that a status tells of all of them without a wait. So is why a replica is
//! not served: a primary connects to no faulty one, and learns nothing of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_core::{NodeId, ReplicaId, ReplicaRecord};

use super::hearing::{self, Heard};
use crate::coordinator::PlacedReplica;
use crate::disks::{Risk, Unserved};
use crate::node::Node;
use crate::volumes::lookup::place_of;
use crate::volumes::{Attached, lock};

/// The pause between two questions.
const PAUSE: Duration = Duration::from_secs(3);

/// What is wrong with each of them, as its node has said last.
#[derive(Debug, Default)]
pub struct Gone {
    risks: Mutex<BTreeMap<ReplicaId, Risk>>,
    /// Those that their nodes do not serve, as these have said when they were asked last.
    unserved: Mutex<BTreeMap<ReplicaId, Unserved>>,
}

impl Gone {
    pub(super) fn risk(&self, replica: ReplicaId) -> Option<Risk> {
        lock(&self.risks).get(&replica).cloned()
    }

    /// Those whose disks can't be written.
    pub(in crate::volumes) fn unwritable(&self) -> BTreeSet<ReplicaId> {
        let risks = lock(&self.risks);
        risks.iter().filter(|(_, risk)| risk.is_read_only()).map(|(id, _)| *id).collect()
    }

    /// Why its node does not serve a replica, if it has said so when it was asked last.
    pub(super) fn unserved(&self, replica: ReplicaId) -> Option<Unserved> {
        lock(&self.unserved).get(&replica).cloned()
    }

    /// Takes note of what is so now of these replicas, and forgets all others. Of a node that has
    /// not answered what it said last stays. Returns the replicas of which it is news.
    fn note(&self, asked: &[(NodeId, ReplicaId)], heard: &Heard) -> Vec<ReplicaId> {
        let unserved = asked.iter().filter_map(|(_, id)| Some((*id, heard.unserved(*id)?)));
        *lock(&self.unserved) = unserved.collect();
        let mut gone = lock(&self.risks);
        let before = std::mem::take(&mut *gone);
        for (node, replica) in asked {
            let last = before.get(replica).filter(|_| heard.answered(*node) == Some(false));
            if let Some(risk) = heard.risk(*replica).or_else(|| last.cloned()) {
                gone.insert(*replica, risk);
            }
        }
        gone.keys().filter(|replica| !before.contains_key(replica)).copied().collect()
    }
}

/// Asks for the replicas of all volumes that are attached here, until the daemon ends.
pub async fn watch(node: Arc<Node>) {
    let mut stopping = node.stopping.subscribe();
    loop {
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
        let attached = node.volumes.all();
        let asked: Vec<_> = attached.iter().flat_map(|attached| replicas(attached)).collect();
        let heard = hearing::ask_of(&node, asked.clone(), true).await;
        let here = |(at, replica): &(NodeId, ReplicaId)| {
            (*at == node.identity.node).then(|| node.disks.risk(*replica)).flatten()
        };
        let heard = heard.with_risks(asked.iter().filter_map(|it| Some((it.1, here(it)?))));
        for replica in node.volumes.gone.note(&asked, &heard) {
            tell(&node, &attached, replica);
        }
    }
}

/// The replicas of a volume, and their nodes.
fn replicas(attached: &Attached) -> Vec<(NodeId, ReplicaId)> {
    let record = attached.record();
    let of = |placed: &PlacedReplica| Some((placed.node.parse().ok()?, placed.id.parse().ok()?));
    record.replicas.iter().filter(|placed| !placed.removed).filter_map(of).collect()
}

fn tell(node: &Node, attached: &[Arc<Attached>], replica: ReplicaId) {
    let has_it = |attached: &&Arc<Attached>| replicas(attached).iter().any(|it| it.1 == replica);
    let Some(attached) = attached.iter().find(has_it) else { return };
    let Some(risk) = node.volumes.gone.risk(replica) else { return };
    let place = place_of(node, attached, replica);
    let what = match risk {
        Risk::FileGone(_) => "is gone when its node's daemon ends",
        Risk::ReadOnly(_) => "can't be written",
    };
    let text = format!("the replica on {place} {what}: {}", risk.why());
    tracing::warn!(volume = attached.name(), "{text}");
    attached.event(text);
}

/// What is wrong with a replica that is served, as its node says now. `None`: nothing is, or the
/// node does not answer.
pub(super) async fn ask(node: &Arc<Node>, record: &ReplicaRecord) -> Option<Risk> {
    if record.node == node.identity.node {
        return node.disks.risk(record.id);
    }
    let heard = hearing::ask_of(node, vec![(record.node, record.id)], false).await;
    heard.risk(record.id)
}

#[cfg(test)]
mod tests;
