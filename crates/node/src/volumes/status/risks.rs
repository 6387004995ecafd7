//! Replicas of attached volumes that are served, and with which something is wrong: they are gone
//! when their nodes' daemons end, as their files were deleted, or their disks moved or unmounted;
//! or their disks can't be written any more. No operation fails, so no primary learns of that from
//! a session. Those of this node are known by looks at its disks; other nodes are
//! asked now and then, so that a status shows all of them without a wait. So is why a replica is
//! not served: a primary connects to no faulty one, and learns nothing of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel_core::{NodeId, ReplicaId, ReplicaRecord};

use super::reports::{self, Reports};
use crate::coordinator::PlacedReplica;
use crate::disks::{Risk, Unserved};
use crate::volumes::Node;
use crate::volumes::lookup::place_of;
use crate::volumes::{Attached, lock};

/// For so long a disk has to be heard to be unwritable, without a break, before anything follows
/// from it. Others may have failed from the same cause: by then each node has looked at its disks
/// and was asked.
const LASTING: Duration = Duration::from_secs(10);

/// Replicas that are to leave for their disks, and those beside which they may.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in crate::volumes) struct Lasting {
    /// Their disks can't be written, and that is no news.
    pub(in crate::volumes) unwritable: BTreeSet<ReplicaId>,
    /// Their nodes have just said that nothing is wrong with them.
    pub(in crate::volumes) well: BTreeSet<ReplicaId>,
}

/// What nodes have said of the replicas of volumes that are attached here.
#[derive(Debug, Default)]
pub struct Risks(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// What is wrong with each of them, as its node has said last.
    risks: BTreeMap<ReplicaId, Risk>,
    /// Those that other nodes do not serve, as these have said in the last round.
    unserved: BTreeMap<ReplicaId, Unserved>,
    /// Replicas whose disks can't be written, and since when each round has heard that.
    unwritable: BTreeMap<ReplicaId, Instant>,
    /// Those of which their nodes have said in the last round that nothing is wrong with them.
    well: BTreeSet<ReplicaId>,
}

impl Risks {
    /// What is wrong with a replica that is served.
    pub(super) fn of(&self, replica: ReplicaId) -> Option<Risk> {
        lock(&self.0).risks.get(&replica).cloned()
    }

    /// Why its node does not serve a replica, if it has said so when it was asked last.
    pub(super) fn unserved(&self, replica: ReplicaId) -> Option<Unserved> {
        lock(&self.0).unserved.get(&replica).cloned()
    }

    /// Takes note of what is so now of these replicas, and forgets all others. Of a node that has
    /// not answered, what it said last of risks stays, but nobody leaves for that. Returns the
    /// replicas of which it is news that something is wrong with them.
    fn note(&self, asked: &Asked, reports: &Reports, now: Instant) -> Vec<ReplicaId> {
        let mut known = lock(&self.0);
        let before = std::mem::take(&mut *known);
        for (node, replica) in &asked.replicas {
            let (risk, unserved) = (reports.risk(*replica), reports.unserved(*replica));
            if reports.is_well(*node, *replica) {
                known.well.insert(*replica);
            } else if risk.as_ref().is_some_and(Risk::is_read_only) {
                let since = before.unwritable.get(replica).copied().unwrap_or(now);
                known.unwritable.insert(*replica, since);
            }
            // Of its own ones this node knows at any time whether it serves them.
            if let Some(unserved) = unserved.filter(|_| *node != asked.here) {
                known.unserved.insert(*replica, unserved);
            }
            let last = before.risks.get(replica).filter(|_| reports.answered(*node) == Some(false));
            if let Some(risk) = risk.or_else(|| last.cloned()) {
                known.risks.insert(*replica, risk);
            }
        }
        known.risks.keys().filter(|replica| !before.risks.contains_key(replica)).copied().collect()
    }

    /// What is certain enough for replicas to leave.
    fn lasting(&self, now: Instant) -> Lasting {
        let known = lock(&self.0);
        let is_old = |since: &Instant| now.duration_since(*since) >= LASTING;
        let unwritable = known.unwritable.iter().filter(|(_, since)| is_old(since));
        Lasting { unwritable: unwritable.map(|(id, _)| *id).collect(), well: known.well.clone() }
    }
}

/// What one round asks for.
struct Asked {
    /// Who asks.
    here: NodeId,
    replicas: Vec<(NodeId, ReplicaId)>,
}

/// Asks once for the replicas of all volumes that are attached here, and tells what is news.
pub(in crate::volumes) async fn look(node: &Arc<Node>) -> Lasting {
    let attached = node.volumes.all();
    let replicas: Vec<_> = attached.iter().flat_map(|attached| replicas(attached)).collect();
    let asked = Asked { here: node.identity.node, replicas };
    let reports = reports::ask_of(node, asked.replicas.clone(), true).await;
    let own: Vec<ReplicaId> =
        asked.replicas.iter().filter(|(at, _)| *at == asked.here).map(|it| it.1).collect();
    let risks = own.iter().filter_map(|id| Some((*id, node.disks.risk(*id)?)));
    let unserved = own.iter().filter_map(|id| Some((*id, node.disks.why_not_served(*id)?)));
    let reports = reports.with_risks(risks).with_reported(asked.here, unserved);
    let now = Instant::now();
    for replica in node.volumes.risks.note(&asked, &reports, now) {
        report(node, &attached, replica);
    }
    node.volumes.risks.lasting(now)
}

/// The replicas of a volume, and their nodes.
fn replicas(attached: &Attached) -> Vec<(NodeId, ReplicaId)> {
    let record = attached.record();
    let of = |placed: &PlacedReplica| Some((placed.node.parse().ok()?, placed.id.parse().ok()?));
    record.replicas.iter().filter(|placed| !placed.removed).filter_map(of).collect()
}

fn report(node: &Node, attached: &[Arc<Attached>], replica: ReplicaId) {
    let has_it = |attached: &&Arc<Attached>| replicas(attached).iter().any(|it| it.1 == replica);
    // It was removed meanwhile, or its volume detached.
    let Some(attached) = attached.iter().find(has_it) else { return };
    // It has passed.
    let Some(risk) = node.volumes.risks.of(replica) else { return };
    let place = place_of(node, attached, replica);
    let what = match risk {
        Risk::FileGone(_) => "is gone when its node's daemon ends",
        Risk::ReadOnly(_) => "can't be written",
        Risk::FileGoneReadOnly(_) => {
            "is gone when its node's daemon ends or lets go of its disk, and can't be written"
        }
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
    let reports = reports::ask_of(node, vec![(record.node, record.id)], false).await;
    reports.risk(record.id)
}

#[cfg(test)]
mod tests;
